"""Run a text expression over one row, in plain Python: what the oracle believes.

Spark 4's ANSI rules: three-valued logic, whole numbers that overflow and division by zero are a DataError, NaN equals
NaN and is the greatest number, and a part that is not needed is not run (`b <> 0 and a / b > 1` never divides by zero).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final

import numpy as np

from strandline.errors import DataError, ExpressionError
from strandline.model.cast import cast_value, micros_of, whole
from strandline.model.coerce import Bound
from strandline.model.decimals import EXACT, divide, fit
from strandline.model.expressions import Expression, bind
from strandline.model.syntax import VOID
from strandline.model.time import Instant
from strandline.model.types import Schema, Type

Row = Mapping[str, Any]
_RIGHT_FIRST: Final = ("/", "%", "div")
_LEFT_FIRST: Final = ("+", "-", "*", "=", "<>", "<", "<=", ">", ">=")


def evaluate(expression: Expression, row: Row, *, schema: Schema | None = None, now: Instant | None = None) -> Any:
    """The value of an expression over a row. Without a schema, types are those of the values (int: bigint).

    >>> from strandline.model.expressions import parse
    >>> evaluate(parse("coalesce(amount, 0) * 2"), {"amount": 21})
    42
    """
    bound = bind(expression, schema if schema is not None else schema_of(row))
    try:
        return run(bound, row, now)
    except DataError as error:
        raise DataError(f"In {expression.text!r}: {error.what}", fix=error.fix) from None


def schema_of(row: Row) -> Schema:
    """The schema that the values of one row show.

    >>> schema_of({"n": 1, "s": "x"}).text
    'n bigint, s string'
    """
    return Schema(tuple((name, _type_of(value)) for name, value in row.items()))


def _type_of(value: Any) -> Type:
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        scale = max(0, -int(exponent))
        return Type.decimal(max(len(digits) + max(0, int(exponent)), scale), scale)
    if isinstance(value, datetime):
        return Type.of("timestamp" if value.tzinfo else "timestamp_ntz")
    for kind, name in _KINDS.items():
        if isinstance(value, kind):
            return Type.of(name)
    return VOID if value is None else Type(name="struct")


# In this order: True is an int too.
_KINDS: Final[dict[type, str]] = {
    bool: "boolean", int: "bigint", float: "double", str: "string", bytes: "binary", date: "date",
    timedelta: "interval day to second",
}  # fmt: skip


def run(bound: Bound, row: Row, now: Instant | None) -> Any:
    """The value of a typed step over a row."""
    if bound.op in _LAZY:
        return _LAZY[bound.op](bound, row, now)
    values = _arguments(bound, row, now)
    if bound.op in _SEES_NULLS:
        return _SEES_NULLS[bound.op](*values)
    return None if any(v is None for v in values) else strict(bound, *values)


def _arguments(bound: Bound, row: Row, now: Instant | None) -> list[Any]:
    """The arguments; of two, the second is not run where the first is null (for a division, the other way round)."""
    if bound.op in _RIGHT_FIRST:
        right = run(bound.args[1], row, now)
        return [None if right is None else run(bound.args[0], row, now), right]
    if bound.op in _LEFT_FIRST:
        left = run(bound.args[0], row, now)
        return [left, None if left is None else run(bound.args[1], row, now)]
    return [run(a, row, now) for a in bound.args]


def strict(bound: Bound, *values: Any) -> Any:
    """The value of a step whose arguments are known and not null."""
    return _STRICT[bound.op](bound, *values)


def no_time() -> ExpressionError:
    """What to say when the tick's time is asked for and there is none."""
    return ExpressionError(
        "The expression asks for current_timestamp(), and there is no tick here to take it from.", fix="Give now=."
    )


def _column(bound: Bound, row: Row, now: Instant | None) -> Any:
    value = row[bound.value]
    if value is None:
        return None
    if bound.type.is_float:
        return float(np.float32(value)) if bound.type.name == "float" else float(value)
    return fit(Decimal(value), bound.type) if bound.type.name == "decimal" else value


def _now(bound: Bound, row: Row, now: Instant | None) -> datetime:
    if now is None:
        raise no_time()
    return now.moment


def _and(bound: Bound, row: Row, now: Instant | None) -> bool | None:
    left = run(bound.args[0], row, now)
    right = False if left is False else run(bound.args[1], row, now)
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(bound: Bound, row: Row, now: Instant | None) -> bool | None:
    left = run(bound.args[0], row, now)
    right = True if left is True else run(bound.args[1], row, now)
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def _case(bound: Bound, row: Row, now: Instant | None) -> Any:
    *branches, default = bound.args
    for condition, value in zip(branches[::2], branches[1::2], strict=True):
        if run(condition, row, now) is True:
            return run(value, row, now)
    return run(default, row, now)


def _coalesce(bound: Bound, row: Row, now: Instant | None) -> Any:
    return next((v for a in bound.args if (v := run(a, row, now)) is not None), None)


def order(value: Any) -> Any:
    """What to compare instead of a value, so that NaN equals NaN and is greater than every number."""
    if isinstance(value, float):
        return (True, 0.0) if math.isnan(value) else (False, value)
    return value


def _same(left: Any, right: Any) -> bool:
    return bool(order(left) == order(right))


def _in(value: Any, *choices: Any) -> bool | None:
    if value is None:
        return None
    if any(c is not None and _same(value, c) for c in choices):
        return True
    return None if None in choices else False


def _extreme(pick: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: pick((v for v in values if v is not None), key=order, default=None)


def _arithmetic(bound: Bound, left: Any, right: Any) -> Any:
    if bound.op in _RIGHT_FIRST and not right:
        raise DataError("Division by zero.", fix="Divide by nullif(divisor, 0), or filter such rows first.")
    if bound.type.name == "decimal":
        return _on_decimals(bound, left, right)
    if bound.type.is_float:
        return _on_floats(bound, left, right)
    if bound.type.is_integer:
        return whole(_INTEGER_STEPS[bound.op](left, right), bound.type)
    return _on_times(bound, left, right)


def truncated(left: int, right: int) -> int:
    """Divide towards zero, as Java does."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


_INTEGER_STEPS: Final[dict[str, Callable[[int, int], int]]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "div": truncated,
    "%": lambda a, b: a - b * truncated(a, b),
}  # fmt: skip


def _on_floats(bound: Bound, left: float, right: float) -> float:
    with np.errstate(all="ignore"):
        found = _FLOAT_STEPS[bound.op](np.float64(left), np.float64(right))
        # A float step is one rounding of the double step, for a double has more than twice the digits.
        return float(np.float32(found)) if bound.type.name == "float" else float(found)


_FLOAT_STEPS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod,
}  # fmt: skip


def _on_decimals(bound: Bound, left: Decimal, right: Decimal) -> Decimal:
    if bound.op == "/":
        return divide(left, right, bound.type)
    step = {"+": EXACT.add, "-": EXACT.subtract, "*": EXACT.multiply, "%": EXACT.remainder}[bound.op]
    return fit(step(left, right), bound.type)


def _on_times(bound: Bound, left: Any, right: Any) -> Any:
    try:
        found = left + right if bound.op == "+" else left - right
    except OverflowError:
        raise DataError(
            f"{left} {bound.op} {right} leaves the years 1 to 9999.", fix="Filter such rows first."
        ) from None
    if isinstance(found, timedelta):
        whole(micros_of(found), Type.of("bigint"))
    return found


def _signed(bound: Bound, value: Any) -> Any:
    if isinstance(value, Decimal):  # copied, because arithmetic keeps 28 digits only
        return fit(value.copy_negate() if bound.op == "negate" else value.copy_abs(), bound.type)
    found = -value if bound.op == "negate" else abs(value)
    if isinstance(value, timedelta):
        whole(micros_of(found), Type.of("bigint"))
    return whole(found, bound.type) if bound.type.is_integer else found


def _whole_part(bound: Bound, value: float | Decimal) -> int | Decimal:
    step = math.floor if bound.op == "floor" else math.ceil
    if isinstance(value, Decimal):
        return fit(Decimal(step(value)), bound.type)
    if not math.isfinite(value):  # Java's conversion: NaN is 0, and the ends are the ends
        return 0 if math.isnan(value) else 2**63 - 1 if value > 0 else -(2**63)
    return max(-(2**63), min(step(value), 2**63 - 1))


def _round(bound: Bound, value: float | Decimal) -> float | Decimal:
    if isinstance(value, Decimal):
        return fit(value, bound.type)
    if not math.isfinite(value):
        return value
    rounded = float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-bound.value), context=EXACT)) + 0.0
    return float(np.float32(rounded)) if bound.type.name == "float" else rounded


def _substring(bound: Bound, text: str, position: int, length: int = 2**31 - 1) -> str:
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    return text[max(start, 0) : max(start + length, 0)]


def _in_utc(moment: Any) -> Any:
    return moment.astimezone(timezone.utc) if isinstance(moment, datetime) and moment.tzinfo else moment


def _date_trunc(bound: Bound, moment: datetime) -> datetime:
    moment, unit = _in_utc(moment), bound.value
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return {
        "second": lambda: moment.replace(microsecond=0),
        "minute": lambda: moment.replace(second=0, microsecond=0),
        "hour": lambda: moment.replace(minute=0, second=0, microsecond=0),
        "day": lambda: day,
        "week": lambda: day - timedelta(days=day.weekday()),
        "month": lambda: day.replace(day=1),
        "quarter": lambda: day.replace(month=day.month - (day.month - 1) % 3, day=1),
        "year": lambda: day.replace(month=1, day=1),
    }[unit]()


_LAZY: Final[dict[str, Callable[[Bound, Row, Instant | None], Any]]] = {
    "literal": lambda bound, row, now: bound.value, "column": _column, "now": _now, "and": _and, "or": _or,
    "case": _case, "coalesce": _coalesce,
}  # fmt: skip
_SEES_NULLS: Final[dict[str, Callable[..., Any]]] = {
    "is null": lambda value: value is None,
    "<=>": lambda a, b: a is b if a is None or b is None else _same(a, b),
    "in": _in, "greatest": _extreme(max), "least": _extreme(min),
}  # fmt: skip
_STRICT: Final[dict[str, Callable[..., Any]]] = {
    **dict.fromkeys(("+", "-", "*", "/", "%", "div"), _arithmetic),
    "=": lambda _, a, b: _same(a, b),
    "<>": lambda _, a, b: not _same(a, b),
    "<": lambda _, a, b: order(a) < order(b),
    "<=": lambda _, a, b: order(a) <= order(b),
    ">": lambda _, a, b: order(a) > order(b),
    ">=": lambda _, a, b: order(a) >= order(b),
    "not": lambda _, a: not a,
    "like": lambda bound, a: re.fullmatch(bound.value, a) is not None,
    "cast": lambda bound, a: cast_value(a, bound.args[0].type, bound.type),
    "negate": _signed, "abs": _signed, "floor": _whole_part, "ceil": _whole_part, "round": _round,
    "upper": lambda _, a: a.upper(),
    "lower": lambda _, a: a.lower(),
    "trim": lambda _, a: a.strip(" "),
    "ltrim": lambda _, a: a.lstrip(" "),
    "rtrim": lambda _, a: a.rstrip(" "),
    "length": lambda _, a: len(a),
    "substring": _substring,
    "concat": lambda _, *parts: "".join(parts),
    **{unit: lambda bound, a: getattr(_in_utc(a), bound.op) for unit in ("year", "month", "day", "hour", "minute", "second")},
    "unix_micros": lambda _, a: micros_of(a),
    "date_trunc": _date_trunc,
}  # fmt: skip
