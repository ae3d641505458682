"""Any stage with state, windows or an operator: one set of verbs for those who only carry rows and state about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.errors import DescriptionError
from strandline.kernel.advance import Advanced, advance
from strandline.kernel.frames import kept, only
from strandline.kernel.groups import Groups
from strandline.kernel.keys import hashed_keys
from strandline.kernel.operators.dedupe import DedupePlan
from strandline.kernel.operators.detect import DetectPlan
from strandline.kernel.operators.join import JoinPlan
from strandline.kernel.operators.lookup import AskerOf, LookupPlan
from strandline.kernel.operators.over import OverPlan
from strandline.kernel.operators.plan import AnyPlan, OperatorPlan, Taken, share_taken, unite_taken
from strandline.kernel.operators.process import ProcessPlan
from strandline.kernel.operators.table import TablePlan
from strandline.kernel.operators.table_join import JoinTablePlan
from strandline.kernel.plan import Plan, plan_stage
from strandline.kernel.preaggregate import Books, Partials, preaggregate
from strandline.kernel.schema import polars_schema
from strandline.kernel.share import share
from strandline.kernel.state import State
from strandline.kernel.unite import unite
from strandline.model.flow import Flow
from strandline.model.lineage import carried, inputs_of, lateness_of
from strandline.model.nodes import (
    DedupeNode,
    DetectNode,
    JoinNode,
    JoinTableNode,
    LookupNode,
    OperatorNode,
    OverNode,
    ProcessNode,
    StageNode,
    Stateful,
    TableNode,
)
from strandline.model.panes import TIME
from strandline.model.ticks import Edge, Tick, output_watermark
from strandline.model.time import Instant

Array = npt.NDArray[np.int64]
Input: TypeAlias = Partials | Taken
"""What tasks found for a stage: partials for windows, rows for operators."""


_PLANS: Final[Mapping[type, Callable[..., OperatorPlan]]] = {
    DedupeNode: DedupePlan, DetectNode: DetectPlan, JoinNode: JoinPlan, JoinTableNode: JoinTablePlan, OverNode: OverPlan,
    ProcessNode: ProcessPlan, TableNode: TablePlan,
}  # fmt: skip


def plan_of(flow: Flow, node: Stateful, asker_of: AskerOf | None = None) -> AnyPlan:
    """Compile a stage of a flow; whoever steps it says how lookups ask."""
    return plan_stage(node, carry=carried(flow, node)) if isinstance(node, StageNode) else plan_operator(node, asker_of)


def plan_operator(node: OperatorNode, asker_of: AskerOf | None = None) -> OperatorPlan:
    """Compile an operator."""
    inputs = inputs_of(node)
    if inputs is None:
        raise DescriptionError(
            f"The columns before stage {node.name!r} are known to Spark alone.", fix='Use runner="spark".'
        )
    if isinstance(node, LookupNode):
        return LookupPlan(node, inputs, lateness_of(node), asker_of)
    return _PLANS[type(node)](node, inputs, lateness_of(node))


def take(plan: AnyPlan, port: int, rows: pl.DataFrame, edge: Edge, now: Instant) -> Input:
    """What rows, in order of arrival, are to a stage; nothing is decided by the watermark after the tick."""
    return plan.take(port, rows, now) if isinstance(plan, OperatorPlan) else preaggregate(plan, rows, edge, now)


def nothing_for(plan: AnyPlan) -> Input:
    """What a stage is given when nothing came."""
    if isinstance(plan, OperatorPlan):
        return plan.nothing()
    rows = pl.DataFrame(schema={**polars_schema(plan.inputs), TIME: pl.Int64()})
    return preaggregate(plan, rows, Edge.first(), Instant(0))


def united(plan: AnyPlan, parts: Sequence[Input]) -> Input:
    """What several tasks found, given in order of (source, task), as if one had."""
    if isinstance(plan, OperatorPlan):
        return unite_taken([part for part in parts if isinstance(part, Taken)])
    return unite(plan, [part for part in parts if isinstance(part, Partials)])


def share_of(plan: AnyPlan, found: Input, least: int, greatest: int) -> Input:
    """The part that belongs to the keys with these hashes."""
    if isinstance(found, Taken):
        return share_taken(found, least, greatest)
    assert isinstance(plan, Plan), "partials are of windows"
    return share(plan, found, least, greatest)


def step(plan: AnyPlan, state: State, found: Input, edge: Edge, tick: Tick) -> Advanced:
    """Move a set of buckets from one tick to the next; `edge` is that of the stage's whole input."""
    if isinstance(plan, OperatorPlan):
        assert isinstance(found, Taken), "operators take rows"
        moved = plan.advance(state, found, edge, tick)
        return replace(moved, late=plan.aside(moved.late), rejected=plan.aside(moved.rejected))
    assert isinstance(found, Partials), "windows take partials"
    return advance(plan, state, found, tick)


def promise(plan: AnyPlan, after: Instant, hold: Instant | None) -> Instant:
    """How far a stage may promise its output."""
    if isinstance(plan, OperatorPlan):
        return plan.promise(after, hold)
    return output_watermark(after, [] if hold is None else [hold])


@dataclass(frozen=True)
class Packed:
    """An input as frames and books, which travel."""

    found: Input

    @cached_property
    def frames(self) -> list[pl.DataFrame]:
        """Its frames, always in the same order."""
        if isinstance(self.found, Taken):
            return list(self.found.ports)
        return [self.found.table, self.found.raw, self.found.late, self.found.rejected]

    @property
    def books(self) -> Books | None:
        """Its books: an operator makes them when it takes the rows."""
        return self.found.books if isinstance(self.found, Partials) else None

    @property
    def nbytes(self) -> int:
        """About how many bytes will travel."""
        return int(sum(frame.estimated_size() for frame in self.frames))

    @property
    def says_something(self) -> bool:
        """Whether anything came."""
        return bool(any(frame.height for frame in self.frames) or (self.books is not None and self.books.rows))


def unpacked(plan: AnyPlan, frames: Sequence[pl.DataFrame], books: Books | None) -> Input:
    """An input from what travelled."""
    if isinstance(plan, OperatorPlan):
        return Taken(ports=tuple(frames))
    table, raw, late, rejected = frames
    return Partials(table=table, raw=raw, late=late, rejected=rejected, books=books or Books())


@dataclass(frozen=True, slots=True)
class Hottest:
    """The keys of which most came, how many of each, and how many came in all: rows, once for each window they are in."""

    keys: pl.DataFrame
    counts: Array
    total: int


def hottest_keys(plan: AnyPlan, found: Input, count: int) -> Iterator[Hottest]:
    """The keys of which most came, table by table."""
    if isinstance(found, Partials):
        assert isinstance(plan, Plan), "partials are for windows"
        if plan.keys:
            new = found.table["new"].to_numpy()
            yield _hottest(only(found.table, plan.keys), found.table["hash"].to_numpy(), new, count)
            if found.raw.height:
                keys, hashes = hashed_keys(plan.stage.keys, found.raw)
                yield _hottest(keys, hashes, np.ones(len(hashes), np.int64), count)
        return
    assert isinstance(plan, OperatorPlan), "rows are for operators"
    for port, (names, rows) in enumerate(zip(plan.keys, found.ports, strict=True)):
        if names:
            mine = rows if plan.places is None else kept(rows, plan.own(port, rows))
            yield _hottest(only(mine, names), plan.hashes_of_keys(mine), np.ones(mine.height, np.int64), count)


def _hottest(keys: pl.DataFrame, hashes: Array, counts: Array, most: int) -> Hottest:
    """By their hashes: to tell apart two keys that have one is worth nothing here."""
    order = np.argsort(hashes, kind="stable")
    groups = Groups.of_ids(hashes[order])
    sums = np.add.reduceat(counts[order], groups.starts) if len(order) else counts
    greatest = _greatest(sums, most)
    return Hottest(keys[order[groups.starts[greatest]]], sums[greatest], int(counts.sum()))


def _greatest(values: Array, count: int) -> Array:
    """The places of the greatest values."""
    return np.argpartition(values, -count)[-count:] if len(values) > count else np.arange(len(values))
