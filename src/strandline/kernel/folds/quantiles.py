"""Quantile: counts of values in bins that the bits of a double say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from strandline.kernel.folds.fold import Fields, Parts, filled, nulled
from strandline.kernel.folds.lists import Entries, from_lists, read, slide_lists, tally, to_lists, write
from strandline.kernel.folds.numbers import doubles
from strandline.kernel.folds.slide import Cells, Windows
from strandline.kernel.groups import Array, Groups

_LOWER_63 = np.int64(2**63 - 1)
_INFINITY = 0x7FF << 52
_NAMES = ("bins", "counts")


@dataclass(frozen=True, slots=True)
class QuantileFold:
    """Each power of two is cut into 2**bits equal bins; a bin is shown as its middle, within 2**-(bits+1) of its values."""

    column: str
    asked: tuple[float, ...]
    bits: int
    output: pl.DataType
    fields: Fields = (("bins", pl.List(pl.Int32())), ("counts", pl.List(pl.Int64())))

    @classmethod
    def of(cls, column: str, q: float | tuple[float, ...], error: float) -> QuantileFold:
        """The fold with as few bits as keep the error."""
        bits = next(b for b in range(53) if 2.0 ** -(b + 1) <= error)
        several = isinstance(q, tuple)
        return cls(
            column, q if isinstance(q, tuple) else (q,), bits, pl.List(pl.Float64()) if several else pl.Float64()
        )

    def fold(self, rows: pl.DataFrame, times: Array, weights: Array | None, groups: Groups) -> Parts:
        """Count the values in each bin."""
        bins = pl.Series(bins_of(doubles(rows[self.column]), self.bits))
        ones = np.ones(groups.length, dtype=np.int64)
        return write(tally(Entries(groups.ids, [bins], ones, groups.count)), _NAMES)

    def merge(self, parts: Parts, groups: Groups) -> Parts:
        """Add bin by bin."""
        return parts if groups.all_single else write(tally(read(parts, groups)), _NAMES)

    def slide(self, parts: Parts, cells: Cells, windows: Windows) -> Iterator[Parts] | None:
        """Move a window along slices."""
        return slide_lists(parts, cells, windows)

    def show(self, parts: Parts) -> pl.Series:
        """The middle of the bin that holds rank floor(q * (n - 1))."""
        bins, offsets = from_lists(parts[0])
        running = np.concatenate([np.zeros(1, np.int64), np.cumsum(from_lists(parts[1])[0].to_numpy())])
        before, totals = running[offsets[:-1]], np.diff(running[offsets])
        found = [self._ranked(bins.to_numpy(), running, before, totals, q) for q in self.asked]
        if self.output == pl.Float64():
            return nulled(pl.Series(found[0]), totals > 0)
        flat = pl.Series(np.column_stack(found).ravel())
        return nulled(to_lists(flat, np.full(len(totals), len(self.asked))), totals > 0)

    def empty(self, count: int) -> Parts:
        """No bins."""
        return filled(self.fields, count, [], [])

    def _ranked(self, bins: Array, running: Array, before: Array, totals: Array, q: float) -> Array:
        # Counts run on from list to list, so one search in the running sum finds each list's bin.
        if not len(bins):
            return np.zeros(len(totals))
        rank = np.floor(q * np.maximum(totals - 1, 0)).astype(np.int64) + before
        at = np.searchsorted(running[1:], rank, side="right")
        return middles_of(bins[np.minimum(at, len(bins) - 1)], self.bits)


def bins_of(values: Array, bits: int) -> Array:
    """The bin of each double: 0 for zero, rising with the value, NaN the greatest.

    >>> bins_of(np.array([1.0, 1.1, 0.0, -1.0]), 1) - bins_of(np.array([1.0]), 1)
    array([    0,     0, -2047, -4094], dtype=int32)
    """
    pattern = values.view(np.int64)
    magnitude = pattern & _LOWER_63
    bins = ((magnitude >> (52 - bits)) + 1).astype(np.int32)
    bins[pattern < 0] *= -1
    bins[magnitude == 0] = 0
    bins[magnitude > _INFINITY] = _nan_bin(bits)
    return bins


def middles_of(bins: Array, bits: int) -> Array:
    """The middle of each bin; zero, infinities and NaN stand for themselves."""
    lower = (np.abs(bins).astype(np.int64) - 1) << (52 - bits)
    finite = lower < _INFINITY
    values = np.where(finite, lower | (1 << (51 - bits)), _INFINITY).view(np.float64)
    values = np.where(bins < 0, -values, values)
    values[bins == 0] = 0.0
    values[bins == _nan_bin(bits)] = np.nan
    return values


def _nan_bin(bits: int) -> int:
    return (0x7FF << bits) + 2
