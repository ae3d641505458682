"""Steps over columns that may refuse a value: whole numbers that overflow, division by zero, times out of range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from strandline.errors import DataError
from strandline.model.cast import BITS
from strandline.model.time import Instant
from strandline.model.types import Type

Array = np.ndarray[Any, np.dtype[Any]]
Name = Callable[[DataError], "Refused"]


class Refused(DataError):
    """A DataError that survives Polars, which makes exceptions anew from their message and adds to it."""

    def __init__(self, message: str) -> None:
        what, _, fix = message.split("\n\n", maxsplit=1)[0].partition("\n  fix: ")
        super().__init__(what, fix=fix)

    def __reduce__(self) -> tuple[object, ...]:
        return Refused, (str(self),)


def batch(function: Callable[[list[pl.Series]], pl.Series], args: Sequence[pl.Expr], kind: pl.DataType) -> pl.Expr:
    """A function of whole columns as an expression; single values are spread to the others' length."""
    return pl.map_batches(args, lambda columns: function(_spread(columns)), return_dtype=kind, is_elementwise=True)


def _spread(columns: Sequence[pl.Series]) -> list[pl.Series]:
    lengths = {len(c) for c in columns}
    size = 0 if 0 in lengths else max(lengths)
    return [c if len(c) == size else c.head(0) if size == 0 else c.new_from_index(0, size) for c in columns]


def over_values(rule: Callable[..., Any], columns: Sequence[pl.Series], kind: pl.DataType, name: Name) -> pl.Series:
    """A rule for single values, none of them null, over columns."""
    try:
        found = [None if None in values else rule(*values) for values in zip(*columns, strict=True)]
    except DataError as error:
        raise name(error) from None
    return pl.Series(found, dtype=kind)


def over_arrays(
    function: Callable[..., Array], columns: Sequence[pl.Series], kind: pl.DataType, name: Name
) -> pl.Series:
    """A function of arrays over columns: a null anywhere is null, and is never looked at."""
    known = np.logical_and.reduce([c.is_not_null().to_numpy() for c in columns])
    try:
        with np.errstate(all="ignore"):
            found = function(*(_filled(c, known) for c in columns))
    except DataError as error:
        raise name(error) from None
    result = pl.Series(found)
    result = result.cast(pl.Int64).cast(kind) if kind.is_temporal() else result.cast(kind)
    return result.zip_with(pl.Series(known), pl.repeat(None, len(result), dtype=kind, eager=True))


def _filled(column: pl.Series, known: Array) -> Array:
    """The values with 1 where something is null: no step refuses 1 with 1."""
    plain = column.cast(pl.Int64) if column.dtype.is_integer() or column.dtype.is_temporal() else column
    return np.where(known, plain.fill_null(1).to_numpy(), np.array(1, dtype=plain.dtype.to_python()))


def _divisor(values: Array) -> Array:
    if (values == 0).any():
        raise DataError("Division by zero.", fix="Divide by nullif(divisor, 0), or filter such rows first.")
    return values


def _refuse_overflow(bad: Array, type: Type) -> None:
    if bad.any():
        wider = "bigint" if type.name != "bigint" else "decimal(38,0)"
        raise DataError(f"A number overflows {type.text}.", fix=f"Widen it first: cast(... as {wider}).")


def _within(values: Array, type: Type) -> Array:
    limit = 2 ** BITS[type.name] if type.name in BITS else 2**63
    if limit < 2**63:
        _refuse_overflow((values >= limit) | (values < -limit), type)
    return values


def _add(a: Array, b: Array, type: Type) -> Array:
    found = a + b
    _refuse_overflow(((a ^ found) & (b ^ found)) < 0, type)
    return found


def _subtract(a: Array, b: Array, type: Type) -> Array:
    found = a - b
    _refuse_overflow(((a ^ b) & (a ^ found)) < 0, type)
    return found


def _multiply(a: Array, b: Array, type: Type) -> Array:
    found = a * b
    lost = (a != 0) & (found // np.where(a == 0, 1, a) != b)
    _refuse_overflow(lost | ((a == -1) & (b == -(2**63))), type)
    return found


def _divide(a: Array, b: Array, type: Type) -> Array:
    b = _divisor(b)
    _refuse_overflow((a == -(2**63)) & (b == -1), type)
    safe = np.where(b == -1, 1, b)
    found = (a - np.fmod(a, safe)) // safe
    return np.where(b == -1, -a, found)


def _remainder(a: Array, b: Array, type: Type) -> Array:
    safe = np.where(_divisor(b) == -1, 1, b)
    return np.fmod(a, safe)


_INTEGER_STEPS: Final[dict[str, Callable[[Array, Array, Type], Array]]] = {
    "+": _add, "-": _subtract, "*": _multiply, "div": _divide, "%": _remainder,
}  # fmt: skip
FLOAT_STEPS: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "/": lambda a, b: a / _divisor(b), "%": lambda a, b: np.fmod(a, _divisor(b)),
}  # fmt: skip


def integer_step(op: str, type: Type) -> Callable[[Array, Array], Array]:
    """Whole-number arithmetic of one type, as 64-bit steps and a look at the range."""
    return lambda a, b: _within(_INTEGER_STEPS[op](a, b, type), type)


def time_step(op: str, type: Type) -> Callable[[Array, Array], Array]:
    """Arithmetic of times and intervals in microseconds."""

    def step(a: Array, b: Array) -> Array:
        found = _INTEGER_STEPS[op](a, b, type)
        first, last = int(Instant.FIRST_IN_CALENDAR), int(Instant.LAST_IN_CALENDAR)
        if type.name.startswith("timestamp") and ((found < first) | (found > last)).any():
            raise DataError("A time leaves the years 1 to 9999.", fix="Filter such rows first.")
        return found

    return step


def sign_step(op: str, type: Type) -> Callable[[Array], Array]:
    """`-x` and `abs(x)` of whole numbers and intervals."""

    def step(a: Array) -> Array:
        found = -a if op == "negate" else np.abs(a)
        _refuse_overflow((a == -(2**63)), type)
        return _within(found, type)

    return step


def saturated(values: Array) -> Array:
    """Doubles as bigints the way Java does it: NaN is 0, and what is too great is the greatest."""
    inside = (values >= -(2.0**63)) & (values < 2.0**63)
    ends = np.where(values >= 2.0**63, 2**63 - 1, np.where(values < -(2.0**63), -(2**63), 0))
    return np.where(inside, np.where(inside, values, 0.0).astype(np.int64), ends)


def to_integer(values: Array, type: Type) -> Array:
    """Numbers cut to whole ones of a type; NaN and what does not fit are refused."""
    if values.dtype.kind != "f":
        return _within(values, type)
    limit = 2.0 ** BITS[type.name]
    cut = np.trunc(values.astype(np.float64))
    top = cut <= limit if type.name == "bigint" else cut < limit
    if not (top & (cut >= -limit)).all():
        raise DataError(f"A number cannot become {type.text}.", fix="Filter such rows first, or choose a wider type.")
    return saturated(cut)
