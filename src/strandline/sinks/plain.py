"""Values as plain JSON has them: numbers, texts, true and false, lists and objects; and back again.

    boolean, whole numbers, string     as they are
    float, double                      a number; "NaN", "Infinity" and "-Infinity" as text
    decimal                            text with all its digits: "1.50"
    date                               "2026-01-31"
    timestamp                          UTC with microseconds, always as wide, so that text sorts as time does:
                                       "2026-01-31T12:00:00.000000Z"; timestamp_ntz the same without the Z
    interval day to second             ISO 8601: "PT1H30M", "-PT0.5S", "P2DT1S"
    binary                             base64
    array, struct                      a list, an object

Law: reading what was written gives the same value.
"""

from __future__ import annotations

import base64
import json
import math
import re
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final

import polars as pl

from strandline.kernel.schema import polars_type
from strandline.model.time import Span
from strandline.model.types import Type

_UTC: Final = "%Y-%m-%dT%H:%M:%S%.6fZ"
_NAIVE: Final = "%Y-%m-%dT%H:%M:%S%.6f"
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_SPAN: Final = re.compile(r"(-?)P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,6}))?S)?)?")
_AS_THEY_ARE: Final = frozenset({"boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string"})


def is_plain(type: Type) -> bool:
    """Whether a column of this type stays as it is when it is written."""
    return type.name in _AS_THEY_ARE


def plain_type(type: Type) -> pl.DataType:
    """The type of a column that was made plain: text, where it is not as it was."""
    return polars_type(type) if is_plain(type) else pl.String()


def plain_column(column: pl.Series, type: Type) -> pl.Series:
    """A column as booleans, numbers and text; arrays and structs are JSON text.

    >>> plain_column(pl.Series([[1, None]], dtype=pl.List(pl.Int64)), Type.of("array<bigint>")).to_list()
    ['[1,null]']
    """
    if is_plain(type):
        return column
    match type.name:
        case "decimal" | "date":
            return column.cast(pl.String)
        case "timestamp":
            return column.dt.to_string(_UTC)
        case "timestamp_ntz":
            return column.dt.to_string(_NAIVE)
        case "binary":
            return column.bin.encode("base64")
        case "interval day to second":
            texts = [None if each is None else span_text(each) for each in column.to_physical().to_list()]
        case _:
            texts = [None if each is None else json_text(each, type) for each in column.to_list()]
    return pl.Series(column.name, texts, dtype=pl.String)


def column_of(plain: pl.Series, type: Type) -> pl.Series:
    """The column that was made plain."""
    if is_plain(type):
        return plain.cast(polars_type(type))
    match type.name:
        case "decimal":
            return plain.cast(polars_type(type))
        case "date":
            return plain.str.to_date("%Y-%m-%d")
        case "timestamp":
            return plain.str.strip_suffix("Z").str.to_datetime(_NAIVE, time_unit="us").dt.replace_time_zone("UTC")
        case "timestamp_ntz":
            return plain.str.to_datetime(_NAIVE, time_unit="us")
        case "binary":
            return plain.str.decode("base64")
        case "interval day to second":
            spans = [None if each is None else span_of(each) for each in plain.to_list()]
            return pl.Series(plain.name, spans, dtype=pl.Int64).cast(pl.Duration("us"))
        case _:
            values = [None if each is None else value_of(json.loads(each), type) for each in plain.to_list()]
            return pl.Series(plain.name, values, dtype=polars_type(type))


def json_text(value: Any, type: Type) -> str:
    """A value as JSON text.

    >>> json_text({"at": datetime(2026, 1, 1, tzinfo=timezone.utc)}, Type.of("struct<at:timestamp>"))
    '{"at":"2026-01-01T00:00:00.000000Z"}'
    """
    return json.dumps(plain_value(value, type), separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def plain_value(value: Any, type: Type) -> Any:
    """A value as JSON has it; None stays None."""
    if value is None:
        return None
    if type.element is not None:
        return [plain_value(each, type.element) for each in value]
    match type.name:
        case "struct":
            return {name: plain_value(value[name], kind) for name, kind in type.fields}
        case "float" | "double" if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case "decimal":
            return format(value, "f")
        case "date":
            return value.isoformat()
        case "timestamp":
            return value.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
        case "timestamp_ntz":
            return value.isoformat(timespec="microseconds")
        case "interval day to second":
            return span_text(Span.read(value))
        case "binary":
            return base64.b64encode(value).decode()
    return value


def value_of(plain: Any, type: Type) -> Any:
    """The value that was made plain."""
    if plain is None:
        return None
    if type.element is not None:
        return [value_of(each, type.element) for each in plain]
    match type.name:
        case "struct":
            return {name: value_of(plain.get(name), kind) for name, kind in type.fields}
        case "float" | "double":
            return _NOT_FINITE[plain] if isinstance(plain, str) else float(plain)
        case "decimal":
            return Decimal(plain)
        case "date":
            return date.fromisoformat(plain)
        case "timestamp":
            return datetime.fromisoformat(plain.removesuffix("Z")).replace(tzinfo=timezone.utc)
        case "timestamp_ntz":
            return datetime.fromisoformat(plain)
        case "interval day to second":
            return timedelta(microseconds=span_of(plain))
        case "binary":
            return base64.b64decode(plain)
    return plain


def span_text(micros: int) -> str:
    """Microseconds as an ISO 8601 duration; days are of 24 hours.

    >>> span_text(5_400_000_000), span_text(-500_000), span_text(0)
    ('PT1H30M', '-PT0.5S', 'PT0S')
    """
    seconds, fraction = divmod(abs(micros), 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    second = f"{seconds}.{fraction:06}".rstrip("0") if fraction else str(seconds)
    parts = [(hours, f"{hours}H"), (minutes, f"{minutes}M"), (seconds or fraction, f"{second}S")]
    time = "".join(text for some, text in parts if some)
    day = f"{days}D" if days else ""
    return f"{'-' if micros < 0 else ''}P{day}{'T' + time if time else '' if day else 'T0S'}"


def span_of(text: str) -> int:
    """The microseconds of an ISO 8601 duration, as `span_text` writes them.

    >>> span_of("PT1H30M"), span_of("-PT0.5S"), span_of("PT0S")
    (5400000000, -500000, 0)
    """
    match = _SPAN.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no ISO 8601 duration of days, hours, minutes and seconds")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:5])
    whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    micros = whole * 1_000_000 + int((match[6] or "").ljust(6, "0"))
    return -micros if match[1] else micros
