"""A stage over ticks, in one process: what workers do with its buckets, without the workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import polars as pl

from strandline.kernel.advance import Advanced
from strandline.kernel.frames import stacked
from strandline.kernel.operators.plan import AnyPlan
from strandline.kernel.preaggregate import Books
from strandline.kernel.shares import shares
from strandline.kernel.state import State, from_bytes, to_bytes, together
from strandline.kernel.stateful import Input, promise, share_of, step, take, united
from strandline.model.ticks import Edge, Tick
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
    sides: Mapping[str, pl.DataFrame]


@dataclass(slots=True)
class StageKernel:
    """A stage with its state. `tasks` share the rows, then the buckets, among them; how many there are changes no answer."""

    plan: AnyPlan
    buckets: int = 64
    tasks: int = 1
    state: State = field(default_factory=State)
    number: int = 0

    def tick(self, rows: pl.DataFrame | Sequence[pl.DataFrame], edge: Edge, now: Instant) -> Outcome:
        """Move the stage one tick on with the rows of its port, or of each of its ports."""
        ports = [rows] if isinstance(rows, pl.DataFrame) else rows
        tick = Tick(number=self.number, now=now, edges={self.plan.name: edge})
        found = [
            take(self.plan, port, part, edge, now) for port, each in enumerate(ports) for part in self._stretches(each)
        ]
        whole = united(self.plan, found)
        parts = [self._part(whole, first, last, edge, tick) for first, last in shares(self.buckets, self.tasks)]
        self.state = parts[0].state if len(parts) == 1 else together([part.state for part in parts])
        self.number += 1
        holds = [part.hold for part in parts if part.hold is not None]
        return Outcome(
            panes=stacked([part.panes for part in parts]),
            late=stacked([part.late for part in parts]),
            rejected=stacked([part.rejected for part in parts]),
            replaced=stacked([part.replaced for part in parts]),
            watermark=promise(self.plan, edge.after, min(holds, default=None)),
            books=sum((part.books for part in parts), Books()),
            sides={name: stacked([part.sides[name] for part in parts]) for name in parts[0].sides},
        )

    def _stretches(self, rows: pl.DataFrame) -> list[pl.DataFrame]:
        """The rows that each task reads, in order of arrival."""
        cuts = [rows.height * n // self.tasks for n in range(self.tasks + 1)]
        return [rows[first:last] for first, last in pairwise(cuts)]

    def _part(self, whole: Input, least: int, greatest: int, edge: Edge, tick: Tick) -> Advanced:
        if self.tasks == 1:
            return step(self.plan, self.state, whole, edge, tick)
        mine = share_of(self.plan, whole, least, greatest)
        return step(self.plan, self.state.within(least, greatest), mine, edge, tick)

    def encode(self) -> bytes:
        """The state as bytes."""
        return to_bytes(self.plan, self.state)

    def restore(self, data: bytes, *, number: int | None = None) -> None:
        """Take up the state in these bytes."""
        self.state = from_bytes(self.plan, data)
        self.number = self.number if number is None else number
