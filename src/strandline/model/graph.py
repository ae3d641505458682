"""A flow drawn as text: a tree from the sources to the sinks."""

from __future__ import annotations

from collections.abc import Iterator

from strandline.model.checks import verb
from strandline.model.firing import written
from strandline.model.flow import Flow
from strandline.model.nodes import AnyNode, Arrival, OperatorNode, SideNode, SinkNode, SourceNode, StageNode, parents_of
from strandline.model.operator_words import operator_in_short


def graph(flow: Flow) -> str:
    """The flow as a tree: each node stands under the one whose rows it takes.

    >>> from strandline.sources.rows import Rows
    >>> flow = Flow("clicks")
    >>> _ = flow.source("pages", Rows(schema="user string, at timestamp"), time="at").where("user <> 'bot'")
    >>> print(graph(flow))
    clicks
    └─ source 'pages', time='at'
       └─ .where("user <> 'bot'")
    """
    children: dict[int, list[AnyNode]] = {}
    for node in flow.nodes:
        for parent in parents_of(node)[:1]:  # the other side of a join is named, and not drawn again
            children.setdefault(id(parent), []).append(node)
    sources: list[AnyNode] = [node for node in flow.nodes if isinstance(node, SourceNode)]
    return "\n".join([flow.name, *_branches(sources, children)])


def _branches(nodes: list[AnyNode], children: dict[int, list[AnyNode]]) -> Iterator[str]:
    for node in nodes:
        last = node is nodes[-1]
        yield f"{'└─' if last else '├─'} {_label(node)}"
        for line in _branches(children.get(id(node), []), children):
            yield f"{'  ' if last else '│ '} {line}"


def _label(node: AnyNode) -> str:
    if isinstance(node, SourceNode):
        time = "sl.Arrival()" if isinstance(node.time, Arrival) else repr(node.time)
        return f"source {node.name!r}, time={time}"
    if isinstance(node, StageNode):
        keys = f"by {', '.join(node.keys)}" if node.keys else "all rows"
        return f"stage {node.name!r}: {keys}, {written(node.window)}"
    if isinstance(node, OperatorNode):
        return f"stage {node.name!r}: {operator_in_short(node)}"
    if isinstance(node, SideNode):
        return f".{node.side}"
    if isinstance(node, SinkNode):
        key = f" by {', '.join(node.key)}" if node.key else ""
        return f"sink {node.name!r}: {type(node.sink).__name__}, rows={node.rows!r}{key}"
    return verb(node)
