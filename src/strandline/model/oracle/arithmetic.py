"""Aggregates that do arithmetic: sums, means, variances. Exact until they are rounded, once."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from strandline.errors import DataError
from strandline.model.aggregates import Ewma, Mean, StdDev, Sum, Variance
from strandline.model.oracle.sums import float_sum, grid_sum, nearest, remaining_specials, special_sum
from strandline.model.oracle.values import EXACT, Entry

Weighed = list[tuple[Any, int]]


@dataclass(frozen=True)
class Digits:
    """How many digits a decimal shows, and how many of them stand behind the point; None: as the values have it."""

    precision: int = 38
    scale: int | None = None


def values(column: str, entries: Sequence[Entry]) -> Weighed:
    """The values that are not null, with their weights."""
    return [(e.row[column], e.weight) for e in entries if e.row[column] is not None]


def sum_of(aggregate: Sum, entries: Sequence[Entry], digits: Digits, *, exact: bool) -> Any:
    """The sum; null of nothing."""
    found = values(aggregate.column, entries)
    if sum(weight for _, weight in found) == 0:
        return None
    name = f"Sum({aggregate.column!r})"
    if _kind(found) is float:
        return float_sum([(float(value), weight) for value, weight in found], exact=exact)
    total = sum(Fraction(value) * weight for value, weight in found)
    if _kind(found) is Decimal:
        return _decimal(total, digits.precision, _scale(digits, found, 0), name)
    if not -(2**63) <= total < 2**63:
        raise DataError(f"{name} is outside of bigint.", fix="Convert to decimal first: cast(... as decimal(38,0)).")
    return int(total)


def mean_of(aggregate: Mean, entries: Sequence[Entry], digits: Digits, *, exact: bool) -> Any:
    """The mean; null of nothing."""
    found = values(aggregate.column, entries)
    count = sum(weight for _, weight in found)
    if count == 0:
        return None
    if _kind(found) is float:
        return float_sum([(float(value), weight) for value, weight in found], exact=exact) / count
    total = sum((Fraction(value) * weight for value, weight in found), Fraction(0))
    if _kind(found) is Decimal:
        return _decimal(total / count, digits.precision, _scale(digits, found, 4), f"Mean({aggregate.column!r})")
    return float(total) / count


def _kind(found: Weighed) -> type:
    """The type that a column's values have in common."""
    for kind in (float, Decimal):
        if any(isinstance(value, kind) for value, _ in found):
            return kind
    return int


def _scale(digits: Digits, found: Weighed, more: int) -> int:
    if digits.scale is not None:
        return digits.scale
    return min(38, more + max(-int(value.as_tuple().exponent) for value, _ in found if isinstance(value, Decimal)))


def _decimal(value: Fraction | int, precision: int, scale: int, name: str) -> Decimal:
    """The nearest decimal of so many digits, a half away from zero."""
    units = abs(Fraction(value)) * 10**scale
    whole = (2 * units.numerator + units.denominator) // (2 * units.denominator)
    if whole >= 10**precision:
        raise DataError(
            f"{name} is outside of decimal({precision},{scale}).",
            fix="Convert to fewer digits behind the point, or to double, first: cast(... as double).",
        )
    return Decimal(-whole if value < 0 else whole).scaleb(-scale, context=EXACT)


def variance_of(aggregate: Variance | StdDev, entries: Sequence[Entry]) -> float | None:
    """The variance; null of too few values, NaN where one is not finite."""
    found = values(aggregate.column, entries)
    count = sum(weight for _, weight in found)
    divisor = count if aggregate.population else count - 1
    if divisor <= 0:
        return None
    if remaining_specials([(value, weight) for value, weight in found if isinstance(value, float)]):
        return math.nan
    finite = [(Fraction(value), weight) for value, weight in found if math.isfinite(value)]
    total = sum((value * weight for value, weight in finite), Fraction(0))
    squares = sum((value * value * weight for value, weight in finite), Fraction(0))
    variance = (squares - total * total / count) / divisor
    return nearest(variance.numerator, variance.denominator)


def deviation_of(aggregate: StdDev, entries: Sequence[Entry]) -> float | None:
    """The square root of the variance."""
    variance = variance_of(aggregate, entries)
    return None if variance is None else math.sqrt(variance)


def ewma_of(aggregate: Ewma, entries: Sequence[Entry]) -> float | None:
    """The sum of x * 2**(t/h) over the sum of 2**(t/h); the whole part of t/h goes to the exponents."""
    half_life = int(aggregate.half_life)
    found = [(e.time, float(e.row[aggregate.column])) for e in entries if e.row[aggregate.column] is not None]
    special = special_sum([x for _, x in found])
    if not found or special is not None:
        return special
    above, below = [], []
    for time, x in found:
        whole, rest = divmod(time, half_life)
        weight = float(np.exp2(rest / half_life))
        fraction, exponent = math.frexp(x)
        above.append((fraction * weight, whole + exponent))
        below.append((weight, whole))
    return _quotient(grid_sum(above), grid_sum(below))


def _quotient(above: tuple[int, int], below: tuple[int, int]) -> float:
    """One sum on the grid over another: both rounded once, fractions divided, exponents subtracted.

    A mean of finite values is finite: where rounding would lead beyond the greatest double, it is that.
    """
    (top, high), (bottom, low) = math.frexp(float(above[0])), math.frexp(float(below[0]))
    exponent = high + above[1] - low - below[1]
    try:
        return math.ldexp(top / bottom, exponent)
    except OverflowError:
        return math.copysign(sys.float_info.max, top)
