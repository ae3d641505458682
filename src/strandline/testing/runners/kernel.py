"""Play with the kernel: rows are frames, and every expression is compiled for columns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import polars as pl

from strandline.kernel.expressions import compile_expression
from strandline.kernel.plan import plan_stage
from strandline.kernel.schema import polars_schema
from strandline.kernel.stage import StageKernel
from strandline.model.flow import Flow, SelectNode, StageNode, WhereNode
from strandline.model.lineage import carried, schema_of
from strandline.model.panes import HIDDEN
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
        hidden = sorted({name for row in rows for name in row if name.startswith(HIDDEN)} | {"__time"})
        types = {**polars_schema(schema), **dict.fromkeys(hidden, pl.Int64())}
        return pl.DataFrame({n: pl.Series(n, [row.get(n) for row in rows], dtype=t) for n, t in types.items()})

    def stateless(self, node: Stateless, batch: pl.DataFrame, now: Instant) -> pl.DataFrame:
        """Ask the expression of all rows at once."""
        schema = schema_of(node.parent)
        assert schema is not None, "play refuses what only Spark knows"
        if isinstance(node, WhereNode):
            return batch.filter(compile_expression(node.condition, schema, now=now))
        if isinstance(node, SelectNode):
            return _select(node, batch, schema, now)
        return batch.with_columns(compile_expression(node.expression, schema, now=now).alias(node.name))

    def stage(self, node: StageNode) -> KernelStage:
        """A kernel that has seen nothing."""
        plan = plan_stage(node, carry=carried(self.flow, node))
        return KernelStage(lambda: StageKernel(plan, buckets=self.buckets, tasks=self.tasks))

    def rows(self, batch: pl.DataFrame) -> list[dict[str, Any]]:
        """Rows without what is hidden, times as aware datetimes."""
        visible = batch.select(name for name in batch.columns if not name.startswith(HIDDEN))
        return [{name: _plain(value) for name, value in row.items()} for row in visible.to_dicts()]


class KernelStage:
    """A stage kernel; after a crash a new one takes up the bytes."""

    def __init__(self, make: Callable[[], StageKernel]) -> None:
        self.make = make
        self.kernel = make()

    def tick(self, batch: pl.DataFrame, edge: Edge, now: Instant) -> StageOutcome:
        """Make one tick."""
        outcome = self.kernel.tick(batch, edge, now)
        return StageOutcome(
            panes=outcome.panes,
            late=outcome.late,
            rejected=outcome.rejected,
            replaced=outcome.replaced,
            watermark=outcome.watermark,
            books=Books.of(outcome.books),
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


def _select(node: SelectNode, batch: pl.DataFrame, schema: Schema, now: Instant) -> pl.DataFrame:
    # With the old columns beside them first: a literal alone would be one row, however many rows there are.
    made = {f"__new.{at}": compile_expression(each, schema, now=now) for at, each in enumerate(node.columns)}
    hidden = [name for name in batch.columns if name.startswith(HIDDEN)]
    names = [pl.col(f"__new.{at}").alias(str(each.name)) for at, each in enumerate(node.columns)]
    return batch.with_columns(**made).select(*names, *hidden)


def _plain(value: Any) -> Any:
    """A Python value as the oracle has it: the one UTC, structs and arrays all the way down."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(timezone.utc)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value
