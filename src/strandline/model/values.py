"""Values as columns hold them: one Python type for each column type, and a clear error for all else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal, InvalidOperation, localcontext
from typing import Any, Final

import numpy as np

from strandline.errors import DescriptionError, did_you_mean, told
from strandline.model.time import Instant, Span
from strandline.model.types import Schema, Type

_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
LIMIT: Final = 1 << 63


def checked_row(schema: Schema, row: Mapping[str, Any], place: str) -> dict[str, Any]:
    """A row with every column of the schema, each value as the one Python type that stands for its column's.

    >>> checked_row(Schema.of("user string, price decimal(5,2)"), {"price": "1.5"}, "Row 1")
    {'user': None, 'price': Decimal('1.50')}
    """
    if not isinstance(row, Mapping):
        raise DescriptionError(f"{place} is {told(row)}, no mapping.", fix="Give each row as {'column': value, ...}.")
    for name in row:
        if name not in schema:
            raise DescriptionError(
                f"{place} has a column {name!r} that the schema does not.", fix=did_you_mean(str(name), schema)
            )
    return {name: checked_value(kind, row.get(name), f"{place}, column {name!r}") for name, kind in schema.columns}


def checked_value(kind: Type, value: Any, place: str) -> Any:
    """A value as the one Python type that stands for a column's type; None stays None.

    >>> checked_value(Type.of("interval"), "1m30s", "the gap")
    datetime.timedelta(seconds=90)
    """
    if value is None:
        return None
    if kind.element is not None and isinstance(value, list | tuple):
        return [checked_value(kind.element, part, place) for part in value]
    if kind.name == "struct" and isinstance(value, Mapping):
        return checked_row(Schema(kind.fields), value, place)
    try:
        return _READERS[kind.name](kind, value)
    except DescriptionError as error:
        raise DescriptionError(f"{place}: {error.what}", fix=error.fix) from None
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        why = f" ({error})" if isinstance(error, ArithmeticError) else ""
        raise DescriptionError(
            f"{place}: {told(value)} is no {kind.text}{why}.", fix=f"Give {_WANTED[kind.name]}."
        ) from None


def _only(*kinds: type) -> Callable[[Type, Any], Any]:
    def read(kind: Type, value: Any) -> Any:
        if not isinstance(value, kinds):
            raise TypeError
        return value

    return read


def _integer(kind: Type, value: Any) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise TypeError
    limit = 1 << (_BITS[kind.name] - 1)
    if not -limit <= value < limit:
        raise OverflowError(f"it does not fit in {_BITS[kind.name]} bits")
    return int(value)


def _float(kind: Type, value: Any) -> float:
    if not isinstance(value, int | float | np.floating) or isinstance(value, bool):
        raise TypeError
    if kind.name == "double":
        return float(value)
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _decimal(kind: Type, value: Any) -> Decimal:
    # A float is refused: 0.1 is not the decimal that its text looks like.
    if not isinstance(value, int | str | Decimal) or isinstance(value, bool):
        raise TypeError
    with localcontext(Context(prec=100)):
        try:
            number = Decimal(value)
            fitted = number.quantize(Decimal((0, (1,), -kind.scale)))
        except InvalidOperation:
            raise ValueError from None
        if fitted != number or abs(fitted) >= Decimal((0, (1,), kind.precision - kind.scale)):
            raise ArithmeticError("it has too many digits")
        return fitted + 0  # turns -0 into 0


def _string(kind: Type, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DescriptionError(
            f"{value!r} holds half a character (a lone surrogate), which UTF-8 cannot say.",
            fix="Give whole characters; bytes that are no text belong in a binary column.",
        ) from None
    return value


def _date(kind: Type, value: Any) -> date:
    if isinstance(value, str):
        return date.fromisoformat(value)
    if not isinstance(value, date) or isinstance(value, datetime):
        raise TypeError
    return value


def _timestamp(kind: Type, value: Any) -> datetime:
    return Instant.of(value).moment.replace(tzinfo=timezone.utc)


def _timestamp_ntz(kind: Type, value: Any) -> datetime:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(moment, datetime):
        raise TypeError
    if moment.tzinfo is not None:
        raise ValueError("it has a time zone")
    return moment


def _interval(kind: Type, value: Any) -> timedelta:
    negative = isinstance(value, str) and value.strip().startswith("-")
    span = Span.read(value.strip()[1:] if negative else value)
    if span >= LIMIT or -span > LIMIT:
        raise OverflowError("its microseconds do not fit in 64 bits")
    return timedelta(microseconds=-span if negative else span)


_READERS: Final[dict[str, Callable[[Type, Any], Any]]] = {
    "boolean": _only(bool),
    **dict.fromkeys(_BITS, _integer),
    "float": _float,
    "double": _float,
    "decimal": _decimal,
    "string": _string,
    "binary": _only(bytes),
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp_ntz,
    "interval day to second": _interval,
}
_WANTED: Final = {
    "boolean": "True or False",
    **dict.fromkeys(_BITS, "a whole number in its range"),
    "float": "a number",
    "double": "a number",
    "decimal": "a Decimal, a whole number, or text such as '1.50'",
    "string": "text",
    "binary": "bytes",
    "date": "a date, or text such as '2026-01-01'",
    "timestamp": "an aware datetime, or text such as '2026-01-01T12:00:00Z'",
    "timestamp_ntz": "a datetime without a zone, or text such as '2026-01-01T12:00:00'",
    "interval day to second": "a timedelta, or text such as '10s'",
    "array": "a list",
    "struct": "a mapping",
}
