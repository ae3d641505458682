"""A flow as boxes and arrows, before anybody says where they stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from strandline.errors import StrandlineError
from strandline.model.checks import verb
from strandline.model.firing import written
from strandline.model.flow import Flow
from strandline.model.nodes import (
    AnyNode,
    Arrival,
    JoinNode,
    JoinTableNode,
    OperatorNode,
    SideNode,
    SinkNode,
    SourceNode,
    StageNode,
    Stateful,
    WithColumnNode,
    parents_of,
)
from strandline.model.questions import questions

Kind = Literal["source", "step", "stage", "side", "sink"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A node of a flow: its title, and lines of a label and a text each; a label may be empty."""

    kind: Kind
    title: str
    lines: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """Rows go from one box to another; `port` says as what, where a box takes several streams."""

    start: int
    end: int
    port: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """A flow: its boxes, each behind those whose rows it takes, and the arrows between them.

    >>> from strandline.sources.rows import Rows
    >>> flow = Flow("clicks")
    >>> _ = flow.source("pages", Rows(schema="user string, at timestamp"), time="at").where("length(user) > 3")
    >>> drawn = Diagram.of(flow)
    >>> [box.title for box in drawn.boxes], drawn.arrows
    (["source 'pages'", ".where('length(user) > 3')"], (Arrow(start=0, end=1, port=''),))
    """

    name: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]

    @classmethod
    def of(cls, flow: Flow) -> Diagram:
        """The diagram of a flow, right or wrong."""
        nodes = flow.nodes
        places = {id(node): place for place, node in enumerate(nodes)}
        arrows = [
            Arrow(start=places[id(parent)], end=places[id(node)], port=port)
            for node in nodes
            for parent, port in zip(parents_of(node), _ports(node), strict=True)
            if id(parent) in places
        ]
        return cls(name=flow.name, boxes=tuple(map(_box, nodes)), arrows=tuple(arrows))

    def to_json(self) -> dict[str, Any]:
        """The diagram as plain JSON."""
        boxes = [
            {
                "kind": box.kind,
                "title": box.title,
                "lines": [{"label": label, "text": text} for label, text in box.lines],
            }
            for box in self.boxes
        ]
        arrows = [
            {"from": arrow.start, "to": arrow.end, **({"port": arrow.port} if arrow.port else {})}
            for arrow in self.arrows
        ]
        return {"flow": self.name, "nodes": boxes, "edges": arrows}


def _ports(node: AnyNode) -> tuple[str, ...]:
    if isinstance(node, JoinNode):
        return ("this side", "other side")
    if isinstance(node, JoinTableNode):
        return ("rows", "changes of the table")
    return ("",) * len(parents_of(node))


def _box(node: AnyNode) -> Box:
    if isinstance(node, SourceNode):
        return Box(kind="source", title=f"source {node.name!r}", lines=tuple(_of_source(node)))
    if isinstance(node, StageNode | OperatorNode):
        return Box(kind="stage", title=f"stage {node.name!r}", lines=_of_stage(node))
    if isinstance(node, SinkNode):
        return Box(kind="sink", title=f"sink {node.name!r}", lines=tuple(_of_sink(node)))
    if isinstance(node, SideNode):
        return Box(kind="side", title=f".{node.side}")
    if isinstance(node, WithColumnNode):
        return Box(kind="step", title=f".with_column({node.name!r}, {node.expression.text!r})")
    return Box(kind="step", title=verb(node))


def _of_source(node: SourceNode) -> Iterator[tuple[str, str]]:
    yield "from", type(node.source).__name__.removesuffix("Source")
    yield "time", "when it is read" if isinstance(node.time, Arrival) else f"column {node.time!r}"
    yield "watermark", written(node.watermark)


def _of_stage(node: Stateful) -> tuple[tuple[str, str], ...]:
    try:
        return tuple(questions(node).items())
    except StrandlineError as wrong:  # what is wrong is said by check(); a drawing shows what there is
        return (("", wrong.what),)


def _of_sink(node: SinkNode) -> Iterator[tuple[str, str]]:
    key = f", one for each {', '.join(node.key)}" if node.key else ""
    yield "to", type(node.sink).__name__.removesuffix("Sink")
    yield "rows", f"{node.rows}{key}"
    yield "promise", node.sink.guarantee
