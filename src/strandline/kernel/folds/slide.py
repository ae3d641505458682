"""Accumulators of overlapping windows from those of the slices they are made of, merging what windows share only once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol, runtime_checkable

import numpy as np
import polars as pl

from strandline.kernel.folds.fold import Choosing, Fold, Parts
from strandline.kernel.groups import Array, Groups


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Where accumulators stand: row i is of slice `cell[i]` and key `key[i]`; rows stand by slice."""

    cell: Array
    key: Array
    cells: int
    keys: int

    @property
    def few(self) -> bool:
        """Whether a table of all slices and keys is small enough to add up whole."""
        return self.cells * self.keys <= LARGEST_TABLE

    def table(self, values: Array, initial: int) -> Array:
        """A column by slice and key; `initial` where a slice does not have a key."""
        found = np.full((self.cells, self.keys), initial, values.dtype)
        found[self.cell, self.key] = values
        return found


LARGEST_TABLE: Final = 1 << 22

Windows = Sequence[tuple[int, int]]
"""Windows as stretches of slices, the first of them and the one behind the last; neither ever goes back."""


@runtime_checkable
class Sliding(Protocol):
    """A fold that can move a window along slices by itself, faster than by merging."""

    def slide(self, parts: Parts, cells: Cells, windows: Windows) -> Iterator[Parts] | None:
        """The accumulators of every key, window by window; None where merging does as well."""


def slide(fold: Fold, parts: Parts, cells: Cells, windows: Windows) -> Iterator[Parts]:
    """The accumulators of every key, window by window; a key that a window does not have is empty there.

    Law: each is the merge of the window's slices.
    """
    inner = fold.inner if isinstance(fold, Choosing) else fold
    by_itself = inner.slide(parts, cells, windows) if isinstance(inner, Sliding) else None
    return by_itself or _Merging(fold, parts, cells).windows(windows)


class _Merging:
    """Windows by merging: what a run of windows shares once, and what lies before and behind it step by step."""

    def __init__(self, fold: Fold, parts: Parts, cells: Cells) -> None:
        self.fold, self.keys = fold, cells.keys
        self.parts = [pl.concat([part, none]) for part, none in zip(parts, fold.empty(1), strict=True)]
        # Which row is of which slice and key; where there is none, the empty one at the end.
        self.rows = np.full((cells.cells, cells.keys), len(cells.cell))
        self.rows[cells.cell, cells.key] = np.arange(len(cells.cell))

    def windows(self, windows: Windows) -> Iterator[Parts]:
        for run in _runs(windows):
            yield from self._run(run)

    def _run(self, run: Windows) -> Iterator[Parts]:
        core = self._slices(run[-1][0], run[0][1])
        before: list[Parts | None] = [None]
        for (first, _), (later, _) in reversed([*pairwise(run)]):
            before.append(self._join([self._slices(first, later), before[-1]]))
        behind, reached = None, run[0][1]
        for (_, last), front in zip(run, reversed(before), strict=True):
            behind, reached = self._join([behind, self._slices(reached, last)]), last
            yield self._join([front, core, behind]) or self.fold.empty(self.keys)

    def _slices(self, first: int, last: int) -> Parts | None:
        if last <= first:
            return None
        rows = self.rows[first:last].T.ravel()
        return self._merged([part.gather(rows) for part in self.parts], last - first)

    def _join(self, found: Sequence[Parts | None]) -> Parts | None:
        some = [parts for parts in found if parts is not None]
        if len(some) <= 1:
            return some[0] if some else None
        rows = np.arange(len(some) * self.keys).reshape(len(some), self.keys).T.ravel()
        return self._merged([pl.concat(columns).gather(rows) for columns in zip(*some, strict=True)], len(some))

    def _merged(self, parts: Parts, each: int) -> Parts:
        return self.fold.merge(parts, Groups.of_lengths(np.full(self.keys, each)))


def _runs(windows: Windows) -> Iterator[Windows]:
    """Windows that share at least half of the first one's slices, together."""
    start = 0
    for at, (first, _) in enumerate(windows):
        low, high = windows[start]
        if first - low > (high - low) // 2:
            yield windows[start:at]
            start = at
    yield windows[start:]
