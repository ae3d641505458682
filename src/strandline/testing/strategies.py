"""Hypothesis strategies, for laws about flows: events, flows, steps and batch cuts.

Sizes are small on purpose: few keys, windows of some seconds, times on whole seconds within two minutes. So windows
share keys, events fall on edges, and what is rare in life (late, dropped, merged after it was shown) is common here.
Needs the extra `testing`.

>>> from hypothesis import given
>>> @given(cases(window="session", mode="retracting"))
... def test_a_law_of_mine(case):
...     play(case.stream, case.steps)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import reject
from hypothesis import strategies as st

from strandline.errors import CheckFailed, DescriptionError, told
from strandline.model.aggregates import AnyAggregate, Collect, Count, Max, Sum
from strandline.model.flow import Flow
from strandline.model.nodes import Arrival, SourceNode, StageNode, lineage
from strandline.model.streams import Stage
from strandline.model.time import Instant, Span
from strandline.model.triggers import AfterClose, OrFinally, Repeatedly, Trigger
from strandline.model.types import Schema
from strandline.model.watermarks import Bounded
from strandline.model.windows import CustomWindow, Global, Hopping, SameWindow, Session, Tumbling, Window
from strandline.sources.rows import Rows
from strandline.testing.ingredients import (
    SCHEMA,
    SECOND,
    WINDOWS,
    Row,
    aggregates,
    pace_of,
    placed_rows,
    triggers,
    windows,
)
from strandline.testing.play import play
from strandline.testing.results import Played
from strandline.testing.steps import Crash, Step, Tick, as_tick

__all__ = [
    "SCHEMA",
    "WINDOWS",
    "Case",
    "aggregates",
    "batch_cuts",
    "cases",
    "events",
    "flows",
    "play",
    "steps",
    "traits",
    "triggers",
    "windows",
]

NOON: Final = Instant.of("2026-01-01T12:00:00Z")
MODES: Final = ("discarding", "accumulating", "retracting")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A stage and the steps to play it with."""

    stream: Stage
    steps: tuple[Step, ...]


@st.composite
def flows(
    draw: st.DrawFn,
    *,
    window: str | Window | None = None,
    trigger: type[Trigger] | Trigger | None = None,
    mode: str | None = None,
    late: bool | None = None,
    stages: int | None = 1,
    allow_loss: bool = True,
) -> Stage:
    """A stage (or, with `stages=2`, one behind another; None: either) that check() accepts.

    Everything may be fixed from outside: `window` by kind or value, `trigger` by its outermost kind or value, `late`
    whether there is lateness. `allow_loss=False` draws only triggers that lose nothing.
    """
    if stages not in (1, 2, None):
        raise DescriptionError(f"stages={stages!r} cannot be drawn.", fix="Give 1, 2, or None for either.")
    chosen = draw(windows(window)) if window is None or isinstance(window, str) else window
    tree = draw(triggers(trigger)) if trigger is None or isinstance(trigger, type) else trigger
    late = draw(st.booleans()) if late is None else late
    chained = stages == 2 or (stages is None and draw(st.booleans()))
    pace = pace_of(chosen)
    options: dict[str, Any] = {
        # Accumulating panes may not be aggregated again where a window is shown twice.
        "mode": mode or draw(st.sampled_from(("retracting", "discarding") if chained else MODES)),
        "lateness": Span(draw(st.sampled_from((3, 8, 20))) * SECOND * pace) if late else Span(0),
        "on_time": draw(st.sampled_from(("if_any", "if_any", "always"))),
        "timestamp": draw(st.sampled_from(("end", "earliest", "latest") if chained else ("end", "end", "latest"))),
        "coalesce": draw(st.booleans()),
    }
    keys = draw(st.sampled_from((("user",), ("user",), (), ("user", "kind"))))
    shown = draw(aggregates())
    made = _accepted(
        chosen, tree, options, keys, shown, chained=chained, allow_loss=allow_loss, fixed=trigger is not None
    )
    return draw(made)


@st.composite
def _accepted(
    draw: st.DrawFn, window: Window, trigger: Trigger, options: dict[str, Any], keys: tuple[str, ...],
    shown: dict[str, AnyAggregate], *, chained: bool, allow_loss: bool, fixed: bool,
) -> Stage:  # fmt: skip
    """The stage, with allow_loss only where it takes that; an example that check() refuses even so is drawn again.

    Where no loss is allowed triggers end as check() proposes, if they must: not the first one, if that is `fixed`.
    """
    where = draw(st.sampled_from((None, None, "amount is null or amount <> 8")))
    second = draw(_seconds()) if chained else {}
    for again in (False, True):
        loss, ends = again and allow_loss, again and not allow_loss
        source = Flow("drawn").source("events", Rows(schema=SCHEMA), time="at", watermark=Bounded("5s"))
        stream = source.where(where) if where else source
        stage = (
            stream.key_by(*keys)
            .window(window, trigger=_ending(trigger) if ends and not fixed else trigger, allow_loss=loss, **options)
            .aggregate("first", **shown)
        )
        if chained:
            behind = second["window"]
            behind = {**behind, "trigger": _ending(behind["trigger"])} if ends else behind
            stage = stage.key_by(*keys[: second["keys"]]).window(**behind, allow_loss=loss).aggregate(
                "second", **second["aggregates"]
            )  # fmt: skip
        try:
            stage.flow.check()
        except CheckFailed:
            continue
        return stage
    return reject()


def _ending(trigger: Trigger) -> Trigger:
    """One that shows what is left when a window closes."""
    return OrFinally(Repeatedly(trigger), AfterClose())


@st.composite
def _seconds(draw: st.DrawFn) -> dict[str, Any]:
    """What a second stage does with the panes of the first."""
    window = {
        "window": draw(st.sampled_from((SameWindow(), Tumbling("20s"), Global(), Hopping("20s", every="10s")))),
        "trigger": draw(triggers(depth=1)),
        "mode": draw(st.sampled_from(MODES)),
    }
    shown = {"n": Count(), "sum": Sum("n"), "most": Max("n"), "all": Collect("n")}
    names = draw(st.lists(st.sampled_from(("sum", "most", "all")), max_size=2, unique=True))
    return {"window": window, "keys": draw(st.sampled_from((0, 1))), "aggregates": {n: shown[n] for n in ("n", *names)}}


def events(
    schema: str | Schema = SCHEMA,
    *,
    time: str = "at",
    values: Mapping[str, st.SearchStrategy[Any]] | None = None,
    disorder: str | Span = "20s",
    most: int = 12,
) -> st.SearchStrategy[list[Row]]:
    """Rows of a schema in order of arrival, each at most `disorder` behind an earlier one.

    `values` says what to draw for a column: `values={"user": st.sampled_from(["ann", "bob"])}`.
    """
    back = int(Span.of(disorder) // SECOND)

    def in_time(drawn: list[tuple[tuple[Row, int], int]]) -> list[Row]:
        found, clock = [], int(NOON)
        for (row, seconds), behind in drawn:
            clock += seconds % 4 * SECOND
            found.append({**row, time: Instant(clock - behind * SECOND)})
        return found

    each = st.tuples(placed_rows(Schema.of(schema), time, values), st.integers(0, back))
    return st.lists(each, max_size=most).map(in_time)


def batch_cuts(rows: Sequence[Row], *, most: int = 8) -> st.SearchStrategy[list[list[Row]]]:
    """The same rows in the same order, cut into ticks, `most` of them at most; some may be empty."""
    if not isinstance(rows, Sequence) or most < 1:
        raise DescriptionError(
            f"batch_cuts cuts rows into one tick or more, not {told(rows)} into {most!r}.",
            fix="Give rows that were drawn: data.draw(batch_cuts(rows)), or events().flatmap(batch_cuts).",
        )
    ends = st.lists(st.integers(0, len(rows)), max_size=most - 1).map(sorted)
    return ends.map(lambda at: [list(rows[a:b]) for a, b in zip([0, *at], [*at, len(rows)], strict=True)])


@st.composite
def steps(
    draw: st.DrawFn,
    schema: str | Schema = SCHEMA,
    *,
    time: str = "at",
    values: Mapping[str, st.SearchStrategy[Any]] | None = None,
    most: int = 8,
    rows: int = 6,
    pace: int = 1,
    crashes: bool = False,
    finish: bool = True,
) -> tuple[Step, ...]:
    """Ticks in which events come around a watermark that moves on, so that many are late, and some are dropped.

    Events lie from 18 scaled seconds before the watermark to 11 after it; it moves up to 14 a tick. The first tick has no
    watermark yet. With `finish` the last ticks move it past all windows. `pace` stretches event time. `schema`, `time` and
    `values` are as for `events`.
    """
    each = placed_rows(Schema.of(schema), time, values)
    made: list[Step] = []
    mark, clock = int(NOON), int(NOON)
    for at in range(draw(st.integers(min(4, most), most))):
        drawn = draw(st.lists(each, min_size=min(1, at % 3), max_size=rows))
        move = draw(st.integers(0, 59))
        mark += (move % 15) * SECOND * pace if at and move % 15 > 4 else 0
        clock += (move // 15) * 2 * SECOND
        made.append(Tick(
            events=[{**row, time: Instant(mark + (n - (18 if at else 8)) * SECOND * pace)} for row, n in drawn],
            watermark=mark if at else None, processing_time=clock,
        ))  # fmt: skip
        if crashes and draw(st.booleans()):
            made.append(Crash())
    if finish:
        made.append(Tick(watermark=mark + 60 * SECOND * pace, processing_time=clock + 10 * SECOND))
        made.append(Tick(watermark=Instant.END_OF_TIME))
    return tuple(made)


@st.composite
def cases(
    draw: st.DrawFn, /, *, most: int = 8, rows: int = 6, crashes: bool = False, finish: bool = True, **fixed: Any
) -> Case:
    """A flow and steps that suit it; `fixed` goes to `flows`."""
    stage = draw(flows(**fixed))
    pace = max(pace_of(node.window) for node in stage.flow.nodes if isinstance(node, StageNode))
    return Case(stream=stage, steps=draw(steps(most=most, rows=rows, pace=pace, crashes=crashes, finish=finish)))


def traits(case: Case, played: Played) -> frozenset[str]:
    """What happened in a play, of the things that are rare in life: "late", "dropped", "merged".

    late: an event came behind the watermark; dropped: it missed a window; merged: a window that had been shown
    became part of another that was shown too.
    """
    found = {"dropped"} if any(played.late) else set()
    before = [Instant.BEFORE_ALL_TIME, *(next(iter(marks.values())) for marks in played.watermarks)]
    ticks = [
        (as_tick(step), mark) for step, mark in zip(case.steps, before, strict=False) if not isinstance(step, Crash)
    ]
    column = _time_of(case.stream)
    rows = [(row, mark) for tick, mark in ticks for part in tick.events for row in part.rows]
    if column is not None and any(Instant.of(row[column]) < mark for row, mark in rows if row.get(column) is not None):
        found.add("late")
    return frozenset(found | ({"merged"} if _merged(case.stream, played) else set()))


def _time_of(stream: Stage) -> str | None:
    """The column of event time; None where that is the time of arrival, which is never late."""
    source = [*lineage(stream.node)][-1]
    assert isinstance(source, SourceNode)
    return None if isinstance(source.time, Arrival) else source.time


def _merged(stage: Stage, played: Played) -> bool:
    node = stage.node
    assert isinstance(node, StageNode)
    if not (isinstance(node.window, Session) or (isinstance(node.window, CustomWindow) and node.window.merging)):
        return False
    spans: dict[str, set[tuple[Any, Any]]] = {}
    for pane in (pane for panes in played for pane in panes):
        key = repr([pane[name] for name in node.keys])
        spans.setdefault(key, set()).add((pane["window_start"], pane["window_end"]))
    return any(a < b and b[0] < a[1] for every in spans.values() for a in every for b in every)
