"""May a stage stand behind another? What it makes of panes: taking them back, rolling them up, placing them in time.

`CHAIN_RULES` are the rules; each looks at one stage and yields what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from strandline.errors import DescriptionError, StrandlineError
from strandline.model.aggregates import NEVER, Aggregate, AnyAggregate, Mean, Merge, Sum, columns_of, takes_back
from strandline.model.expressions import Expression, parse
from strandline.model.fitting import Problems
from strandline.model.lineage import base_of, longest, merging, retracts, schema_of, windows_of
from strandline.model.nodes import (
    Node,
    Origin,
    SelectNode,
    SideNode,
    StageNode,
    TableNode,
    WhereNode,
    WithColumnNode,
    nearest,
    stage_before,
)
from strandline.model.syntax import ColumnRef
from strandline.model.triggers import OnEvent, walk
from strandline.model.types import Schema
from strandline.model.windows import Global, SameWindow

OP: Final = "op"


def steps_before(stage: StageNode) -> list[Node]:
    """The stateless nodes between a stage and the source or stage before it, in the order that rows take."""
    return steps_to(stage.parent)


def steps_to(node: Node) -> list[Node]:
    """The stateless nodes from the source, stage or side before a node up to and with it, in the order that rows take."""
    found: list[Node] = []
    while not isinstance(node, Origin | SideNode):
        found.append(node)
        node = node.parent
    return found[::-1]


def rewritten(node: Node) -> frozenset[str]:
    """The columns that a node makes anew, other than by taking the column of that name as it is."""
    if isinstance(node, WithColumnNode):
        return frozenset() if _is_column(node.expression, node.name) else frozenset({node.name})
    if isinstance(node, SelectNode):
        return frozenset(c.name for c in node.columns if c.name is not None and not _is_column(c, c.name))
    return frozenset()


def _is_column(expression: Expression, name: str) -> bool:
    return expression.root == ColumnRef(name)


def merges(stage: StageNode) -> list[tuple[str, Merge]]:
    """The aggregates of a stage that roll up another's."""
    return [(name, aggregate) for name, aggregate in stage.aggregates if isinstance(aggregate, Merge)]


def _takes_back(stage: StageNode, schema: Schema) -> Problems:
    if not retracts(stage.parent):
        return
    for name, aggregate in stage.aggregates:
        yield from _takes_back_one(stage, name, aggregate)
    if merging(stage.window):
        yield DescriptionError(
            f"The stage {stage.name!r} makes sessions of panes that may be taken back: a session cannot be unmerged.",
            fix="Use SameWindow() or Tumbling windows, or let the stage before show each window once.",
        )
    if stage.mode == "discarding":
        yield DescriptionError(
            f"The stage {stage.name!r} is discarding behind a stage that retracts: its panes would be differences.",
            fix="Use mode='retracting' or 'accumulating'.",
        )


def _takes_back_one(stage: StageNode, name: str, aggregate: AnyAggregate) -> Problems:
    try:
        origin, base = base_of(stage, aggregate)
    except StrandlineError:
        return  # said by another rule
    merged = isinstance(aggregate, Merge)
    if merged and _rounds(base, origin):
        yield DescriptionError(
            f"{name}=Merge of a {type(base).__name__} of floats in stage {stage.name!r} cannot be taken back exactly.",
            fix="Let the earlier stage compute Sum(..., exact=True); a mean is that divided by Count().",
        )
    elif takes_back(base) == NEVER or (merged and takes_back(base) != "arithmetic"):
        kind = f"Merge of {type(base).__name__}" if merged else type(base).__name__
        hint = " Define remove() on it." if isinstance(base, Aggregate) else ""
        yield DescriptionError(
            f"{name}={kind} of stage {stage.name!r} cannot take back what the stage before it retracts.",
            fix=f"Let the stage before show each window once, with mode='accumulating'.{hint}",
        )


def _rounds(base: AnyAggregate, origin: StageNode) -> bool:
    """Whether an aggregate keeps a float sum that leaves out the least bits."""
    if not isinstance(base, Sum | Mean) or (isinstance(base, Sum) and base.exact) or retracts(origin.parent):
        return False
    columns = schema_of(origin.parent)
    return columns is not None and columns[base.column].is_float


def _parts_ways(stage: StageNode, schema: Schema) -> Problems:
    """A retraction must go wherever its insert went, so nothing on the way may tell them apart."""
    if not retracts(stage.parent):
        return
    for reader, columns, clock in (*_read_before(stage), *_read_in(stage)):
        parted = "an insert and its retraction would part ways, and never cancel."
        if OP in columns:
            yield DescriptionError(
                f"{reader} reads op before stage {stage.name!r} takes retractions back: {parted}",
                fix="Leave it out: Strandline takes retractions back by itself.",
            )
        if clock:
            yield DescriptionError(
                f"{reader} reads the clock before stage {stage.name!r} takes retractions back: {parted}",
                fix="Compute the time before the first stage, and carry it as a key or with Max().",
            )


Read = tuple[str, frozenset[str], bool]  # who reads, which columns of a pane, and whether the clock too


def _read_before(stage: StageNode) -> Iterator[Read]:
    nodes = steps_before(stage)
    for place, node in enumerate(nodes):
        for verb, expression in _expressions(node):
            yield verb, _of_panes(expression.references, nodes[:place]), expression.uses_now


def _expressions(node: Node) -> Iterator[tuple[str, Expression]]:
    if isinstance(node, WhereNode):
        yield f".where({node.condition.text!r})", node.condition
    if isinstance(node, WithColumnNode) and rewritten(node):
        yield f".with_column({node.name!r}, {node.expression.text!r})", node.expression
    if isinstance(node, SelectNode):
        made = (column for column in node.columns if column.name is None or not _is_column(column, column.name))
        yield from ((f".select({column.text!r})", column) for column in made)


def _read_in(stage: StageNode) -> Iterator[Read]:
    nodes = steps_before(stage)
    for key in stage.keys:
        yield f"The key {key!r}", _of_panes({key}, nodes), False
    for name, aggregate in stage.aggregates:
        yield f"The aggregate {name!r}", _of_panes(_columns(aggregate), nodes), False
        if aggregate.where is not None:
            yield from _read_by_text(f"where= of {name!r}", aggregate.where, nodes)
    for part in walk(stage.trigger):
        if isinstance(part, OnEvent):
            yield from _read_by_text(f"OnEvent({part.expression!r})", part.expression, nodes)


def _columns(aggregate: AnyAggregate) -> tuple[str, ...]:
    """The columns of panes that an aggregate reads: a Merge reads what travels beside them."""
    if isinstance(aggregate, Aggregate):
        named = getattr(aggregate, "columns", ())
        listed = named if isinstance(named, tuple | list) else ()
        return tuple(column for column in listed if isinstance(column, str))  # what is no name, another rule says
    return () if isinstance(aggregate, Merge) else columns_of(aggregate)


def _read_by_text(reader: str, text: str, nodes: list[Node]) -> Iterator[Read]:
    try:
        expression = parse(text)
    except StrandlineError:
        return  # said by another rule
    yield reader, _of_panes(expression.references, nodes), expression.uses_now


def _of_panes(columns: Iterable[str], nodes: list[Node]) -> frozenset[str]:
    """These columns; without `op` where the nodes before made another of it."""
    return frozenset(columns) - frozenset().union(*map(rewritten, nodes))


def _merges_what_was_rewritten(stage: StageNode, schema: Schema) -> Problems:
    earlier = stage_before(stage.parent)
    if earlier is None:
        return
    since = frozenset[str]().union(*map(rewritten, steps_before(stage)))
    for name, merge in merges(stage):
        if merge.column in since and merge.column in dict(earlier.aggregates):
            yield DescriptionError(
                f"{name}=Merge({merge.column!r}) of stage {stage.name!r} rolls up what {earlier.name!r} computed, not the "
                f"column {merge.column!r} that was made of it since.",
                fix=f"Give the made column another name, or aggregate it by itself, such as with Sum({merge.column!r}).",
            )


def _tables(stage: StageNode, schema: Schema) -> Problems:
    before = nearest(stage.parent)
    if isinstance(before, TableNode) and not isinstance(stage.window, Global):
        yield DescriptionError(
            f"The table {before.name!r} may take back a row however old it is, and the windows of {stage.name!r} end.",
            fix="Use sl.Global(), which counts what stands in the table now.",
        )


def _pane_times(stage: StageNode, schema: Schema) -> Problems:
    earlier = stage_before(stage.parent)
    if isinstance(stage.window, SameWindow) and earlier is None:
        yield DescriptionError(
            f"SameWindow in stage {stage.name!r} has no earlier stage to take the window from.",
            fix="Use Tumbling, or put the stage behind another.",
        )
    if earlier is None or isinstance(stage.window, SameWindow | Global):
        return
    if isinstance(windows_of(earlier), Global):
        yield from _times_of_global_panes(stage, earlier)
    elif earlier.timestamp == "earliest" and merging(windows_of(earlier)):
        yield DescriptionError(
            f"With timestamp='earliest' an old event that joins a session of {earlier.name!r} moves its pane back, behind "
            f"what {stage.name!r} was promised.",
            fix="Use timestamp='end' or 'latest'.",
        )
    elif earlier.timestamp != "end" and longest(windows_of(earlier)) is None:
        yield DescriptionError(
            f"Nothing bounds the windows of {earlier.name!r}, so with timestamp={earlier.timestamp!r} a refinement could "
            f"come too late for {stage.name!r}.",
            fix="Use timestamp='end', or say how long its windows can be: `longest` on the window class.",
        )


def _times_of_global_panes(stage: StageNode, earlier: StageNode | None) -> Problems:
    """A pane of all time has a time to go by only if it is the latest event's, all the way back."""
    while earlier is not None and isinstance(windows_of(earlier), Global):
        why = {
            "end": "have no end, so {} cannot place them in time.",
            "earliest": "carry the time of the earliest event: an older one moves a pane back, behind what {} was promised.",
        }.get(earlier.timestamp)
        if why is not None:
            yield DescriptionError(
                f"The panes of the global window of {earlier.name!r} {why.format(repr(stage.name))}",
                fix=f"Let {earlier.name!r} have timestamp='latest'.",
            )
        earlier = stage_before(earlier.parent)


CHAIN_RULES: Final[tuple[Callable[[StageNode, Schema], Problems], ...]] = (
    _takes_back,
    _parts_ways,
    _merges_what_was_rewritten,
    _tables,
    _pane_times,
)
