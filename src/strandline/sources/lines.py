"""Blocks of whole lines from a range of a file.

Law: a line belongs to the range in which its first byte lies; so however a file is cut into ranges, each line is read
exactly once. A range may begin or end in the middle of a line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final, Protocol

import pyarrow as pa

BLOCK: Final = 16 << 20
"""How many bytes are read and understood at once."""

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


def blocks(path: str, start: int, end: int, size: int = BLOCK) -> Iterator[bytes]:
    """The lines that begin in [start, end), in blocks of about `size` bytes; each block ends with a line's end.

    A compressed file is read whole: its range is that of its bytes on disk. A byte-order mark is passed over.
    """
    codec = compression_of(path)
    with open(path, "rb") as file:
        if codec is not None:
            with pa.CompressedInputStream(pa.PythonFile(file, mode="r"), codec) as unpacked:
                yield from _whole_lines(unpacked, None, size)
            return
        mark = _length_of_mark(file)
        if start:
            start = _next_line(file, start)
        if start < end:
            file.seek(max(start, mark))
            yield from _whole_lines(file, max(1, end - max(start, mark)), size)


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


def _whole_lines(stream: ByteStream, wanted: int | None, size: int) -> Iterator[bytes]:
    """Blocks that end with a line's end. `wanted`: so many bytes, and to the end of the line that they cut."""
    kept: list[bytes] = []
    taken = 0
    while chunk := bytes(stream.read(size if wanted is None else min(size, wanted - taken))):
        if wanted is None and not taken:
            taken, chunk = len(chunk), chunk.removeprefix(_MARK)
        else:
            taken += len(chunk)
        if wanted is not None and taken >= wanted:
            rest = b"" if chunk.endswith(b"\n") else _rest_of_line(stream)
            yield b"".join([*kept, chunk, rest])
            return
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield b"".join([*kept, chunk[:cut]])
            kept = []
        kept.append(chunk[cut:])
    if any(kept):
        yield b"".join(kept)


def _rest_of_line(stream: ByteStream) -> bytes:
    found: list[bytes] = []
    while chunk := bytes(stream.read(_STRIDE)):
        end = chunk.find(b"\n")
        if end >= 0:
            return b"".join([*found, chunk[: end + 1]])
        found.append(chunk)
    return b"".join(found)
