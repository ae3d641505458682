"""Records of CSV in bytes. A record is one line, or more where a line's end stands in quotes.

A quote opens a field only at its beginning, so that one within a text (5" pipe) spoils no line but its own. Where a
record begins only all the bytes before it can say: so records are found from the front.

Law: how a file is cut into blocks or ranges changes no record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from strandline.sources.lines import shown

Bytes = NDArray[np.uint8]
Places = NDArray[np.intp]

LONGEST: Final = 16 << 20
"""Bytes of a record with quotes; in a longer one, a quote counts as one that nobody closed."""

_TOLD: Final = 100
_QUOTE: Final = ord('"')
_END: Final = ord("\n")


class UnclosedQuote(Exception):
    """A quote that is not closed within `LONGEST`; what follows it may be anything."""


def record_ends(block: bytes, separator: str) -> Places:
    r"""Where the records of a block end, behind their line's end; what follows the last is not whole.

    >>> record_ends(b'a,1\n"b\n",2\n"c', ",").tolist()
    [4, 11]
    """
    data = np.frombuffer(block, np.uint8)
    ends: Places = np.flatnonzero(data == _END) + 1
    if b'"' not in block:
        return ends
    quotes = places_of_quotes(data)
    if are_well_placed(quotes, data, separator):
        return outside(quotes, ends)
    return _record_after_record(block, ends, separator)


def records_of(block: bytes, separator: str) -> list[bytes]:
    r"""The records of a block that are not blank, without their ends; the last may not be whole.

    >>> records_of(b'a,1\r\n\n"b\n",2', ",")
    [b'a,1', b'"b\n",2']
    """
    edges = [0, *record_ends(block, separator).tolist(), len(block)]
    found = (block[low:high] for low, high in pairwise(edges))
    return [record.removesuffix(b"\n").rstrip(b"\r") for record in found if record.strip()]


def whole_records(blocks: Iterable[bytes], separator: str) -> Iterator[bytes]:
    """Blocks of whole lines as blocks of whole records; the last may end in quotes, where the file does."""
    kept = b""
    for more in blocks:
        block = kept + more
        kept = b""
        if b'"' in block:
            whole = _end_of_whole(block, record_ends(block, separator))
            block, kept = block[:whole], block[whole:]
        if block:
            yield block
        if len(kept) > LONGEST and b'"' in kept:
            raise UnclosedQuote(f"a quote is not closed in the {LONGEST:,} bytes behind it: {shown(kept[:_TOLD])}")
    if kept:
        yield kept


def _end_of_whole(block: bytes, ends: Places) -> int:
    """Behind the last record, or before the first that is too long; else blocks would decide what is too long."""
    starts = np.concatenate([np.zeros(1, np.intp), ends])
    for number in np.flatnonzero(np.diff(starts) > LONGEST):
        if b'"' in block[starts[number] : ends[number]]:
            return int(starts[number])
    return int(starts[-1])


def places_of_quotes(data: Bytes) -> Places:
    """Where quotes stand."""
    return np.flatnonzero(data == _QUOTE)


def are_well_placed(quotes: Places, data: Bytes, separator: str) -> bool:
    """Whether each second quote opens a field or doubles a quote, and the others close one or are doubled."""
    opening, closing = quotes[::2], quotes[1::2]
    before = data[opening[opening > 0] - 1]
    behind = data[closing[closing < len(data) - 1] + 1]
    at_edge = np.zeros(256, np.bool_)
    at_edge[[ord(separator), _END, _QUOTE]] = True
    return bool(at_edge[before].all() and (at_edge[behind] | (behind == ord("\r"))).all())


def outside(quotes: Places, places: Places) -> Places:
    """Those of some places that are not in a quoted field, where quotes are well placed."""
    return np.compress(np.searchsorted(quotes, places) % 2 == 0, places)


def _record_after_record(block: bytes, line_ends: Places, separator: str) -> Places:
    """The same for quotes that are anywhere: lines are walked through only where there is one."""
    stop = re.compile(b"[\n" + re.escape(separator).encode() + b"]")
    found: list[Places] = []
    at, quote = 0, block.find(b'"')
    while quote >= 0:
        line = max(at, block.rfind(b"\n", at, quote) + 1)
        found.append(line_ends[np.searchsorted(line_ends, at, "right") : np.searchsorted(line_ends, line, "right")])
        end = _end_of_record(block, line, stop)
        if end is None:
            return np.concatenate(found)
        found.append(np.array([end], dtype=np.intp))
        at, quote = end, block.find(b'"', end)
    return np.concatenate([*found, line_ends[np.searchsorted(line_ends, at, "right") :]])


def _end_of_record(block: bytes, at: int, stop: re.Pattern[bytes]) -> int | None:
    """Field after field, to behind the line's end; None where the block ends before."""
    while True:
        if block.startswith(b'"', at):
            at = _behind_quoted(block, at + 1)
        found = stop.search(block, at)
        if found is None:
            return None
        at = found.end()
        if found.group() == b"\n":
            return at


def _behind_quoted(block: bytes, at: int) -> int:
    while (at := block.find(b'"', at)) >= 0:
        if not block.startswith(b'""', at):
            return at + 1
        at += 2
    return len(block)
