"""What happens in an example: which rows come when, how far the clock and the watermark go, for each kind of stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from strandline.model.aggregates import within_of
from strandline.model.expressions import Expression, parse
from strandline.model.intervals import Interval
from strandline.model.lineage import lateness_of, merging, windows_of
from strandline.model.nodes import (
    DedupeNode,
    DetectNode,
    JoinNode,
    JoinTableNode,
    OverNode,
    ProcessNode,
    StageNode,
    Stateful,
    TableNode,
)
from strandline.model.oracle.windows import windows_of as windows_at
from strandline.model.panes import TIME
from strandline.model.process import timers_of
from strandline.model.time import Instant, Span
from strandline.model.timeline.rows import made_row
from strandline.model.triggers import AfterCount, AfterProcessingTime, OnEvent, walk
from strandline.model.types import Schema
from strandline.model.windows import Global, Hopping, SameWindow, Session, Tumbling

NOON: Final = Instant.of("2026-01-01T12:00:00Z")
_MOST_EVENTS: Final = 1000
_MINUTE: Final = Span.of("1m")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A tick of an example: what came, by port, how far clock and watermark are, and what is to be said of it."""

    clock: Instant
    watermark: Instant
    rows: tuple[tuple[int, dict[str, Any]], ...] = ()
    note: str = ""
    only_clock: bool = False


@dataclass(slots=True, kw_only=True)
class Script:
    """An example that is being written. `keys` are those of each port; `bound` is how far the watermark stays behind.

    `fine` is the length of the windows of the first stage, where events pass through that one before. `in_order` if the
    time of an event is when it is read: none comes that is older than the clock.
    """

    schemas: Sequence[Schema]
    keys: Sequence[Sequence[str]]
    bound: Span
    times: Sequence[str | None]
    filters: Sequence[Sequence[Expression]]
    fine: Span | None = None
    in_order: bool = False
    fixed: Mapping[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    number: int = 0

    def comes(
        self,
        *times: int,
        port: int = 0,
        key: int = 0,
        holds: Sequence[str] = (),
        note: str = "",
        moves: bool = True,
        **values: Any,
    ) -> None:
        """Rows come in one tick; the watermark follows the greatest time, less the bound, if they move it."""
        if self.in_order and self.steps and max(times) < self.clock:
            return
        rows = [(port, self._row(Instant(time), port, key, holds, values)) for time in times]
        greatest = Instant(max(times))
        watermark = max(self.watermark, Instant(greatest - self.bound)) if moves else self.watermark
        self.steps.append(Step(clock=max(self.clock, greatest), watermark=watermark, rows=tuple(rows), note=note))

    def waits(self, span: int) -> None:
        """Only the clock goes on."""
        self.steps.append(
            Step(
                clock=Instant(self.clock + span),
                watermark=self.watermark,
                note="only the clock goes on",
                only_clock=True,
            )
        )

    def goes_on(self, watermark: int, note: str = "time goes on") -> None:
        """Events elsewhere move the watermark."""
        reached = max(self.watermark, Instant(watermark))
        clock = self.clock if reached >= Instant.END_OF_TIME else max(self.clock, Instant(reached + self.bound))
        self.steps.append(Step(clock=clock, watermark=reached, note=note))

    @property
    def clock(self) -> Instant:
        """What the clock says."""
        return self.steps[-1].clock if self.steps else NOON

    @property
    def watermark(self) -> Instant:
        """How far time has come."""
        return self.steps[-1].watermark if self.steps else Instant.BEFORE_ALL_TIME

    def _row(
        self, time: Instant, port: int, key: int, holds: Sequence[str], values: Mapping[str, Any]
    ) -> dict[str, Any]:
        schema = self.schemas[port]
        conditions = [*self.filters[port], *map(parse, holds)]
        row = made_row(schema, self.number, time, keys=self.keys[port], key=key, conditions=conditions)
        self.number += 1
        column = self.times[port]
        if column is not None and column in schema:
            row[column] = time.moment
        own = {name: value for name, value in {**self.fixed, **values}.items() if name in schema}
        return {**row, **own, TIME: int(time)}


def write(node: Stateful, script: Script) -> None:
    """Write the example of a stage; a lookup has none, for nothing in it depends on time."""
    _WRITERS[type(node)](node, script)


# -- windows ----------------------------------------------------------------------------------------------------


def _windows(stage: StageNode, script: Script) -> None:
    window, lateness = windows_of(stage), lateness_of(stage)
    script.fixed = columns_of_windows(stage, script.schemas[0])
    if isinstance(window, Global):
        _global(stage, window, script)
        return
    row = {**made_row(script.schemas[0], 0, NOON), **script.fixed, TIME: int(NOON)}
    own = Tumbling("1m") if isinstance(window, SameWindow) else window
    start, end = windows_at(own, NOON, row)[0]
    length = int(window.every) if isinstance(window, Hopping) else end - start
    # An event that only moves the watermark is of another key, where it might become one window with those before it.
    other, start, end = (1, start, end + length * 6 // 10) if merging(window) else (0, end - length, end)
    _until_complete(stage, script, start, length)
    script.comes(end + script.bound + length // 10, key=other, note=_passes(script.bound))
    late = min(length * 2 // 10, script.fine // 2) if script.fine else length * 2 // 10
    script.comes(end - late, note="late: its window was complete")
    if lateness:
        overlap = int(window.size) - length if isinstance(window, Hopping) else 0
        past = end + length * merging(window) + overlap + lateness + script.bound + length // 10
        whose = "the end of its last window" if overlap else "the end"
        script.comes(past, key=other, note=f"the watermark goes {lateness.text} past {whose}")
        script.comes(start + length * 2 // 10, note="too late")


def _until_complete(stage: StageNode, script: Script, start: int, length: int) -> None:
    """Events in order and out of order, and what early panes wait for."""
    parts = [*walk(stage.trigger)]
    counts = [part.count for part in parts if isinstance(part, AfterCount) and 3 < part.count <= _MOST_EVENTS]
    script.comes(start if merging(windows_of(stage)) else start + length // 10)
    for part in parts:
        if isinstance(part, AfterProcessingTime) and (part.delay or part.aligned_to):
            script.waits(part.delay or part.aligned_to or 0)
    asked = [part.expression for part in parts if isinstance(part, OnEvent)]
    script.comes(start + length * 6 // 10, holds=asked[:1])
    if counts:
        many = max(counts)
        script.comes(*(start + length * (100 + at * 400 // many) // 1000 for at in range(many)))
    behind = length * 2 // 10 if script.fine is None else min(length * 2 // 10, script.bound)
    if behind:
        script.comes(start + length * 6 // 10 - behind, note="out of order")


def _global(stage: StageNode, window: Global, script: Script) -> None:
    length = int(_MINUTE)
    _until_complete(stage, script, int(NOON), length)
    if window.ttl is not None:
        latest = int(NOON) + length * 6 // 10
        script.goes_on(latest + window.ttl + lateness_of(stage), f"nothing comes of this key for {window.ttl.text}")
    else:
        script.goes_on(Instant.END_OF_TIME, "the input ends")


def columns_of_windows(stage: StageNode, schema: Schema) -> dict[str, Any]:
    """Columns that windows are made of, with values that make some."""
    window = windows_of(stage)
    if isinstance(window, Tumbling) and window.zone_column is not None:
        return {window.zone_column: "UTC"}
    if isinstance(window, Session) and window.gap_column is not None and schema[window.gap_column].is_integer:
        return {window.gap_column: int(Span.of("10m"))}
    return {}


def _passes(bound: Span) -> str:
    return f"the watermark, {bound.text} behind, passes the end" if bound else "the watermark passes the end"


# -- operators --------------------------------------------------------------------------------------------------


def _join(node: JoinNode, script: Script) -> None:
    start = int(NOON)
    if isinstance(node.within, Interval):
        low, high = int(node.within.low), int(node.within.high)
        matching = start + (low + high) // 2
        length, over = max(-low, high, int(_MINUTE)), max(start, start + high)
        if node.how in ("right", "full"):  # until the other side knows
            over = max(over, matching - low)
    else:
        assert node.within.window is not None, "a join names its windows"
        start, over = windows_at(node.within.window, NOON, {TIME: int(NOON)})[0]
        length, matching = over - start, start + (over - start) // 2
    script.comes(start, port=0, moves=False)
    script.comes(start + length // 10, port=0, key=1, moves=False, note="nothing will match it")
    script.comes(matching, port=1, moves=False)
    if node.how in ("right", "full"):
        script.comes(matching, port=1, key=2, moves=False, note="nothing will match it")
    script.goes_on(over + length // 10 + length // 5, "both watermarks go on: no match can come any more")
    script.comes(start, port=0, note="late")


def _dedupe(node: DedupeNode, script: Script) -> None:
    start, length = int(NOON), int(node.within)
    script.comes(start)
    script.comes(start + length // 2, note="a repeat")
    script.comes(start + 2 * length, note=f"more than {node.within.text} after it")
    script.goes_on(start + 3 * length)
    script.comes(start + length // 2, note="late")


def _over(node: OverNode, script: Script) -> None:
    spans = [int(span) for _, aggregate in node.features if (span := within_of(aggregate)) is not None]
    start, length = int(NOON), min(spans)
    script.comes(start)
    script.comes(start + length // 2)
    if script.bound:
        script.comes(start + length // 2 - min(length // 4, script.bound), note="out of order")
    script.goes_on(start + length * 6 // 10)
    script.comes(start + length * 13 // 10, note="the oldest are out of reach")
    script.goes_on(start + length * 14 // 10 + lateness_of(node))
    script.comes(start + length // 3, note="late")


def _table(node: TableNode, script: Script) -> None:
    start, step = int(NOON), int(_MINUTE)
    script.comes(start, op="insert")
    script.comes(start + step, op="update", note="a change")
    if "op" in script.schemas[0]:
        script.comes(start + 2 * step, op="delete", note="a delete")
    if node.ttl is not None:
        script.goes_on(start + 3 * step + node.ttl, f"nothing changes for {node.ttl.text}")


def _join_table(node: JoinTableNode, script: Script) -> None:
    start, step = int(NOON), int(_MINUTE)
    script.comes(start, port=1, op="insert", moves=False)
    script.comes(start + step, port=0, moves=False)
    script.comes(start + 2 * step, port=1, op="update", moves=False, note="the table changes")
    script.comes(start + 3 * step, port=0, moves=False)
    script.comes(start + step * 3 // 2, port=0, moves=False, note="of a time before the change")
    if node.as_of:
        script.goes_on(start + 4 * step, "both watermarks go on")


def _detect(node: DetectNode, script: Script) -> None:
    time, length = int(NOON), int(node.pattern.within)
    absent = [f"not ({step.condition})" for step in node.pattern.steps if step.negated]
    for step in node.pattern.steps:
        if not step.negated:
            for _ in range(step.low):
                script.comes(time, holds=[step.condition, *absent], note=step.name)
                time += length // 20
    script.goes_on(time, "the watermark passes the last event")
    script.goes_on(int(NOON) + length + 1, f"{node.pattern.within.text} are over")


def _process(node: ProcessNode, script: Script) -> None:
    timers = timers_of(node.process).values()
    longest = max((int(timer.longest) for timer in timers), default=int(_MINUTE))
    start, step = int(NOON), min(longest // 4, int(_MINUTE)) or 1
    script.comes(start)
    script.comes(start + step)
    if script.bound:
        script.comes(start + step - min(step // 2, script.bound), note="out of order")
    script.goes_on(start + 2 * step)
    if timers:
        script.goes_on(start + step + longest, "timers ring")
        script.waits(longest)


_WRITERS: Final[Mapping[type, Callable[[Any, Script], None]]] = {
    StageNode: _windows, JoinNode: _join, DedupeNode: _dedupe, OverNode: _over, TableNode: _table,
    JoinTableNode: _join_table, DetectNode: _detect, ProcessNode: _process,
}  # fmt: skip
