"""Ticks of a drawn stage, with its state in files: each tick opened, stepped and written by shares of the keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import polars as pl

from strandline.kernel.advance import Advanced, advance
from strandline.kernel.fingerprint import fingerprint
from strandline.kernel.plan import Plan, plan_stage
from strandline.kernel.preaggregate import preaggregate
from strandline.kernel.segments import GREATEST_HASH
from strandline.kernel.share import share
from strandline.kernel.stage import StageKernel
from strandline.kernel.state import INDEXES, State
from strandline.model.lineage import carried
from strandline.model.nodes import SourceNode, StageNode
from strandline.model.ticks import Edge, Tick
from strandline.model.time import Instant
from strandline.store.joining import record_of
from strandline.store.manifests import StageRecord
from strandline.store.state_files import StatePart, open_state, write_state
from strandline.store.storage import Storage
from strandline.testing.runners.kernel import KernelRunner
from strandline.testing.source import PlayedSource
from strandline.testing.steps import as_tick
from strandline.testing.strategies import Case

EVERYTHING = (0, GREATEST_HASH)


def ranges(cuts: Sequence[int]) -> list[tuple[int, int]]:
    """All hashes, cut before each of these."""
    edges = [0, *sorted(set(cuts) - {0}), GREATEST_HASH + 1]
    return [(first, last - 1) for first, last in pairwise(edges)]


def ticks_of(case: Case) -> Iterator[tuple[StageKernel, Any, pl.DataFrame, Edge, Instant]]:
    """Each tick of a stage that stands alone: a kernel that keeps its state in memory, and what it was given."""
    source, stage = case.stream.flow.nodes[0], case.stream.node
    assert isinstance(source, SourceNode)
    assert isinstance(stage, StageNode)
    runner, origin = KernelRunner(case.stream.flow), PlayedSource(source)
    kernel = StageKernel(plan_stage(stage, carry=carried(case.stream.flow, stage)))
    for number, step in enumerate(case.steps):
        arrived = origin.tick(as_tick(step), f"Tick {number}")
        rows = runner.read(arrived.rows, origin.schema)
        for node in case.stream.flow.nodes[1:-1]:
            rows = runner.stateless(node, rows, arrived.now)  # type: ignore[arg-type]
        outcome = kernel.tick(rows, arrived.edge, arrived.now)
        yield kernel, outcome, rows, arrived.edge, arrived.now


@dataclass
class StoredStage:
    """A stage whose state is only in files between ticks."""

    plan: Plan
    storage: Storage
    record: StageRecord | None = None
    number: int = 0

    def tick(self, rows: pl.DataFrame, edge: Edge, now: Instant, shares: list[tuple[int, int]]) -> list[Advanced]:
        """Step the shares; keys in none of them must not be concerned."""
        tick = Tick(number=self.number, now=now, edges={self.plan.stage.name: edge})
        partials = preaggregate(self.plan, rows, edge, now)
        found, parts = [], []
        for least, greatest in shares:
            state = open_state(self.plan, self.storage, self.record, least, greatest)
            moved = advance(self.plan, state, share(self.plan, partials, least, greatest), tick)
            parts.append(self.write(moved.state, edge, least, greatest))
            assert shown(self.plan, self.reopened(parts[-1:])) == shown(self.plan, moved.state)
            found.append(moved)
        self.record = record_of(fingerprint(self.plan), parts, self.record, watermark=int(edge.after))
        self.number += 1
        return found

    def write(self, state: State, edge: Edge, least: int, greatest: int) -> StatePart:
        name, after = self.plan.stage.name, int(edge.after)
        part = write_state(self.plan, self.storage, name, self.number, state, least, greatest, watermark=after)
        return StatePart.from_json(part.to_json())

    def reopened(self, parts: list[StatePart]) -> State:
        record = record_of(fingerprint(self.plan), parts, watermark=0)
        return open_state(self.plan, self.storage, record, *EVERYTHING)


def shown(plan: Plan, state: State) -> dict[str, Any]:
    """Everything in a state, as it lies in segments and runs."""
    rows = {
        n: [(s.first_tick, s.last_tick, s.frame().to_dicts()) for s in state.slices[n]] for n in sorted(state.slices)
    }
    dues = {name: [run.frame().rows() for run in getattr(state, name).runs] for name in INDEXES}
    return {"rows": repr(rows), **dues}
