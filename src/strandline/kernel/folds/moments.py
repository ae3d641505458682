"""Variance and standard deviation, from exact sums."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from strandline.kernel.folds.cells import (
    digits_of,
    divide,
    float_map_of,
    map_of,
    merge_maps,
    rationals,
    special_counts,
    weigh_maps,
)
from strandline.kernel.folds.fold import Fields, Parts, filled, series
from strandline.kernel.folds.lists import read
from strandline.kernel.folds.numbers import doubles
from strandline.kernel.groups import Array, Groups

_CELLS, _SUMS = pl.List(pl.Int32()), pl.List(pl.Int64())


@dataclass(frozen=True, slots=True)
class VarianceFold:
    """The variance (with `root` its square root) from the exact count, sum and sum of squares: rounded once."""

    column: str
    scale: int
    population: bool
    root: bool
    output: pl.DataType = pl.Float64()
    fields: Fields = (
        ("cells", _CELLS),
        ("sums", _SUMS),
        ("square_cells", _CELLS),
        ("square_sums", _SUMS),
        ("n", pl.Int64()),
    )

    def fold(self, rows: pl.DataFrame, times: Array, weights: Array | None, groups: Groups) -> Parts:
        """Add values and their squares cell by cell."""
        values = rows[self.column]
        if values.dtype.is_float():
            first, finite = float_map_of(doubles(values), weights, groups)
            numbers = digits_of(pl.Series(finite))
        else:
            numbers = digits_of(values)
            first = map_of(numbers, weights, groups)
        counts = groups.lengths if weights is None else groups.add(weights)
        return self._parts(first, map_of(numbers.square(), weights, groups), counts)

    def merge(self, parts: Parts, groups: Groups) -> Parts:
        """Add cell by cell."""
        if groups.all_single:
            return parts
        counts = groups.add(parts[4].to_numpy())
        return self._parts(merge_maps(parts[:2], groups), merge_maps(parts[2:4], groups), counts)

    def weigh(self, parts: Parts, weights: Array) -> Parts:
        """Each accumulator times its weight."""
        counts = parts[4].to_numpy() * weights
        return self._parts(weigh_maps(parts[:2], weights), weigh_maps(parts[2:4], weights), counts)

    def show(self, parts: Parts) -> pl.Series:
        """The variance; null of fewer than two values (of a population: of none), NaN where a value is not finite."""
        entries = read(parts[:2])
        odd = np.logical_or.reduce([counts > 0 for counts in special_counts(entries)]).tolist()
        each = zip(parts[4].to_list(), odd, rationals(entries), rationals(read(parts[2:4])), strict=True)
        return pl.Series([self._shown(*one) for one in each], dtype=pl.Float64)

    def empty(self, count: int) -> Parts:
        """Empty maps of zero rows."""
        return filled(self.fields, count, [], [], [], [], 0)

    def _shown(self, n: int, odd: bool, total: tuple[int, int], squares: tuple[int, int]) -> float | None:
        divisor = n if self.population else n - 1
        if divisor <= 0:
            return None
        if odd:
            return math.nan
        (a, a_cell), (b, b_cell) = total, squares
        # n * b * 2**(32 b_cell) - a**2 * 2**(64 a_cell), over n * divisor * 100**scale, brought to whole numbers.
        low = min(2 * a_cell, b_cell, 0)
        number = (n * b << 32 * (b_cell - low)) - (a * a << 32 * (2 * a_cell - low))
        variance = divide(number, (n * divisor * 100**self.scale) << -32 * low)
        return math.sqrt(variance) if self.root else variance

    def _parts(self, first: Parts, squares: Parts, counts: Array) -> Parts:
        renamed = [part.alias(name) for part, (name, _) in zip([*first, *squares], self.fields, strict=False)]
        return renamed + series(self.fields[4:], [counts])
