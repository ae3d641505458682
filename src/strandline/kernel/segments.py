"""State rows, sorted and never changed: segments of blocks that are searched and not scanned.

A row of state has the columns `hash` (UInt64), its keys, `window_start`, `window_end` (Int64) and accumulators. A segment
is what some ticks added, sorted by hash, in blocks of at most 65,536 rows. A block knows the least and greatest hash and
time in it, so a read opens only the blocks it needs; a block from a file is decoded, and its checksum verified, when it is
first used. Cost follows what is touched, not what is kept.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from strandline.errors import StateError

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK_ROWS: Final = 65_536
GREATEST_HASH: Final = 2**64 - 1


@dataclass(slots=True)
class Reads:
    """A tally of what reading cost: pass one in, and look at it afterwards."""

    bytes: int = 0
    blocks: int = 0
    rows: int = 0


class Content(ABC):
    """The rows that a block is a part of: a frame in memory, or bytes not yet looked at."""

    def __init__(self, rows: int, nbytes: int, schema: pa.Schema) -> None:
        self.rows = rows
        self.nbytes = nbytes
        self.schema = schema
        self._columns: dict[str, NDArray[np.generic]] = {}

    @abstractmethod
    def batch(self, reads: Reads | None = None) -> pa.RecordBatch:
        """The rows as one Arrow batch. Bytes read for the first time are added to `reads`."""

    def column(self, name: str, reads: Reads | None = None) -> NDArray[np.generic]:
        """One column without nulls, without copying."""
        if name not in self._columns:
            array = self.batch(reads).column(self.schema.get_field_index(name))
            self._columns[name] = array.to_numpy(zero_copy_only=True)
        return self._columns[name]

    @cached_property
    def numbers(self) -> dict[str, NDArray[np.generic]]:
        """The columns that are numbers without nulls, without copying."""
        return {name: self.column(name) for name, column in self._whole() if _is_number(column.type)}

    @cached_property
    def flags(self) -> dict[str, NDArray[np.uint8]]:
        """The columns that are booleans without nulls, without copying: bytes, each with eight of them from its least bit."""
        found = [(name, column) for name, column in self._whole() if pa.types.is_boolean(column.type)]
        return {name: np.frombuffer(column.buffers()[1], np.uint8) for name, column in found if not column.offset}

    def _whole(self) -> list[tuple[str, pa.Array]]:
        """The columns without nulls; none where there are no rows, and perhaps no bytes either."""
        columns = zip(self.schema.names, self.batch().columns, strict=True)
        return [(name, column) for name, column in columns if self.rows and not column.null_count]


class MadeContent(Content):
    """Rows made in this process."""

    def __init__(self, frame: pl.DataFrame) -> None:
        table = frame.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest()).combine_chunks()
        batches = table.to_batches()
        self._batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
        super().__init__(frame.height, table.nbytes, table.schema)

    def batch(self, reads: Reads | None = None) -> pa.RecordBatch:
        """The rows as one Arrow batch."""
        return self._batch


class StoredContent(Content):
    """Rows in a file: one Arrow IPC message, verified and decoded when first used, without copying."""

    def __init__(self, message: pa.Buffer, *, rows: int, schema: pa.Schema, checksum: int, place: str) -> None:
        super().__init__(rows, message.size, schema)
        self._message = message
        self._checksum = checksum
        self._place = place
        self._batch: pa.RecordBatch | None = None

    def batch(self, reads: Reads | None = None) -> pa.RecordBatch:
        """The rows as one Arrow batch; StateError names the block whose bytes are not what was written."""
        if self._batch is None:
            if zlib.crc32(self._message) != self._checksum:
                raise damaged(f"{self._place} does not have the checksum it was written with")
            self._batch = pa.ipc.read_record_batch(self._message, self.schema)
            if reads is not None:
                reads.bytes += self.nbytes
        return self._batch


@dataclass(frozen=True, slots=True)
class Block:
    """A range of rows of a content, with bounds of what is in it.

    Law: every row's hash and time lie within the bounds; the bounds of a block that was cut may be wider than its rows.
    Time is `due` where there is such a column, else `window_end`.
    """

    content: Content = field(repr=False)
    start: int
    rows: int
    least_hash: int
    greatest_hash: int
    least_time: int
    greatest_time: int

    @property
    def nbytes(self) -> int:
        """About how many bytes the rows take."""
        return self.content.nbytes * self.rows // max(self.content.rows, 1)

    def batch(self, reads: Reads | None = None) -> pa.RecordBatch:
        """The block's rows."""
        return self.content.batch(reads).slice(self.start, self.rows)

    def column(self, name: str, reads: Reads | None = None) -> NDArray[np.generic]:
        """One column of the block's rows."""
        return self.content.column(name, reads)[self.start : self.start + self.rows]

    def cut(self, first: int, last: int) -> Block:
        """The rows from `first` up to `last`, which is not included; the bounds stay as they are."""
        return replace(self, start=self.start + first, rows=max(last - first, 0))

    def within(self, least: int, greatest: int) -> Block:
        """The rows whose hash is from `least` to `greatest`, both included."""
        if least <= self.least_hash and self.greatest_hash <= greatest:
            return self
        bounds = np.array([least, greatest], np.uint64)
        hashes = self.column("hash")
        first, last = int(hashes.searchsorted(bounds[0], "left")), int(hashes.searchsorted(bounds[1], "right"))
        part = self.cut(first, last)
        return replace(part, least_hash=max(least, self.least_hash), greatest_hash=min(greatest, self.greatest_hash))


class Origin(NamedTuple):
    """Where a segment was stored: its file, its number in it, and the range of hashes for which it was opened."""

    file: str
    at: int
    least: int = 0
    greatest: int = GREATEST_HASH


@dataclass(frozen=True, eq=False)
class Segment:
    """What the ticks from `first_tick` to `last_tick` left in one event-time slice. At least one block, in hash order.

    Two segments are equal if they say the same: slice, ticks and rows. One that was opened from a file knows its
    `origin`, also when it was cut; one that was made does not have any.
    """

    slice: int
    first_tick: int
    last_tick: int
    blocks: tuple[Block, ...] = field(repr=False)
    origin: Origin | None = None

    @cached_property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(block.rows for block in self.blocks)

    @cached_property
    def nbytes(self) -> int:
        """About how many bytes they take."""
        return sum(block.nbytes for block in self.blocks)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self.blocks[0].content.schema

    @cached_property
    def hash_bounds(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The least and the greatest hash of each block."""
        least = np.array([block.least_hash for block in self.blocks], np.uint64)
        return least, np.array([block.greatest_hash for block in self.blocks], np.uint64)

    def within(self, least: int, greatest: int) -> Segment:
        """The part whose hashes are from `least` to `greatest`, both included: row ranges, nothing is copied."""
        met = [b for b in self.blocks if b.least_hash <= greatest and least <= b.greatest_hash]
        parts = [part for block in met if (part := block.within(least, greatest)).rows]
        return self.with_blocks(parts)

    def with_blocks(self, blocks: Sequence[Block]) -> Segment:
        """The same segment with other blocks; with none, one empty block keeps the schema."""
        return replace(self, blocks=tuple(blocks) or (_emptied(self.blocks[0]),))

    def frame(self, reads: Reads | None = None) -> pl.DataFrame:
        """All rows."""
        return frame_of(self.batches(reads), self.schema)

    def batches(self, reads: Reads | None = None) -> list[pa.RecordBatch]:
        """All rows as Arrow batches, one for each block."""
        return [block.batch(reads) for block in _counted(self.blocks, reads)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Segment):
            return NotImplemented
        same_place = (self.slice, self.first_tick, self.last_tick) == (other.slice, other.first_tick, other.last_tick)
        mine, others = self.frame(), other.frame()
        return same_place and mine.schema == others.schema and mine.equals(others)

    __hash__ = None  # type: ignore[assignment]


def segment_of(frame: pl.DataFrame, slice: int, tick: int, last_tick: int | None = None) -> Segment:  # noqa: A002 - the field's name
    """Cut rows sorted by hash into a segment of one tick (or, after a merge, of the ticks up to `last_tick`).

    >>> rows = pl.DataFrame({"hash": pl.Series([3, 5, 5, 9], dtype=pl.UInt64), "window_end": [10, 10, 20, 10]})
    >>> segment_of(rows, slice=0, tick=1).within(4, 5).frame()["window_end"].to_list()
    [10, 20]
    """
    hashes = frame["hash"].to_numpy()
    if (hashes[1:] < hashes[:-1]).any():
        raise StateError("State rows are not sorted by hash.", fix="Sort them by ('hash', keys, 'window_start') first.")
    return Segment(slice, tick, tick if last_tick is None else last_tick, cut_blocks(frame))


def cut_blocks(frame: pl.DataFrame) -> tuple[Block, ...]:
    """Cut rows, in the order they stand, into blocks; no rows make one empty block, which keeps the schema."""
    content = MadeContent(frame)
    starts = range(0, max(frame.height, 1), BLOCK_ROWS)
    return tuple(bounded(content, start, min(BLOCK_ROWS, frame.height - start)) for start in starts)


def bounded(content: Content, start: int, rows: int) -> Block:
    """The block of some rows of a content, with the bounds of exactly these rows."""
    block = Block(content, start, rows, GREATEST_HASH, 0, 0, 0)
    if not rows:
        return block
    hashes, times = block.column("hash"), block.column(time_column(content.schema))
    return Block(content, start, rows, int(hashes.min()), int(hashes.max()), int(times.min()), int(times.max()))


def time_column(schema: pa.Schema) -> str:
    """The column whose bounds a block keeps."""
    return "due" if "due" in schema.names else "window_end"


def damaged(what: str) -> StateError:
    """The error for bytes that are not what was written."""
    return StateError(
        f"The state is damaged: {what}.",
        fix="Restore the file from a copy, or start from an earlier tick or savepoint.",
    )


def _counted(blocks: Sequence[Block], reads: Reads | None) -> Sequence[Block]:
    if reads is not None:
        reads.blocks += len(blocks)
        reads.rows += sum(block.rows for block in blocks)
        reads.bytes += sum(block.nbytes for block in blocks)
    return blocks


def _emptied(block: Block) -> Block:
    return Block(block.content, 0, 0, GREATEST_HASH, 0, 0, 0)


def frame_of(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pl.DataFrame:
    """Batches of one schema as a frame. Convert many at once: a conversion costs more than finding a few rows does."""
    table = pa.Table.from_batches(batches, schema)
    try:
        frame = pl.from_arrow(table.combine_chunks())
    except pa.ArrowIndexError:
        # Lists that are all empty may have values without a buffer but with an offset, over which Arrow stumbles.
        frame = pl.from_arrow(table).rechunk()
    assert isinstance(frame, pl.DataFrame)  # a table, and not an array, went in
    return frame


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
