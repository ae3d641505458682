"""Lines of JSON to columns: all at once where they are well formed, and closely where they are not.

What counts as understood: each line is one object; a column that it leaves out is null, and fields that no column is
named for are passed over. A value must fit its column's type: a number for a number, without a fraction for a whole
one and within its range ("NaN", "Infinity" and "-Infinity" for a double or a float); true or false; text for the others
(see `conversion`), where a timestamp or an interval may also be a whole number of microseconds and a decimal a number.
Numbers, objects and lists in a text column are taken as their text. Only columns that are read are looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import polars as pl

from strandline.kernel.schema import polars_schema, polars_type
from strandline.model.cast import BITS
from strandline.model.types import Schema, Type
from strandline.sources.conversion import NO_NUMBERS, misfit, read_value
from strandline.sources.lines import lines_of, shown
from strandline.sources.understood import Understood, convert, halving
from strandline.sources.unreadable import UNREADABLE

_DIRECT: Final = ("boolean", "int", "bigint", "float", "double", "string")
_SMALL: Final = ("tinyint", "smallint")
_EXACT: Final = 15  # decimal digits that a double keeps, whatever they are
_CLOSELY: Final = 2_000  # lines that are looked at one by one when something is wrong among them
# Half a character: Polars would take it for the character 0. Escaped backslashes may look like one; then a line is
# looked at in vain, no more.
_HALF: Final = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]")


def read_json(block: bytes, schema: Schema) -> Understood:
    r"""The lines of a block as rows.

    >>> found = read_json(b'{"n": 1}\n{"n": "x"}\n', Schema.of("n int"))
    >>> found.rows.rows(), found.raws, found.reasons
    ([(1,)], ['{"n": "x"}'], ["column 'n': 'x' is no int"])
    """
    if not all(_is_direct(kind) for _, kind in schema.columns if not kind.is_scalar):
        return _one_by_one(lines_of(block), schema)
    if (b"\\ud" in block or b"\\uD" in block) and _HALF.search(block):
        return _closely(lines_of(block), schema)
    try:
        return _at_once(block, schema)
    except UNREADABLE:
        return _closely(lines_of(block), schema)


def _is_direct(kind: Type) -> bool:
    """Whether Polars reads this type from JSON, and refuses what does not fit."""
    if kind.element is not None:
        return _is_direct(kind.element)
    return all(_is_direct(field) for _, field in kind.fields) if kind.fields else kind.name in _DIRECT


def _carrier(kind: Type) -> pl.DataType:
    """What a column is read as, before it is converted."""
    if kind.name in _SMALL:
        return pl.Int64()
    return polars_type(kind) if _is_direct(kind) else pl.String()


def _at_once(block: bytes, schema: Schema) -> Understood:
    table = pl.read_ndjson(block, schema={name: _carrier(kind) for name, kind in schema.columns})
    for name, kind in schema.columns:
        if kind.name == "decimal":
            table = table.with_columns(_with_all_digits(table[name], kind.scale, block))
    return convert(table, schema, lambda: lines_of(block))


def _with_all_digits(text: pl.Series, scale: int, block: bytes) -> pl.Series:
    """Polars takes a number with a fraction for a double; one that may need more digits than 15 is read again."""
    before_point = text.str.splitn(".", 2).struct.field("field_0").str.len_bytes()
    long = (before_point.cast(pl.Int64()) + scale > _EXACT).arg_true()
    if not len(long):
        return text
    lines = lines_of(block)
    return text.scatter(long, [str(_parse(lines[row], _EXACTLY)[text.name]) for row in long])


def _closely(lines: list[bytes], schema: Schema) -> Understood:
    """Set aside what is no JSON or does not fit; the rest is read as all lines are, so that it means the same."""
    if len(lines) > _CLOSELY:
        cuts = range(0, len(lines), _CLOSELY)
        return Understood.together([read_json(b"\n".join(lines[at : at + _CLOSELY]), schema) for at in cuts])
    if any(kind.is_float for kind in schema.values()) and any(_has_no_number(line) for line in lines):
        return _one_by_one(lines, schema)
    try:  # most often a line is no JSON at all, which is cheap to see
        return _without(lines, [_no_object(line) for line in lines], schema, _all_of)
    except UNREADABLE:
        return _without(lines, [_why_not(line, schema) for line in lines], schema, halving)


def _has_no_number(line: bytes) -> bool:
    return any(f'"{word}"'.encode() in line for word in NO_NUMBERS)


def _without(lines: list[bytes], reasons: list[str | None], schema: Schema, read: Any) -> Understood:
    """What has a reason is set aside, the rest is read."""
    good = [line for line, reason in zip(lines, reasons, strict=True) if reason is None]
    found = read(good, schema, lambda part: _at_once(b"\n".join(part), schema))
    raws = [shown(line) for line, reason in zip(lines, reasons, strict=True) if reason is not None]
    return Understood(found.rows, raws + found.raws, [r for r in reasons if r is not None] + found.reasons)


def _all_of(lines: list[bytes], schema: Schema, read: Callable[[list[bytes]], Understood]) -> Understood:
    return read(lines) if lines else Understood.nothing(schema)


def _no_constant(word: str) -> Any:
    raise ValueError(f"no JSON: {word}")


def _first_counts(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))


# Of two equal names the first counts, as Polars has it; the third keeps all digits of numbers too.
_PLAIN: Final = json.JSONDecoder(parse_constant=_no_constant)
_ORDERED: Final = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_first_counts)
_EXACTLY: Final = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_first_counts, parse_float=Decimal)


def _parse(line: bytes, decoder: json.JSONDecoder) -> dict[str, Any]:
    """A line as an object; ValueError says why it is none."""
    try:
        found = decoder.decode(line.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"no UTF-8 text: byte {error.start + 1} is {line[error.start]:#04x}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("no JSON that can be read: too deep") from None
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    if b"\\u" in line and _HALF.search(line):
        _require_characters(found)
    return found


def _require_characters(found: dict[str, Any]) -> None:
    try:
        json.dumps(found, default=str, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("half a character (a lone surrogate)") from None


def _no_object(line: bytes) -> str | None:
    """Why a line is no object; None if it is one."""
    try:
        _parse(line, _PLAIN)
    except ValueError as error:
        return str(error)
    return None


def _why_not(line: bytes, schema: Schema) -> str | None:
    """Why a line is no row, as far as it can be seen without Polars; None if nothing is seen."""
    try:
        found = _parse(line, _ORDERED)
    except ValueError as error:
        return str(error)
    for name, kind in schema.columns:
        value = found.get(name)
        if value is not None and not _may_be(value, kind):
            return misfit(name, value, kind)
    return None


def _may_be(value: Any, kind: Type) -> bool:
    """Whether a value may be of a plain type; those that are read from text are looked at when they are converted."""
    if kind.name == "boolean":
        return isinstance(value, bool)
    if kind.is_float:
        return (isinstance(value, int | float) and not isinstance(value, bool)) or value in NO_NUMBERS
    if kind.is_integer:
        return (
            isinstance(value, int)
            and not isinstance(value, bool)
            and -1 << BITS[kind.name] <= value < 1 << BITS[kind.name]
        )
    return True


def _one_by_one(lines: list[bytes], schema: Schema) -> Understood:
    """For types that Polars does not read from JSON, and for digits that it would round."""
    rows: list[tuple[Any, ...]] = []
    raws: list[str] = []
    reasons: list[str] = []
    for line in lines:
        reason = _why_not(line, schema)
        if reason is None:
            found, name = _parse(line, _EXACTLY), ""
            try:
                row = []
                for name, kind in schema.columns:
                    row.append(read_value(found.get(name), kind))
                rows.append(tuple(row))
            except ValueError as error:
                reason = f"column {name!r}: {error}"
        if reason is not None:
            raws.append(shown(line))
            reasons.append(reason)
    return Understood(pl.DataFrame(rows, schema=polars_schema(schema), orient="row"), raws, reasons)
