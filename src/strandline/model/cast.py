"""Conversions of single values, with Spark 4's ANSI rules: what does not fit is an error, never a null.

The session's time zone is UTC.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final

import numpy as np

from strandline.errors import DataError, DescriptionError
from strandline.model.decimals import EXACT, fit
from strandline.model.time import EPOCH, Instant
from strandline.model.types import Type

BITS: Final = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_MOMENTS: Final = ("date", "timestamp", "timestamp_ntz")
_SPOKEN: Final = ("tinyint", "smallint", "int", "bigint", "boolean", "decimal", "string", *_MOMENTS)
_TRUE: Final = ("t", "true", "y", "yes", "1")
_FALSE: Final = ("f", "false", "n", "no", "0")
_DATE: Final = re.compile(r"(\d{4})(?:-(\d\d?)(?:-(\d\d?))?)?")
_STAMP: Final = re.compile(r"(\d{4}-\d\d?-\d\d?)[ T](\d\d?):(\d\d)(?::(\d\d)(\.\d{1,6})?)? ?(Z|UTC|[+-]\d\d:\d\d)?")
_FLOAT: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SPECIAL: Final = {"nan": math.nan, "inf": math.inf, "+inf": math.inf, "-inf": -math.inf, "infinity": math.inf,
                   "+infinity": math.inf, "-infinity": -math.inf}  # fmt: skip


def can_cast(source: Type, target: Type) -> bool:
    """Whether the subset has this conversion. Doubles to text are left to Spark, for the JVM has its own digits."""
    if source.name == "void" or source == target:
        return True
    if _numeric(source) and _numeric(target):
        return True
    if target.name == "string":
        return source.name in _SPOKEN
    if source.name == "string":
        return _numeric(target) or target.name in _MOMENTS
    return source.name in _MOMENTS and target.name in _MOMENTS


def _numeric(type: Type) -> bool:
    return type.is_number or type.name == "boolean"


def cast_value(value: Any, source: Type, target: Type) -> Any:
    """Convert one value; null stays null.

    >>> cast_value("12", Type.of("string"), Type.of("int"))
    12
    """
    if value is None or source == target:
        return value
    return _TO[target.name](value, source, target)


def _misfit(value: Any, target: Type) -> DataError:
    return DataError(
        f"{value!r} cannot become {target.text}.",
        fix="Filter such rows first, or choose a wider type; Spark would stop here too.",
    )


def whole(value: int, type: Type) -> int:
    """The value, when the whole-number type holds it.

    >>> whole(127, Type.of("tinyint"))
    127
    """
    if not -(1 << BITS[type.name]) <= value < 1 << BITS[type.name]:
        raise DataError(
            f"{value} overflows {type.text}.",
            fix=f"Widen it first: cast(... as {'bigint' if type.name != 'bigint' else 'decimal(38,0)'}).",
        )
    return value


def _to_integer(value: Any, source: Type, target: Type) -> int:
    if isinstance(value, str):
        if not re.fullmatch(r"[+-]?\d+", value.strip(" ")):
            raise _misfit(value, target)
        return whole(int(value), target)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _misfit(value, target)
        # Java's comparison is made in doubles, where 2^63 counts as the greatest bigint.
        value = min(int(value), 2**63 - 1) if value == 2.0**63 else int(value)
    return whole(int(value), target)


def _to_double(value: Any, source: Type, target: Type) -> float:
    if isinstance(value, str):
        text = value.strip(" ")
        if text.lower() in _SPECIAL:
            return _SPECIAL[text.lower()]
        if not _FLOAT.fullmatch(text):
            raise _misfit(value, target)
        return float(text)
    return float(value)


def _to_float(value: Any, source: Type, target: Type) -> float:
    exact = np.int64(value) if isinstance(value, int) else _to_double(value, source, target)
    with np.errstate(over="ignore"):
        return float(np.float32(exact))


def _to_decimal(value: Any, source: Type, target: Type) -> Decimal | None:
    if isinstance(value, str):
        if not _FLOAT.fullmatch(value.strip(" ")):
            raise _misfit(value, target)
        return fit(EXACT.create_decimal(value.strip(" ")), target)
    if isinstance(value, float):
        # Spark gives null here, even under ANSI; the digits are the shortest that read back as the double.
        return fit(Decimal(repr(value)), target) if math.isfinite(value) else None
    return fit(Decimal(value), target)


def _to_boolean(value: Any, source: Type, target: Type) -> bool:
    if not isinstance(value, str):
        return bool(value != 0)
    text = value.strip(" ").lower()
    if text not in (*_TRUE, *_FALSE):
        raise _misfit(value, target)
    return text in _TRUE


def _to_string(value: Any, source: Type, target: Type) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        text = value.astimezone(timezone.utc) if value.tzinfo else value
        seconds = text.strftime("%H:%M:%S") + (f".{text.microsecond:06d}".rstrip("0") if text.microsecond else "")
        return f"{text.date().isoformat()} {seconds}"
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _to_date(value: Any, source: Type, target: Type) -> date:
    if isinstance(value, datetime):
        return (value.astimezone(timezone.utc) if value.tzinfo else value).date()
    match = _DATE.fullmatch(re.split("[ T]", value.strip(" "), maxsplit=1)[0])
    if not match:
        raise _misfit(value, target)
    try:
        return date(int(match[1]), int(match[2] or 1), int(match[3] or 1))
    except ValueError:
        raise _misfit(value, target) from None


def _to_timestamp(value: Any, source: Type, target: Type) -> datetime:
    if isinstance(value, datetime):
        return value.replace(tzinfo=timezone.utc)  # between the two kinds, in a session in UTC
    if isinstance(value, str):
        return _read_timestamp(value, target)
    return datetime(value.year, value.month, value.day, tzinfo=timezone.utc)


def _read_timestamp(text: str, target: Type) -> datetime:
    match = _STAMP.fullmatch(text.strip(" "))
    if not match:
        day = _to_date(text, Type.of("string"), target) if _DATE.fullmatch(text.strip(" ")) else None
        if day is None:
            raise _misfit(text, target)
        return datetime(day.year, day.month, day.day, tzinfo=timezone.utc)
    day_text, hour, minute, second, fraction, zone = match.groups()
    day = _to_date(day_text, Type.of("string"), target)
    iso = f"{day}T{int(hour):02d}:{minute}:{second or '00'}{fraction or ''}{zone if zone and zone[0] in '+-' else 'Z'}"
    try:
        return Instant.of(iso).moment
    except (DescriptionError, OverflowError):
        raise _misfit(text, target) from None


def _to_ntz(value: Any, source: Type, target: Type) -> datetime:
    if isinstance(value, str) and re.search(r"(Z|UTC|[+-]\d\d:\d\d)$", value.strip(" ")):
        value = re.sub(r" ?(Z|UTC|[+-]\d\d:\d\d)$", "", value.strip(" "))  # Spark passes over the zone
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).replace(tzinfo=None)
    return _to_timestamp(value, source, target).replace(tzinfo=None)


def micros_of(value: datetime | timedelta) -> int:
    """Whole microseconds: of a span, or since 1970 in UTC."""
    if isinstance(value, datetime):
        value = (value if value.tzinfo else value.replace(tzinfo=timezone.utc)) - EPOCH
    return value // timedelta(microseconds=1)


_TO: Final[dict[str, Callable[[Any, Type, Type], Any]]] = {
    **dict.fromkeys(BITS, _to_integer),
    "double": _to_double, "float": _to_float, "decimal": _to_decimal, "boolean": _to_boolean, "string": _to_string,
    "date": _to_date, "timestamp": _to_timestamp, "timestamp_ntz": _to_ntz,
}  # fmt: skip
