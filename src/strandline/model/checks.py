"""Is a flow right? All that can be known before the start is said before the start, and all at once.

`RULES` reads as the plan: each rule looks at one stage and yields what is wrong with it. Rules may assume that
the ones before them in the list found nothing about columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from strandline.errors import CheckFailed, DescriptionError, StrandlineError
from strandline.model.chaining import CHAIN_RULES, merges, rewritten, steps_before
from strandline.model.firing import closes, ends, fires_once, or_at_close, without_loss
from strandline.model.fitting import COLUMN_RULES, Problems, asked_columns, stateless
from strandline.model.flow import Flow
from strandline.model.keeping import keeps_all_keys
from strandline.model.lineage import inputs_of, lateness_of, schema_of, windows_of
from strandline.model.nodes import (
    AnyNode,
    JoinTableNode,
    Node,
    OperatorNode,
    SelectNode,
    SideNode,
    SinkNode,
    SourceNode,
    StageNode,
    Stateful,
    TableNode,
    TransformNode,
    WhereNode,
    WithColumnNode,
    nearest,
    parents_of,
    stage_before,
)
from strandline.model.operator_rules import operator_problems, operator_risks
from strandline.model.sinking import check_sink, sink_risks
from strandline.model.targets import check_targets
from strandline.model.time import Span
from strandline.model.triggers import AfterWatermark
from strandline.model.types import Schema
from strandline.model.windows import CustomWindow, Global, Hopping, SameWindow, Window

__all__ = ["asked_columns", "check", "check_node", "dangling", "risks"]

MANY_PANES: Final = 500


def check(flow: Flow) -> list[str]:
    """Raise CheckFailed with every problem of a flow; return its risks as sentences."""
    problems = [*_something(flow), *_names(flow), *check_targets(flow)]
    for node in flow.nodes:
        problems += check_sink(node) if isinstance(node, SinkNode) else check_node(node)
    unused = unused_tables(flow)
    problems += [problem for table in unused for problem in check_node(table)]
    if problems:
        raise CheckFailed(problems)
    return [*dangling(flow), *map(_for_nobody, unused), *(risk for node in flow.nodes for risk in risks(node))]


def check_node(node: Node) -> list[StrandlineError]:
    """What is wrong with a node itself, given that what comes before it is right."""
    try:
        inputs = [schema_of(parent) for parent in parents_of(node)]
    except StrandlineError:
        return []  # the node before it is wrong, and says so itself
    if isinstance(node, OperatorNode):
        return operator_problems(node, inputs_of(node))
    if inputs == [None]:
        return [*stateless(node, None), *_stage_rules(node, None)]
    try:
        schema = inputs[0] if inputs else None
        found = [*stateless(node, schema), *_stage_rules(node, schema)]
        if not found:
            schema_of(node)
    except StrandlineError as problem:
        return [problem]
    return found


def _stage_rules(node: Node, schema: Schema | None) -> Problems:
    if isinstance(node, StageNode):
        rules = (*COLUMN_RULES, *RULES) if schema is not None else RULES
        for rule in rules:
            yield from (_placed(problem, node) for problem in rule(node, schema or Schema(())))


def _placed(problem: StrandlineError, stage: StageNode) -> StrandlineError:
    """The problem with its stage's name in it, so that a list of them can be read."""
    if repr(stage.name) in problem.what:
        return problem
    return type(problem)(f"In stage {stage.name!r}: {problem.what}", fix=problem.fix)


def dangling(flow: Flow) -> list[str]:
    """The branches that lead nowhere, as sentences; of a flow without any sink, that it shows nothing outside."""
    used = {id(parent) for node in flow.nodes for parent in parents_of(node)}
    loose = [node for node in flow.nodes if not isinstance(node, SinkNode) and id(node) not in used]
    if not any(isinstance(node, SinkNode) for node in flow.nodes):  # then all its stages are ends, and no surprise
        first = [f"The flow {flow.name!r} has no sink: it shows nothing outside. Add one with .sink(...)."]
        return first + [_nowhere(node) for node in loose if not isinstance(node, Stateful)]
    return [*dict.fromkeys(map(_nowhere, loose))]  # a side that was looked at twice is two nodes


def unused_tables(flow: Flow) -> list[TableNode]:
    """The tables that no stream is joined with, and that nobody follows."""
    joined = [node for node in flow.nodes if isinstance(node, JoinTableNode)]
    return [
        table for table in flow.tables
        if table not in flow.nodes and not any(j.other is table.parent and j.other_keys == table.key for j in joined)
    ]  # fmt: skip


def _for_nobody(table: TableNode) -> str:
    return f"The table {table.name!r} is kept for nobody: no stream is joined with it, and no sink follows it."


def _nowhere(node: Node) -> str:
    if isinstance(node, StageNode):
        return f"The panes of stage {node.name!r} lead nowhere: no stage and no sink takes them."
    return f"The rows of {verb(node)} lead nowhere: no stage and no sink takes them."


def verb(node: Node) -> str:
    """A node as it was written, in short."""
    if isinstance(node, WhereNode):
        return f".where({node.condition.text!r})"
    if isinstance(node, SelectNode):
        return f".select({', '.join(repr(column.text) for column in node.columns)})"
    if isinstance(node, WithColumnNode):
        return f".with_column({node.name!r}, ...)"
    if isinstance(node, TransformNode):
        return f".transform({node.name})"
    if isinstance(node, SideNode):
        return f"{verb(node.parent)}.{node.side}"
    return f"{'source' if isinstance(node, SourceNode) else 'stage'} {node.name!r}"


def risks(node: AnyNode) -> list[str]:
    """What is allowed of a stage or a sink, and may still surprise."""
    if isinstance(node, SinkNode):
        return sink_risks(node)
    if isinstance(node, OperatorNode):
        return operator_risks(node)
    return [*_costs(node), *_surprises(node)] if isinstance(node, StageNode) else []


def _costs(stage: StageNode) -> Iterator[str]:
    if keeps_all_keys(stage):
        yield f"The stage {stage.name!r} keeps every key for ever: give Global(ttl=...) if keys come and go."
    if isinstance(stage.window, Hopping) and stage.window.size // stage.window.every > MANY_PANES:
        count = stage.window.size // stage.window.every
        yield f"The stage {stage.name!r} shows each event in {count} windows: a longer every= shows fewer panes."


def _surprises(stage: StageNode) -> Iterator[str]:
    if _waits_for_the_end(stage):
        yield (
            f"The stage {stage.name!r} shows nothing until the input ends, for its window has no end: unless the flow is run to "
            "its end, give it early panes: trigger=AfterWatermark(early=AfterProcessingTime('10s'))."
        )
    origin = nearest(stage.parent)
    for node in steps_before(stage):
        if isinstance(origin, SourceNode) and origin.time in rewritten(node):
            yield (
                f"{verb(node)} makes the column {origin.time!r} anew, and the time of an event stays as it was read: "
                f"the stage {stage.name!r} puts it in its windows by that."
            )
    if isinstance(origin, StageNode):
        yield from _surprises_behind(origin, stage)


def _waits_for_the_end(stage: StageNode) -> bool:
    """Whether all that a stage shows comes at once, when nothing more is read."""
    window = windows_of(stage)
    if not isinstance(window, Global) or window.ttl is not None:
        return False
    return fires_once(stage.trigger, Span(0)) and closes(stage.trigger, Span(0))  # nothing is late in such a window


def _surprises_behind(earlier: StageNode, stage: StageNode) -> Iterator[str]:
    window = windows_of(earlier)
    may_overlap = isinstance(window, CustomWindow) and not window.merging
    if may_overlap and merges(stage) and not isinstance(stage.window, SameWindow):
        yield (
            f"The stage {stage.name!r} merges panes of {type(window).__name__}: should its windows overlap, an event "
            "would be counted once for each that has it."
        )
    endless = isinstance(earlier.window, Global) and earlier.window.ttl is None and earlier.mode == "retracting"
    if endless and not isinstance(windows_of(stage), Global):
        yield (
            f"The stage {earlier.name!r} may take back any pane at any time, so a key that falls silent holds the windows "
            f"of {stage.name!r} open: give Global(ttl=...), or mode='discarding'."
        )


def _something(flow: Flow) -> Problems:
    if not flow.nodes:
        yield DescriptionError(
            f"The flow {flow.name!r} reads nothing.", fix="Add a source: flow.source('orders', ...)."
        )


def _names(flow: Flow) -> Problems:
    stages = {node.name for node in flow.nodes if isinstance(node, Stateful)}
    for node in flow.nodes:
        if isinstance(node, SourceNode) and node.name in stages:
            yield DescriptionError(
                f"A source and a stage are both named {node.name!r}: watermarks and books are kept by name.",
                fix="Give each its own name.",
            )
    for what, kind, kept in (
        ("source", SourceNode, "state"), ("stage", Stateful, "state"), ("sink", SinkNode, "place in the flow"),
    ):  # fmt: skip
        counts = Counter(node.name for node in flow.nodes if isinstance(node, kind))
        for name, count in counts.items():
            if count > 1:
                yield DescriptionError(
                    f"{count} {what}s are named {name!r}: the name is the identity of its {kept}.",
                    fix="Give each its own name.",
                )


def _loss(stage: StageNode, schema: Schema) -> Problems:
    if stage.allow_loss:
        return
    lateness, ttl = lateness_of(stage), isinstance(stage.window, Global) and stage.window.ttl is not None
    if ends(stage.trigger, lateness, outermost=True):
        yield DescriptionError(
            f"The trigger of stage {stage.name!r} ends while events may still come: those after its last firing are never shown.",
            fix=_how_not_to_lose(stage, ttl=ttl),
        )
    elif not closes(stage.trigger, lateness, ttl=ttl):
        yield DescriptionError(
            f"The trigger of stage {stage.name!r} can lose {_what_is_lost(stage, ttl=ttl)}",
            fix=_how_not_to_lose(stage, ttl=ttl),
        )


def _what_is_lost(stage: StageNode, *, ttl: bool) -> str:
    if ttl:
        return "what a key has when its ttl is over: nothing is sure to fire before the key is forgotten."
    if isinstance(stage.trigger, AfterWatermark):
        return "late events: nothing is sure to fire before the window is forgotten."
    if isinstance(windows_of(stage), Global):
        return "the last events of a key: nothing is sure to fire when the input ends."
    return "the last events of a window: nothing is sure to fire before the window is forgotten."


def _how_not_to_lose(stage: StageNode, *, ttl: bool) -> str:
    """Each trigger that is offered is one that this rule accepts."""
    offered = [f"trigger={text}" for text in without_loss(stage.trigger, endless=isinstance(windows_of(stage), Global))]
    if isinstance(stage.trigger, AfterWatermark) and stage.trigger.late is not None and not ttl:
        offered = [f"late={or_at_close(stage.trigger.late, 'what late= is now')}"]
    return f"Write {', or '.join(offered)}; allow_loss=True if that is meant."


def _timeless(stage: StageNode, schema: Schema) -> Problems:
    node = nearest(stage.parent)
    if isinstance(node, SideNode) and node.side == "rejected" and isinstance(node.parent, SourceNode):
        yield DescriptionError(
            f"The stage {stage.name!r} reads what the source {node.parent.name!r} rejected: rows without a usable time.",
            fix="Count them in the sink, or read them again as a source with time=sl.Arrival().",
        )


def _counted_twice(stage: StageNode, schema: Schema) -> Problems:
    earlier = stage_before(stage.parent)
    if earlier is None:
        return
    if earlier.mode == "accumulating" and not fires_once(earlier.trigger, lateness_of(earlier)):
        yield DescriptionError(
            f"The stage {stage.name!r} would count twice: {earlier.name!r} can show a window more than once, and each time "
            "shows all of it again.",
            fix=f"Let {earlier.name!r} be mode='retracting' (or 'discarding'), or show each window once: AfterClose().",
        )
    if isinstance(stage.window, SameWindow) or not _overlap(windows_of(earlier)):
        return
    if merges(stage):
        yield DescriptionError(
            f"{merges(stage)[0][0]}=Merge in stage {stage.name!r} would count every event several times: the windows of "
            f"{earlier.name!r} overlap, and each has the event.",
            fix="Merge the panes of Tumbling windows, or use SameWindow().",
        )
    elif _overlap(stage.window):
        yield DescriptionError(
            f"Hopping windows over hopping windows count a pane several times (stage {stage.name!r}).",
            fix="Use SameWindow(), or Tumbling windows in the first stage.",
        )


def _overlap(window: Window) -> bool:
    return isinstance(window, Hopping) and window.every < window.size


RULES: Final[tuple[Callable[[StageNode, Schema], Problems], ...]] = (_timeless, _loss, _counted_twice, *CHAIN_RULES)
