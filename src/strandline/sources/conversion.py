"""Text to values, a column at a time. What does not fit its type is found, never made null in silence."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import polars as pl

from strandline.errors import StrandlineError
from strandline.kernel.schema import polars_type
from strandline.model.cast import cast_value
from strandline.model.types import Type
from strandline.model.values import checked_value
from strandline.sources.moments import read_days, read_moments

_STRING: Final = Type.of("string")
_BIGGEST: Final = 120
# What Python takes for a number besides, such as 1_000, is none for the other types either.
_NUMBER: Final = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE)


def read_column(text: pl.Series, kind: Type) -> pl.Series:
    """A column of text in the type of its column; null where the text is null or does not fit.

    Booleans are true and false, binary is base64, an interval is '1m30s', 'PT1M30S' or microseconds, and arrays and structs
    are JSON.

    >>> read_column(pl.Series(["1.50", "1.505", None]), Type.of("decimal(5,2)")).to_list()
    [Decimal('1.50'), None, None]
    """
    return _READERS.get(kind.name, _one_by_one)(text, kind)


def misfits(text: pl.Series, values: pl.Series) -> pl.Series:
    """Where there is a text but no value."""
    return text.is_not_null() & values.is_null()


def misfit(column: str, value: object, kind: Type) -> str:
    """The reason for which a line is not understood.

    >>> misfit("n", "x", Type.of("int"))
    "column 'n': 'x' is no int"
    """
    shown = repr(value)
    return f"column {column!r}: {shown if len(shown) <= _BIGGEST else shown[:_BIGGEST] + '…'} is no {kind.text}"


def without_overflow(values: pl.Series, said: pl.Series) -> pl.Series:
    """A number that is too large for its column is not infinite: null, but where it was said to be."""
    return values.set(values.is_infinite() & ~said, None)


NO_NUMBERS: Final = ("NaN", "Infinity", "-Infinity")
"""How JSON says what it has no numbers for, as Spark and our own sink write it."""


def read_value(value: Any, kind: Type) -> Any:
    """One value of JSON as the Python type of its column; ValueError where it does not fit.

    >>> read_value([{"at": "2026-01-01T00:00:00Z", "more": 1}], Type.of("array<struct<at:date>>"))
    Traceback (most recent call last):
        ...
    ValueError: '2026-01-01T00:00:00Z' is no date
    """
    if value is None:
        return None
    if kind.element is not None and isinstance(value, list):
        return [read_value(part, kind.element) for part in value]
    if kind.name == "struct" and isinstance(value, dict):
        return {name: read_value(value.get(name), field) for name, field in kind.fields}
    try:
        return _read_scalar(value, kind)
    except (StrandlineError, TypeError, ValueError, KeyError, ArithmeticError):
        shown = repr(value) if not isinstance(value, Decimal) else str(value)
        raise ValueError(f"{shown[:_BIGGEST]} is no {kind.text}") from None


def _read_scalar(value: Any, kind: Type) -> Any:
    if kind.is_float and (isinstance(value, Decimal) or value in NO_NUMBERS):
        value = _as_float(value)
    elif kind.name == "string" and not isinstance(value, str):
        value = json.dumps(value, default=float) if not isinstance(value, Decimal) else str(value)
    elif kind.name == "binary":
        return base64.b64decode(value, validate=True)
    elif kind.name in _BY_TEXT and not isinstance(value, bool | list | dict):
        found = read_column(pl.Series([str(value)]), kind)[0]
        if found is None:
            raise ValueError
        return found
    return checked_value(kind, value, "it")


def _as_float(value: Decimal | str) -> float:
    """A number, or one of the words for what is none; a number that is too large for a float is not infinite."""
    found = float(value)
    if isinstance(value, Decimal) and math.isinf(found):
        raise ValueError
    return found


def _cast(text: pl.Series, kind: Type) -> pl.Series:
    return text.cast(polars_type(kind), strict=False)


def _floats(text: pl.Series, kind: Type) -> pl.Series:
    values = _cast(text, kind)
    return without_overflow(values, text.str.contains("(?i)inf")) if values.is_infinite().any() else values


def _booleans(text: pl.Series, kind: Type) -> pl.Series:
    known = {"true": True, "false": False}
    return text.str.to_lowercase().replace_strict(known, default=None, return_dtype=pl.Boolean())


def _decimals(text: pl.Series, kind: Type) -> pl.Series:
    """Polars rounds what has too many digits; so only texts that fit by their digits are left to it."""
    plain = text.str.contains(rf"^[+-]?\d{{1,{max(1, kind.precision - kind.scale)}}}(\.\d{{0,{kind.scale}}}0*)?$")
    values = _cast(text.set(~plain.fill_null(value=True), None), kind)
    rest = misfits(text, values)
    if not rest.any():
        return values
    return values.zip_with(~rest, _one_by_one(text.set(~rest, None), kind))


def _moments(text: pl.Series, kind: Type) -> pl.Series:
    return read_moments(text, kind).cast(polars_type(kind))


def _days(text: pl.Series, kind: Type) -> pl.Series:
    values = read_days(text)
    rest = misfits(text, values)
    return values if not rest.any() else values.zip_with(~rest, _one_by_one(text.set(~rest, None), kind))


def _one_by_one(text: pl.Series, kind: Type) -> pl.Series:
    found: dict[str | None, Any] = {None: None}
    values = text.to_list()
    for value in values:
        if value not in found:
            found[value] = _single(value, kind)
    return pl.Series(text.name, [found[value] for value in values], dtype=polars_type(kind))


def _single(value: str, kind: Type) -> Any:
    try:
        if kind.name == "interval day to second":
            return checked_value(kind, _span_text(value), "it")
        if kind.name == "binary":
            return base64.b64decode(value, validate=True)
        if kind.name == "decimal":
            return checked_value(kind, value, "it") if _NUMBER.fullmatch(value) else None
        if kind.name == "date":
            return cast_value(value, _STRING, kind) if re.fullmatch(r"\d{4}-\d\d?-\d\d?", value) else None
        return read_value(json.loads(value, parse_float=Decimal), kind)
    except (StrandlineError, ValueError, ArithmeticError, binascii.Error, RecursionError):
        return None


def _span_text(value: str) -> str:
    """A span as Strandline writes it, from whole microseconds or an ISO 8601 duration, which file sinks write.

    >>> _span_text("-P2DT1H0.5S"), _span_text("90"), _span_text("1m30s")
    ('-2d1h0.5s', '90us', '1m30s')
    """
    if re.fullmatch(r"-?\d+", value):
        return f"{value}us"
    if re.fullmatch(r"-?P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?", value):
        return value.replace("P", "").replace("T", "").lower()
    return value


_BY_TEXT: Final = ("decimal", "date", "timestamp", "timestamp_ntz", "interval day to second")
_READERS: Final[dict[str, Callable[[pl.Series, Type], pl.Series]]] = {
    "boolean": _booleans,
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _cast),
    **dict.fromkeys(("float", "double"), _floats),
    "decimal": _decimals,
    "string": lambda text, kind: text,
    "date": _days,
    "timestamp": _moments,
    "timestamp_ntz": _moments,
}
