"""A flow in plain sentences: what it means, what it can lose, what it promises."""

from __future__ import annotations

from collections.abc import Iterator

from strandline.errors import CheckFailed, StrandlineError
from strandline.model.checks import check
from strandline.model.firing import closes, ends, written
from strandline.model.flow import Flow
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
    TableNode,
    TransformNode,
    lineage,
)  # fmt: skip
from strandline.model.operator_words import operator_in_words
from strandline.model.sinks import delivered
from strandline.model.time import Span
from strandline.model.types import Schema
from strandline.model.windows import Global
from strandline.model.words import MODES, policy_in_words, trigger_in_words, window_in_words

Section = tuple[str, list[str]]


def explain(flow: Flow) -> str:
    """What a flow means, for people: each source, stage and sink, and what `check()` has to say.

    >>> print(explain(Flow("empty")))
    The flow 'empty'
    <BLANKLINE>
    Problems
      The flow 'empty' reads nothing. Add a source: flow.source('orders', ...).
    """
    blocks = [f"The flow {flow.name!r}"]
    for title, lines in _sections(flow):
        blocks.append("\n".join([title, *(f"  {line}" for line in lines)]))
    return "\n\n".join(blocks)


def _sections(flow: Flow) -> Iterator[Section]:
    for node in flow.nodes:
        if isinstance(node, SourceNode):
            yield f"Source {node.name!r}", [*_source(flow, node)]
        if isinstance(node, StageNode):
            yield f"Stage {node.name!r}", [*_stage(flow, node)]
        if isinstance(node, OperatorNode):
            yield f"Stage {node.name!r}", [*operator_in_words(node), *_put_aside(flow, node)]
        if isinstance(node, SinkNode):
            yield f"Sink {node.name!r}", [*_sink(node)]
    try:
        if risks := check(flow):
            yield "Risks", risks
    except CheckFailed as failed:
        yield "Problems", [f"{problem.what} {problem.fix}" for problem in failed.problems]


def _source(flow: Flow, node: SourceNode) -> Iterator[str]:
    if isinstance(node.time, Arrival):
        yield "Time: when an event is read (processing time), on purpose."
    else:
        yield f"Time: the column {node.time!r} of each event."
    yield from policy_in_words(node.watermark)
    yield f"A row without a usable time is rejected, with the reason{_whither(flow, node, 'rejected')}."


def _stage(flow: Flow, stage: StageNode) -> Iterator[str]:
    yield f"What:  {', '.join(f'{name} = {written(aggregate)}' for name, aggregate in stage.aggregates)}; {_keys(stage)}."
    yield f"Where: {window_in_words(stage.window)}."
    yield f"When:  a window is shown {trigger_in_words(stage.trigger, lateness_of(stage))}."
    yield f"How:   {stage.mode}: {MODES[stage.mode]}."
    if stage.on_time == "always":
        yield "On time a window is shown even if nothing is new in it."
    if stage.timestamp != "end":
        yield f"The time of a pane is that of its {stage.timestamp} event."
    yield from _lateness(flow, stage)
    yield from _loss(stage)


def _put_aside(flow: Flow, node: OperatorNode) -> Iterator[str]:
    yield _late_rows(flow, node)
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
        yield "Can be lost: what comes after the last time that the trigger fires is kept, and never shown (allow_loss=True)."
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
