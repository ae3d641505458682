"""What a fold shows of stretches of rows that overlap, as those do that each event looks back over.

To write out every stretch costs its length: for a key with very many rows that is the square of their number. So long
stretches are put together from accumulators of 1, 2, 4, ... neighbours, each made once: a stretch of n rows has at most
2 log n of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from strandline.kernel.folds.fold import Choosing, Fold, Parts, place
from strandline.kernel.folds.user import UserFold
from strandline.kernel.frames import rows_at
from strandline.kernel.groups import Array, Groups
from strandline.kernel.operators.ranges import spread

LONG: Final = 16
"""Stretches are written out unless each row is in more than so many of them: to put them together would cost as much."""
AT_ONCE: Final = 1 << 20
"""About how many rows, or accumulators, are looked at in one go, so that memory does not grow with all stretches."""


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """Stretch i has the rows first[i] up to first[i] + counts[i], and is a part of what is shown at owner[i].

    Owners never fall; there are `shown` of them, and one may have several stretches, or none.
    """

    owner: Array
    first: Array
    counts: Array
    shown: int

    def of(self, low: int, high: int) -> Stretches:
        """Those of the owners from low up to high."""
        start, end = np.searchsorted(self.owner, [low, high])
        return Stretches(self.owner[start:end] - low, self.first[start:end], self.counts[start:end], high - low)

    def lengths(self) -> Array:
        """How many rows each owner has."""
        return np.bincount(self.owner, self.counts, self.shown).astype(np.int64)


def show_stretches(fold: Fold, rows: pl.DataFrame, times: Array, stretches: Stretches) -> pl.Series:
    """What the rows of each owner's stretches come to.

    Law: it is what folding them row by row shows, bit for bit.
    """
    covered = _covered(stretches, len(times))
    if not _is_worth_a_tower(fold, stretches, int(covered.sum())):
        return _whole([_written_out(fold, rows, times, each) for each in _cut(stretches, stretches.lengths())])
    # Only the rows that some stretch has are put together, under new numbers.
    numbers = np.cumsum(covered) - covered
    some = Stretches(
        stretches.owner, numbers[np.minimum(stretches.first, len(times) - 1)], stretches.counts, stretches.shown
    )
    tower = _Tower(fold, rows_at(rows, np.flatnonzero(covered)), times[covered], int(some.counts.max(initial=0)))
    weights = some.lengths() if _grows(fold) else np.full(some.shown, 2 * len(tower.starts))
    return _whole([tower.show(each) for each in _cut(some, weights)])


def _is_worth_a_tower(fold: Fold, stretches: Stretches, covered: int) -> bool:
    """Whether to write all stretches out costs more than to put them together."""
    # A user's aggregate is asked row by row: how it merges may differ in the last bit from how it adds.
    users = isinstance(fold.inner if isinstance(fold, Choosing) else fold, UserFold)
    return not users and bool(stretches.counts.sum() > LONG * covered)


def _grows(fold: Fold) -> bool:
    """Whether an accumulator may be as large as the rows in it."""
    return any(isinstance(kind, pl.List) for _, kind in fold.fields)


def _covered(stretches: Stretches, count: int) -> Array:
    """Which rows some stretch has."""
    edges = np.zeros(count + 1, np.int64)
    np.add.at(edges, stretches.first, 1)
    np.add.at(edges, stretches.first + stretches.counts, -1)
    return np.cumsum(edges[:-1]) > 0


def _cut(stretches: Stretches, weights: Array) -> Iterator[Stretches]:
    """Owners in turn, as many at once as weigh about what may be looked at."""
    turns = np.cumsum(weights) // AT_ONCE
    starts = [0, *(np.flatnonzero(turns[1:] != turns[:-1]) + 1).tolist(), stretches.shown]
    if len(starts) == 2:
        yield stretches
    else:
        yield from (stretches.of(low, high) for low, high in pairwise(starts))


def _whole(shown: list[pl.Series]) -> pl.Series:
    return pl.concat(shown) if len(shown) > 1 else shown[0]


def _written_out(fold: Fold, rows: pl.DataFrame, times: Array, stretches: Stretches) -> pl.Series:
    which, at = spread(stretches.first, stretches.counts)
    owner = stretches.owner[which]
    groups = Groups.of_ids(owner)
    parts = fold.fold(rows_at(rows, at), times[at], None, groups) if len(at) else fold.empty(0)
    return fold.show(place(parts, owner[groups.starts], stretches.shown, fold.empty(1)))


class _Tower:
    """Accumulators of each row, of each two neighbours, each four, and so on, one behind the other."""

    def __init__(self, fold: Fold, rows: pl.DataFrame, times: Array, longest: int) -> None:
        self.fold = fold
        floors = [fold.fold(rows, times, None, Groups.of_lengths(np.ones(len(times), np.int64)))]
        while 2 ** len(floors) <= longest:
            pairs = len(floors[-1][0]) // 2
            floors.append(fold.merge([part[: 2 * pairs] for part in floors[-1]], Groups.of_lengths(np.full(pairs, 2))))
        self.starts = np.cumsum([0, *(len(floor[0]) for floor in floors[:-1])])
        self.parts: Parts = [pl.concat(columns).rechunk() for columns in zip(*floors, strict=True)]

    def show(self, stretches: Stretches) -> pl.Series:
        """What the stretches come to."""
        owner, which = self._pieces(stretches)
        groups = Groups.of_ids(owner)
        parts = (
            self.fold.merge([part.gather(which) for part in self.parts], groups) if len(owner) else self.fold.empty(0)
        )
        return self.fold.show(place(parts, owner[groups.starts], stretches.shown, self.fold.empty(1)))

    def _pieces(self, stretches: Stretches) -> tuple[Array, Array]:
        """The accumulators of which stretches are made: those of more and more neighbours, from both ends inwards."""
        owners, pieces = [], []
        low, high, owner = stretches.first, stretches.first + stretches.counts, stretches.owner
        for start in self.starts:
            left = (low < high) & (low % 2 == 1)
            owners.append(owner[left])
            pieces.append(start + low[left])
            low = low + left
            right = (low < high) & (high % 2 == 1)
            high = high - right
            owners.append(owner[right])
            pieces.append(start + high[right])
            low, high = low // 2, high // 2
        whole, found = np.concatenate(owners), np.concatenate(pieces)
        order = np.argsort(whole, kind="stable")
        return whole[order], found[order]
