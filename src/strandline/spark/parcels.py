"""Parcels: frames on their way from one task to the next, and to the driver.

Small ones travel with the message; big ones are written to a file of the state's storage, and the message says where.
Only what the driver was told of counts: a task that Spark runs twice leaves a file that nobody opens.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

import polars as pl
import pyarrow as pa

from strandline.kernel.operators.plan import AnyPlan
from strandline.kernel.preaggregate import Books
from strandline.kernel.segments import damaged
from strandline.kernel.shares import Share
from strandline.kernel.stateful import Input, Packed, share_of, unpacked
from strandline.spark.outputs import read_output, write_output
from strandline.store.layout import staging_file
from strandline.store.records import OutputRef
from strandline.store.storage import Storage

INLINE: Final = 256 * 1024
"""A task whose parcels take no more bytes than this sends them with its message."""
_ARROW: Final = pa.schema([("meta", pa.string()), ("data", pa.binary())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """Frames for a node of the flow. `order` says which task packed it; parcels are opened in that order."""

    target: int
    order: tuple[int, ...] = ()
    share: int | None = None
    rows: int = 0
    lengths: tuple[int, ...] = ()
    checksum: int = 0
    books: Books | None = None
    file: str | None = None
    offset: int = 0
    output: OutputRef | None = None  # rows for a sink that were too many to travel: they are in their file already
    data: bytes | None = field(default=None, repr=False)

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return sum(self.lengths)

    def open(self, storage: Storage) -> list[pl.DataFrame]:
        """Its frames; StateError when the bytes are not what was packed."""
        if self.output is not None:
            return [read_output(storage, self.output)]
        whole = pa.py_buffer(self.data) if self.data is not None else self._stored(storage)
        if zlib.crc32(whole) != self.checksum:
            raise damaged(f"a parcel in {self.file or 'a message'} does not have the checksum it was packed with")
        frames, at = [], 0
        for length in self.lengths:
            frames.append(_frame(whole.slice(at, length)))
            at += length
        return frames

    def _stored(self, storage: Storage) -> pa.Buffer:
        assert self.file is not None, "a parcel without bytes has a file"
        return storage.open(self.file).slice(self.offset, self.nbytes)

    def to_row(self) -> tuple[str, bytes]:
        """The parcel as a row of Spark's."""
        told = {k: v for k, v in asdict(self).items() if k != "data"}
        return json.dumps({"parcel": told}), self.data or b""

    @classmethod
    def from_row(cls, told: Mapping[str, Any], data: bytes) -> Parcel:
        """Read what `to_row` wrote."""
        books = None if told["books"] is None else Books(**told["books"])
        output = None if told["output"] is None else OutputRef(**told["output"])
        return cls(**{
            **told, "books": books, "output": output, "order": tuple(told["order"]), "lengths": tuple(told["lengths"]),
            "data": bytes(data) if told["file"] is None and output is None else None,
        })  # fmt: skip


def pack(
    target: int, frames: Sequence[pl.DataFrame], *, books: Books | None = None, share: int | None = None
) -> Parcel:
    """Frames as a parcel that travels with its message."""
    buffer, ends = io.BytesIO(), [0]
    for frame in frames:
        frame.write_ipc_stream(buffer)
        ends.append(buffer.tell())
    data = buffer.getvalue()
    lengths = tuple(end - start for start, end in pairwise(ends))
    return Parcel(
        target=target, share=share, rows=frames[0].height, lengths=lengths, checksum=zlib.crc32(data), books=books,
        data=data,
    )  # fmt: skip


def pack_input(plan: AnyPlan, target: int, found: Input, shares: Sequence[Share]) -> list[Parcel]:
    """What a stage takes as one parcel for each share that has some; where there is little, as one for all."""
    whole = Packed(found)
    if len(shares) == 1 or whole.nbytes < INLINE // 4:
        return [_pack_input(target, whole, None)] if whole.says_something else []
    parts = (Packed(share_of(plan, found, least, greatest)) for least, greatest in shares)
    return [_pack_input(target, part, at) for at, part in enumerate(parts) if part.says_something]


def _pack_input(target: int, part: Packed, share: int | None) -> Parcel:
    return pack(target, part.frames, books=part.books, share=share)


def open_input(plan: AnyPlan, parcel: Parcel, storage: Storage, shares: Sequence[Share], mine: int) -> Input:
    """The part of what a parcel brings that belongs to a share."""
    whole = unpacked(plan, parcel.open(storage), parcel.books)
    return whole if parcel.share is not None or len(shares) == 1 else share_of(plan, whole, *shares[mine])


def settle(
    parcels: Iterable[Parcel], storage: Storage, tick: int, order: tuple[int, ...], sinks: Mapping[int, str]
) -> list[Parcel]:
    """A task's parcels as they travel: with the message if they are small together, else in files.

    `sinks` says which targets are sinks, by name: their rows, if many, are written where they are published from.
    """
    mine = [replace(parcel, order=order) for parcel in parcels]
    if sum(parcel.nbytes for parcel in mine) <= INLINE:
        return mine
    written = [_written(parcel, storage, sinks[parcel.target], tick) for parcel in mine if parcel.target in sinks]
    staged = [parcel for parcel in mine if parcel.target not in sinks]
    return written + (_staged(staged, storage, tick) if staged else [])


def _written(parcel: Parcel, storage: Storage, sink: str, tick: int) -> Parcel:
    assert parcel.data is not None, "a parcel has its bytes until it is settled"
    return replace(parcel, output=write_output(storage, sink, tick, parcel.data, parcel.rows), data=None)


def _staged(parcels: Sequence[Parcel], storage: Storage, tick: int) -> list[Parcel]:
    name, at, settled = staging_file(tick, ".parcels"), 0, []
    for parcel in parcels:
        settled.append(replace(parcel, file=name, offset=at, data=None))
        at += parcel.nbytes
    # After a crash the tick is made anew, from new parcels: these need not outlive it.
    storage.create(name, [parcel.data or b"" for parcel in parcels], durable=False)
    return settled


def batches(rows: Iterable[tuple[str, bytes]]) -> Iterator[pa.RecordBatch]:
    """Rows of messages as Arrow, one batch."""
    metas, data = [], []
    for meta, payload in rows:
        metas.append(meta)
        data.append(payload)
    yield pa.RecordBatch.from_arrays([pa.array(metas, pa.string()), pa.array(data, pa.binary())], schema=_ARROW)


def _frame(buffer: pa.Buffer) -> pl.DataFrame:
    """The frame in a buffer, whose bytes it goes on using."""
    with pa.ipc.open_stream(buffer) as stream:
        return pl.DataFrame(stream.read_all())
