"""Lines of JSON to columns: all at once where they are well formed, and closely where they are not.

What counts as understood: each line is one object; a column that it leaves out is null, and fields that no column is
named for are passed over. A value must fit its column's type: a number for a number, without a fraction for a whole
one and within its range ("NaN", "Infinity" and "-Infinity" for a double or a float); true or false; text for the others
(see `conversion`), where a timestamp or an interval may also be a whole number of microseconds and a decimal a number.
Numbers, objects and lists in a text column are taken as their text.

Polars reads every value but those that it cannot, which are read by hand (`jsonobjects`). Which of the two it is
depends on the value and its column alone: Python writes the same number as another text.

Law: what a line means does not depend on the lines beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import polars as pl

from strandline.kernel.schema import polars_type
from strandline.model.types import Schema, Type
from strandline.sources.jsonobjects import (
    TooDeep,
    by_hand,
    exact_values,
    is_direct,
    is_read_by_polars,
    may_have_half_characters,
    no_object,
    why_not,
)
from strandline.sources.lines import lines_of, shown
from strandline.sources.understood import Understood, convert, halving
from strandline.sources.unreadable import UNREADABLE

# Read as more than they hold, so that a number that is too large is seen.
_WIDER: Final = {"tinyint": pl.Int64(), "smallint": pl.Int64(), "float": pl.Float64()}
_EXACT: Final = 15  # decimal digits that a double keeps, whatever they are
_DIGITS: Final = bytes(byte in b"0123456789." for byte in range(256))
_MORE_DIGITS: Final = b"\1" * (_EXACT + 1)
_CLOSELY: Final = 2_000  # lines that are looked at one by one when something is wrong among them


def read_json(block: bytes, schema: Schema) -> Understood:
    r"""The lines of a block as rows.

    >>> found = read_json(b'{"n": 1}\n{"n": "x"}\n', Schema.of("n int"))
    >>> found.rows.rows(), found.raws, found.reasons
    ([(1,)], ['{"n": "x"}'], ["column 'n': 'x' is no int"])
    """
    if may_have_half_characters(block) or not _is_read_by_polars(schema):
        return _closely(lines_of(block), schema)
    try:
        return _at_once(block, schema)
    except UNREADABLE:
        return _closely(lines_of(block), schema)


def _is_read_by_polars(schema: Schema) -> bool:
    return all(is_read_by_polars(kind) for kind in schema.values())


def _carrier(kind: Type) -> pl.DataType:
    """What a column is read as, before it is converted."""
    if kind.name in _WIDER:
        return _WIDER[kind.name]
    return polars_type(kind) if is_direct(kind) else pl.String()


def _at_once(block: bytes, schema: Schema) -> Understood:
    return convert(_table(block, schema), schema, lambda: lines_of(block))


def _table(block: bytes, schema: Schema) -> pl.DataFrame:
    """The lines in columns, before they are converted."""
    table = pl.read_ndjson(block, schema={name: _carrier(kind) for name, kind in schema.columns})
    for name, kind in schema.columns:
        if kind.name == "decimal":
            table = table.with_columns(_with_all_digits(table[name], kind.scale, block))
    return table


def _with_all_digits(text: pl.Series, scale: int, block: bytes) -> pl.Series:
    """Polars takes a number with a fraction for a double; one that may need more digits than 15 is read again."""
    before_point = text.str.splitn(".", 2).struct.field("field_0").str.len_bytes()
    long = (before_point.cast(pl.Int64()) + scale > _EXACT).arg_true()
    if not len(long) or not _may_lose_digits(block):
        return text
    lines = lines_of(block)
    rows = [row for row in long if _may_lose_digits(lines[row])]
    try:
        return text.scatter(rows, [str(exact_values(lines[row])[text.name]) for row in rows])
    except TooDeep as error:
        raise pl.exceptions.ComputeError(str(error)) from None


def _may_lose_digits(text: bytes) -> bool:
    """Whether so many digits stand beside each other; most often they do not, and lines need not be read again."""
    return _MORE_DIGITS in text.translate(_DIGITS)


def _closely(lines: list[bytes], schema: Schema) -> Understood:
    """Set aside what is no JSON or does not fit; the rest is read as all lines are, so that it means the same."""
    if len(lines) > _CLOSELY:
        cuts = range(0, len(lines), _CLOSELY)
        return Understood.together([read_json(b"\n".join(lines[at : at + _CLOSELY]), schema) for at in cuts])
    if _is_read_by_polars(schema):
        try:  # most often a line is no JSON at all, which is cheap to see
            return _without(lines, [no_object(line) for line in lines], schema, _all_of)
        except UNREADABLE:
            pass
    return _by_hand_too(lines, schema)


def _by_hand_too(lines: list[bytes], schema: Schema) -> Understood:
    """Set aside what is seen not to fit; of the rest, Polars reads what it can."""
    found: dict[bytes, dict[str, Any]] = {}
    reasons: list[str | None] = []
    for line in lines:
        reason = why_not(line, schema)
        if reason is None:
            try:
                found[line] = by_hand(line, schema)
            except ValueError as error:
                reason = str(error)
        reasons.append(reason)

    def read(good: list[bytes], schema: Schema) -> Understood:
        return halving(good, schema, lambda part: _mixed(part, [found[line] for line in part], schema))

    return _without(lines, reasons, schema, read)


def _without(
    lines: list[bytes], reasons: list[str | None], schema: Schema, read: Callable[[list[bytes], Schema], Understood]
) -> Understood:
    """What has a reason is set aside, the rest is read."""
    good = [line for line, reason in zip(lines, reasons, strict=True) if reason is None]
    found = read(good, schema)
    raws = [shown(line) for line, reason in zip(lines, reasons, strict=True) if reason is not None]
    return Understood(found.rows, raws + found.raws, [r for r in reasons if r is not None] + found.reasons)


def _all_of(lines: list[bytes], schema: Schema) -> Understood:
    return _at_once(b"\n".join(lines), schema) if lines else Understood.nothing(schema)


def _mixed(lines: list[bytes], given: list[dict[str, Any]], schema: Schema) -> Understood:
    """Lines of which some values are given, and all the others read by Polars."""
    apart = [name for name in schema if any(name in values for values in given)]
    rest = Schema(tuple((name, kind) for name, kind in schema.columns if name not in apart))
    columns = _table(b"\n".join(lines), rest).get_columns() if rest else []
    columns += [_patched(name, schema[name], lines, given) for name in apart]
    return convert(pl.DataFrame(columns), schema, lambda: lines)


def _patched(name: str, kind: Type, lines: list[bytes], given: list[dict[str, Any]]) -> pl.Series:
    """One column: the values that are given, and what Polars reads in the lines that give none."""
    is_given = np.array([name in values for values in given])
    dtype = _carrier(kind) if is_read_by_polars(kind) else polars_type(kind)
    column = pl.Series(name, [values[name] for values in given if name in values], dtype=dtype)
    if not is_given.all():
        others = [line for line, values in zip(lines, given, strict=True) if name not in values]
        column = column.append(_table(b"\n".join(others), Schema(((name, kind),)))[name])
    places = np.concatenate([np.flatnonzero(is_given), np.flatnonzero(~is_given)])
    return column.gather(np.argsort(places))
