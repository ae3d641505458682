"""The float grid: sums of doubles that no order and no cut can change.

Bits are counted off in cells of 32: cell j holds the bits 32j .. 32j+31 of a number. A double touches three
neighbouring cells at most, and is the sum of its signed 32-bit slices in them. Slices are added as whole numbers, cell by cell,
which is exact; `top` is the highest cell that any value reaches, and what lies below cell top - 2 is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from strandline.kernel.folds.rounding import from_slices, nearest, scaled
from strandline.kernel.groups import Array, Groups

# The top of no nonzero value: below every cell, far enough from the end of 64 bits that differences never wrap.
NO_CELL = -(2**60)

NAN, PLUS, MINUS, SEEN = np.uint8(1), np.uint8(2), np.uint8(4), np.uint8(8)

_SIGN_AND_FRACTION = np.int64(~(0x7FF << 52))
_LIFT = 2.0**64
_WHOLE = 2.0**53


@dataclass(frozen=True, slots=True, eq=False)
class Slices:
    """Sums on the grid: s0, s1, s2 stand in the cells top, top - 1, top - 2."""

    top: Array
    s0: Array
    s1: Array
    s2: Array

    def add(self, groups: Groups) -> Slices:
        """The sum of each group.

        Law: the same whatever the order, and whether sums or sums of sums are added.
        """
        if groups.all_single:
            return self
        top = groups.greatest(self.top)
        below = groups.spread(top) - self.top
        sunk = _sink(self, below) if below.any() else (self.s0, self.s1, self.s2)
        return Slices(top, *(groups.add(s) for s in sunk))

    def add_down(self) -> Slices:
        """The sum of each column, where sums stand in a table."""
        top = self.top.max(axis=0)
        below = top - self.top
        sunk = [self.s0, self.s1, self.s2]
        if (below[self.top != NO_CELL] > 0).any():
            flat = Slices(self.top.ravel(), self.s0.ravel(), self.s1.ravel(), self.s2.ravel())
            sunk = [part.reshape(below.shape) for part in _sink(flat, below.ravel())]
        return Slices(top, *(s.sum(axis=0) for s in sunk))

    def total(self) -> Array:
        """The sums as doubles, each rounded once."""
        exact, result = self._rounded_by_addition()
        if not exact.all():
            rest = np.flatnonzero(~exact)
            mantissa, exponent = nearest(*from_slices(self.s0[rest], self.s1[rest], self.s2[rest]))
            result[rest] = scaled(mantissa, exponent + 32 * (self.top[rest] - 2))
        return result

    def _rounded_by_addition(self) -> tuple[Array, Array]:
        """Where adding s0 and s1 as doubles is exact, one more addition rounds once, and that is the answer."""
        a, b, c = (s.astype(np.float64) for s in (self.s0 << 32, self.s1, self.s2))
        upper = a + b
        kept = upper - a
        exact = ((a - (upper - kept)) + (b - kept)) == 0
        for slices, limit in ((self.s0, 2**30), (self.s1, _WHOLE), (self.s2, _WHOLE)):
            exact &= np.abs(slices) < limit
        return exact, scaled(upper + c * 2.0**-32, 32 * (self.top - 1))


def _sink(slices: Slices, below: Array) -> tuple[Array, Array, Array]:
    """The slices as they stand under a top that is `below` cells higher."""
    which = np.flatnonzero(below)
    depth = below[which]
    s0, s1 = slices.s0[which], slices.s1[which]
    sunk = slices.s0.copy(), slices.s1.copy(), slices.s2.copy()
    sunk[0][which] = 0
    sunk[1][which] = s0 * (depth == 1)
    sunk[2][which] = s1 * (depth == 1) + s0 * (depth == 2)
    return sunk


def cut(values: Array, shift: Array | None = None) -> Slices:
    """The slices of each finite double, times 2**shift.

    >>> one = cut(np.array([2.0**32 + 0.5]))
    >>> one.top, one.s0, one.s1, one.s2
    (array([1]), array([1]), array([0]), array([2147483648]))
    """
    bits = values.view(np.int64)
    exponent = ((bits >> 52) & 0x7FF) - 1023
    tiny = np.flatnonzero(exponent == -1023)
    if len(tiny):
        lifted = values.copy()
        lifted[tiny] *= _LIFT
        bits = lifted.view(np.int64)
        exponent[tiny] = ((bits[tiny] >> 52) & 0x7FF) - 1023 - 64
    if shift is not None:
        exponent = exponent + shift
    cell = exponent >> 5
    # The same fraction with the exponent that it has within its cell: truncation then takes slice by slice, exactly.
    within = ((bits & _SIGN_AND_FRACTION) | (((exponent & 31) + 1023) << 52)).view(np.float64)
    s0 = within.astype(np.int64)
    rest = (within - s0) * 2.0**32
    s1 = rest.astype(np.int64)
    s2 = ((rest - s1) * 2.0**32).astype(np.int64)
    if len(tiny):
        zero = tiny[values[tiny] == 0]
        cell[zero], s0[zero] = NO_CELL, 0
    return Slices(cell, s0, s1, s2)


def set_specials_apart(values: Array) -> tuple[Array, Array]:
    """The values with NaN and infinities made 0, and a flag for each value that says what it was."""
    finite = np.isfinite(values)
    if finite.all():
        return values, np.full(len(values), SEEN)
    flags = SEEN + NAN * np.isnan(values) + PLUS * (values == np.inf) + MINUS * (values == -np.inf)
    return np.where(finite, values, 0.0), flags


def with_specials(totals: Array, flags: Array) -> Array:
    """The totals, or what NaN and infinities make of them."""
    if not (flags & (NAN | PLUS | MINUS)).any():
        return totals
    plus, minus = (flags & PLUS) != 0, (flags & MINUS) != 0
    totals = np.where(plus, np.inf, np.where(minus, -np.inf, totals))
    result: Array = np.where(((flags & NAN) != 0) | (plus & minus), np.nan, totals)
    return result
