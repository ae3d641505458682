"""The program of a flow: what its tasks need to know, without functions, connections and rows; and a process's copy of it.

Nodes go by their place in `flow.nodes`, which is the same in every process.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import polars as pl

from strandline.kernel.changes import OP, changes
from strandline.kernel.operators.plan import AnyPlan
from strandline.kernel.stateful import Input, plan_of, take
from strandline.kernel.stateless import stateless, visible
from strandline.lookups.asking import asker_of
from strandline.model.flow import Flow
from strandline.model.nodes import (
    AnyNode,
    SideNode,
    SinkNode,
    SourceNode,
    Stateful,
    TransformNode,
    parents_of,
    raw_type,
    stage_before,
)
from strandline.model.panes import INSERT
from strandline.model.rebuild import rebuild
from strandline.model.sinks import names_since
from strandline.model.ticks import Edge
from strandline.model.time import Instant
from strandline.model.types import Schema, Type
from strandline.sources.contract import ReadableSource
from strandline.spark.texts import from_text


@dataclass(frozen=True, slots=True)
class Columns:
    """All that tasks know of a source's description: its columns. Its reader travels apart."""

    schema: Schema
    raw_type: Type


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """In place of a sink: tasks write rows for it, and the driver publishes them."""

    guarantee: str = ""
    takes: frozenset[str] = frozenset()

    def prepare(self, target: Any) -> Any:
        """Not in a task."""
        raise AssertionError("a sink is prepared by the driver")


def program_of(flow: Flow) -> Flow:
    """The flow without what cannot or need not travel. The readers of its own sources travel apart."""
    return rebuild(_plain(flow), _bare)


def own_sources(flow: Flow) -> dict[str, ReadableSource]:
    """The sources that Strandline reads itself, by name."""
    sources = (node for node in flow.nodes if isinstance(node, SourceNode))
    return {node.name: node.source for node in sources if isinstance(node.source, ReadableSource)}


def frame_sources(flow: Flow) -> list[SourceNode]:
    """The sources that are DataFrames of Spark's, in order."""
    sources = (node for node in flow.nodes if isinstance(node, SourceNode))
    return [node for node in sources if not isinstance(node.source, ReadableSource)]


def _plain(flow: Flow) -> Flow:
    """The description alone, whatever class the user's flow has."""
    return Flow(flow.name, buckets=flow.buckets, nodes=list(flow.nodes))


def _bare(node: AnyNode) -> AnyNode:
    if isinstance(node, SourceNode):
        return replace(node, source=Columns(node.source.schema, raw_type(node.source)))
    if isinstance(node, TransformNode):
        return replace(node, function=_not_here)
    return replace(node, sink=Elsewhere()) if isinstance(node, SinkNode) else node


def _not_here(_: Any) -> Any:
    raise AssertionError("a transform is run by the driver's plan, never by a task of its own")


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What a node's rows became on their way: what a stage takes, or rows for a sink or a transform."""

    target: int
    found: Input | None = None
    rows: pl.DataFrame | None = None


@dataclass(slots=True)
class Work:
    """A program opened in this process: plans are compiled once."""

    flow: Flow
    plans: dict[int, AnyPlan] = field(default_factory=dict)
    children: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Of each node those that take its rows, and at which of their ports."""

    def __post_init__(self) -> None:
        places = {id(node): at for at, node in enumerate(self.nodes)}
        for at, node in enumerate(self.nodes):
            for port, parent in enumerate(parents_of(node)):
                self.children.setdefault(places[id(parent)], []).append((at, port))

    @property
    def nodes(self) -> list[AnyNode]:
        """The flow's nodes, each behind those it comes from."""
        return self.flow.nodes

    @property
    def sinks(self) -> dict[int, str]:
        """The names of the sinks, by place."""
        return {at: node.name for at, node in enumerate(self.nodes) if isinstance(node, SinkNode)}

    def plan(self, place: int) -> AnyPlan:
        """The compiled stage at a place."""
        if place not in self.plans:
            stage = self.nodes[place]
            assert isinstance(stage, Stateful)
            self.plans[place] = plan_of(self.flow, stage, asker_of)
        return self.plans[place]

    def place_of(self, source: str) -> int:
        """Where the source of this name stands."""
        return next(at for at, n in enumerate(self.nodes) if isinstance(n, SourceNode) and n.name == source)

    def sides(self, place: int, side: str) -> list[int]:
        """The side outputs of this kind that somebody takes from a source or a stage."""
        children = [at for at, _ in self.children.get(place, [])]
        return [at for at in children if isinstance(node := self.nodes[at], SideNode) and node.side == side]

    def follow(
        self, place: int, batch: pl.DataFrame, before: Instant, now: Instant, replaced: pl.DataFrame | None = None
    ) -> Iterator[Outgoing]:
        """Lead the rows that come out of a node through stateless work, up to the next stage, sink or transform.

        `replaced` are windows that a merge replaced: a sink that keeps one row per key must not keep theirs as ghosts.
        """
        for at, port in self.children.get(place, []):
            node = self.nodes[at]
            if isinstance(node, SideNode):
                continue
            if isinstance(node, Stateful):
                edge = Edge(before=before, after=before)
                yield Outgoing(at, found=take(self.plan(at), port, batch, edge, now))
            elif isinstance(node, SinkNode):
                yield Outgoing(at, rows=delivered(node, batch, replaced))
            elif isinstance(node, TransformNode):
                yield Outgoing(at, rows=batch)
            else:
                assert not isinstance(node, SourceNode)
                yield from self.follow(at, stateless(node, batch, now), before, now, replaced)


def delivered(node: SinkNode, batch: pl.DataFrame, replaced: pl.DataFrame | None = None) -> pl.DataFrame:
    """The rows as a sink gets them: its columns, and `op` where rows can be taken back."""
    shown = visible(batch)
    names = [name for name in (node.columns or shown.columns) if name != OP or node.rows == "append"]
    if node.rows == "append":
        return shown.select(names)
    if OP not in shown.columns:
        shown = shown.with_columns(pl.lit(INSERT).alias(OP))
    shown = shown.select(*names, OP)
    return changes(shown, _as_named(replaced, node), node.key) if node.rows == "upsert" else shown


def _as_named(replaced: pl.DataFrame | None, node: SinkNode) -> pl.DataFrame | None:
    """The replaced windows in the words of the sink: columns may have other names there."""
    stage = stage_before(node.parent)
    if replaced is None or stage is None:
        return None
    names = {old: new for old, new in names_since(stage, node.parent).items() if old in replaced.columns}
    return replaced.select(list(names)).rename(names)


@lru_cache(maxsize=8)
def work_of(text: str) -> Work:
    """The program in a text, opened once in this process, which is a worker of Spark's."""
    work = Work(from_text(text))
    # Between two tasks Spark has a worker collect garbage. What is imported and opened by now stays: to look through it
    # each time took longer than many a task.
    gc.freeze()
    return work
