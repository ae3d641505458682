"""Sinks that keep what they were given, tick by tick: what a play on Spark looks at."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Literal

import polars as pl

from strandline.model.flow import Flow
from strandline.model.nodes import AnyNode, Node, Origin, SideNode, SinkNode, SourceNode, StageNode
from strandline.sinks.contract import ALL_ROWS, SKIPPED, Delivery, Marker, Receipt, Target, judge_marker
from strandline.testing.results import Shown
from strandline.testing.runners.kernel import plain_rows

Side = Literal["late", "rejected", "replaced"]
_PANES: Final = "panes"


@dataclass(frozen=True, slots=True, eq=False)
class Capture:
    """Keeps the tables of each tick in this process, for as many runs as there are.

    Law: a tick that is published again changes nothing; with other rows it is refused.
    """

    ticks: dict[int, list[pl.DataFrame]] = field(default_factory=dict)
    markers: list[Marker] = field(default_factory=list)

    @property
    def guarantee(self) -> str:
        """What is promised."""
        return "exactly once within one process"

    @property
    def takes(self) -> frozenset[str]:
        """Every kind of rows."""
        return ALL_ROWS

    def prepare(self, target: Target) -> CapturePublisher:
        """Go on from what is there."""
        return CapturePublisher(target, self)

    def forget(self, tick: int) -> None:
        """Be as before this tick, the last one: it was never committed, so it was never published."""
        self.ticks.pop(tick, None)
        self.markers[:] = [marker for marker in self.markers if marker.tick != tick]

    def of(self, tick: int) -> list[Shown]:
        """The rows of a tick."""
        return [row for table in self.ticks.get(tick, []) for row in plain_rows(table)]


@dataclass(frozen=True, slots=True)
class CapturePublisher:
    """A capture, open for deliveries."""

    target: Target
    capture: Capture

    @property
    def marker(self) -> Marker | None:
        """The last tick that is there."""
        return self.capture.markers[-1] if self.capture.markers else None

    def publish(self, delivery: Delivery) -> Receipt:
        """Keep the rows of a tick, once."""
        if judge_marker(self.marker, delivery, self.target, kept=False) == "skip":
            return SKIPPED
        self.capture.ticks[delivery.tick] = list(delivery.tables())
        self.capture.markers.append(Marker.of(delivery))
        return Receipt(rows=delivery.rows)

    def close(self) -> None:
        """Nothing is open; the rows stay."""


@dataclass(slots=True)
class Captures:
    """The sinks of a play: behind the stream that is played, and beside its source and every stage."""

    panes: Capture = field(default_factory=Capture)
    sides: list[tuple[Side, str, Capture]] = field(default_factory=list)  # the side, whose it is, and the rows

    def shown(self, tick: int) -> list[Shown]:
        """The rows of the played stream in a tick."""
        return self.panes.of(tick)

    def beside(self, side: Side, tick: int, owner: str | None = None) -> list[Shown]:
        """What was put aside in a tick, by one stage or by all."""
        found = [capture for name, whose, capture in self.sides if name == side and owner in (None, whose)]
        return [row for capture in found for row in capture.of(tick)]

    def forget(self, tick: int) -> None:
        """Be as before this tick, the last one."""
        for capture in (self.panes, *(capture for _, _, capture in self.sides)):
            capture.forget(tick)


def captured(flow: Flow, captures: Captures) -> Flow:
    """The flow with a sink behind its last node, and one behind every side of its source and its stages."""
    nodes: list[AnyNode] = [*flow.nodes]
    last = flow.nodes[-1]
    assert not isinstance(last, SinkNode), "what is played is a stream"
    nodes.append(_sink(_PANES, last, captures.panes))
    for node in flow.nodes:
        if isinstance(node, Origin):
            for side in _sides(node):
                beside, capture = SideNode(parent=node, side=side), Capture()
                nodes += [beside, _sink(f"{side}-{len(captures.sides)}", beside, capture)]
                captures.sides.append((side, node.name, capture))
    return replace(flow, nodes=nodes)


def _sides(node: Origin) -> tuple[Side, ...]:
    if isinstance(node, SourceNode):
        return ("rejected",)
    return ("late", "rejected", "replaced") if isinstance(node, StageNode) else ("late", "rejected")


def _sink(name: str, parent: Node, capture: Capture) -> SinkNode:
    return SinkNode(name=name, parent=parent, sink=capture, rows="append", key=(), columns=None, max_lag=None)
