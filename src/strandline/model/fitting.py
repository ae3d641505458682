"""Do the columns fit? Every column that is asked for is there, once, and of a type that can be used.

`COLUMN_RULES` are the rules about a stage; `stateless` is the one about everything else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from strandline.errors import DescriptionError, StrandlineError, did_you_mean
from strandline.model.expressions import bind, parse
from strandline.model.lineage import schema_of, shown_type, side_columns
from strandline.model.nodes import (
    JoinTableNode,
    Node,
    SelectNode,
    SideNode,
    SourceNode,
    StageNode,
    TransformNode,
    WhereNode,
    WithColumnNode,
)
from strandline.model.panes import HIDDEN, RESERVED, WINDOW_COLUMNS
from strandline.model.syntax import OutsideSubset
from strandline.model.triggers import OnEvent, When, walk
from strandline.model.types import Schema, Type
from strandline.model.windows import Session, Tumbling

Problems = Iterator[StrandlineError]


def stateless(node: Node, schema: Schema | None) -> Problems:
    """What is wrong with the columns of a node that is no stage."""
    if isinstance(node, SourceNode):
        yield from _source(node)
    if isinstance(node, WhereNode) and schema is not None:
        yield from boolean_problems(".where()", node.condition.text, schema)
    if isinstance(node, SelectNode):
        yield from _made(".select()", [column.name or "" for column in node.columns])
    if isinstance(node, WithColumnNode):
        yield from _made(".with_column()", [node.name])
    if isinstance(node, TransformNode) and node.schema is not None:
        yield from _made(f".transform({node.name})", [*node.schema])
    if isinstance(node, SideNode) and schema is not None:
        yield from _side(node)


def _made(owner: str, names: list[str]) -> Problems:
    for name, count in Counter(names).items():
        if count > 1 and name:
            yield DescriptionError(f"{owner} makes the column {name!r} {count} times.", fix="Give each its own name.")
        if name.startswith(HIDDEN):
            yield DescriptionError(
                f"{owner} makes the column {name!r}; names that start with '{HIDDEN}' are kept for Strandline.",
                fix="Give it another name.",
            )


def _side(node: SideNode) -> Problems:
    """A side output adds columns to the event's own."""
    own = schema_of(node.parent if isinstance(node.parent, SourceNode) else node.parent.parent)
    if isinstance(node.parent, JoinTableNode) and node.side == "rejected":
        own = schema_of(node.parent.other)
    for name, _ in side_columns(node):
        if own is not None and name in own:
            yield DescriptionError(
                f"The {node.side} rows of {node.parent.name!r} would have two columns {name!r}: its own, and the one that is added.",
                fix=_how_to_rename(node, name),
            )


def _how_to_rename(node: SideNode, name: str) -> str:
    if isinstance(node.parent, SourceNode):  # nothing can stand between a source and what it rejects
        return f"Call it otherwise in the schema of the source, such as event_{name}."
    return f"Rename the event's before the stage, with .select('{name} as event_{name}', ...)."


def _source(node: SourceNode) -> Problems:
    columns = node.source.schema
    for name in columns:
        if name.startswith(HIDDEN):
            yield DescriptionError(
                f"The column {name!r} of source {node.name!r} starts with '{HIDDEN}', which is kept for Strandline.",
                fix="Rename it.",
            )
    if node.watermark.marks_column is not None:
        yield from _marks(node, node.watermark.marks_column)
    if isinstance(node.time, str):
        if node.time not in columns:
            yield DescriptionError(
                f"The source {node.name!r} has no column {node.time!r} to take its time from.",
                fix=did_you_mean(node.time, columns),
            )
        elif columns[node.time].name != "timestamp":
            yield DescriptionError(
                f"The time column {node.time!r} of source {node.name!r} is {columns[node.time]}, not timestamp.",
                fix="Declare it as timestamp, or convert it before it is read.",
            )


def _marks(node: SourceNode, column: str) -> Problems:
    columns = node.source.schema
    if column not in columns:
        yield DescriptionError(
            f"The source {node.name!r} has no column {column!r} to take its watermark from.",
            fix=did_you_mean(column, columns),
        )
    elif columns[column].name not in ("timestamp", "bigint"):
        yield DescriptionError(
            f"The watermark column {column!r} of source {node.name!r} is {columns[column]}.",
            fix="Declare it as timestamp, or as bigint (microseconds since 1970).",
        )


def boolean_problems(owner: str, text: str, schema: Schema) -> Problems:
    """What is wrong with a text that should be a condition."""
    try:
        kind = parse(text).type_in(schema)
    except StrandlineError as problem:
        yield problem
        return
    if kind is not None and kind.name not in ("boolean", "void"):
        yield DescriptionError(f"{owner} needs a condition, and {text!r} is {kind}.", fix="Compare it with something.")


def _key_columns(stage: StageNode, schema: Schema) -> Problems:
    for key in stage.keys:
        if key in RESERVED:
            yield DescriptionError(
                f"The stage {stage.name!r} is keyed by {key!r}, a column that its own panes have too.",
                fix=f"Key by it under another name: .with_column('event_{key}', '{key}').key_by('event_{key}')"
                + ("; or group by window, with SameWindow()." if key in dict(WINDOW_COLUMNS) else "."),
            )
        if key not in schema:
            yield DescriptionError(
                f"The stage {stage.name!r} is keyed by {key!r}, which is not there.", fix=did_you_mean(key, schema)
            )
        elif not schema[key].is_scalar:
            yield DescriptionError(
                f"The stage {stage.name!r} is keyed by {key!r} of type {schema[key]}.",
                fix="Key by a scalar part of it.",
            )
    for key, count in Counter(stage.keys).items():
        if count > 1:
            yield DescriptionError(f"The stage {stage.name!r} is keyed by {key!r} twice.", fix="Name it once.")


def _aggregate_columns(stage: StageNode, schema: Schema) -> Problems:
    for name, aggregate in stage.aggregates:
        if name in RESERVED or name in stage.keys or name.startswith(HIDDEN):
            yield DescriptionError(
                f"The aggregate {name!r} of stage {stage.name!r} would hide a key or a column that every pane has.",
                fix="Give it another name.",
            )
        try:
            shown_type(stage, aggregate, schema)
        except StrandlineError as problem:
            yield problem
        if aggregate.where is not None:
            yield from boolean_problems(f"where= of {name!r}", aggregate.where, schema)


def _window_columns(stage: StageNode, schema: Schema) -> Problems:
    window = stage.window
    if isinstance(window, Tumbling) and window.zone_column is not None:
        yield from _typed(stage, "zone_column", window.zone_column, schema, ("string",))
    if isinstance(window, Session) and window.gap_column is not None:
        kinds = ("interval day to second", "bigint", "int")
        yield from _typed(stage, "gap_column", window.gap_column, schema, kinds)


def _typed(stage: StageNode, what: str, column: str, schema: Schema, kinds: tuple[str, ...]) -> Problems:
    if column not in schema:
        yield DescriptionError(
            f"{what}={column!r} of stage {stage.name!r} is not there.", fix=did_you_mean(column, schema)
        )
    elif schema[column].name not in kinds:
        yield DescriptionError(
            f"{what}={column!r} of stage {stage.name!r} is {schema[column]}.",
            fix=f"Name a column of type {' or '.join(kinds)}.",
        )


def _trigger_expressions(stage: StageNode, schema: Schema) -> Problems:
    for part in walk(stage.trigger):
        if isinstance(part, OnEvent):
            yield from boolean_problems("OnEvent", part.expression, schema)
        if isinstance(part, When):
            try:
                visible = asked_columns(stage, schema)
            except StrandlineError:
                continue  # said by another rule
            yield from boolean_problems("When", part.expression, visible)
            yield from _answerable(part, visible)


def _answerable(trigger: When, schema: Schema) -> Problems:
    """A `When` is asked in the middle of a step, where Spark cannot be, and only of windows that something happened to."""
    try:
        expression = parse(trigger.expression)
        bind(expression, schema)
    except OutsideSubset as error:
        yield DescriptionError(
            f"When({trigger.expression!r}) is asked while windows are merged, and cannot be: {error.what}",
            fix="Say it with what docs/expressions.md lists; or show every change, and filter behind the stage with .where().",
        )
    except StrandlineError:
        return  # said by `boolean_problems`
    else:
        if expression.uses_now:
            yield DescriptionError(
                f"When({trigger.expression!r}) asks the clock, and nobody asks a window again because time passes.",
                fix="Use AfterProcessingTime for what depends on the clock, beside a When without it: AfterAll(AfterProcessingTime('10s'), "
                "When('n > 3')).",
            )


def asked_columns(stage: StageNode, schema: Schema) -> Schema:
    """What a `When` may speak of: the keys, the window and the aggregates as they would be shown."""
    stamp = Type.of("timestamp")
    return Schema((
        *((key, schema.require(key, f"The key of stage {stage.name!r}")) for key in stage.keys), ("window_start", stamp), ("window_end", stamp),
        *((name, shown_type(stage, aggregate, schema)) for name, aggregate in stage.aggregates),
    ))  # fmt: skip


COLUMN_RULES: Final[tuple[Callable[[StageNode, Schema], Problems], ...]] = (
    _key_columns, _aggregate_columns, _window_columns, _trigger_expressions,
)  # fmt: skip
