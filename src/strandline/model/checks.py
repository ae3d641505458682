"""Is a flow right? All that can be known before the start is said before the start, and all at once.

`RULES` reads as the plan: each rule looks at one stage and yields what is wrong with it. Rules may assume that
the ones before them in the list found nothing about columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from strandline.errors import CheckFailed, DescriptionError, StrandlineError
from strandline.model.aggregates import NEVER, Aggregate, AnyAggregate, Mean, Merge, Sum, takes_back
from strandline.model.firing import closes, ends, fires_once
from strandline.model.fitting import COLUMN_RULES, Problems, asked_columns, stateless
from strandline.model.flow import (
    Flow,
    Node,
    SelectNode,
    SideNode,
    SourceNode,
    StageNode,
    WhereNode,
    WithColumnNode,
    lineage,
    stage_before,
)  # fmt: skip
from strandline.model.lineage import base_of, lateness_of, longest, retracts, schema_of
from strandline.model.triggers import AfterWatermark
from strandline.model.types import Schema
from strandline.model.windows import CustomWindow, Global, Hopping, SameWindow, Session

__all__ = ["asked_columns", "check", "check_node", "dangling", "risks"]

MANY_PANES: Final = 500


def check(flow: Flow) -> list[str]:
    """Raise CheckFailed with every problem of a flow; return its risks as sentences."""
    problems = [*_something(flow), *_names(flow)]
    for node in flow.nodes:
        problems += check_node(node)
    if problems:
        raise CheckFailed(problems)
    return [*dangling(flow), *(risk for node in flow.nodes if isinstance(node, StageNode) for risk in risks(node))]


def check_node(node: Node) -> list[StrandlineError]:
    """What is wrong with a node itself, given that what comes before it is right."""
    try:
        if not isinstance(node, SourceNode) and schema_of(node.parent) is None:
            return [*_stage_rules(node, None)]
    except StrandlineError:
        return []  # the node before it is wrong, and says so itself
    try:
        schema = None if isinstance(node, SourceNode) else schema_of(node.parent)
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
    """The stateless branches that lead nowhere, as sentences."""
    used = {id(node.parent) for node in flow.nodes if not isinstance(node, SourceNode)}
    loose = [_verb(node) for node in flow.nodes if id(node) not in used]
    return [f"The rows of {verb} lead nowhere: no stage takes them." for verb in loose if verb is not None]


def _verb(node: Node) -> str | None:
    if isinstance(node, WhereNode):
        return f".where({node.condition.text!r})"
    if isinstance(node, SelectNode):
        return f".select({', '.join(repr(column.text) for column in node.columns)})"
    return f".with_column({node.name!r}, ...)" if isinstance(node, WithColumnNode) else None


def risks(stage: StageNode) -> list[str]:
    """What is allowed and may still surprise."""
    found = []
    if isinstance(stage.window, Global) and stage.window.ttl is None:
        found.append(f"The stage {stage.name!r} keeps every key for ever: give Global(ttl=...) if keys come and go.")
    if isinstance(stage.window, Hopping) and stage.window.size // stage.window.every > MANY_PANES:
        count = stage.window.size // stage.window.every
        found.append(
            f"The stage {stage.name!r} shows each event in {count} windows: a longer every= shows fewer panes."
        )
    return found


def _something(flow: Flow) -> Problems:
    if not flow.nodes:
        yield DescriptionError(
            f"The flow {flow.name!r} reads nothing.", fix="Add a source: flow.source('orders', ...)."
        )


def _names(flow: Flow) -> Problems:
    stages = {node.name for node in flow.nodes if isinstance(node, StageNode)}
    for node in flow.nodes:
        if isinstance(node, SourceNode) and node.name in stages:
            yield DescriptionError(
                f"A source and a stage are both named {node.name!r}: watermarks and books are kept by name.",
                fix="Give each its own name.",
            )
    for kind in (SourceNode, StageNode):
        counts = Counter(node.name for node in flow.nodes if isinstance(node, kind))
        for name, count in counts.items():
            if count > 1:
                what = "source" if kind is SourceNode else "stage"
                yield DescriptionError(
                    f"{count} {what}s are named {name!r}: the name is the identity of its state.",
                    fix="Give each its own name.",
                )


def _loss(stage: StageNode, schema: Schema) -> Problems:
    if stage.allow_loss:
        return
    lateness = lateness_of(stage)
    if ends(stage.trigger, lateness, outermost=True):
        yield DescriptionError(
            f"The trigger of stage {stage.name!r} ends while events may still come: those after its last firing are never shown.",
            fix="Wrap it in Repeatedly(...), or put it in AfterWatermark(early=...); allow_loss=True if that is meant.",
        )
    elif not closes(stage.trigger, lateness, ttl=isinstance(stage.window, Global) and stage.window.ttl is not None):
        which = "late events" if isinstance(stage.trigger, AfterWatermark) else "the last events of a window"
        if isinstance(stage.window, Global):
            which = "what a key has when its ttl is over"
        yield DescriptionError(
            f"The trigger of stage {stage.name!r} can lose {which}: nothing is sure to fire before the window is forgotten.",
            fix="Add AfterClose(), as in AfterAny(..., AfterClose()), or use AfterWatermark(early=...); "
            "allow_loss=True if that is meant.",
        )


def _timeless(stage: StageNode, schema: Schema) -> Problems:
    for node in lineage(stage.parent):
        if isinstance(node, SideNode) and node.side == "rejected" and isinstance(node.parent, SourceNode):
            yield DescriptionError(
                f"The stage {stage.name!r} reads what the source {node.parent.name!r} rejected: rows without a usable time.",
                fix="Count them in the sink, or read them again as a source with time=sl.Arrival().",
            )
            return
        if isinstance(node, StageNode):
            return


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
    if isinstance(stage.window, Hopping) and isinstance(earlier.window, Hopping):
        yield DescriptionError(
            f"Hopping windows over hopping windows count a pane several times (stage {stage.name!r}).",
            fix="Use SameWindow(), or Tumbling windows in the first stage.",
        )


def _takes_back(stage: StageNode, schema: Schema) -> Problems:
    if not retracts(stage.parent):
        return
    for name, aggregate in stage.aggregates:
        try:
            origin, base = base_of(stage, aggregate)
        except StrandlineError:
            continue  # said by another rule
        merged = isinstance(aggregate, Merge)
        if merged and _rounds(base, origin):
            yield DescriptionError(
                f"{name}=Merge of a {type(base).__name__} of floats in stage {stage.name!r} cannot be taken back exactly.",
                fix="Let the earlier stage compute Sum(..., exact=True); a mean is that divided by Count().",
            )
            continue
        if takes_back(base) == NEVER or (merged and takes_back(base) != "arithmetic"):
            kind = f"Merge of {type(base).__name__}" if merged else type(base).__name__
            hint = " Define remove() on it." if isinstance(base, Aggregate) else ""
            yield DescriptionError(
                f"{name}={kind} of stage {stage.name!r} cannot take back what the stage before it retracts.",
                fix=f"Let the stage before show each window once, with mode='accumulating'.{hint}",
            )
    if isinstance(stage.window, Session) or (isinstance(stage.window, CustomWindow) and stage.window.merging):
        yield DescriptionError(
            f"The stage {stage.name!r} makes sessions of panes that may be taken back: a session cannot be unmerged.",
            fix="Use SameWindow() or Tumbling windows, or let the stage before show each window once.",
        )
    if stage.mode == "discarding":
        yield DescriptionError(
            f"The stage {stage.name!r} is discarding behind a stage that retracts: its panes would be differences.",
            fix="Use mode='retracting' or 'accumulating'.",
        )


def _rounds(base: AnyAggregate, origin: StageNode) -> bool:
    """Whether an aggregate keeps a float sum that leaves out the least bits."""
    if not isinstance(base, Sum | Mean) or (isinstance(base, Sum) and base.exact) or retracts(origin.parent):
        return False
    columns = schema_of(origin.parent)
    return columns is not None and columns[base.column].is_float


def _pane_times(stage: StageNode, schema: Schema) -> Problems:
    earlier = stage_before(stage.parent)
    if isinstance(stage.window, SameWindow) and earlier is None:
        yield DescriptionError(
            f"SameWindow in stage {stage.name!r} has no earlier stage to take the window from.",
            fix="Use Tumbling, or put the stage behind another.",
        )
    if earlier is None or isinstance(stage.window, SameWindow | Global):
        return
    if isinstance(earlier.window, Global) and earlier.timestamp == "end":
        yield DescriptionError(
            f"The panes of the global window of {earlier.name!r} have no end, so {stage.name!r} cannot place them in time.",
            fix=f"Let {earlier.name!r} have timestamp='latest'.",
        )
    elif earlier.timestamp != "end" and longest(earlier.window) is None and not isinstance(earlier.window, Global):
        yield DescriptionError(
            f"Nothing bounds the windows of {earlier.name!r}, so with timestamp={earlier.timestamp!r} a refinement could "
            f"come too late for {stage.name!r}.",
            fix="Use timestamp='end', or say how long its windows can be: `longest` on the window class.",
        )


RULES: Final[tuple[Callable[[StageNode, Schema], Problems], ...]] = (
    _timeless,
    _loss,
    _counted_twice,
    _takes_back,
    _pane_times,
)
