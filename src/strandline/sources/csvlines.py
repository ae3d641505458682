"""Records of CSV to columns. A record is one line, or more where a line's end stands in quotes (see `records`).

Fields are separated by one character and may stand in double quotes, where a doubled quote is one quote. A record with
another number of fields than the file has columns is malformed. An empty field is null; `""` is empty text.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from strandline.model.types import Schema
from strandline.sources.lines import shown
from strandline.sources.records import are_well_placed, outside, places_of_quotes, records_of
from strandline.sources.understood import Understood, convert, halving
from strandline.sources.unreadable import UNREADABLE, why

_CLOSELY: Final = 1_000  # records that are looked at one by one when something is wrong among them
_BLANK: Final = re.compile(rb"(?m)^[ \t\r\f\v]+$")


class UnreadableHeader(Exception):
    """A file whose first line does not tell its columns; the text says why."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of one file in their order, and what separates them."""

    names: tuple[str, ...]
    separator: str = ","

    @classmethod
    def of_header(cls, line: bytes, schema: Schema, separator: str = ",") -> Layout:
        r"""The layout that a header names; a name that stands twice counts the first time.

        Blanks around a name do not count, for many write them behind each comma, unless the schema names it so.

        >>> Layout.of_header(b'"the user", amount,amount', Schema.of("amount int")).names
        ('the user', 'amount', '\x002')
        """
        reason = _no_text(line) or _open_quote(line) or _no_line(line)
        if reason is not None:
            raise UnreadableHeader(f"the header cannot be read: {reason}")
        try:
            found = pl.read_csv(line + b"\n", has_header=False, infer_schema=False, separator=separator).row(0)
        except UNREADABLE as error:
            raise UnreadableHeader(f"the header cannot be read: {why(error)}") from None
        names: list[str] = []
        for number, each in enumerate(found):
            name = each if each is None or each in schema else each.strip()
            names.append(name if name is not None and name not in names else f"\0{number}")
        return cls(tuple(names), separator)


def read_csv(block: bytes, schema: Schema, layout: Layout) -> Understood:
    r"""The records of a block as rows. A quote that is not closed takes all that follows with it.

    >>> found = read_csv(b'ann,1\nbob\n', Schema.of("user string, n int"), Layout(("user", "n")))
    >>> found.rows.rows(), found.raws, found.reasons
    ([('ann', 1)], ['bob'], ['1 field where the file has 2 columns'])
    """
    if not block.endswith(b"\n"):
        block += b"\n"
    count = _count_if_regular(block, layout)
    if count is not None:
        try:
            return _at_once(block, count, schema, layout)
        except UNREADABLE:
            pass
    return _closely(records_of(block, layout.separator), schema, layout)


def _count_if_regular(block: bytes, layout: Layout) -> int | None:
    """How many records there are, if all have their fields, none is blank and each ends as Polars knows it."""
    if b"\r\r\n" in block:
        return None
    data = np.frombuffer(block, np.uint8)
    ends, separators = np.flatnonzero(data == ord("\n")), np.flatnonzero(data == ord(layout.separator))
    if b'"' in block:
        quotes = places_of_quotes(data)
        if not are_well_placed(quotes, data, layout.separator):
            return None
        ends, separators = outside(quotes, ends), outside(quotes, separators)
    if not len(ends) or ends[-1] != len(data) - 1:
        return None
    lengths = np.diff(ends, prepend=-1) - 1
    if (lengths == 0).any() or (data[ends[lengths == 1] - 1] == ord("\r")).any():
        return None
    if len(layout.names) == 1 and _BLANK.search(block):
        return None
    fields = np.diff(np.searchsorted(separators, ends), prepend=0) + 1
    return len(ends) if (fields == len(layout.names)).all() else None


def _at_once(block: bytes, count: int, schema: Schema, layout: Layout) -> Understood:
    table = pl.read_csv(
        # Polars passes over a mark; but that of a file is gone, and another one is a part of its text.
        BOM_UTF8 + block if block.startswith(BOM_UTF8) else block,
        has_header=False,
        separator=layout.separator,
        schema=dict.fromkeys(layout.names, pl.String()),
        columns=[place for place, name in enumerate(layout.names) if name in schema] or [0],
    )
    if table.height != count:  # Polars and we do not agree on where a field ends
        raise pl.exceptions.ShapeError("quotes that are neither around a field nor doubled")
    columns = []
    for name, kind in schema.columns:
        if name not in layout.names:
            columns.append(pl.repeat(None, table.height, dtype=pl.String(), eager=True).alias(name))
        elif kind.name != "string":
            columns.append(table[name].set(table[name] == "", None))
        else:
            columns.append(table[name])
    return convert(pl.DataFrame(columns), schema, lambda: records_of(block, layout.separator))


def _closely(records: list[bytes], schema: Schema, layout: Layout) -> Understood:
    if len(records) > _CLOSELY:
        cuts = range(0, len(records), _CLOSELY)
        return Understood.together([read_csv(b"\n".join(records[at : at + _CLOSELY]), schema, layout) for at in cuts])
    reasons = [_why_not(record, layout) for record in records]
    good = [record for record, reason in zip(records, reasons, strict=True) if reason is None]
    read = halving(good, schema, lambda part: _at_once(b"\n".join(part) + b"\n", len(part), schema, layout))
    raws = [shown(record) for record, reason in zip(records, reasons, strict=True) if reason is not None]
    return Understood(read.rows, raws + read.raws, [r for r in reasons if r is not None] + read.reasons)


def _why_not(record: bytes, layout: Layout) -> str | None:
    reason = _no_text(record) or _open_quote(record)
    if reason is not None:
        return reason
    count = _unquoted(record).count(layout.separator.encode()) + 1
    if count != len(layout.names):
        return f"{count} field{'s' if count != 1 else ''} where the file has {len(layout.names)} columns"
    return None


def _no_text(line: bytes) -> str | None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return f"no UTF-8 text: byte {error.start + 1} is {line[error.start]:#04x}"
    return None


def _open_quote(line: bytes) -> str | None:
    return "a quote that is not closed" if line.count(b'"') % 2 else None


def _no_line(line: bytes) -> str | None:
    return "lines that end with a carriage return alone" if b"\r" in _unquoted(line) else None


def _unquoted(record: bytes) -> bytes:
    return b"".join(record.split(b'"')[::2])
