"""Ewma: a mean in which newer values count more, by event time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from strandline.kernel.folds.fold import Fields, Parts, filled, nulled, series
from strandline.kernel.folds.grid import NO_CELL, SEEN, Slices, cut, set_specials_apart, with_specials
from strandline.kernel.folds.numbers import doubles
from strandline.kernel.folds.rounding import from_slices, nearest, scaled
from strandline.kernel.groups import Array, Groups

_SLICES = ("top", "s0", "s1", "s2")
_GREATEST = np.finfo(np.float64).max


@dataclass(frozen=True, slots=True)
class EwmaFold:
    """The sum of x * 2**(t/h) over the sum of 2**(t/h), both on the float grid.

    t/h is a whole number k and a fraction; k goes to the exponents, so that no time is too great for a double.
    """

    column: str
    half_life: int
    output: pl.DataType = pl.Float64()
    fields: Fields = (
        *((f"value_{name}", pl.Int64()) for name in _SLICES),
        *((f"weight_{name}", pl.Int64()) for name in _SLICES),
        ("flags", pl.UInt8()),
    )

    def fold(self, rows: pl.DataFrame, times: Array, weights: Array | None, groups: Groups) -> Parts:
        """Weigh each value by its time, and add."""
        whole, rest = np.divmod(times, np.int64(self.half_life))
        weight = np.exp2(rest / self.half_life)
        values, flags = set_specials_apart(doubles(rows[self.column]))
        fraction, exponent = np.frexp(values)  # a value near the greatest double, times its weight, would be infinite
        weighted = cut(fraction * weight, whole + exponent)
        return self._parts(weighted.add(groups), cut(weight, whole).add(groups), groups.any_bits(flags))

    def merge(self, parts: Parts, groups: Groups) -> Parts:
        """Add both sums."""
        if groups.all_single:
            return parts
        value, weight, flags = _read(parts)
        return self._parts(value.add(groups), weight.add(groups), groups.any_bits(flags))

    def show(self, parts: Parts) -> pl.Series:
        """One sum over the other: fractions divided, exponents subtracted, so that neither overflows.

        A mean of finite values is finite: where rounding would lead beyond the greatest double, it is that.
        """
        value, weight, flags = _read(parts)
        (above, high), (below, low) = (_rounded(s) for s in (value, weight))
        seen = flags & SEEN != 0
        quotient = np.clip(scaled(above / np.where(seen, below, 1.0), high - low), -_GREATEST, _GREATEST)
        return nulled(pl.Series(with_specials(quotient, flags)), seen)

    def empty(self, count: int) -> Parts:
        """No cell in use, nothing seen."""
        return filled(self.fields, count, *[NO_CELL, 0, 0, 0] * 2, 0)

    def _parts(self, value: Slices, weight: Slices, flags: Array) -> Parts:
        arrays = [getattr(slices, name) for slices in (value, weight) for name in _SLICES]
        return series(self.fields, [*arrays, flags])


def _read(parts: Parts) -> tuple[Slices, Slices, Array]:
    arrays = [p.to_numpy() for p in parts]
    return Slices(*arrays[:4]), Slices(*arrays[4:8]), arrays[8]


def _rounded(slices: Slices) -> tuple[Array, Array]:
    """Each sum as a double in [1/2, 1) and an exponent; 0 is 0 whatever the exponent."""
    mantissa, exponent = nearest(*from_slices(slices.s0, slices.s1, slices.s2))
    fraction, more = np.frexp(mantissa)
    return fraction, np.where(fraction == 0, 0, more + exponent + 32 * (slices.top - 2))
