"""State that was written before an aggregate was added to its stage: there, the aggregate has seen nothing yet."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pyarrow as pa

from strandline.kernel.folds import state_columns
from strandline.kernel.frames import framed
from strandline.kernel.operators.plan import AnyPlan, OperatorPlan
from strandline.kernel.plan import Plan
from strandline.kernel.segments import Content, Reads, Segment


def missing_aggregates(plan: AnyPlan, segment: Segment) -> tuple[str, ...]:
    """The aggregates of a stage of which a segment has no column."""
    # Almost always there is none missing, and it is asked for every segment in every tick.
    if len(segment.schema) == len(plan.state_schema) or isinstance(plan, OperatorPlan):
        return ()
    there = set(segment.schema.names)
    return tuple(name for name, fold in plan.folds if there.isdisjoint(state_columns(name, fold)))


def widen(plan: Plan, segment: Segment, names: tuple[str, ...]) -> Segment:
    """The segment with accumulators of no rows for these aggregates; they are made when rows are looked at."""
    widened: dict[int, WidenedContent] = {}
    for block in segment.blocks:
        if id(block.content) not in widened:
            widened[id(block.content)] = WidenedContent(plan, block.content, names)
    return segment.with_blocks([replace(block, content=widened[id(block.content)]) for block in segment.blocks])


class WidenedContent(Content):
    """Rows of a content with the columns of more aggregates, in the order of the stage's state."""

    def __init__(self, plan: Plan, narrow: Content, names: tuple[str, ...]) -> None:
        empty = _empty(plan, names, 0).to_arrow(compat_level=pl.CompatLevel.oldest()).schema
        there = {field.name: field for schema in (narrow.schema, empty) for field in schema}
        # What the stage does not know stays at the end, where it is found to be too much.
        order = [name for name in plan.state_schema if name in there]
        schema = pa.schema([there[name] for name in (*order, *(name for name in there if name not in order))])
        super().__init__(narrow.rows, narrow.nbytes, schema)
        self._plan, self._narrow, self._names = plan, narrow, names
        self._batch: pa.RecordBatch | None = None

    def batch(self, reads: Reads | None = None) -> pa.RecordBatch:
        """The rows as one Arrow batch."""
        if self._batch is None:
            narrow = self._narrow.batch(reads)
            table = _empty(self._plan, self._names, self.rows).to_arrow(compat_level=pl.CompatLevel.oldest())
            columns = dict(zip(narrow.schema.names, narrow.columns, strict=True))
            columns |= {name: table[name].combine_chunks() for name in table.schema.names}
            self._batch = pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)
        return self._batch


def _empty(plan: Plan, names: tuple[str, ...], count: int) -> pl.DataFrame:
    folds = dict(plan.folds)
    parts = {name: folds[name].empty(count) for name in names}
    return framed({
        column: part for name in names for column, part in zip(state_columns(name, folds[name]), parts[name], strict=True)
    })  # fmt: skip
