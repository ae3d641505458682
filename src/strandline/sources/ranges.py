"""Files cut into ranges, and ranges put together to parts of about equal bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from strandline.sources.discovery import Found
from strandline.sources.lines import blocks, compression_of, text_start
from strandline.sources.parquet import row_groups
from strandline.sources.records import Places, UnclosedQuote, record_ends, whole_records

SMALLEST: Final = 256 << 10
"""Bytes below which cutting costs more than it brings."""

_SAMPLE: Final = 64 << 10
_UNPACKED: Final = 5  # times larger than on disk, as text is


class Range(NamedTuple):
    """A stretch of one file: of its bytes, or in parquet of its rows. `end` None: to the end of the file."""

    file: Found
    start: int
    end: int | None


def cut(
    files: list[Found], wanted: int, format: str, place: Callable[[Found], str], separator: str = ","
) -> list[list[Range]]:
    """About `wanted` parts of about equal bytes, in the order of the files.

    Law: put one after the other, the ranges of the parts are the files, whole and in order.

    >>> cut([Found("a", 600_000, 0), Found("b", 400_000, 0)], 2, "json", lambda file: file.path)
    [[Range(file=Found(path='a', size=600000, changed=0), start=0, end=500000)],
     [Range(file=Found(path='a', size=600000, changed=0), start=500000, end=600000),
      Range(file=Found(path='b', size=400000, changed=0), start=0, end=400000)]]
    """
    total = sum(file.size for file in files)
    share = max(SMALLEST, -(-total // max(1, wanted)))
    parts: list[list[Range]] = []
    taken = share  # of the share of the last part
    for file in files:
        room = share - taken if taken < share else share
        if format == "parquet":
            found = _row_ranges(file, share, place)
        else:
            found = _byte_ranges(file, share, room, place, separator if format == "csv" else None)
        for piece, nbytes in found:
            if taken >= share or (taken and taken + nbytes / 2 > share):
                parts.append([])
                taken = 0
            _append(parts[-1], piece)
            taken += nbytes
    return parts


def _append(part: list[Range], piece: Range) -> None:
    """Add a range, or lengthen the last one."""
    if part and part[-1].file == piece.file and part[-1].end == piece.start:
        piece = Range(piece.file, part.pop().start, piece.end)
    part.append(piece)


def _byte_ranges(
    file: Found, share: int, room: int, place: Callable[[Found], str], separator: str | None
) -> Iterator[tuple[Range, int]]:
    """Stretches of bytes: first what is missing in the last part, then whole shares. CSV is cut between records."""
    if compression_of(file.path or place(file)) is not None:
        yield Range(file, 0, file.size), file.size
        return
    ends = None if separator is None else _RecordEnds(place(file), file.size, separator)
    start = 0
    while start < file.size:
        end = min(file.size, start + room)
        if file.size - end < share // 10:  # no part for a few lines
            end = file.size
        elif ends is not None:
            end = ends.at_or_after(end)
        yield Range(file, start, end), end - start
        start, room = end, share


class _RecordEnds:
    """Where the records of a CSV file end, asked from the front to the back."""

    def __init__(self, path: str, size: int, separator: str) -> None:
        self.size, self.separator = size, separator
        self.blocks = whole_records(blocks(path, 0, size), separator)
        self.block, self.end = b"", text_start(path)
        self.ends: Places | None = None  # of the block, once they are asked for

    def at_or_after(self, place: int) -> int:
        """The first end of a record that is not before a place; that of the file, where none is found."""
        try:
            while self.end < place:
                self.block, self.ends = next(self.blocks), None
                self.end += len(self.block)
        except (StopIteration, OSError, UnclosedQuote):  # the last two are told when the file is read
            return self.size
        if self.ends is None:
            self.ends = record_ends(self.block, self.separator) + (self.end - len(self.block))
        at = np.searchsorted(self.ends, place)
        return int(self.ends[at]) if at < len(self.ends) else self.size


def _row_ranges(file: Found, share: int, place: Callable[[Found], str]) -> Iterator[tuple[Range, int]]:
    """Row groups, of files that are much larger than a share; the others whole."""
    groups = row_groups(place(file)) if file.size > share + share // 2 else []
    if len(groups) < 2:
        yield Range(file, 0, None), file.size
        return
    scale = file.size / max(1, sum(nbytes for _, nbytes in groups))
    start = 0
    for rows, nbytes in groups:
        yield Range(file, start, start + rows), int(nbytes * scale)
        start += rows


def rows_about(path: str, size: int, format: str) -> float:
    """About how many rows a file has: known of parquet, guessed from the first lines of others."""
    if format == "parquet":
        return float(sum(rows for rows, _ in row_groups(path)))
    try:
        sample = b"".join(islice(blocks(path, 0, min(size, _SAMPLE), _SAMPLE), 1))
    except (OSError, EOFError):  # told when it is read
        return 1.0
    unpacked = size if compression_of(path) is None else size * _UNPACKED
    return max(1.0, unpacked * sample.count(b"\n") / len(sample)) if sample else 0.0
