"""Play with the kernel: rows are frames, and every expression is compiled for columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

import polars as pl

from strandline.kernel.frames import framed
from strandline.kernel.schema import polars_schema
from strandline.kernel.stage import StageKernel
from strandline.kernel.stateful import plan_of
from strandline.kernel.stateless import stateless, visible
from strandline.lookups.asking import asker_of
from strandline.model.flow import Flow
from strandline.model.nodes import Stateful
from strandline.model.panes import HIDDEN, TIME
from strandline.model.ticks import Edge
from strandline.model.time import Instant
from strandline.model.types import Schema
from strandline.testing.results import Books
from strandline.testing.runners import StageOutcome, Stateless


class KernelRunner:
    """Runs nodes on frames. The numbers of buckets and tasks change nothing that is shown."""

    def __init__(self, flow: Flow, *, buckets: int | None = None, tasks: int = 1) -> None:
        self.flow = flow
        self.buckets = flow.buckets if buckets is None else buckets
        self.tasks = tasks

    def read(self, rows: list[dict[str, Any]], schema: Schema) -> pl.DataFrame:
        """Typed columns; the hidden ones are whole numbers."""
        if not rows:
            return _no_rows(schema)
        hidden = sorted({name for row in rows for name in row if name.startswith(HIDDEN)} | {TIME})
        types = {**polars_schema(schema), **dict.fromkeys(hidden, pl.Int64())}
        return framed({name: pl.Series([row.get(name) for row in rows], dtype=type) for name, type in types.items()})

    def stateless(self, node: Stateless, batch: pl.DataFrame, now: Instant) -> pl.DataFrame:
        """Ask the expression of all rows at once."""
        return stateless(node, batch, now)

    def stage(self, node: Stateful) -> KernelStage:
        """A kernel that has seen nothing."""
        plan = plan_of(self.flow, node, asker_of)
        return KernelStage(lambda: StageKernel(plan, buckets=self.buckets, tasks=self.tasks))

    def rows(self, batch: pl.DataFrame) -> list[dict[str, Any]]:
        """Rows without what is hidden, times as aware datetimes."""
        return plain_rows(batch)


@lru_cache(maxsize=64)
def _no_rows(schema: Schema) -> pl.DataFrame:
    return pl.DataFrame(schema={**polars_schema(schema), TIME: pl.Int64()})


class KernelStage:
    """A stage kernel; after a crash a new one takes up the bytes."""

    def __init__(self, make: Callable[[], StageKernel]) -> None:
        self.make = make
        self.kernel = make()

    def tick(self, batches: Sequence[pl.DataFrame], edge: Edge, now: Instant) -> StageOutcome:
        """Make one tick."""
        outcome = self.kernel.tick(batches, edge, now)
        return StageOutcome(
            panes=outcome.panes,
            late=outcome.late,
            rejected=outcome.rejected,
            replaced=outcome.replaced,
            watermark=outcome.watermark,
            books=Books.of(outcome.books),
            sides=outcome.sides,
        )

    def encode(self) -> tuple[int, bytes]:
        """The number of the next tick, and the state as bytes."""
        return self.kernel.number, self.kernel.encode()

    def restore(self, kept: tuple[int, bytes]) -> None:
        """Start again from bytes."""
        number, data = kept
        self.kernel = self.make()
        self.kernel.restore(data, number=number)

    def same(self, one: tuple[int, bytes], other: tuple[int, bytes]) -> bool:
        """Byte for byte."""
        return one == other


def plain_rows(batch: pl.DataFrame) -> list[dict[str, Any]]:
    """A frame as rows without what is hidden, times as aware datetimes."""
    return [{name: _plain(value) for name, value in row.items()} for row in visible(batch).to_dicts()]


def _plain(value: Any) -> Any:
    """A Python value as the oracle has it: the one UTC, structs and arrays all the way down."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(timezone.utc)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value
