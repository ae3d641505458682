"""ApproxDistinct: a HyperLogLog, kept sparse."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from strandline.kernel.folds.fold import Fields, Parts, filled
from strandline.kernel.folds.lists import Entries, read, write
from strandline.kernel.groups import Array, Groups
from strandline.kernel.hashing import hash_columns

_NAMES = ("registers", "ranks")
_ALPHAS = {16: 0.673, 32: 0.697, 64: 0.709}
_RANK_BITS = 6


@dataclass(frozen=True, slots=True)
class ApproxDistinctFold:
    """The greatest rank that each register has seen: register = first bits of the hash, rank = zeros that follow, plus 1."""

    column: str
    precision: int
    output: pl.DataType = pl.Int64()
    fields: Fields = (("registers", pl.List(pl.Int32())), ("ranks", pl.List(pl.Int64())))

    def fold(self, rows: pl.DataFrame, times: Array, weights: Array | None, groups: Groups) -> Parts:
        """Hash each value into its register."""
        hashes = hash_columns([rows[self.column]])
        registers = (hashes >> np.uint64(64 - self.precision)).astype(np.int64)
        return self._greatest(groups.ids, registers, self._ranks(hashes), groups.count)

    def merge(self, parts: Parts, groups: Groups) -> Parts:
        """The greatest rank of each register."""
        if groups.all_single:
            return parts
        entries = read(parts, groups)
        return self._greatest(entries.ids, entries.keys[0].to_numpy().astype(np.int64), entries.amounts, groups.count)

    def show(self, parts: Parts) -> pl.Series:
        """The estimate, as a whole number."""
        entries = read(parts)
        m = 1 << self.precision
        zeros = m - entries.lengths()
        raw = _alpha(m) * m * m / (_harmonic(entries) + zeros)
        linear = (raw <= 2.5 * m) & (zeros > 0)
        # The logarithm is Python's, so that it is the same bits wherever numpy runs.
        left, which = np.unique(zeros[linear], return_inverse=True)
        raw[linear] = np.array([m * math.log(m / z) for z in left.tolist()])[which]
        return pl.Series(np.rint(raw).astype(np.int64))

    def empty(self, count: int) -> Parts:
        """No register has seen anything."""
        return filled(self.fields, count, [], [])

    def _ranks(self, hashes: Array) -> Array:
        # A one behind the last bit ends the zeros of a hash that has no other.
        rest = (hashes << np.uint64(self.precision)) | np.uint64(1 << (self.precision - 1))
        _, exponent = np.frexp((rest & ~(rest >> np.uint64(1))).astype(np.float64))
        return 65 - exponent.astype(np.int64)

    def _greatest(self, ids: Array, registers: Array, ranks: Array, count: int) -> Parts:
        packed = np.sort((((ids << self.precision) | registers) << _RANK_BITS) | ranks)
        slots = packed >> _RANK_BITS
        last = np.append(slots[1:] != slots[:-1], True) if len(slots) else np.zeros(0, dtype=bool)
        slots, best = slots[last], packed[last] & ((1 << _RANK_BITS) - 1)
        register = pl.Series((slots & ((1 << self.precision) - 1)).astype(np.int32))
        return write(Entries(slots >> self.precision, [register], best, count), _NAMES)


def _alpha(m: int) -> float:
    return _ALPHAS.get(m, 0.7213 / (1 + 1.079 / m))


def _harmonic(entries: Entries) -> Array:
    """The sum of 2**-rank of each list, rounded once: whole numbers of 2**-31 and of 2**-61 add exactly."""
    ranks = entries.amounts
    high = np.where(ranks <= 31, 1 << np.clip(31 - ranks, 0, 31), 0)
    low = np.where(ranks > 31, 1 << np.clip(61 - ranks, 0, 61), 0)
    sums = [Entries(entries.ids, [], each, entries.count).totals() for each in (high, low)]
    return sums[0] * 2.0**-31 + sums[1] * 2.0**-61
