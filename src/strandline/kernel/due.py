"""What is due when: an index of state rows by due time, so that a tick need not look at rows that are not due."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from strandline.errors import StateError
from strandline.kernel.codec import decode, encode
from strandline.kernel.frames import only, rows_at, stacked
from strandline.kernel.segments import Block, Reads, Segment, cut_blocks, frame_of
from strandline.kernel.tiers import MERGE_BUDGET, plan
from strandline.model.time import Instant

ENTRY: Final = {"due": pl.Int64, "hash": pl.UInt64, "window_start": pl.Int64, "window_end": pl.Int64}
_NOTHING: Final = pl.DataFrame(schema=ENTRY)
_STORED: Final = _NOTHING.to_arrow().schema


@dataclass(frozen=True, slots=True)
class DueIndex:
    """Entries (due, hash, window_start, window_end) in runs sorted by due time, youngest run last.

    An entry says that the row may have something to do at that time; entries are not withdrawn when a row changes its
    mind, so the reader looks at the row itself.

    Law: `due(now)` are the distinct entries added and not yet forgotten with due <= now, sorted; its cost does not grow
    with the entries that are not due.

    >>> entry = {"due": [30, 10], "hash": [1, 2], "window_start": [0, 0], "window_end": [30, 10]}
    >>> index = DueIndex().add(pl.DataFrame(entry, schema=ENTRY))
    >>> index.earliest == 10, index.due(Instant(20))["hash"].to_list(), index.forget(Instant(20)).earliest == 30
    (True, [2], True)
    """

    runs: tuple[Segment, ...] = ()

    def add(self, entries: pl.DataFrame, *, budget: int = MERGE_BUDGET) -> DueIndex:
        """The index with more entries; runs are merged by tiers, writing at most `budget` old entries."""
        if entries.is_empty():
            return self
        runs = [*self.runs, _run(entries)]
        merges = plan([run.rows for run in runs], budget=budget)
        for start, stop in reversed(merges):
            runs[start:stop] = [_run(stacked([run.frame() for run in runs[start:stop]]))]
        return DueIndex(tuple(runs))

    def due(self, now: Instant, reads: Reads | None = None) -> pl.DataFrame:
        """The entries due at `now` or before."""
        parts = [_before(run, now).frame(reads) for run in self.runs if _first_due(run) <= now]
        return _sorted(stacked(parts)) if parts else _NOTHING

    def first(self, count: int) -> pl.DataFrame:
        """The entries due first: at least so many of them, if there are, and all that are due as early as the last."""
        if not self.runs:
            return _NOTHING
        heads = [frame_of([b.batch() for b in _front(run.blocks, count)], run.schema) for run in self.runs]
        dues = np.sort(np.concatenate([head["due"].to_numpy() for head in heads]))
        return self.due(Instant(int(dues[min(count, len(dues)) - 1])))

    def forget(self, now: Instant) -> DueIndex:
        """The index without the entries due at `now` or before."""
        if self.earliest is None or self.earliest > now:
            return self
        rest = [_after(run, now) for run in self.runs]
        return DueIndex(tuple(run for run in rest if run.rows))

    @property
    def earliest(self) -> Instant | None:
        """When the first entry is due; None if there is none."""
        return Instant(min(_first_due(run) for run in self.runs)) if self.runs else None

    @property
    def rows(self) -> int:
        """How many entries are kept, the same one in two runs counted twice."""
        return sum(run.rows for run in self.runs)

    def to_bytes(self) -> bytes:
        """The index as a file."""
        return encode(self.runs, kind="due")

    @classmethod
    def from_bytes(cls, buffer: bytes | memoryview | pa.Buffer) -> DueIndex:
        """The index in a file."""
        return cls.of_runs(decode(buffer, kind="due"))

    @classmethod
    def of_runs(cls, runs: Sequence[Segment]) -> DueIndex:
        """The index of runs that were stored; StateError when they have other columns."""
        for run in runs:
            if not run.schema.equals(_STORED):
                raise StateError(
                    f"The columns {run.schema.names} are not those of an index of what is due.",
                    fix="Use the version of Strandline that wrote the file.",
                )
        return cls(tuple(runs))


def _front(blocks: Sequence[Block], count: int) -> Iterator[Block]:
    """The first so many rows."""
    for block in blocks:
        if count <= 0:
            return
        yield block.cut(0, min(count, block.rows))
        count -= block.rows


def _run(entries: pl.DataFrame) -> Segment:
    return Segment(0, 0, 0, cut_blocks(_sorted(only(entries, ENTRY))))


def _sorted(entries: pl.DataFrame) -> pl.DataFrame:
    columns = [entries[name].to_numpy() for name in ENTRY]
    order = np.lexsort(tuple(reversed(columns)))
    another = np.ones(len(order), np.bool_)
    another[1:] = np.logical_or.reduce([np.diff(column[order]) != 0 for column in columns])
    return rows_at(entries, order[another])


def _first_due(run: Segment) -> int:
    # A cut block's bounds may be wider than its rows; one that begins its content's rows was not cut in front.
    block = run.blocks[0]
    return block.least_time if block.start == 0 else int(block.column("due")[0])


def _before(run: Segment, now: int) -> Segment:
    return run.with_blocks([b.cut(0, _count(b, now)) for b in run.blocks if b.least_time <= now])


def _after(run: Segment, now: int) -> Segment:
    late = [b.cut(_count(b, now), b.rows) for b in run.blocks if b.greatest_time > now]
    return run.with_blocks([block for block in late if block.rows])


def _count(block: Block, now: int) -> int:
    """How many of the block's entries are due: they stand in front."""
    if block.greatest_time <= now:
        return block.rows
    return int(np.searchsorted(block.column("due"), now, "right")) if block.least_time <= now else 0
