"""A stage over ticks, in one process: what a worker does with its buckets, without the worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import polars as pl

from strandline.kernel.advance import Advanced, advance
from strandline.kernel.frames import kept, stacked
from strandline.kernel.judge import raw_rows_within
from strandline.kernel.plan import Plan
from strandline.kernel.preaggregate import Books, Partials, preaggregate
from strandline.kernel.shares import shares
from strandline.kernel.state import State, from_bytes, to_bytes, together
from strandline.kernel.unite import unite
from strandline.model.ticks import Edge, Tick, output_watermark
from strandline.model.time import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a stage gives in a tick."""

    panes: pl.DataFrame
    late: pl.DataFrame
    rejected: pl.DataFrame
    replaced: pl.DataFrame
    watermark: Instant
    books: Books


@dataclass(slots=True)
class StageKernel:
    """A stage with its state. `tasks` share the rows, then the buckets, among them; how many there are changes no answer."""

    plan: Plan
    buckets: int = 64
    tasks: int = 1
    state: State = field(default_factory=State)
    number: int = 0

    def tick(self, rows: pl.DataFrame, edge: Edge, now: Instant) -> Outcome:
        """Move the stage one tick on with these rows."""
        tick = Tick(number=self.number, now=now, edges={self.plan.stage.name: edge})
        partials = unite(self.plan, [preaggregate(self.plan, part, edge, now) for part in self._stretches(rows)])
        parts = [self._part(partials, first, last, tick) for first, last in shares(self.buckets, self.tasks)]
        self.state = parts[0].state if len(parts) == 1 else together([part.state for part in parts])
        self.number += 1
        holds = [part.hold for part in parts if part.hold is not None]
        return Outcome(
            panes=stacked([part.panes for part in parts]),
            late=stacked([part.late for part in parts]),
            rejected=partials.rejected,
            replaced=stacked([part.replaced for part in parts]),
            watermark=output_watermark(edge.after, holds),
            books=sum((part.books for part in parts), Books()),
        )

    def _stretches(self, rows: pl.DataFrame) -> list[pl.DataFrame]:
        """The rows that each task reads, in order of arrival."""
        cuts = [rows.height * n // self.tasks for n in range(self.tasks + 1)]
        return [rows[first:last] for first, last in pairwise(cuts)]

    def _part(self, partials: Partials, least: int, greatest: int, tick: Tick) -> Advanced:
        if self.tasks == 1:
            return advance(self.plan, self.state, partials, tick)
        return advance(self.plan, self.state.within(least, greatest), share(self.plan, partials, least, greatest), tick)

    def encode(self) -> bytes:
        """The state as bytes."""
        return to_bytes(self.plan, self.state)

    def restore(self, data: bytes, *, number: int | None = None) -> None:
        """Take up the state in these bytes."""
        self.state = from_bytes(self.plan, data)
        self.number = self.number if number is None else number


def share(plan: Plan, partials: Partials, least: int, greatest: int) -> Partials:
    """The part of partials that belongs to the keys with these hashes. Late rows are counted where they were found: once."""
    hashes = partials.table["hash"].to_numpy()
    mine = (hashes >= np.uint64(least)) & (hashes <= np.uint64(greatest))
    first = least == 0
    return Partials(
        table=kept(partials.table, mine),
        raw=raw_rows_within(plan, partials.raw, least, greatest),
        late=partials.late if first else partials.late.clear(),
        rejected=partials.rejected,
        books=partials.books if first else Books(),
    )
