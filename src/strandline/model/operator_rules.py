"""Are stages other than windows right? What is wrong with their columns, and with what comes in at their ports.

`OPERATOR_RULES` reads as the plan: each rule looks at one operator and the columns of its ports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from strandline.errors import DescriptionError, StrandlineError, did_you_mean
from strandline.model.changelog import OP
from strandline.model.expressions import bind, parse
from strandline.model.fitting import Problems, boolean_problems
from strandline.model.keeping import keeps_all_keys
from strandline.model.lineage import retracts
from strandline.model.lookups import BatchLookup, Lookup
from strandline.model.nodes import (
    DedupeNode,
    DetectNode,
    JoinNode,
    JoinTableNode,
    LookupNode,
    OperatorNode,
    OverNode,
    ProcessNode,
    SideNode,
    SourceNode,
    TableNode,
    nearest,
    parents_of,
    stage_before,
)
from strandline.model.operators import LEFT_ONLY, keys_of, right_names
from strandline.model.ordering import out_of_order
from strandline.model.panes import HIDDEN, RESERVED, WINDOW_COLUMNS
from strandline.model.process import TableProcess, Value, fields_of, timers_of
from strandline.model.result_types import result_type
from strandline.model.salting import BROADCAST, spreads
from strandline.model.sinks import shows_again
from strandline.model.syntax import OutsideSubset
from strandline.model.table_rules import TABLE_RULES, Inputs
from strandline.model.time import Span
from strandline.model.types import Schema
from strandline.model.windows import SameWindow


def operator_problems(node: OperatorNode, inputs: Inputs) -> list[StrandlineError]:
    """What is wrong with an operator, given that what comes before it is right."""
    return [problem for rule in OPERATOR_RULES for problem in rule(node, inputs)]


def operator_risks(node: OperatorNode) -> list[str]:
    """What is allowed of an operator, and may still surprise."""
    return [*_endless(node), *_copied(node), *_disordered(node)]


def _endless(node: OperatorNode) -> Iterator[str]:
    if keeps_all_keys(node):
        process = isinstance(node, ProcessNode)
        what, fix = ("The stage", "ttl=sl.TTL(...)") if process else ("The table of stage", "ttl=...")
        yield f"{what} {node.name!r} keeps every key for ever: give {fix} if keys come and go."


def _copied(node: OperatorNode) -> Iterator[str]:
    if isinstance(node, JoinTableNode) and node.broadcast:
        yield f"The stage {node.name!r} keeps its table {BROADCAST} times: broadcast=True is for small tables that change seldom."


def _disordered(node: OperatorNode) -> Iterator[str]:
    """Stages to which it matters in which order rows of a tick come, behind one that gives them another."""
    if not isinstance(node, DedupeNode) and not (isinstance(node, ProcessNode) and node.order == "arrival"):
        return
    before = out_of_order(node.parent, keys_of(node)[0])
    if before is None:
        return
    instead = "go by time: order='event_time'" if isinstance(node, ProcessNode) else "put it before that one"
    if spreads(before):
        instead = f"leave {'salt=' if isinstance(before, JoinNode) else 'broadcast=True'} out there, or {instead}"
    yield (
        f"The stage {node.name!r} goes by the order in which rows come, and behind {before.name!r} those of a key and a "
        f"tick come in another one: {instead}."
    )


def _refinements(node: OperatorNode, inputs: Inputs) -> Problems:
    if isinstance(node, TableNode):
        return  # what is taken back is deleted
    cannot = f"The stage {node.name!r} cannot take back what it has let through"
    if isinstance(node, LookupNode):
        cannot = f"The stage {node.name!r} would ask again for what is taken back, and might be given another answer"
    for parent in parents_of(node)[: 1 if isinstance(node, JoinTableNode) else 2]:
        stage = stage_before(parent)
        if retracts(parent) and stage is None:
            yield DescriptionError(
                f"{cannot}, and {nearest(parent).name!r} corrects rows.",  # type: ignore[union-attr]
                fix="Show each row once: .over(..., emit='watermark'); a table is joined with .join_table(...).",
            )
        if stage is not None and (retracts(parent) or shows_again(stage)):
            how = "takes panes back" if retracts(parent) else "shows windows again, each time all of them"
            yield DescriptionError(
                f"{cannot}, and {stage.name!r} {how}.",
                fix=f"Let {stage.name!r} show each window once: trigger=AfterClose(), or AfterWatermark() without lateness.",
            )


def _timeless(node: OperatorNode, inputs: Inputs) -> Problems:
    for parent in parents_of(node):
        before = nearest(parent)
        if isinstance(before, SideNode) and before.side == "rejected" and isinstance(before.parent, SourceNode):
            yield DescriptionError(
                f"The stage {node.name!r} reads what the source {before.parent.name!r} rejected: rows without a usable time.",
                fix="Write them to a sink, or read them again as a source with time=sl.Arrival().",
            )


def _keys(node: OperatorNode, inputs: Inputs) -> Problems:
    said = "on=" if isinstance(node, DedupeNode | LookupNode) else "the key"
    for columns, schema in zip(keys_of(node), inputs or (), strict=False):
        for name, count in Counter(columns).items():
            if count > 1:
                yield DescriptionError(f"In stage {node.name!r}, {said} names {name!r} twice.", fix="Name it once.")
            if name not in schema:
                yield DescriptionError(
                    f"In stage {node.name!r}, {said} names {name!r}, which is not there.",
                    fix=did_you_mean(name, schema),
                )
            elif not schema[name].is_scalar:
                yield DescriptionError(
                    f"In stage {node.name!r}, {said} names {name!r} of type {schema[name]}.",
                    fix="Use a scalar part of it.",
                )


def _joined_keys(node: OperatorNode, inputs: Inputs) -> Problems:
    if not isinstance(node, JoinNode | JoinTableNode) or inputs is None:
        return
    left, right = inputs
    for key, other in zip(node.keys, node.other_keys, strict=True):
        if key in left and other in right and left[key] != right[other]:
            yield DescriptionError(
                f"The join {node.name!r} compares {key!r} ({left[key]}) with {other!r} ({right[other]}).",
                fix=f"Give both one type first: .with_column({other!r}, 'cast({other} as {left[key]})').",
            )


def _joined_names(node: OperatorNode, inputs: Inputs) -> Problems:
    if not isinstance(node, JoinNode) or inputs is None:
        return
    left, right = inputs
    names = [] if node.how in LEFT_ONLY else [*right_names(node, left, right).values()]
    windows = [name for name, _ in WINDOW_COLUMNS] if isinstance(node.within, SameWindow) else []
    for name, count in Counter([*left, *names, *windows]).items():
        if count > 1:
            why = "which says in which window the rows met" if name in windows else f"even with suffix={node.suffix!r}"
            yield DescriptionError(
                f"The rows of the join {node.name!r} would have {count} columns {name!r}, {why}.",
                fix="Rename it before the join with .select(...)"
                + ("." if name in RESERVED else ", or give another suffix=."),
            )


def _process_state(node: OperatorNode, inputs: Inputs) -> Problems:
    if not isinstance(node, ProcessNode):
        return
    timers, table = timers_of(node.process), issubclass(node.process, TableProcess)
    others = [name for name, each in fields_of(node.process).items() if not isinstance(each, Value)]
    if table and others:
        yield DescriptionError(
            f"{node.process.__name__} of stage {node.name!r} works in columns, and keeps {others[0]!r}, which is no sl.Value.",
            fix="Keep values alone, or derive it from sl.Process.",
        )
    for name, timer in timers.items():
        if node.ttl is not None and (timer.clock != node.ttl.clock or timer.longest >= node.ttl.span):
            how = f"waits for up to {timer.longest.text} in {timer.clock} time"
            yield DescriptionError(
                f"The timer {name!r} of stage {node.name!r} {how}, and its key is forgotten {node.ttl.span.text} after it was "
                f"last {'written' if node.ttl.since == 'write' else 'read'}, in {node.ttl.clock} time: it might never ring.",
                fix=f"Give a ttl of more than {timer.longest.text}, such as sl.TTL({Span(2 * timer.longest).text!r}, "
                f"clock={timer.clock!r}), or a shorter sl.Timer.",
            )
    if node.order == "event_time" and node.ttl is not None and node.ttl.clock == "processing":
        yield DescriptionError(
            f"The events of stage {node.name!r} wait for the watermark, and its keys are forgotten by the clock: what is left "
            "when their turn comes would be chance.",
            fix="Write ttl=sl.TTL(..., clock='event'), or order='arrival'.",
        )


def _process_columns(node: OperatorNode, inputs: Inputs) -> Problems:
    if isinstance(node, ProcessNode):
        for what, schema in (("output=", node.output), *((f"side {name!r}", each) for name, each in node.sides)):
            for name in schema:
                if name.startswith(HIDDEN):
                    yield DescriptionError(
                        f"{what} of stage {node.name!r} names {name!r}; names that start with '{HIDDEN}' are kept for Strandline.",
                        fix="Give it another name.",
                    )


def _features(node: OperatorNode, inputs: Inputs) -> Problems:
    if not isinstance(node, OverNode) or inputs is None:
        return
    taken = [*inputs[0], *([OP] if node.emit == "arrival" else [])]
    for name, count in Counter([*taken, *(feature for feature, _ in node.features)]).items():
        if count > 1:
            yield DescriptionError(
                f"The rows of stage {node.name!r} would have {count} columns {name!r}.",
                fix="Give the feature another name"
                + (f", or rename the event's column: {OP!r} says what is corrected." if name == OP else "."),
            )
    for name, aggregate in node.features:
        try:
            result_type(aggregate, inputs[0])
        except StrandlineError as problem:
            yield type(problem)(f"In stage {node.name!r}, {name!r}: {problem.what}", fix=problem.fix)
        if aggregate.where is not None:
            yield from boolean_problems(f"where= of {name!r}", aggregate.where, inputs[0])


def _lookups(node: OperatorNode, inputs: Inputs) -> Problems:
    if not isinstance(node, LookupNode):
        return
    for name in node.output:
        if name.startswith(HIDDEN):
            yield DescriptionError(
                f"output= of stage {node.name!r} names {name!r}; names that start with '{HIDDEN}' are kept for Strandline.",
                fix="Give it another name.",
            )
        if inputs is not None and name in inputs[0]:
            yield DescriptionError(
                f"The rows of stage {node.name!r} would have 2 columns {name!r}: their own, and the answer's.",
                fix="Give the answer's another name in output=, or rename the row's before, with .select(...).",
            )
    if (
        inputs is not None
        and isinstance(node.lookup, Lookup | BatchLookup)
        and all(name in inputs[0] for name in node.on)
    ):
        try:
            node.lookup.check(Schema(tuple((name, inputs[0][name]) for name in node.on)), node.output)
        except StrandlineError as problem:
            yield type(problem)(f"In stage {node.name!r}: {problem.what}", fix=problem.fix)


def _patterns(node: OperatorNode, inputs: Inputs) -> Problems:
    if not isinstance(node, DetectNode) or inputs is None:
        return
    for step in node.pattern.steps:
        for problem in boolean_problems("It", step.condition, inputs[0]):
            yield type(problem)(f"In stage {node.name!r}, step {step.name!r}: {problem.what}", fix=problem.fix)
        try:
            bind(parse(step.condition), inputs[0])
        except OutsideSubset as error:
            yield DescriptionError(
                f"The step {step.name!r} of stage {node.name!r} is asked one event at a time, and cannot be: {error.what}",
                fix="Compute it before, with .with_column('failed', '...'), and write the step as 'failed'.",
            )
        except StrandlineError:
            continue  # said above
    for name in ("step", "match_start", "match_end", "events"):
        if name in (inputs[0] if name == "step" else node.keys):
            yield DescriptionError(
                f"The matches of stage {node.name!r} have a column {name!r} of their own.",
                fix=f"Rename the event's before, with .select('{name} as event_{name}', ...).",
            )


OPERATOR_RULES: Final[tuple[Callable[[OperatorNode, Inputs], Iterator[StrandlineError]], ...]] = (
    _refinements, _timeless, _keys, _joined_keys, _joined_names, _process_state, _process_columns, _features, _lookups, _patterns,
    *TABLE_RULES,
)  # fmt: skip
