"""What a node inherits from those before it: its columns, its lateness, whether its rows can be taken back."""

from __future__ import annotations

from strandline.errors import DescriptionError, ExpressionError, did_you_mean
from strandline.model.aggregates import AnyAggregate, Merge
from strandline.model.flow import Flow
from strandline.model.nodes import (
    Node,
    OperatorNode,
    OverNode,
    ProcessNode,
    SelectNode,
    SideNode,
    SourceNode,
    StageNode,
    Stateful,
    TableNode,
    TransformNode,
    WithColumnNode,
    nearest,
    parents_of,
    raw_type,
    stage_before,
)
from strandline.model.operators import aside_schema, operator_schema
from strandline.model.panes import LATE_BY, LATE_COLUMNS, PANE_COLUMNS, RAW, REJECTED_COLUMNS, WINDOW_COLUMNS
from strandline.model.result_types import result_type
from strandline.model.time import Span
from strandline.model.types import Schema, Type
from strandline.model.windows import Calendar, CustomWindow, Hopping, SameWindow, Session, Tumbling, Window


def schema_of(node: Node) -> Schema | None:
    """The columns of a node's rows; None where only Spark knows (behind a transform, or an unknown function)."""
    if isinstance(node, SourceNode):
        return node.source.schema
    if isinstance(node, TransformNode):
        return node.schema
    if isinstance(node, OperatorNode):
        inputs = inputs_of(node)
        return None if inputs is None else operator_schema(node, *inputs)
    before = schema_of(node.parent)
    if before is None:
        return stage_schema(node, None) if isinstance(node, StageNode) else None
    if isinstance(node, StageNode):
        return stage_schema(node, before)
    if isinstance(node, SelectNode):
        return _selected(node, before)
    if isinstance(node, WithColumnNode):
        kind = node.expression.type_in(before)
        return None if kind is None else _with(before, node.name, kind)
    if isinstance(node, SideNode):
        return _side(node)
    return before


def inputs_of(node: Stateful) -> tuple[Schema, ...] | None:
    """The columns that come in at each port of a stage; None where only Spark knows."""
    found = [schema_of(parent) for parent in parents_of(node)]
    return tuple(each for each in found if each is not None) if None not in found else None


def _side(node: SideNode) -> Schema | None:
    if isinstance(node.parent, ProcessNode) and node.side in dict(node.parent.sides):
        return dict(node.parent.sides)[node.side]
    if isinstance(node.parent, OperatorNode):
        before = inputs_of(node.parent)
        return (
            None
            if before is None
            else Schema((*aside_schema(node.parent, node.side, *before).columns, *side_columns(node)))
        )
    inputs = schema_of(node.parent if isinstance(node.parent, SourceNode) else node.parent.parent)
    if isinstance(node.parent, StageNode) and node.side == "replaced" and inputs is not None:
        return Schema((*((key, inputs[key]) for key in node.parent.keys), *WINDOW_COLUMNS))
    return None if inputs is None else Schema((*inputs.columns, *side_columns(node)))


def side_columns(node: SideNode) -> tuple[tuple[str, Type], ...]:
    """The columns that a side output adds to the event's own."""
    if isinstance(node.parent, ProcessNode) and node.side in dict(node.parent.sides):
        return ()
    if node.side == "late":
        return LATE_COLUMNS if isinstance(node.parent, StageNode) else LATE_BY
    if isinstance(node.parent, SourceNode):
        return (*REJECTED_COLUMNS, (RAW, raw_type(node.parent.source)))
    return REJECTED_COLUMNS


def _selected(node: SelectNode, before: Schema) -> Schema | None:
    columns: list[tuple[str, Type]] = []
    for expression in node.columns:
        kind = expression.type_in(before)
        if kind is None:
            return None
        if expression.name is None:
            raise ExpressionError(
                f"The expression {expression.text!r} has no name.", fix=f"Name it: '{expression.text} as total'."
            )
        columns.append((expression.name, kind))
    return Schema(tuple(columns))


def _with(schema: Schema, name: str, kind: Type) -> Schema:
    replaced = tuple((n, kind if n == name else t) for n, t in schema.columns)
    return Schema(replaced if name in schema else (*schema.columns, (name, kind)))


def stage_schema(stage: StageNode, inputs: Schema | None) -> Schema | None:
    """The columns of a stage's panes."""
    if inputs is None:
        return None
    keys = tuple((key, inputs.require(key, f"The key of stage {stage.name!r}")) for key in stage.keys)
    shown = tuple((name, shown_type(stage, aggregate, inputs)) for name, aggregate in stage.aggregates)
    return Schema((*keys, *WINDOW_COLUMNS, *shown, *PANE_COLUMNS))


def shown_type(stage: StageNode, aggregate: AnyAggregate, inputs: Schema) -> Type:
    """The type of what an aggregate of a stage shows."""
    if not isinstance(aggregate, Merge):
        return result_type(aggregate, inputs)
    earlier, merged = merged_from(stage, aggregate)
    before = schema_of(earlier.parent)
    if before is None:
        raise DescriptionError(
            f"Merge({aggregate.column!r}) in stage {stage.name!r} stands behind a transform whose columns are not known.",
            fix="Merge an aggregate of a stage whose input columns are known.",
        )
    return shown_type(earlier, merged, before)


def merged_from(stage: StageNode, merge: Merge) -> tuple[StageNode, AnyAggregate]:
    """The earlier stage, and its aggregate, that a Merge rolls up."""
    earlier = stage_before(stage.parent)
    if earlier is None:
        raise DescriptionError(
            f"Merge({merge.column!r}) in stage {stage.name!r} has no earlier stage to roll up.",
            fix="Aggregate the column itself, or put the stage behind another.",
        )
    aggregates = dict(earlier.aggregates)
    if merge.column not in aggregates:
        raise DescriptionError(
            f"Merge({merge.column!r}): the stage {earlier.name!r} has no aggregate of that name.",
            fix=did_you_mean(merge.column, aggregates),
        )
    return earlier, aggregates[merge.column]


def base_of(stage: StageNode, aggregate: AnyAggregate) -> tuple[StageNode, AnyAggregate]:
    """The aggregate itself, or, through any number of merges, the one that saw the rows; and its stage."""
    while isinstance(aggregate, Merge):
        stage, aggregate = merged_from(stage, aggregate)
    return stage, aggregate


def carried(flow: Flow, stage: StageNode) -> tuple[str, ...]:
    """The aggregates of a stage whose inner state travels with its panes, because a later stage merges them."""
    wanted = {
        aggregate.column
        for node in flow.nodes
        if isinstance(node, StageNode) and stage_before(node.parent) is stage
        for _, aggregate in node.aggregates
        if isinstance(aggregate, Merge)
    }
    return tuple(name for name, _ in stage.aggregates if name in wanted)


def lateness_of(stage: Stateful) -> Span:
    """The lateness that a stage grants: its own, or that of the stages before it if greater, so no refinement is dropped."""
    own = stage.lateness if isinstance(stage, StageNode) else Span(0)
    return max(own, *(_brought_by(nearest(parent)) for parent in parents_of(stage)))


def _brought_by(earlier: Node) -> Span:
    """How far behind the watermark rows of a source, side or stage may come, and must be taken all the same.

    Panes that carry the time of an event, and not of their window's end, may be a window's length older than it.
    """
    if not isinstance(earlier, Stateful):
        return Span(0)
    inherited = lateness_of(earlier)
    if isinstance(earlier, StageNode) and earlier.timestamp != "end":
        inherited = Span(inherited + (longest(windows_of(earlier)) or 0))
    return inherited


def windows_of(stage: StageNode) -> Window:
    """The windows that a stage's panes are of: its own, or those that SameWindow takes over from before it."""
    earlier = stage_before(stage.parent)
    return windows_of(earlier) if isinstance(stage.window, SameWindow) and earlier is not None else stage.window


def merging(window: Window) -> bool:
    """Whether windows of a key that overlap become one."""
    return isinstance(window, Session) or (isinstance(window, CustomWindow) and window.merging)


def longest(window: Window) -> Span | None:
    """The time by which a window's end can lie after an event that opened it; None where nothing bounds it."""
    if isinstance(window, Tumbling):
        if isinstance(window.size, Calendar):
            days = window.size.days + 7 * window.size.weeks + 31 * window.size.months
            return Span.of(f"{days + 1}d")  # one day more than any calendar needs, for clocks that go back
        return window.size
    if isinstance(window, Hopping):
        return window.size
    if isinstance(window, Session):
        return window.gap
    return window.longest if isinstance(window, CustomWindow) else None


def retracts(node: Node) -> bool:
    """Whether a node's rows may take earlier ones back."""
    before = nearest(node)
    if isinstance(before, OverNode):
        return before.emit == "arrival"
    if isinstance(before, TableNode):
        return True
    return isinstance(before, StageNode) and before.mode == "retracting"
