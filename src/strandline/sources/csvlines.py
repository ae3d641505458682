"""Lines of CSV to columns. A record is one line: line ends inside quotes are not known here.

Fields are separated by one character and may stand in double quotes, where a doubled quote is one quote. A line with
another number of fields than the file has columns is malformed. An empty field is null; `""` is empty text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from strandline.model.types import Schema
from strandline.sources.lines import lines_of, shown
from strandline.sources.understood import Understood, convert, halving
from strandline.sources.unreadable import UNREADABLE, why

_CLOSELY: Final = 1_000  # lines that are looked at one by one when something is wrong among them
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
        reason = _no_text(line) or _open_quote(line)
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
    r"""The lines of a block as rows.

    >>> found = read_csv(b'ann,1\nbob\n', Schema.of("user string, n int"), Layout(("user", "n")))
    >>> found.rows.rows(), found.raws, found.reasons
    ([('ann', 1)], ['bob'], ['1 field where the file has 2 columns'])
    """
    if _is_regular(block, layout):
        try:
            return _at_once(block, schema, layout)
        except UNREADABLE:
            pass
    return _closely(lines_of(block), schema, layout)


def _is_regular(block: bytes, layout: Layout) -> bool:
    """Whether every line has its fields and is not blank."""
    data = np.frombuffer(block if block.endswith(b"\n") else block + b"\n", np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    lengths = np.diff(ends, prepend=-1) - 1
    if (lengths == 0).any() or (data[ends[lengths == 1] - 1] == ord("\r")).any():
        return False
    if len(layout.names) == 1 and _BLANK.search(block):
        return False
    separators = data == ord(layout.separator)
    if b'"' in block:
        inside = np.bitwise_xor.accumulate((data == ord('"')).view(np.uint8))
        if inside[ends].any():
            return False
        separators &= inside == 0
    fields = np.diff(np.searchsorted(np.flatnonzero(separators), ends), prepend=0) + 1
    return bool((fields == len(layout.names)).all())


def _at_once(block: bytes, schema: Schema, layout: Layout) -> Understood:
    table = pl.read_csv(
        block,
        has_header=False,
        separator=layout.separator,
        schema=dict.fromkeys(layout.names, pl.String()),
        columns=[place for place, name in enumerate(layout.names) if name in schema] or [0],
    )
    columns = []
    for name, kind in schema.columns:
        if name not in layout.names:
            columns.append(pl.repeat(None, table.height, dtype=pl.String(), eager=True).alias(name))
        elif kind.name != "string":
            columns.append(table[name].set(table[name] == "", None))
        else:
            columns.append(table[name])
    return convert(pl.DataFrame(columns), schema, lambda: lines_of(block))


def _closely(lines: list[bytes], schema: Schema, layout: Layout) -> Understood:
    if len(lines) > _CLOSELY:
        cuts = range(0, len(lines), _CLOSELY)
        return Understood.together([read_csv(b"\n".join(lines[at : at + _CLOSELY]), schema, layout) for at in cuts])
    reasons = [_why_not(line, layout) for line in lines]
    good = [line for line, reason in zip(lines, reasons, strict=True) if reason is None]
    read = halving(good, schema, lambda part: _at_once(b"\n".join(part) + b"\n", schema, layout))
    raws = [shown(line) for line, reason in zip(lines, reasons, strict=True) if reason is not None]
    return Understood(read.rows, raws + read.raws, [r for r in reasons if r is not None] + read.reasons)


def _why_not(line: bytes, layout: Layout) -> str | None:
    reason = _no_text(line) or _open_quote(line)
    if reason is not None:
        return reason
    outside = b"".join(line.split(b'"')[::2])
    count = outside.count(layout.separator.encode()) + 1
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
    return "a quote that is not closed on its line" if line.count(b'"') % 2 else None
