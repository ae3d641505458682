"""Sums of floats that no order and no cut can change, by whole numbers of any length.

The grid: bits are counted off in cells of 32. With `top` the highest cell that a value reaches, each value is cut
toward zero to a multiple of 2 ** (32 * (top - 2)); the rest is added exactly and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

# A float and the power of two it is taken by: x * 2 ** k.
Shifted = tuple[float, int]


def float_sum(values: Sequence[tuple[float, int]], *, exact: bool) -> float:
    """The sum of (value, weight): on the grid, or exactly; rounded once.

    >>> float_sum([(1e100, 1), (1.0, 1), (-1e100, 1)], exact=False)
    0.0
    >>> float_sum([(1e100, 1), (1.0, 1), (-1e100, 1)], exact=True)
    1.0
    """
    special = special_sum([x for x, weight in remaining_specials(values)])
    if special is not None:
        return special
    finite = [(x, weight) for x, weight in values if math.isfinite(x)]
    if exact:
        total = sum((Fraction(x) * weight for x, weight in finite), Fraction(0))
        return nearest(total.numerator, total.denominator)
    number, unit = grid_sum([(x, 0) for x, _ in finite])
    return scaled(number, unit)


def remaining_specials(values: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """NaN and the infinities that are there more often than they were taken back."""
    counts = {"nan": 0, "inf": 0, "-inf": 0}
    for x, weight in values:
        if not math.isfinite(x):
            counts[str(x)] += weight
    return [(float(name), count) for name, count in counts.items() if count > 0]


def special_sum(values: Sequence[float]) -> float | None:
    """What NaN and infinities make of a sum; None when there are none.

    >>> special_sum([math.inf, 1.0]), special_sum([math.inf, -math.inf]), special_sum([1.0])
    (inf, nan, None)
    """
    specials = {str(x) for x in values if not math.isfinite(x)}
    if not specials:
        return None
    return float(specials.pop()) if len(specials) == 1 else math.nan


def grid_sum(values: Sequence[Shifted]) -> tuple[int, int]:
    """The sum of finite x * 2 ** k on the grid as (number, unit): number * 2 ** unit."""
    cells = [_highest_bit(x, k) // 32 for x, k in values if x != 0]
    unit = 32 * (max(cells, default=2) - 2)
    return sum(_cut(x, k, unit) for x, k in values), unit


def _highest_bit(x: float, k: int) -> int:
    return math.frexp(x)[1] - 1 + k


def _cut(x: float, k: int, unit: int) -> int:
    """How many units x * 2 ** k holds, toward zero. Asked first, because a far smaller one cannot be written out."""
    if x == 0 or _highest_bit(x, k) < unit:
        return 0
    return int(Fraction(x) * Fraction(2) ** (k - unit))


def scaled(number: int, exponent: int) -> float:
    """The double nearest to number * 2 ** exponent."""
    if number == 0 or number.bit_length() + exponent < -1100:
        return 0.0
    return nearest(number << max(exponent, 0), 1 << max(-exponent, 0))


def nearest(numerator: int, denominator: int) -> float:
    """The double nearest to a ratio, ties to even; an infinity beyond the greatest.

    >>> nearest(1, 3), nearest(-(10**400), 1)
    (0.3333333333333333, -inf)
    """
    try:
        return numerator / denominator  # of whole numbers, Python rounds this once
    except OverflowError:
        return math.inf if (numerator < 0) == (denominator < 0) else -math.inf
