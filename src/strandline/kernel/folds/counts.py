"""Count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from strandline.kernel.folds.fold import Fields, Parts, filled, series
from strandline.kernel.folds.slide import Cells, Windows
from strandline.kernel.groups import Array, Groups


@dataclass(frozen=True, slots=True)
class CountFold:
    """How many rows: the sum of their weights."""

    fields: Fields = (("n", pl.Int64()),)
    output: pl.DataType = pl.Int64()

    def fold(self, rows: pl.DataFrame, times: Array, weights: Array | None, groups: Groups) -> Parts:
        """Count the rows of each group."""
        return series(self.fields, [groups.lengths if weights is None else groups.add(weights)])

    def merge(self, parts: Parts, groups: Groups) -> Parts:
        """Add the counts."""
        return series(self.fields, [groups.add(parts[0].to_numpy())])

    def slide(self, parts: Parts, cells: Cells, windows: Windows) -> Iterator[Parts] | None:
        """Add the counts of each window's slices."""
        if not cells.few:
            return None
        table = cells.table(parts[0].to_numpy(), 0)
        return (series(self.fields, [table[first:last].sum(axis=0)]) for first, last in windows)

    def weigh(self, parts: Parts, weights: Array) -> Parts:
        """Each count times its weight."""
        return series(self.fields, [parts[0].to_numpy() * weights])

    def show(self, parts: Parts) -> pl.Series:
        """The count."""
        return parts[0]

    def empty(self, count: int) -> Parts:
        """Zero."""
        return filled(self.fields, count, 0)
