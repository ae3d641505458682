"""Are tables right? What their changes say, in which order they come, and what is taken back of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from strandline.errors import DescriptionError, StrandlineError
from strandline.model.changelog import OP
from strandline.model.fitting import Problems
from strandline.model.lineage import retracts, windows_of
from strandline.model.nodes import JoinNode, JoinTableNode, Node, OperatorNode, OverNode, StageNode, TableNode, nearest
from strandline.model.operators import table_names
from strandline.model.ordering import out_of_order
from strandline.model.salting import spreads
from strandline.model.sinks import WINDOW, came_through
from strandline.model.types import Schema
from strandline.model.windows import Global

ORDERED: Final = ("tinyint", "smallint", "int", "bigint", "float", "double", "date", "timestamp", "timestamp_ntz")
Inputs = tuple[Schema, ...] | None
"""The columns at each port; None where only Spark knows."""


def _changes(node: OperatorNode) -> tuple[Node, tuple[str, ...]]:
    """Where a table's changes come from, and its key."""
    assert isinstance(node, TableNode | JoinTableNode)
    return (node.parent, node.key) if isinstance(node, TableNode) else (node.other, node.other_keys)


def _columns(node: OperatorNode, inputs: Inputs) -> Problems:
    if not isinstance(node, TableNode | JoinTableNode) or inputs is None:
        return
    changes = inputs[-1]
    if node.order != "offset" and (node.order not in changes or changes[node.order].name not in ORDERED):
        there = f"which is {changes[node.order]}" if node.order in changes else "which is not there"
        yield DescriptionError(
            f"order={node.order!r} of the table in stage {node.name!r} names a column {there}.",
            fix="Name a number, a date or a timestamp that grows with each change, or write order='offset'.",
        )
    if OP in changes and changes[OP].name != "string":
        yield DescriptionError(
            f"The changes of the table in stage {node.name!r} have a column {OP!r} of type {changes[OP]}.",
            fix=f"{OP!r} says what happens to a row ('delete'): make it text, or give the column another name.",
        )
    if isinstance(node, JoinTableNode):
        names = table_names(node, inputs[0], changes).values()
        for name, count in Counter([*inputs[0], *names]).items():
            if count > 1:
                yield DescriptionError(
                    f"The rows of stage {node.name!r} would have {count} columns {name!r}, even with suffix={node.suffix!r}.",
                    fix="Give another suffix=, or rename it before with .select(...).",
                )


def _newest(node: OperatorNode, inputs: Inputs) -> Problems:
    """Which change is the newer one cannot be told by the order in which they come, where they come in another."""
    if not isinstance(node, TableNode | JoinTableNode) or node.order != "offset":
        return
    changes, key = _changes(node)
    before = out_of_order(changes, key)
    if before is None:
        return
    times = [name for name, kind in (inputs[-1].columns if inputs else ()) if kind.name == "timestamp"]
    fix = f"Name a column that grows with each change: order={(times or ['version'])[0]!r}."
    if spreads(before):
        fix = fix[:-1] + f"; or leave {'salt=' if isinstance(before, JoinNode) else 'broadcast=True'} out there."
    yield DescriptionError(
        f"The table of stage {node.name!r} takes the change that comes later for the newer one (order='offset'), and behind "
        f"{before.name!r} the changes of a key and a tick come in another order.",
        fix=fix,
    )


def _taken_back(node: OperatorNode, inputs: Inputs) -> Problems:
    """A row that is taken back is deleted by the table's key: that must be the key of no other."""
    if not isinstance(node, TableNode | JoinTableNode):
        return
    changes, key = _changes(node)
    before = nearest(changes)
    if not retracts(changes):
        return
    missing, fix = "", ""
    if isinstance(before, StageNode):
        names = came_through((*before.keys, *WINDOW), changes)
        lacks = [repr(name) for name in before.keys if names.get(name) not in key]
        if not isinstance(windows_of(before), Global) and not any(names.get(name) in key for name in WINDOW):
            lacks.append("the window")
        missing, fix = (
            " and ".join(lacks),
            f"Write {before.name}.as_table(), whose key has them, or key=[..., 'window_start'].",
        )
    elif isinstance(before, TableNode):
        names = came_through(before.key, changes)
        missing = " and ".join(repr(name) for name in before.key if names.get(name) not in key)
        fix = f"Give this table the key of {before.name!r}."
    elif isinstance(before, OverNode) and {*key} <= {*came_through(before.keys, changes).values()}:
        missing, fix = (
            "what tells its events apart",
            "Show each event once, .over(..., emit='watermark'), or name its id.",
        )
    if missing:
        yield DescriptionError(
            f"The key of the table in stage {node.name!r} lacks {missing}, and {before.name!r} takes rows back: "  # type: ignore[union-attr]
            "one that is taken back would delete the row of another.",
            fix=fix,
        )


def _endless_panes(node: OperatorNode, inputs: Inputs) -> Problems:
    """As of a time nothing is found of what happens when time has ended."""
    if not isinstance(node, JoinTableNode) or not node.as_of:
        return
    before = nearest(node.other)
    if isinstance(before, StageNode) and before.timestamp == "end" and isinstance(windows_of(before), Global):
        yield DescriptionError(
            f"The stage {node.name!r} asks what {before.name!r} showed at a row's time, and its panes have the time of their "
            "window's end: sl.Global() has none, so there is never an answer.",
            fix=f"Write timestamp='latest' in the .window(...) of {before.name!r}, or leave as_of=True out.",
        )


TABLE_RULES: Final[tuple[Callable[[OperatorNode, Inputs], Iterator[StrandlineError]], ...]] = (
    _columns,
    _newest,
    _taken_back,
    _endless_panes,
)
