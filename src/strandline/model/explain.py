"""A flow in plain sentences: what it means, what it can lose, what it promises."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, Final

from strandline.errors import CheckFailed, StrandlineError
from strandline.model.checks import check, check_node
from strandline.model.firing import closes, ends, written
from strandline.model.flow import Flow
from strandline.model.latency import BATCH_INTERVAL, waits_in_words
from strandline.model.lineage import lateness_of, windows_of
from strandline.model.nodes import (
    Arrival,
    JoinTableNode,
    LookupNode,
    OperatorNode,
    Origin,
    ProcessNode,
    SideNode,
    SinkNode,
    SourceNode,
    StageNode,
    Stateful,
    TableNode,
    TransformNode,
    lineage,
)  # fmt: skip
from strandline.model.operator_words import operator_in_words
from strandline.model.questions import all_said
from strandline.model.sinks import delivered
from strandline.model.sizes import Load, RowBytes, Size, size_in_words, size_of
from strandline.model.time import Span
from strandline.model.timeline import Example, NoExample, drawn, example, heading
from strandline.model.types import Schema
from strandline.model.windows import Global
from strandline.model.words import MODES, policy_in_words, trigger_in_words, window_in_words

_LABEL: Final = re.compile(r"(?:[A-Z]\w*: +| {7})")
Measure = Callable[[Flow, Stateful], RowBytes | None]
"""What says how many bytes a row of a stage's state takes: the kernel, which stands outside of the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What is said of one part of a flow: sentences, and of a stage when it shows what, in an example that was played."""

    kind: str
    name: str
    lines: list[str]
    size: Size | None = None
    row_bytes: RowBytes | None = None
    example: Example | None = None

    def text(self, width: int | None = None) -> str:
        """The section as it is printed; sentences in lines of this width at most, the drawing as it is."""
        title = f"{self.kind} {self.name!r}" if self.name else self.kind
        drawing = [] if self.example is None else drawn(self.example)
        said = [*self.lines, *(["", heading(self.example)] if self.example is not None else [])]
        if width is not None:
            said = [part for line in said for part in _wrapped(line, width - 2)]
        return "\n".join([title, *(f"  {line}".rstrip() for line in [*said, *drawing])])

    def to_json(self) -> dict[str, Any]:
        """The section as plain JSON."""
        told: dict[str, Any] = {"kind": self.kind.lower(), "name": self.name, "lines": self.lines}
        if self.size is not None:
            measured = self.row_bytes
            told["state"] = {
                "rows": self.size.rows, "words": self.size.words, "events_per_row": self.size.events_per_row,
                "bytes_per_row": None if measured is None else measured.of(self.size.events_per_row),
            }  # fmt: skip
        if self.example is not None:
            told["example"] = self.example.to_json()
        return told


def _wrapped(line: str, width: int) -> list[str]:
    """A sentence in lines; those that follow stand below its first word, behind its label if it has one."""
    label = _LABEL.match(line)
    inside = " " * (label.end() if label else len(line) - len(line.lstrip()))
    return wrap(line, max(width, 40), initial_indent="", subsequent_indent=inside, drop_whitespace=True) or [line]


def explain(flow: Flow, *, load: Load | None = None, measure: Measure | None = None, width: int | None = None) -> str:
    """What a flow means, for people: each source, stage and sink, and what `check()` has to say.

    With a `width` lines are no longer than that.

    >>> print(explain(Flow("empty")))
    The flow 'empty'
    <BLANKLINE>
    Problems
      The flow 'empty' reads nothing. Add a source: flow.source('orders', ...).
    """
    return "\n\n".join(
        [f"The flow {flow.name!r}", *(each.text(width) for each in sections(flow, load=load, measure=measure))]
    )


def sections(flow: Flow, *, load: Load | None = None, measure: Measure | None = None) -> Iterator[Section]:
    """The parts of an explanation. `load` is for how many events and keys the state is told; `measure` says its bytes."""
    assumed = load or Load()
    risks, problems = _judged(flow)
    if problems:
        yield Section(kind="Problems", name="", lines=problems)
    for node in flow.nodes:
        if isinstance(node, SourceNode):
            yield Section(kind="Source", name=node.name, lines=[*_source(flow, node)])
        if isinstance(node, StageNode | OperatorNode):
            yield _stateful(flow, node, assumed, measure)
        if isinstance(node, SinkNode):
            yield Section(kind="Sink", name=node.name, lines=[*_sink(node)])
    if any(isinstance(node, StageNode | OperatorNode) for node in flow.nodes):
        yield Section(kind="Assumed", name="", lines=[*_assumed(assumed)])
    if risks:
        yield Section(kind="Risks", name="", lines=risks)


def _judged(flow: Flow) -> tuple[list[str], list[str]]:
    """The risks of a flow, or its problems."""
    try:
        return check(flow), []
    except CheckFailed as failed:
        return [], [f"{problem.what} {problem.fix}" for problem in failed.problems]


def _stateful(flow: Flow, node: Stateful, load: Load, measure: Measure | None) -> Section:
    """A stage: what it means, when results come, how much it remembers, and an example."""
    said = [*(_stage(flow, node) if isinstance(node, StageNode) else _operator(flow, node))]
    try:
        said += [f"{'Delay:' if at == 0 else '':<6} {line}" for at, line in enumerate(waits_in_words(node))]
        size, measured = size_of(node, load), measure(flow, node) if measure else None
        said += [f"{'Size:' if at == 0 else '':<6} {line}" for at, line in enumerate(size_in_words(size, measured))]
    except StrandlineError:  # what is wrong stands among the problems
        return Section(kind="Stage", name=node.name, lines=said)
    try:
        played = example(flow, node)
    except NoExample as none:
        wrong = any(check_node(each) for each in lineage(node))  # then the problems say more than what it raised
        lines = said if wrong else [*said, f"No example: {none}"]
        return Section(kind="Stage", name=node.name, lines=lines, size=size, row_bytes=measured)
    return Section(kind="Stage", name=node.name, lines=said, size=size, row_bytes=measured, example=played)


def _assumed(load: Load) -> Iterator[str]:
    yield (
        f"Sizes are for {load.rate:,} events a second from each source and {load.keys:,} keys that are active; ask for others "
        "by rate and keys."
    )
    yield (
        "To each delay a tick is added: the pause until it begins, at most the batch interval of the run (here "
        f"{BATCH_INTERVAL.text}), and the time that it takes."
    )


def _operator(flow: Flow, node: OperatorNode) -> Iterator[str]:
    try:
        yield from (f"{label.capitalize() + ':':<6} {text}." for label, text in all_said(node))
    except StrandlineError:
        yield from operator_in_words(node)
    yield from _put_aside(flow, node)


def _source(flow: Flow, node: SourceNode) -> Iterator[str]:
    if isinstance(node.time, Arrival):
        yield "Time: when an event is read (processing time), on purpose."
    else:
        yield f"Time: the column {node.time!r} of each event."
    yield from policy_in_words(node.watermark)
    rejected = "that cannot be read" if isinstance(node.time, Arrival) else "without a usable time"
    yield f"A row {rejected} is rejected, with the reason{_whither(flow, node, 'rejected')}."


def _stage(flow: Flow, stage: StageNode) -> Iterator[str]:
    yield f"What:  {', '.join(f'{name} = {written(aggregate)}' for name, aggregate in stage.aggregates)}; {_keys(stage)}."
    yield f"Where: {window_in_words(stage.window)}."
    yield f"When:  a window is shown {trigger_in_words(stage.trigger, lateness_of(stage), windows_of(stage))}."
    yield f"How:   {stage.mode}: {MODES[stage.mode]}."
    if stage.on_time == "always":
        yield "On time a window is shown even if nothing is new in it."
    if stage.timestamp != "end":
        yield f"The time of a pane is that of its {stage.timestamp} event."
    yield from _lateness(flow, stage)
    yield from _loss(stage)


def _put_aside(flow: Flow, node: OperatorNode) -> Iterator[str]:
    yield _late_rows(flow, node)
    yield "Cannot be lost: a row that reaches it is dealt with as told here, or put aside as late or rejected."
    if isinstance(node, LookupNode):
        failed = {"null": "gets nulls", "fail": "stops the flow"}.get(node.on_error)
        yield f"A row whose question fails {failed or 'is rejected, with the reason' + _whither(flow, node, 'rejected')}."


def _late_rows(flow: Flow, node: OperatorNode) -> str:
    if isinstance(node, ProcessNode) and node.order == "arrival":
        return "No row is too late: each is handed over as it comes."
    if isinstance(node, TableNode | LookupNode) or (isinstance(node, JoinTableNode) and not node.as_of):
        return "No row is too late."
    lateness = lateness_of(node)
    granted = f"more than {lateness.text} " if lateness else ""
    return f"A row that comes {granted}behind the watermark is late{_whither(flow, node, 'late')}."


def _keys(stage: StageNode) -> str:
    return f"for each {', '.join(stage.keys)}" if stage.keys else "over all rows as one group"


def _lateness(flow: Flow, stage: StageNode) -> Iterator[str]:
    lateness = lateness_of(stage)
    if lateness != stage.lateness:
        yield f"Lateness: {lateness.text}, more than its own, because the stage before may refine for so long."
    if isinstance(windows_of(stage), Global):
        ttl = _ttl(stage)
        forgotten = "never forgotten"
        if ttl is not None:
            forgotten = f"forgotten when the watermark is {Span(ttl + lateness).text} past its latest event"
        yield f"No event is too late, for the window never ends. A key is {forgotten}{'; it starts anew then' if ttl else ''}."
        return
    if lateness:
        yield f"A window takes late events, and is forgotten when the watermark is {lateness.text} past its end."
    else:
        yield "A window is forgotten when the watermark reaches its end; it takes no event after that."
    yield f"An event that comes too late for that is dropped, with the windows it missed{_whither(flow, stage, 'late')}."


def _loss(stage: StageNode) -> Iterator[str]:
    lateness = lateness_of(stage)
    sure = closes(stage.trigger, lateness, ttl=_ttl(stage) is not None)
    if ends(stage.trigger, lateness, outermost=True) or not sure:
        allowed = "which allow_loss=True takes" if stage.allow_loss else "which check() refuses"
        yield f"Can be lost: what comes after the last time that the trigger fires is kept, and never shown, {allowed}."
    else:
        yield "Cannot be lost: an event that reaches it is in a pane that is shown, or dropped as late, or rejected."


def _ttl(stage: StageNode) -> Span | None:
    return stage.window.ttl if isinstance(stage.window, Global) else None


def _whither(flow: Flow, node: Origin, side: str) -> str:
    """Where a side output leads."""
    taken = {
        sink.name
        for sink in flow.nodes
        if isinstance(sink, SinkNode)
        for each in lineage(sink.parent)
        if isinstance(each, SideNode) and each.parent is node and each.side == side
    }
    if taken:
        return f"; it goes to the sink {' and '.join(map(repr, sorted(taken)))}"
    return f"; it is counted, and nobody takes it: .{side} gives it to a sink"


def _sink(sink: SinkNode) -> Iterator[str]:
    columns = _columns(sink)
    if columns is not None:
        yield f"Columns: {', '.join(columns)}."
    elif sink.columns is not None:
        yield f"Columns: {', '.join(sink.columns)}."
    yield f"Rows: {sink.rows}: {_rows(sink)}."
    if sink.max_lag is None:
        yield "The flow waits for it at every tick; what is unread stays in the source."
    else:
        yield f"It may fall {sink.max_lag} ticks behind while the others go on; then the flow waits for it."
    yield "Promised is the least of source, state and sink:"
    yield from (f"  {line}" for line in _promises(sink))


def _columns(sink: SinkNode) -> Schema | None:
    try:
        return delivered(sink)
    except (StrandlineError, KeyError):
        return None  # the problems say why


def _rows(sink: SinkNode) -> str:
    if sink.rows == "append":
        return "each row is written as it comes, and stays"
    if sink.rows == "changelog":
        return "each row is written with op: insert, or retract for one that is taken back"
    return f"for each {', '.join(sink.key) or '(no key)'} the row that stands now; one that is withdrawn is deleted"


def _promises(sink: SinkNode) -> Iterator[str]:
    before = [*lineage(sink.parent)]
    own = "exactly once, as long as it gives the same rows again for the same place"
    for source in before[::-1]:
        if isinstance(source, SourceNode):
            told = getattr(source.source, "guarantee", None)
            yield f"source {source.name!r}: {told if isinstance(told, str) else own}"
    yield "state: exactly once; a tick that is made again starts from what the tick before it left"
    if any(isinstance(node, TransformNode) for node in before):
        yield "your transforms: they must give the same rows for the same rows"
    yield f"sink: {sink.sink.guarantee}"
