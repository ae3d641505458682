"""Exact sums as sparse maps: cell -> sum of signed 32-bit slices, over all cells, so that taking back is exact.

A column of numbers is first a column of *digits*: whole numbers below 2**32 in neighbouring cells, most significant
first, with one sign. NaN and infinities are counted in cells of their own, far above those of numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from strandline.kernel.folds.fold import Fields, Parts, filled, nulled, series
from strandline.kernel.folds.grid import Slices, cut
from strandline.kernel.folds.lists import Entries, read, tally, write
from strandline.kernel.folds.numbers import decimal_words, doubles
from strandline.kernel.folds.rounding import MASK32
from strandline.kernel.groups import Array, Groups

# Squares of doubles reach from cell -68 to cell 64.
NAN_CELL, PLUS_CELL, MINUS_CELL = 1000, 1001, 1002
_SHIFT = np.uint64(32)


@dataclass(frozen=True, slots=True, eq=False)
class Digits:
    """Numbers as sign * (digits[0] * 2**(32*top) + digits[1] * 2**(32*(top-1)) + ...); digits are uint64 below 2**32."""

    top: Array
    digits: list[Array]
    sign: Array

    def square(self) -> Digits:
        """Each number times itself, exactly."""
        count = len(self.digits)
        sums = [np.zeros(len(self.top), dtype=np.uint64) for _ in range(2 * count)]
        for i, left in enumerate(self.digits):
            for j, right in enumerate(self.digits):
                product = left * right
                sums[i + j] += product >> _SHIFT
                sums[i + j + 1] += product & np.uint64(MASK32)
        return Digits(2 * self.top + 1, sums, np.ones(len(self.top), dtype=np.int64))


def digits_of(values: pl.Series) -> Digits:
    """The digits of whole numbers, of the digits of decimals, or of finite floats, without nulls."""
    if values.dtype.is_float():
        slices = cut(doubles(values))
        parts = [np.abs(s).astype(np.uint64) for s in (slices.s0, slices.s1, slices.s2)]
        negative = (slices.s0 < 0) | (slices.s1 < 0) | (slices.s2 < 0)
        return Digits(np.where(slices.s0 == 0, 0, slices.top), parts, np.where(negative, -1, 1))
    if isinstance(values.dtype, pl.Decimal):
        low, high = decimal_words(values)
    else:
        low = values.to_numpy().astype(np.int64)
        high = low >> 63
    negative = high < 0
    low = np.where(negative, -low, low).view(np.uint64)
    high = np.where(negative, ~high + (low == 0), high).view(np.uint64)
    words = [high >> _SHIFT, high & np.uint64(MASK32), low >> _SHIFT, low & np.uint64(MASK32)]
    while len(words) > 1 and not words[0].any():
        words = words[1:]
    return Digits(np.full(len(low), len(words) - 1), words, np.where(negative, -1, 1))


def map_of(numbers: Digits, weights: Array | None, groups: Groups, specials: Sequence[tuple[int, Array]] = ()) -> Parts:
    """The sum of each group as a map; `specials` are cells with the rows to count in them."""
    ids = groups.ids
    sign = numbers.sign if weights is None else numbers.sign * weights
    cells = [numbers.top - i for i in range(len(numbers.digits))]
    amounts = [digit.astype(np.int64) * sign for digit in numbers.digits]
    owners = [ids] * len(cells)
    for cell, which in specials:
        cells.append(np.full(len(which), cell))
        amounts.append(np.ones(len(which), dtype=np.int64) if weights is None else weights[which])
        owners.append(ids[which])
    amount = np.concatenate(amounts)
    key = pl.Series(np.concatenate(cells).astype(np.int32))
    entries = Entries(np.concatenate(owners), [key], amount, groups.count)
    return write(tally(entries.filter(amount != 0), mixed=True), ["cells", "sums"])


def float_map_of(values: Array, weights: Array | None, groups: Groups) -> tuple[Parts, Array]:
    """The sum of each group of doubles as a map, and the doubles with 0 for NaN and infinities."""
    finite = np.isfinite(values)
    specials: list[tuple[int, Array]] = []
    if not finite.all():
        tests = ((NAN_CELL, np.isnan(values)), (PLUS_CELL, values == np.inf), (MINUS_CELL, values == -np.inf))
        specials = [(cell, np.flatnonzero(test)) for cell, test in tests]
        values = np.where(finite, values, 0.0)
    return map_of(digits_of(pl.Series(values)), weights, groups, specials), values


def merge_maps(parts: Parts, groups: Groups) -> Parts:
    """Add maps."""
    return write(tally(read(parts, groups)), ["cells", "sums"])


def weigh_maps(parts: Parts, weights: Array) -> Parts:
    """Each map times its weight."""
    entries = read(parts)
    return write(
        Entries(entries.ids, entries.keys, entries.amounts * weights[entries.ids], entries.count), ["cells", "sums"]
    )


def special_counts(entries: Entries) -> tuple[Array, Array, Array]:
    """How many NaN, plus infinities and minus infinities each map counts."""
    cells = entries.keys[0].to_numpy()
    found = []
    for cell in (NAN_CELL, PLUS_CELL, MINUS_CELL):
        counts = np.zeros(entries.count, dtype=np.int64)
        which = cells == cell
        counts[entries.ids[which]] = entries.amounts[which]
        found.append(counts)
    return found[0], found[1], found[2]


def rationals(entries: Entries) -> list[tuple[int, int]]:
    """Each map as (m, c), meaning m * 2**(32*c); specials left out."""
    cells = entries.keys[0].to_numpy()
    chosen = cells < NAN_CELL
    result: list[tuple[int, int]] = [(0, 0)] * entries.count
    ids, amounts = entries.ids[chosen].tolist(), entries.amounts[chosen].tolist()
    # Cells rise within a map, so the first entry met of a map is its lowest.
    for i, cell, amount in zip(ids, cells[chosen].tolist(), amounts, strict=True):
        number, lowest = result[i]
        result[i] = (number + (amount << (32 * (cell - lowest))), lowest) if number else (amount, cell)
    return result


def divide(number: int, divisor: int) -> float:
    """The double nearest to number / divisor; an infinity beyond the greatest."""
    try:
        return number / divisor
    except OverflowError:
        return float("inf") if (number < 0) == (divisor < 0) else float("-inf")


@dataclass(frozen=True, slots=True)
class ExactSum:
    """The true sum of floats, rounded once; or with `mean` that, divided by the count. Takes back exactly."""

    column: str
    mean: bool = False
    output: pl.DataType = pl.Float64()
    fields: Fields = (("cells", pl.List(pl.Int32())), ("sums", pl.List(pl.Int64())), ("n", pl.Int64()))

    def fold(self, rows: pl.DataFrame, times: Array, weights: Array | None, groups: Groups) -> Parts:
        """Add slices cell by cell."""
        parts, _ = float_map_of(doubles(rows[self.column]), weights, groups)
        return parts + series(self.fields[2:], [groups.lengths if weights is None else groups.add(weights)])

    def merge(self, parts: Parts, groups: Groups) -> Parts:
        """Add cell by cell."""
        if groups.all_single:
            return parts
        return merge_maps(parts[:2], groups) + series(self.fields[2:], [groups.add(parts[2].to_numpy())])

    def weigh(self, parts: Parts, weights: Array) -> Parts:
        """Each sum times its weight."""
        return weigh_maps(parts[:2], weights) + series(self.fields[2:], [parts[2].to_numpy() * weights])

    def show(self, parts: Parts) -> pl.Series:
        """The sum or mean; null of nothing."""
        entries, counts = read(parts[:2]), parts[2].to_numpy()
        nan, plus, minus = special_counts(entries)
        totals = _totals(entries)
        totals = np.where(plus > 0, np.inf, np.where(minus > 0, -np.inf, totals))
        totals = np.where((nan > 0) | ((plus > 0) & (minus > 0)), np.nan, totals)
        if self.mean:
            totals = totals / np.where(counts == 0, 1, counts)
        return nulled(pl.Series(totals), counts != 0)

    def empty(self, count: int) -> Parts:
        """An empty map of zero rows."""
        return filled(self.fields, count, [], [], 0)


def _totals(entries: Entries) -> Array:
    """Each map's sum, rounded once: in columns where three neighbouring cells hold it, else one by one."""
    cells = entries.keys[0].to_numpy().astype(np.int64)
    numbers = Entries(entries.ids, [], entries.amounts, entries.count).filter(cells < NAN_CELL)
    cells = cells[cells < NAN_CELL]
    groups, totals = Groups.of_ids(numbers.ids), np.zeros(entries.count)
    top = groups.greatest(cells)
    below = groups.spread(top) - cells
    narrow = groups.least(cells) >= top - 2
    slices = (groups.add(np.where(below == i, numbers.amounts, 0)) for i in range(3))
    owners = numbers.ids[groups.starts]
    totals[owners] = Slices(top, *slices).total()
    if not narrow.all():
        wide = set(owners[~narrow].tolist())
        for i, (number, cell) in enumerate(rationals(entries)):
            if i in wide:
                totals[i] = divide(number << max(0, 32 * cell), 1 << max(0, -32 * cell))
    return totals
