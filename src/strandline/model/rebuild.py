"""A flow made anew from an old one, node by node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from strandline.model.flow import Flow
from strandline.model.nodes import AnyNode, JoinNode, JoinTableNode, SinkNode, SourceNode, TableNode


def rebuild(flow: Flow, change: Callable[[AnyNode], AnyNode]) -> Flow:
    """The flow with every node put through `change`, which sees it behind what its parent has become.

    Laws: the nodes stay in their order, so `zip(flow.nodes, rebuilt.nodes)` pairs old with new; a node is kept as it is
    where neither it nor anything before it changes. The flow that was given is left alone.

    >>> flow = Flow("same")
    >>> rebuild(flow, lambda node: node) == flow
    True
    """
    made: dict[int, AnyNode] = {}

    def made_of(node: AnyNode) -> AnyNode:
        if id(node) not in made:
            made[id(node)] = change(_behind(node))
        return made[id(node)]

    def _behind(node: AnyNode) -> AnyNode:
        if isinstance(node, SourceNode):
            return node
        parent: Any = made_of(node.parent)  # of the kind it was: a source, stage or stateless step
        node = node if parent is node.parent else replace(node, parent=parent)
        if isinstance(node, JoinNode | JoinTableNode) and (other := made_of(node.other)) is not node.other:
            assert not isinstance(other, SinkNode)
            return replace(node, other=other)
        return node

    tables = [table for table in map(made_of, flow.tables) if isinstance(table, TableNode)]
    return replace(flow, nodes=[made_of(node) for node in flow.nodes], tables=tables)
