"""What a stored state is made from: stages, the steps that lead up to it, and the step after it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import polars as pl

import strandline as sl
from strandline.kernel.stage import Outcome, StageKernel
from strandline.kernel.stateful import plan_of
from strandline.model.nodes import SourceNode, Stateful, lineage, origin_of, parents_of
from strandline.model.ticks import Edge, joint
from strandline.model.time import Instant
from strandline.testing.runners.kernel import KernelRunner
from strandline.testing.source import PlayedSource
from strandline.testing.steps import Step, as_tick

SCHEMA: Final = "user string, country string, n bigint, price decimal(10,2), x double, word string, at timestamp"


@dataclass(frozen=True)
class Case:
    """A stage, the steps that lead up to the stored state, and the step after it.

    `alike` is what the oracle is asked instead of a stage that it cannot play.
    """

    stage: sl.Stage
    before: tuple[Step, ...]
    after: Step
    alike: sl.Stage | None = None


class Piece:
    """The sources and stages of a case, one feeding the next, on their way from tick to tick."""

    def __init__(self, case: Case) -> None:
        flow = case.stage.flow
        self.path = [*lineage(case.stage.node)][::-1]
        self.runner = KernelRunner(flow)
        self.sources = {node.name: PlayedSource(node) for node in self.path if isinstance(node, SourceNode)}
        stages = [node for node in self.path if isinstance(node, Stateful)]
        self.stages = {node.name: StageKernel(plan_of(flow, node)) for node in stages}
        self.edges = {name: Edge.first() for name in self.stages}

    def tick(self, step: Step) -> Outcome:
        """One tick of all stages; what the last of them gives."""
        given: dict[str, pl.DataFrame] = {}
        for node in self.path:
            if isinstance(node, SourceNode):
                source = self.sources[node.name]
                arrived = source.tick(as_tick(step).of(node.name, self.sources, "A stored state"), "A stored state")
                given[node.name], now = self.runner.read(arrived.rows, source.schema), arrived.now
            else:
                assert isinstance(node, Stateful), "the stages of a case follow each other directly"
                before = [origin_of(parent).name for parent in parents_of(node)]
                edges = joint([self._edge(name) for name in before])
                outcome = self.stages[node.name].tick([given[name] for name in before], edges, now)
                given[node.name] = outcome.panes
                self.edges[node.name] = self.edges[node.name].moved_to(outcome.watermark, edges.seen)
        return outcome

    def _edge(self, name: str) -> Edge:
        return self.sources[name].edge if name in self.sources else self.edges[name]

    def shown(self, step: Step) -> dict[str, Any]:
        """The same as plain JSON, to compare."""
        outcome = self.tick(step)
        sides = {"panes": outcome.panes, "late": outcome.late, "replaced": outcome.replaced, **outcome.sides}
        rows = {name: self.runner.rows(frame) for name, frame in sides.items()}
        return json.loads(json.dumps({**rows, "watermark": outcome.watermark}, default=said))

    def place(self) -> dict[str, Any]:
        """Where the case stands in time, apart from the state."""
        sources = {name: _ends(source.edge) for name, source in self.sources.items()}
        (now,) = {source.now for source in self.sources.values()}
        edges = {name: _ends(edge) for name, edge in self.edges.items()}
        numbers = {name: stage.number for name, stage in self.stages.items()}
        read = {"sources": sources} if len(sources) > 1 else {"source": min(sources.values())}
        return {"now": now, **read, "edges": edges, "numbers": numbers}

    def restore(self, place: dict[str, Any], states: dict[str, bytes]) -> None:
        """Stand where `place` says, with these states."""
        for name, source in self.sources.items():
            source.now = Instant(place["now"])
            source.edge = _edge(place["sources"][name] if "sources" in place else place["source"])
        self.edges = {name: _edge(ends) for name, ends in place["edges"].items()}
        for name, stage in self.stages.items():
            stage.restore(states[name], number=place["numbers"][name])


def _ends(edge: Edge) -> list[int]:
    return [edge.before, edge.after]


def _edge(ends: list[int]) -> Edge:
    return Edge(before=Instant(ends[0]), after=Instant(ends[1]))


def said(value: Any) -> str:
    """A value that JSON cannot say, as text."""
    return value.isoformat() if isinstance(value, datetime) else str(value)


def events(*rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Rows as (user, n, time of day), the other columns derived from them."""
    return [
        {
            "user": user, "country": None if n % 5 == 0 else "de" if n % 2 else "fr", "n": n, "price": f"{n}.25",
            "x": n * 0.1, "word": "abc"[n % 3], "at": f"2026-01-01T{at}Z",
        }
        for user, n, at in rows
    ]  # fmt: skip


def source(flow: sl.Flow, name: str = "events") -> sl.Stream:
    """A source of such rows."""
    return flow.source(name, sl.Rows(schema=SCHEMA), time="at")


def keyed(*keys: str) -> sl.Keyed:
    """The same, grouped, in a flow of its own."""
    return source(sl.Flow("stored")).key_by(*keys)
