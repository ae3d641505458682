"""Min, Max, First and Last, where nothing is taken back: one value is all they keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from strandline.kernel.folds.fold import Fields, Parts, filled, place
from strandline.kernel.folds.order import canonical, codes, physical
from strandline.kernel.groups import Array, Groups


@dataclass(frozen=True, slots=True)
class Extreme:
    """The least value, or the greatest."""

    column: str
    output: pl.DataType
    greatest: bool
    fields: Fields = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", (("value", self.output),))

    def fold(self, rows: pl.DataFrame, times: Array, weights: Array | None, groups: Groups) -> Parts:
        """The least or greatest value of each group."""
        return [self._best(rows[self.column], groups).alias("value")]

    def merge(self, parts: Parts, groups: Groups) -> Parts:
        """The least or greatest of the values that are there."""
        if groups.all_single:
            return parts
        valid = parts[0].is_not_null().to_numpy() if parts[0].null_count() else None
        if valid is None:
            return [self._best(parts[0], groups).alias("value")]
        some, present = groups.keep(valid)
        return place([self._best(parts[0].drop_nulls(), some).alias("value")], present, groups.count, self.empty(1))

    def show(self, parts: Parts) -> pl.Series:
        """The value."""
        return parts[0]

    def empty(self, count: int) -> Parts:
        """Null."""
        return filled(self.fields, count, None)

    def _best(self, values: pl.Series, groups: Groups) -> pl.Series:
        if (
            not groups.all_single
            and (self.output.is_numeric() or self.output.is_temporal())
            and not self.output.is_decimal()
        ):
            numbers = physical(values)
            best = groups.greatest(numbers) if self.greatest else groups.least(numbers)
            return canonical(pl.Series(best).cast(self.output))
        values = canonical(values)
        return values if groups.all_single else values.gather(best_rows(codes(values), groups, greatest=self.greatest))


@dataclass(frozen=True, slots=True)
class Edge:
    """The value with the least (time, value), or with the greatest."""

    column: str
    output: pl.DataType
    greatest: bool
    fields: Fields = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", (("time", pl.Int64()), ("value", self.output)))

    def fold(self, rows: pl.DataFrame, times: Array, weights: Array | None, groups: Groups) -> Parts:
        """The first or last of each group."""
        return self._best(pl.Series("time", times), canonical(rows[self.column]), groups)

    def merge(self, parts: Parts, groups: Groups) -> Parts:
        """The first or last of those that are there."""
        if groups.all_single:
            return parts
        times, values = parts
        if not values.null_count():
            return self._best(times, values, groups)
        some, present = groups.keep(values.is_not_null().to_numpy())
        return place(self._best(times.drop_nulls(), values.drop_nulls(), some), present, groups.count, self.empty(1))

    def show(self, parts: Parts) -> pl.Series:
        """The value."""
        return parts[1]

    def empty(self, count: int) -> Parts:
        """Null at no time."""
        return filled(self.fields, count, None, None)

    def _best(self, times: pl.Series, values: pl.Series, groups: Groups) -> Parts:
        if not groups.all_single:
            which = best_rows([times.to_numpy()], groups, greatest=self.greatest, then=values)
            times, values = times.gather(which), values.gather(which)
        return [times.alias("time"), values.alias("value")]


def best_rows(keys: Sequence[Array], groups: Groups, *, greatest: bool, then: pl.Series | None = None) -> Array:
    """The number of a row with the least (or greatest) keys in each group; ties are settled by `then`.

    `then` is put in order only for the rows that tie, which are few.
    """
    rows = np.arange(groups.length)
    for key in keys:
        here = key[rows]
        best = groups.greatest(here) if greatest else groups.least(here)
        tied = here == groups.spread(best)
        rows, (groups, _) = rows[tied], groups.keep(tied)
    if then is None or groups.all_single:
        return rows[groups.starts]
    return rows[best_rows(codes(then.gather(rows)), groups, greatest=greatest)]
