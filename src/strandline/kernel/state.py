"""The state of a stage, for any set of buckets: immutable segments by event-time slice, and what is due when."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy.typing as npt
import polars as pl

from strandline.errors import StateError
from strandline.kernel.codec import decode_with_about, encode
from strandline.kernel.due import DueIndex
from strandline.kernel.fingerprint import fingerprint, require_fitting
from strandline.kernel.fire import closing
from strandline.kernel.groups import Groups
from strandline.kernel.lookup import lookup
from strandline.kernel.merge import combine, newest
from strandline.kernel.operators.plan import AnyPlan, OperatorPlan
from strandline.kernel.plan import GONE, Plan
from strandline.kernel.segments import Reads, Segment, frame_of, segment_of
from strandline.kernel.tiers import MERGE_BUDGET, MERGE_BYTES
from strandline.kernel.tiers import plan as plan_merges
from strandline.kernel.widen import widen

Array = npt.NDArray[Any]

INDEXES: Final = ("timers", "expiries", "holds")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a stage remembers. `timers` are due in processing time, `expiries` (of global windows) in event time.

    `holds` says which windows hold the output's watermark back, and to when.

    Law: how rows are spread over segments changes no answer.
    """

    slices: Mapping[int, tuple[Segment, ...]] = field(default_factory=dict)
    timers: DueIndex = field(default_factory=DueIndex)
    expiries: DueIndex = field(default_factory=DueIndex)
    holds: DueIndex = field(default_factory=DueIndex)

    @property
    def rows(self) -> int:
        """How many rows are kept, a window in several segments counted several times."""
        return sum(segment.rows for segments in self.slices.values() for segment in segments)

    @property
    def nbytes(self) -> int:
        """About how many bytes they take."""
        return sum(segment.nbytes for segments in self.slices.values() for segment in segments)

    def within(self, least: int, greatest: int) -> State:
        """The part of the keys whose hash is from `least` to `greatest`: a bucket's, without copying."""
        slices = {n: tuple(s.within(least, greatest) for s in segments) for n, segments in self.slices.items()}
        return State(
            slices={n: kept for n, segments in slices.items() if (kept := tuple(s for s in segments if s.rows))},
            **{name: _due_within(getattr(self, name), least, greatest) for name in INDEXES},
        )

    def add(self, plan: AnyPlan, table: pl.DataFrame, tick: int) -> State:
        """The state with more rows, which stand in canonical order."""
        if table.is_empty():
            return self
        slices = dict(self.slices)
        numbers = plan.slices(table["window_end"].to_numpy())
        groups = Groups.of_ids(numbers)
        for start, length in zip(groups.starts.tolist(), groups.lengths.tolist(), strict=True):
            number = int(numbers[start])
            segment = segment_of(table.slice(start, length), number, tick)
            slices[number] = (*slices.get(number, ()), segment)
        return replace(self, slices=slices)

    def between(self, first: int, last: int) -> list[int]:
        """The numbers of the slices from `first` to `last`, both included, in order."""
        numbers = sorted(self.slices)
        return numbers[bisect_left(numbers, first) : bisect_right(numbers, last)]

    def without(self, numbers: Sequence[int]) -> State:
        """The state without these slices."""
        slices = dict(self.slices)
        for number in numbers:
            del slices[number]
        return replace(self, slices=slices)

    def whole(
        self, numbers: Sequence[int], schema: Mapping[str, pl.DataType], reads: Reads | None = None
    ) -> pl.DataFrame:
        """All rows of these slices, from the oldest to the youngest."""
        segments = [segment for n in numbers for segment in self.slices.get(n, ())]
        batches = [batch for segment in segments for batch in segment.batches(reads)]
        return frame_of(batches, segments[0].schema) if segments else pl.DataFrame(schema=schema)

    def find(
        self, wanted: Mapping[int, Array], schema: Mapping[str, pl.DataType], reads: Reads | None = None
    ) -> pl.DataFrame:
        """The rows with these hashes in these slices, from the oldest to the youngest."""
        asked = [(segment, hashes) for number, hashes in wanted.items() for segment in self.slices.get(number, ())]
        return lookup(asked, schema, reads)

    def merged(self, plan: AnyPlan, numbers: Iterable[int], *, watermark: int, budget: int = MERGE_BUDGET) -> State:
        """The same state with these slices in fewer segments: tiers of them are merged, as far as the budget of rows goes.

        There is a budget of bytes too, for wide rows. Global windows that outlived their time to live, invisible since
        then, are left out.
        """
        slices, left = dict(self.slices), MERGE_BYTES
        for number in numbers:
            segments = self.slices.get(number, ())
            if len(segments) > 1:
                runs = plan_merges([s.rows for s in segments], budget=min(budget, _rows_in(left, segments)))
                taken = [segment for start, stop in runs for segment in segments[start:stop]]
                budget -= sum(segment.rows for segment in taken)
                left -= sum(segment.nbytes for segment in taken)
                slices[number] = _merged(plan, number, segments, runs, watermark)
                if not slices[number]:
                    del slices[number]
        return replace(self, slices=slices)


def _rows_in(nbytes: int, segments: Sequence[Segment]) -> int:
    """How many rows as wide as those of the segments so many bytes hold."""
    return max(0, nbytes) * sum(s.rows for s in segments) // max(1, sum(s.nbytes for s in segments))


def _merged(
    plan: AnyPlan, number: int, segments: tuple[Segment, ...], runs: list[tuple[int, int]], watermark: int
) -> tuple[Segment, ...]:
    result = list(segments)
    for start, stop in reversed(runs):
        rows = pl.concat([segment.frame() for segment in segments[start:stop]])
        if isinstance(plan, OperatorPlan):
            rows = plan.collapse(rows, oldest=start == 0, watermark=watermark)
        else:
            rows = _collapsed(plan, rows, oldest=start == 0, watermark=watermark)
        first, last = segments[start].first_tick, segments[stop - 1].last_tick
        result[start:stop] = [segment_of(rows, number, first, last)] if rows.height else []
    return tuple(result)


def _collapsed(plan: Plan, rows: pl.DataFrame, *, oldest: bool, watermark: int) -> pl.DataFrame:
    """Rows of several segments, from the oldest to the youngest, as one row for each window."""
    rows = combine(plan, *newest(plan, rows), settle=False)
    if oldest:  # nothing older is left for the word that a window is gone to speak of
        rows = rows.filter(pl.col("kind") != GONE)
        if plan.ttl is not None:
            rows = rows.filter(pl.Series(~closing(plan, rows, watermark)))
    return rows


def _due_within(index: DueIndex, least: int, greatest: int) -> DueIndex:
    frames = [run.frame() for run in index.runs]
    if not frames:
        return index
    mine = pl.concat(frames).filter(pl.col("hash").is_between(pl.lit(least, pl.UInt64), pl.lit(greatest, pl.UInt64)))
    return DueIndex().add(mine)


def to_bytes(plan: AnyPlan, state: State) -> bytes:
    """The state as one file, which says what stage it is of."""
    rows = [segment for number in sorted(state.slices) for segment in state.slices[number]]
    due = [replace(run, slice=i) for i, name in enumerate(INDEXES) for run in getattr(state, name).runs]
    return encode([*rows, *due], kind="state", about=fingerprint(plan))


def from_bytes(plan: AnyPlan, data: bytes | memoryview) -> State:
    """The state in a file; StateError when it is not this stage's."""
    slices: dict[int, tuple[Segment, ...]] = {}
    due: dict[int, tuple[Segment, ...]] = {}
    about, segments = decode_with_about(data, kind="state")
    added = require_fitting(plan, about)
    runs = [segment for segment in segments if segment.schema.names[0] == "due"]
    rows = [segment for segment in segments if segment.schema.names[0] != "due"]
    if added:
        assert isinstance(plan, Plan), "only windows have aggregates"
        rows = [widen(plan, segment, added) for segment in rows]
    require_columns(plan, rows)
    for target, found in ((due, runs), (slices, rows)):
        for segment in found:
            target[segment.slice] = (*target.get(segment.slice, ()), segment)
    return State(slices=slices, **{name: DueIndex.of_runs(due.get(i, ())) for i, name in enumerate(INDEXES)})


def require_columns(plan: AnyPlan, segments: Iterable[Segment]) -> None:
    """Refuse segments whose columns are not those of this stage's state."""
    expected = pl.DataFrame(schema=plan.state_schema).to_arrow(compat_level=pl.CompatLevel.oldest()).schema
    for segment in segments:
        if not segment.schema.equals(expected):
            raise StateError(
                f"The state is not that of stage {plan.name!r}: its columns are {segment.schema.names}.",
                fix="Restore it under the flow that wrote it, or start this stage afresh under a new name.",
            )


def together(states: Sequence[State]) -> State:
    """The state of several sets of buckets as one. No key may be in two of them."""
    slices: dict[int, tuple[Segment, ...]] = {}
    for state in states:
        for number, segments in state.slices.items():
            slices[number] = (*slices.get(number, ()), *segments)
    return State(slices=slices, **{name: _joined([getattr(state, name) for state in states]) for name in INDEXES})


def _joined(indexes: Sequence[DueIndex]) -> DueIndex:
    frames = [run.frame() for index in indexes for run in index.runs]
    return DueIndex().add(pl.concat(frames)) if frames else DueIndex()
