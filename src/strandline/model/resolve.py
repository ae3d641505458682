"""Fill in what only Spark knows: after this every node's columns are known.

What the model cannot type becomes a transform, PySpark code with a known schema; a stage that asks conditions of its rows
which the model cannot type gets them from a transform before it. The functions here call plain methods of the DataFrame
they are given; nothing of PySpark is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from strandline.errors import ExpressionError, StrandlineError
from strandline.model.expressions import Expression, parse
from strandline.model.flow import Flow
from strandline.model.lineage import schema_of
from strandline.model.masks import masks_of
from strandline.model.nodes import (
    AnyNode,
    Node,
    OverNode,
    SelectNode,
    StageNode,
    TransformNode,
    WhereNode,
    WithColumnNode,
    parents_of,
)  # fmt: skip
from strandline.model.panes import HIDDEN
from strandline.model.rebuild import rebuild
from strandline.model.types import Schema


def resolve(flow: Flow, schema_of_transform: Callable[[Node], Schema]) -> Flow:
    """The flow with the columns of every node known; `schema_of_transform` is asked for those of a transform.

    It is given the transform, whose parent's columns are known, and may find out by putting an empty DataFrame through
    its `function`. Nodes whose columns are wrong are left as they are: `check()` of the resolved flow says so.

    Law: the nodes stay in their order; new ones stand right before the stage that needs them.
    """

    def known(opaque: TransformNode) -> TransformNode:
        return replace(opaque, schema=schema_of_transform(opaque))

    def resolved(node: AnyNode) -> AnyNode:
        if isinstance(node, StageNode | OverNode):
            asking = _asking(node)
            return node if asking is None else replace(node, parent=known(asking))
        opaque = _as_transform(node)
        return node if opaque is None else known(opaque)

    return _with_all_parents(rebuild(flow, resolved))


def _with_all_parents(flow: Flow) -> Flow:
    """The flow with those nodes too that only others know of, as their parents."""
    nodes: dict[int, AnyNode] = {}
    for node in flow.nodes:
        for parent in parents_of(node):
            nodes.setdefault(id(parent), parent)
        nodes[id(node)] = node
    return replace(flow, nodes=list(nodes.values()))


def _asking(stage: StageNode | OverNode) -> TransformNode | None:
    """The transform that asks what a stage wants to know of each row, where only Spark can; None where it need not."""
    try:
        before = schema_of(stage.parent)
        texts = {
            name: text for name, text in masks_of(stage).items()
            if before is not None and parse(text).type_in(before) is None
        }  # fmt: skip
    except StrandlineError:
        return None  # check() says it
    if not texts:
        return None
    for text in texts.values():
        _require_timeless(parse(text))
    name = f"conditions of stage {stage.name}: {', '.join(texts.values())}"
    return TransformNode(parent=stage.parent, name=name, function=SparkConditions(tuple(texts.items())))


def _as_transform(node: AnyNode) -> TransformNode | None:
    """The node as a transform whose columns must be asked for; None where they need not be."""
    if isinstance(node, TransformNode):
        return node if node.schema is None else None
    if not isinstance(node, WhereNode | SelectNode | WithColumnNode):
        return None
    try:
        before = schema_of(node.parent)
        unknown = before is not None and any(each.type_in(before) is None for each in _expressions(node))
    except StrandlineError:
        return None  # check() says it
    if not unknown:
        return None
    for expression in _expressions(node):
        _require_timeless(expression)
    return TransformNode(parent=node.parent, name=_name(node), function=_function(node))


def _expressions(node: WhereNode | SelectNode | WithColumnNode) -> tuple[Expression, ...]:
    if isinstance(node, SelectNode):
        return node.columns
    return (node.condition,) if isinstance(node, WhereNode) else (node.expression,)


def _require_timeless(expression: Expression) -> None:
    if expression.uses_now:
        raise ExpressionError(
            f"Only Spark can run {expression.text!r}, and its clock is not the tick's: a replay would give another answer.",
            fix="Take the time first, with .with_column('read_at', 'current_timestamp()'), and use the column read_at.",
        )


def _name(node: WhereNode | SelectNode | WithColumnNode) -> str:
    texts = ", ".join(each.text for each in _expressions(node))
    if isinstance(node, WithColumnNode):
        return f"with_column {node.name} = {texts}"
    return f"{'where' if isinstance(node, WhereNode) else 'select'} {texts}"


def _function(node: WhereNode | SelectNode | WithColumnNode) -> Callable[[Any], Any]:
    if isinstance(node, WhereNode):
        return SparkWhere(node.condition.text)
    if isinstance(node, SelectNode):
        return SparkSelect(tuple(column.text for column in node.columns))
    return SparkColumn(node.name, node.expression.text)


@dataclass(frozen=True, slots=True)
class SparkWhere:
    """`.where(text)` of a DataFrame."""

    text: str

    def __call__(self, frame: Any) -> Any:
        """Keep the rows for which the condition is true."""
        return frame.where(self.text)


@dataclass(frozen=True, slots=True)
class SparkSelect:
    """`.selectExpr(*texts)` of a DataFrame; hidden columns are carried along."""

    texts: tuple[str, ...]

    def __call__(self, frame: Any) -> Any:
        """Make rows of these columns."""
        hidden = [quoted(name) for name in frame.columns if name.startswith(HIDDEN)]
        return frame.selectExpr(*self.texts, *hidden)


@dataclass(frozen=True, slots=True)
class SparkColumn:
    """One more, or one other, column of a DataFrame; a replaced one stays in its place."""

    name: str
    text: str

    def __call__(self, frame: Any) -> Any:
        """Add or replace the column."""
        names = [*frame.columns] if self.name in frame.columns else [*frame.columns, self.name]
        made = frame.selectExpr(*(self.text if name == self.name else quoted(name) for name in names))
        return made.toDF(*names)  # by place: the text may bring an alias of its own


@dataclass(frozen=True, slots=True)
class SparkConditions:
    """One more column for each condition, true or false and never null."""

    texts: tuple[tuple[str, str], ...]

    def __call__(self, frame: Any) -> Any:
        """Ask each condition of every row."""
        return frame.selectExpr("*", *(f"coalesce({text}, false) as {quoted(name)}" for name, text in self.texts))


def quoted(name: str) -> str:
    """A column's name in Spark SQL, whatever is in it.

    >>> quoted("full name")
    '`full name`'
    """
    return "`" + name.replace("`", "``") + "`"
