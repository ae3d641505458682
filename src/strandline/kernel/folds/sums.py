"""Sums and means of whole numbers, decimals and floats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from strandline.kernel.folds.fold import Fields, Parts, filled, nulled, series
from strandline.kernel.folds.grid import NO_CELL, SEEN, Slices, cut, set_specials_apart, with_specials
from strandline.kernel.folds.numbers import (
    doubles,
    integers_to_decimals,
    limb_count,
    limbs,
    to_bigints,
    to_decimals,
    to_doubles,
    to_integers,
)
from strandline.kernel.folds.slide import Cells, Windows
from strandline.kernel.groups import Array, Groups

_COUNT = ("n", pl.Int64())


@dataclass(frozen=True, slots=True)
class WholeSum:
    """The sum, or with `mean` the mean, of whole numbers or decimals: exact, added limb by limb."""

    column: str
    input: pl.DataType
    output: pl.DataType
    mean: bool = False
    fields: Fields = field(init=False)

    def __post_init__(self) -> None:
        each = tuple((f"limb{i}", pl.Int64()) for i in range(limb_count(self.input)))
        object.__setattr__(self, "fields", (*each, _COUNT))

    def fold(self, rows: pl.DataFrame, times: Array, weights: Array | None, groups: Groups) -> Parts:
        """Add limb by limb."""
        arrays = limbs(rows[self.column])
        if weights is None:
            return series(self.fields, [*(groups.add(a) for a in arrays), groups.lengths])
        return series(self.fields, [*(groups.add(a * weights) for a in arrays), groups.add(weights)])

    def merge(self, parts: Parts, groups: Groups) -> Parts:
        """Add limb by limb."""
        return series(self.fields, [groups.add(p.to_numpy()) for p in parts])

    def weigh(self, parts: Parts, weights: Array) -> Parts:
        """Each sum times its weight."""
        return series(self.fields, [p.to_numpy() * weights for p in parts])

    def show(self, parts: Parts) -> pl.Series:
        """The sum or mean; null of nothing."""
        *sums, counts = (p.to_numpy() for p in parts)
        seen = counts != 0
        return nulled(self._mean(sums, counts) if self.mean else self._sum(sums), seen)

    def empty(self, count: int) -> Parts:
        """Zero of zero rows."""
        return filled(self.fields, count, *[0] * len(self.fields))

    def _sum(self, sums: Sequence[Array]) -> pl.Series:
        what = f"Sum({self.column!r})"
        return to_decimals(sums, self.output, what) if isinstance(self.output, pl.Decimal) else to_bigints(sums, what)

    def _mean(self, sums: Sequence[Array], counts: Array) -> pl.Series:
        divisors = np.where(counts == 0, 1, counts)
        if not isinstance(self.output, pl.Decimal) or not isinstance(self.input, pl.Decimal):
            return pl.Series(to_doubles(sums) / divisors)
        factor = 10 ** (self.output.scale - self.input.scale)
        digits = [_half_up(total * factor, n) for total, n in zip(to_integers(sums), divisors.tolist(), strict=True)]
        return integers_to_decimals(digits, self.output, f"Mean({self.column!r})")


def _half_up(number: int, divisor: int) -> int:
    """The quotient to the nearest whole number, a half away from zero.

    >>> _half_up(5, 2), _half_up(-5, 2), _half_up(7, 3)
    (3, -3, 2)
    """
    if divisor < 0:
        number, divisor = -number, -divisor
    nearest = (2 * abs(number) + divisor) // (2 * divisor)
    return nearest if number >= 0 else -nearest


@dataclass(frozen=True, slots=True)
class GridSum:
    """The sum, or with `mean` the mean, of floats on the grid: bit-equal whatever the order and cut."""

    column: str
    mean: bool = False
    output: pl.DataType = pl.Float64()
    fields: Fields = field(init=False)

    def __post_init__(self) -> None:
        slices = tuple((name, pl.Int64()) for name in ("top", "s0", "s1", "s2"))
        object.__setattr__(self, "fields", (*slices, ("flags", pl.UInt8()), *([_COUNT] if self.mean else [])))

    def fold(self, rows: pl.DataFrame, times: Array, weights: Array | None, groups: Groups) -> Parts:
        """Cut each value into its slices and add them."""
        values, flags = set_specials_apart(doubles(rows[self.column]))
        counts = [groups.lengths] if self.mean else []
        return self._parts(cut(values).add(groups), groups.any_bits(flags), *counts)

    def merge(self, parts: Parts, groups: Groups) -> Parts:
        """Add the slices under the highest top."""
        if groups.all_single:
            return parts
        top, s0, s1, s2, flags, *counts = (p.to_numpy() for p in parts)
        return self._parts(Slices(top, s0, s1, s2).add(groups), groups.any_bits(flags), *map(groups.add, counts))

    def slide(self, parts: Parts, cells: Cells, windows: Windows) -> Iterator[Parts] | None:
        """Add the slices of each window's stretch under the highest top in it."""
        if not cells.few:
            return None
        initial = (NO_CELL, 0, 0, 0, 0, 0)
        tables = [cells.table(part.to_numpy(), none) for part, none in zip(parts, initial, strict=False)]
        return (self._added([table[first:last] for table in tables]) for first, last in windows)

    def _added(self, tables: Sequence[Array]) -> Parts:
        top, s0, s1, s2, flags, *counts = tables
        slices = Slices(top, s0, s1, s2).add_down()
        return self._parts(slices, np.bitwise_or.reduce(flags, axis=0), *(count.sum(axis=0) for count in counts))

    def show(self, parts: Parts) -> pl.Series:
        """The total, rounded once; divided, for the mean."""
        top, s0, s1, s2, flags, *counts = (p.to_numpy() for p in parts)
        total = with_specials(Slices(top, s0, s1, s2).total(), flags)
        if self.mean:
            total = total / np.where(counts[0] == 0, 1, counts[0])
        return nulled(pl.Series(total), flags & SEEN != 0)

    def empty(self, count: int) -> Parts:
        """No cell in use, nothing seen."""
        return filled(self.fields, count, NO_CELL, 0, 0, 0, 0, *([0] if self.mean else []))

    def _parts(self, slices: Slices, flags: Array, *counts: Array) -> Parts:
        return series(self.fields, [slices.top, slices.s0, slices.s1, slices.s2, flags, *counts])
