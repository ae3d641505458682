"""Blocks of whole lines from a range of a file.

Law: a line belongs to the range in which its first byte lies; so however a file is cut into ranges, each line is read
exactly once. A range may begin or end in the middle of a line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa

BLOCK: Final = 16 << 20
"""How many bytes are read and understood at once."""

LONGEST: Final = BLOCK
"""Bytes of a line of JSON; what has more is no row, but a file that someone wrote as one line, say."""

CUT_OFF: Final = b"... a line that goes on, too long to be a row"
"""What a line ends with that is too long: nothing that begins so can be understood."""

COMPRESSED: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
"""Endings of compressed files; these cannot be cut into ranges."""

_MARK: Final = b"\xef\xbb\xbf"
_STRIDE: Final = 64 << 10


class ByteStream(Protocol):
    """What blocks are read from: a file, or one that is unpacked on the way."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most `size`; none at the end."""


def compression_of(path: str) -> str | None:
    """How a file is compressed, by its name.

    >>> compression_of("a.json.gz"), compression_of("a.json")
    ('gzip', None)
    """
    return next((codec for ending, codec in COMPRESSED.items() if path.endswith(ending)), None)


def blocks(path: str, start: int, end: int, size: int = BLOCK, longest: int = sys.maxsize) -> Iterator[bytes]:
    """The lines that begin in [start, end), in blocks of about `size` bytes; each block ends with a line's end.

    A compressed file is read whole: its range is that of its bytes on disk. A byte-order mark is passed over. A line of
    more than `longest` bytes is cut off there and ends with `CUT_OFF`: a worker's memory has an end.
    """
    codec = compression_of(path)
    with open(path, "rb") as file:
        if codec is not None:
            with pa.CompressedInputStream(pa.PythonFile(file, mode="r"), codec) as unpacked:
                yield from _whole_lines(_chunks(unpacked, None, size), longest)
            return
        mark = _length_of_mark(file)
        if start:
            start = _next_line(file, start)
        if start < end:
            file.seek(max(start, mark))
            yield from _whole_lines(_chunks(file, max(1, end - max(start, mark)), size), longest)


def text_start(path: str) -> int:
    """Where the text of a file begins: behind its byte-order mark, if it has one."""
    try:
        with open(path, "rb") as file:
            return _length_of_mark(file)
    except OSError:  # told when it is read
        return 0


def first_line(path: str) -> tuple[bytes, int]:
    """The first line of a file that is not blank, without its end, and how many bytes of text there are up to there."""
    before = 0
    for block in blocks(path, 0, sys.maxsize, _STRIDE):
        blank = len(block) - len(block.lstrip())
        if blank < len(block):
            start = block.rfind(b"\n", 0, blank) + 1
            line = block[start:].split(b"\n", 1)[0]
            return line.rstrip(b"\r"), before + min(len(block), start + len(line) + 1)
        before += len(block)
    return b"", before


def lines_of(block: bytes) -> list[bytes]:
    r"""The lines of a block that are not blank, without their ends.

    >>> lines_of(b"a\r\n\n b")
    [b'a', b' b']
    """
    return [line.rstrip(b"\r") for line in block.split(b"\n") if line.strip()]


def shown(line: bytes) -> str:
    r"""A line as text, exactly; bytes that are no text are shown by their numbers.

    >>> shown(b"caf\xc3\xa9 \xff")
    'café \\xff'
    """
    return line.decode("utf-8", errors="backslashreplace")


def _length_of_mark(file: Any) -> int:
    return len(_MARK) if file.read(len(_MARK)) == _MARK else 0


def _next_line(file: Any, start: int) -> int:
    """Where the first line begins that does not begin before `start`."""
    at = start - 1
    file.seek(at)
    while chunk := file.read(_STRIDE):
        found = chunk.find(b"\n")
        if found >= 0:
            return int(at + found + 1)
        at += len(chunk)
    return int(at)


def _chunks(stream: ByteStream, wanted: int | None, size: int) -> Iterator[bytes]:
    """What is in a stream; or so many bytes of it as are wanted, and to the end of the line that they cut."""
    taken = 0
    while chunk := bytes(stream.read(size if wanted is None else min(size, wanted - taken))):
        yield chunk.removeprefix(_MARK) if wanted is None and not taken else chunk
        taken += len(chunk)
        if wanted is not None and taken >= wanted:
            break
    while chunk and not chunk.endswith(b"\n"):
        chunk = bytes(stream.read(_STRIDE))
        chunk = chunk[: chunk.find(b"\n") + 1] or chunk
        yield chunk


def _whole_lines(chunks: Iterator[bytes], longest: int) -> Iterator[bytes]:
    """Blocks that end with a line's end."""
    line = _OpenLine(longest)
    for chunk in chunks:
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield line.closed(chunk[:cut])
        line.add(chunk[cut:])
    if line.size:
        yield line.closed(b"")


@dataclass(slots=True)
class _OpenLine:
    """A line whose end is not read yet. No more of it is held than is allowed."""

    longest: int
    size: int = 0
    parts: list[bytes] = field(default_factory=list)

    def add(self, more: bytes) -> None:
        self.parts.append(more[: max(0, self.longest - self.size)])
        self.size += len(more)

    def closed(self, rest: bytes) -> bytes:
        """The line and what follows it, of which the first bytes up to a line's end are its own."""
        end = rest.find(b"\n") if rest else 0
        self.add(rest[:end])
        told = CUT_OFF if self.size > self.longest else b""
        whole = b"".join([*self.parts, told, rest[end:]])
        self.size, self.parts = 0, []
        return whole
