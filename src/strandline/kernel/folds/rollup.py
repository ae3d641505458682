"""Merge: roll up the accumulators that an earlier stage's panes carry."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from strandline.errors import DataError
from strandline.kernel.folds.fold import Fields, Fold, Parts, Weighable
from strandline.kernel.groups import Array, Groups
from strandline.model.panes import accumulator


@dataclass(frozen=True, slots=True)
class Rollup:
    """The earlier aggregate, over rows that are accumulators already."""

    column: str
    earlier: Fold

    @property
    def fields(self) -> Fields:
        """The earlier aggregate's columns."""
        return self.earlier.fields

    @property
    def output(self) -> pl.DataType:
        """What the earlier aggregate shows."""
        return self.earlier.output

    def fold(self, rows: pl.DataFrame, times: Array, weights: Array | None, groups: Groups) -> Parts:
        """Merge the accumulators of each group, those taken back with weight -1."""
        parts = [rows[accumulator(self.column, name)].alias(name) for name, _ in self.fields]
        if weights is not None and (weights != 1).any():
            parts = self._weighed(parts, weights)
        return self.merge(parts, groups)

    def merge(self, parts: Parts, groups: Groups) -> Parts:
        """Merge as the earlier aggregate does."""
        return self.earlier.merge(parts, groups)

    def show(self, parts: Parts) -> pl.Series:
        """Show as the earlier aggregate does."""
        return self.earlier.show(parts)

    def empty(self, count: int) -> Parts:
        """Accumulators of no rows."""
        return self.earlier.empty(count)

    def weigh(self, parts: Parts, weights: Array) -> Parts:
        """Weigh as the earlier aggregate does, for a roll-up of this roll-up."""
        return self._weighed(parts, weights)

    def _weighed(self, parts: Parts, weights: Array) -> Parts:
        if not isinstance(self.earlier, Weighable):
            raise DataError(
                f"Merge({self.column!r}) cannot take back what it merged.",
                fix="Let the earlier stage run in mode='accumulating' or 'discarding', or merge an exact aggregate.",
            )
        return self.earlier.weigh(parts, weights)
