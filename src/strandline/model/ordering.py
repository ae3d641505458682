"""In which order rows come: those of an operator by the hash of its own key, and those of one key as they came."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.model.lineage import schema_of
from strandline.model.nodes import (
    DedupeNode,
    JoinTableNode,
    LookupNode,
    Node,
    SideNode,
    SourceNode,
    StageNode,
    Stateful,
    nearest,
)
from strandline.model.operators import keys_of
from strandline.model.salting import spreads
from strandline.model.sinks import came_through


def out_of_order(node: Node, columns: Iterable[str]) -> Stateful | None:
    """The nearest stage behind which rows that are equal in these columns do not come as they arrived; None without one.

    They do iff the columns tell the key of every stage on the way that hands rows on as they come: then the rows have
    one key there too. Windows, and what goes by event time, make an order of their own.
    """
    named = set(columns)
    while True:
        before = nearest(node)
        stage = before.parent if isinstance(before, SideNode) else before
        if isinstance(stage, SourceNode) or (isinstance(before, SideNode) and isinstance(stage, StageNode)):
            return None
        by = ordered_by(stage)
        if by is None or spreads(stage):
            return stage
        called = came_through(by, node)
        if any(called.get(name) not in named for name in by):
            return stage
        if not hands_on(stage):
            return None
        known = schema_of(stage.parent)
        named = {name for name, now in came_through(known or by, node).items() if now in named}
        node = stage.parent


def ordered_by(stage: Stateful) -> tuple[str, ...] | None:
    """The columns by whose hash the rows of a stage come out; None where only Spark knows them."""
    if isinstance(stage, StageNode):
        return stage.keys
    if isinstance(stage, LookupNode) and not stage.ordered:
        known = schema_of(stage.parent)
        return None if known is None else tuple(name for name, kind in known.columns if kind.is_scalar)
    return keys_of(stage)[0]


def hands_on(stage: Stateful) -> bool:
    """Whether a stage gives out the rows of a key in the order in which they came to it."""
    return isinstance(stage, DedupeNode | LookupNode) or (isinstance(stage, JoinTableNode) and not stage.as_of)
