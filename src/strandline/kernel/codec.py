"""State to bytes and back: one file for many segments, opened lazily, never trusted. State bytes are a public format.

    header   64 bytes: magic "STRANDLN", format version (u32), hash version (u32), zeros
    streams  for each schema one Arrow IPC stream: the schema, one record batch per block, the end mark;
             uncompressed, each batch's body on a 64-byte boundary. With one schema, as is usual, any Arrow reader
             opens the file as a stream from byte 64
    index    JSON: kind, about (what the rows mean, as texts), schemas [offset, length, checksum], segments with their blocks
             [offset, length, checksum, rows, least hash, greatest hash, least time, greatest time]
    trailer  32 bytes: index offset (u64), index length (u64), index checksum (u32), zeros (u32), the magic again

Numbers are little-endian; checksums are CRC-32. Every byte that means something is covered by a checksum or by a fixed
value, and is verified before it is used: the index and schemas on opening, a block when it is first read.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from strandline.errors import StateError
from strandline.kernel.segments import Block, Segment, StoredContent, bounded, damaged
from strandline.model.hashing import HASH_VERSION

FORMAT_VERSION: Final = 1
MAGIC: Final = b"STRANDLN"
HEADER: Final = struct.Struct("<8sII48x")
TRAILER: Final = struct.Struct("<QQI4x8s")
END_OF_STREAM: Final = b"\xff\xff\xff\xff\0\0\0\0"
ALIGNMENT: Final = 64

UPGRADES: Final[dict[int, Callable[[pa.Buffer], pa.Buffer]]] = {}
"""From each older format version, the function that makes a file of it into one of the next version."""

Extent = list[int]


def encode(segments: Sequence[Segment], *, kind: str, about: Mapping[str, str] | None = None) -> bytes:
    """Write segments as one file. `kind` says what the rows are, such as "state" or "due"; `about` what they mean.

    Law: `decode(encode(segments, kind=kind)) == segments`, and equal rows give equal bytes.
    """
    return b"".join(encode_parts(segments, kind=kind, about=about))


def encode_parts(segments: Sequence[Segment], *, kind: str, about: Mapping[str, str] | None = None) -> list[Any]:
    """The same file in parts, which are not copied: buffers to be written one after the other."""
    file = _File()
    schemas: list[pa.Schema] = []
    for segment in segments:
        if segment.schema not in schemas:
            schemas.append(segment.schema)
    entries: list[Any] = [None] * len(segments)
    extents = []
    for number, schema in enumerate(schemas):
        extents.append(file.add(schema.serialize()))
        for place, segment in enumerate(segments):
            if segment.schema == schema:
                entries[place] = _segment_entry(file, segment, number)
        file.add(END_OF_STREAM)
    return file.closed({"kind": kind, "about": dict(about or {}), "schemas": extents, "segments": entries})


def decode(buffer: bytes | memoryview | pa.Buffer, *, kind: str | None = None) -> list[Segment]:
    """Open a file of segments without reading their rows; a `kind` that is given must be the file's.

    >>> decode(b"not a state file, whatever its name says")
    Traceback (most recent call last):
        ...
    strandline.errors.StateError: The state is damaged: the file does not begin as a Strandline state file does.
      fix: Restore the file from a copy, or start from an earlier tick or savepoint.
    """
    return decode_with_about(buffer, kind=kind)[1]


def decode_with_about(
    buffer: bytes | memoryview | pa.Buffer, *, kind: str | None = None, name: str | None = None
) -> tuple[dict[str, str], list[Segment]]:
    """The same, and before it what the file says `about` its rows. Errors, also later ones, say the `name`, if given."""
    try:
        return _decoded(buffer, kind, "" if name is None else f" of the file {name!r}")
    except StateError as error:
        if name is None:
            raise
        raise StateError(f"The file {name!r} cannot be used. {error.what}", fix=error.fix) from error


def _decoded(
    buffer: bytes | memoryview | pa.Buffer, kind: str | None, where: str
) -> tuple[dict[str, str], list[Segment]]:
    file = _current(pa.py_buffer(buffer))
    index, limit = _index(file)
    if kind is not None and index["kind"] != kind:
        raise StateError(
            f"The file holds {index['kind']!r} rows, not {kind!r} rows.",
            fix=f"Give the file that was written as {kind!r}.",
        )
    schemas = [_schema(file, limit, number, extent) for number, extent in enumerate(index["schemas"])]
    segments = [_segment(file, limit, number, entry, schemas, where) for number, entry in enumerate(index["segments"])]
    return index["about"], segments


class _File:
    """Parts of a file that grows, and where the next one will lie."""

    def __init__(self) -> None:
        self.parts: list[Any] = [HEADER.pack(MAGIC, FORMAT_VERSION, HASH_VERSION)]
        self.size = HEADER.size

    def add(self, *parts: Any) -> Extent:
        """Append what belongs together; say its offset, length and checksum."""
        offset, checksum = self.size, 0
        for part in parts:
            self.parts.append(part)
            self.size += memoryview(part).nbytes
            checksum = zlib.crc32(part, checksum)
        return [offset, self.size - offset, checksum]

    def add_batch(self, batch: pa.RecordBatch) -> Extent:
        """Append a record batch as an IPC message whose body begins on a 64-byte boundary.

        The space is made by lengthening the message's metadata, as the format allows, so a stream stays a stream.
        """
        message = memoryview(batch.serialize())
        length = struct.unpack_from("<i", message, 4)[0]
        gap = -(self.size + 8 + length) % ALIGNMENT
        start = END_OF_STREAM[:4] + struct.pack("<i", length + gap)
        return self.add(start, message[8 : 8 + length], bytes(gap), message[8 + length :])

    def closed(self, index: dict[str, Any]) -> list[Any]:
        """All parts of the file."""
        offset, length, checksum = self.add(json.dumps(index, sort_keys=True, separators=(",", ":")).encode())
        return [*self.parts, TRAILER.pack(offset, length, checksum, MAGIC)]


def _segment_entry(file: _File, segment: Segment, schema: int) -> dict[str, Any]:
    blocks = [_block_entry(file, block) for block in segment.blocks]
    ticks = {"first_tick": segment.first_tick, "last_tick": segment.last_tick}
    return {"slice": segment.slice, **ticks, "schema": schema, "blocks": blocks}


def _block_entry(file: _File, block: Block) -> list[int]:
    exact = bounded(block.content, block.start, block.rows)  # a block that was cut may have wider bounds
    bounds = [exact.least_hash, exact.greatest_hash, exact.least_time, exact.greatest_time]
    return [*file.add_batch(_canonical(block.batch())), exact.rows, *bounds]


def _canonical(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows with nothing in the bytes that no row can show: under nulls, behind the last bit, outside a slice."""
    everything = pa.array(range(batch.num_rows), pa.int64()) if any(map(_hides_bytes, batch.columns)) else None
    columns = [column.take(everything) if _hides_bytes(column) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _hides_bytes(array: pa.Array) -> bool:
    """Arrow may write more of a slice than its rows: values up to the end of what it was cut from."""
    if array.null_count or not pa.types.is_primitive(array.type) or pa.types.is_boolean(array.type):
        return True
    return bool(array.get_total_buffer_size() > array.nbytes)


def _current(file: pa.Buffer) -> pa.Buffer:
    """The file in this version's format, upgraded one step at a time."""
    while (version := _version(file)) != FORMAT_VERSION:
        if version > FORMAT_VERSION:
            raise StateError(
                f"The state has format version {version}; this Strandline knows versions up to {FORMAT_VERSION}.",
                fix="Use the version of Strandline that wrote it, or a newer one.",
            )
        if version not in UPGRADES:
            raise damaged(f"there is no format version {version}")
        file = UPGRADES[version](file)
    return file


def _version(file: pa.Buffer) -> int:
    if file.size < HEADER.size + TRAILER.size or bytes(memoryview(file)[: len(MAGIC)]) != MAGIC:
        raise damaged("the file does not begin as a Strandline state file does")
    version: int = HEADER.unpack_from(file)[1]
    return version


def _index(file: pa.Buffer) -> tuple[dict[str, Any], int]:
    """The index, and where it begins: everything it speaks of lies before."""
    hash_version = HEADER.unpack_from(file)[2]
    if hash_version != HASH_VERSION:
        raise StateError(
            f"The state is ordered by hash version {hash_version}; this Strandline uses version {HASH_VERSION}.",
            fix="Use the version of Strandline that wrote it.",
        )
    end = file.size - TRAILER.size
    offset, length, checksum, magic = TRAILER.unpack_from(file, end)
    if magic != MAGIC or offset + length != end:
        raise damaged("the end of the file is missing, or bytes are missing before it")
    text = memoryview(file)[offset:end]
    if zlib.crc32(text) != checksum:
        raise damaged("the file's index does not have the checksum it was written with")
    index: dict[str, Any] = json.loads(bytes(text))
    return index, offset


def _schema(file: pa.Buffer, limit: int, number: int, extent: Extent) -> pa.Schema:
    offset, length, checksum = extent
    part = _part(file, limit, offset, length, f"schema {number}")
    if zlib.crc32(part) != checksum:
        raise damaged(f"schema {number} does not have the checksum it was written with")
    return pa.ipc.read_schema(part)


def _segment(
    file: pa.Buffer, limit: int, number: int, entry: dict[str, Any], schemas: list[pa.Schema], where: str
) -> Segment:
    place = f"of segment {number} (slice {entry['slice']}, ticks {entry['first_tick']} to {entry['last_tick']}){where}"
    schema = schemas[entry["schema"]]
    blocks = [_block(file, limit, f"block {n} {place}", line, schema) for n, line in enumerate(entry["blocks"])]
    return Segment(entry["slice"], entry["first_tick"], entry["last_tick"], tuple(blocks))


def _block(file: pa.Buffer, limit: int, place: str, line: list[int], schema: pa.Schema) -> Block:
    offset, length, checksum, rows, *bounds = line
    message = _part(file, limit, offset, length, place)
    content = StoredContent(message, rows=rows, schema=schema, checksum=checksum, place=place)
    return Block(content, 0, rows, *bounds)


def _part(file: pa.Buffer, limit: int, offset: int, length: int, place: str) -> pa.Buffer:
    if offset < HEADER.size or length < 0 or offset + length > limit:
        raise damaged(f"{place} lies outside the file")
    return file.slice(offset, length)
