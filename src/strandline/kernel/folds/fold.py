"""What an aggregate is in columns: a fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import polars as pl

from strandline.kernel.frames import column, constant, kept
from strandline.kernel.groups import Array, Groups

Parts: TypeAlias = list[pl.Series]
Fields: TypeAlias = tuple[tuple[str, pl.DataType], ...]


class Fold(Protocol):
    """An aggregate in columns: rows become accumulators, accumulators merge, and are shown.

    An accumulator is one row over the columns `fields`.

    Law: `fold` of rows equals `merge` of the folds of any cut of them in any order, bit for bit.
    """

    @property
    def fields(self) -> Fields:
        """The accumulator's columns: a suffix and a type each."""

    @property
    def output(self) -> pl.DataType:
        """The type of what is shown."""

    def fold(self, rows: pl.DataFrame, times: Array, weights: Array | None, groups: Groups) -> Parts:
        """Rows that stand together by group to one accumulator for each group."""

    def merge(self, parts: Parts, groups: Groups) -> Parts:
        """Accumulators that stand together by group to one for each group."""

    def show(self, parts: Parts) -> pl.Series:
        """What each accumulator comes to."""

    def empty(self, count: int) -> Parts:
        """Accumulators of no rows."""


def state_columns(name: str, fold: Fold) -> list[str]:
    """What the columns of an aggregate's accumulator are called in the state."""
    return [f"a.{name}.{suffix}" for suffix, _ in fold.fields]


@runtime_checkable
class Weighable(Protocol):
    """A fold whose accumulators can be taken several times, or taken back: weight w counts all its rows w times."""

    def weigh(self, parts: Parts, weights: Array) -> Parts:
        """Each accumulator times its weight."""


@dataclass(frozen=True, slots=True)
class Choosing:
    """A fold over chosen rows only: where `mask` is true and no column is null. What it wraps never sees a null."""

    inner: Fold
    columns: tuple[str, ...]
    mask: str | None

    @property
    def fields(self) -> Fields:
        """The accumulator's columns."""
        return self.inner.fields

    @property
    def output(self) -> pl.DataType:
        """The type of what is shown."""
        return self.inner.output

    def fold(self, rows: pl.DataFrame, times: Array, weights: Array | None, groups: Groups) -> Parts:
        """Fold the chosen rows; a group without any is empty."""
        chosen = chosen_rows(rows, self.columns, self.mask)
        if chosen is None:
            return self.inner.fold(rows, times, weights, groups)
        some, present = groups.keep(chosen)
        rows, times = kept(rows, chosen), times[chosen]
        weights = None if weights is None else weights[chosen]
        return place(self.inner.fold(rows, times, weights, some), present, groups.count, self.inner.empty(1))

    def merge(self, parts: Parts, groups: Groups) -> Parts:
        """Merge; who was chosen is settled already."""
        return self.inner.merge(parts, groups)

    def show(self, parts: Parts) -> pl.Series:
        """Show what the wrapped fold shows."""
        return self.inner.show(parts)

    def empty(self, count: int) -> Parts:
        """Accumulators of no rows."""
        return self.inner.empty(count)


def chosen_rows(rows: pl.DataFrame, columns: Sequence[str], mask: str | None) -> Array | None:
    """Which rows have the mask true and no null in the columns; None when all do, to spare a copy."""
    chosen = None if mask is None else rows[mask].fill_null(value=False).to_numpy()
    for name in columns:
        if rows[name].null_count():
            valid = rows[name].is_not_null().to_numpy()
            chosen = valid if chosen is None else chosen & valid
    return None if chosen is None or chosen.all() else chosen


def place(parts: Parts, present: Array, count: int, empty: Parts) -> Parts:
    """Put accumulators at the numbers in `present`; the others, up to `count`, are empty."""
    if len(present) == count:
        return parts
    index = np.full(count, len(present), dtype=np.int64)
    index[present] = np.arange(len(present))
    return [part.clone().extend(one)[index] for part, one in zip(parts, empty, strict=True)]


def filled(fields: Fields, count: int, *values: object) -> Parts:
    """The same accumulator `count` times: one value for each field."""
    return [
        pl.Series(name, [value], dtype=type).new_from_index(0, count) if count else pl.Series(name, [], dtype=type)
        for (name, type), value in zip(fields, values, strict=True)
    ]


def series(fields: Fields, arrays: Sequence[Array]) -> Parts:
    """Arrays as the columns of an accumulator."""
    return [column(name, array, type) for (name, type), array in zip(fields, arrays, strict=True)]


def nulled(shown: pl.Series, seen: Array) -> pl.Series:
    """What is shown, or null where nothing was seen."""
    if seen.all():
        return shown
    return shown.zip_with(pl.Series(seen), constant(None, shown.dtype, len(shown)))
