"""Aggregates that keep entries: Distinct, TopK, Collect; and Min, Max, First, Last where rows may be taken back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from strandline.errors import DataError
from strandline.kernel.folds.fold import Fields, Parts, filled
from strandline.kernel.folds.lists import Entries, read, tally, to_lists, write
from strandline.kernel.folds.order import canonical
from strandline.kernel.groups import Array, Groups


@dataclass(frozen=True, slots=True)
class Multiset(ABC):
    """Entries sorted by their keys, each with how often it was added less how often it was taken back.

    Law: an entry added and taken back leaves nothing behind.
    """

    column: str
    input: pl.DataType
    output: pl.DataType

    @property
    def keys(self) -> Fields:
        """The columns of an entry, in the order of sorting."""
        return (("values", self.input),)

    @property
    def counted(self) -> bool:
        """Whether to keep how often an entry occurs."""
        return True

    @property
    def reverse(self) -> tuple[bool, ...]:
        """Which keys are sorted from the greatest down."""
        return ()

    @property
    def fields(self) -> Fields:
        """Parallel lists: the keys, and the counts."""
        lists = tuple((name, pl.List(type)) for name, type in self.keys)
        return (*lists, ("counts", pl.List(pl.Int64()))) if self.counted else lists

    def fold(self, rows: pl.DataFrame, times: Array, weights: Array | None, groups: Groups) -> Parts:
        """Count the different entries of each group."""
        amounts = np.ones(groups.length, dtype=np.int64) if weights is None else weights
        return self._write(
            tally(Entries(groups.ids, self.entry(rows, times), amounts, groups.count), reverse=self.reverse)
        )

    def merge(self, parts: Parts, groups: Groups) -> Parts:
        """Add the counts of equal entries."""
        if groups.all_single:
            return parts
        return self._write(tally(read(parts, groups, counted=self.counted), reverse=self.reverse))

    def weigh(self, parts: Parts, weights: Array) -> Parts:
        """Each count times its weight."""
        if not self.counted:
            raise DataError(
                f"The values of {self.column!r} were kept without their counts, and cannot be taken back.",
                fix="Compile the earlier aggregate for taking back too.",
            )
        entries = read(parts)
        return self._write(replace(entries, amounts=entries.amounts * weights[entries.ids]))

    def show(self, parts: Parts) -> pl.Series:
        """What the entries that are there come to."""
        entries = read(parts, counted=self.counted)
        return self.reveal(entries.filter(entries.amounts > 0))

    def empty(self, count: int) -> Parts:
        """No entries."""
        return filled(self.fields, count, *[[] for _ in self.fields])

    def entry(self, rows: pl.DataFrame, times: Array) -> list[pl.Series]:
        """The keys of each row."""
        return [canonical(rows[self.column])]

    def trim(self, entries: Entries) -> Entries:
        """Leave out what can never be shown."""
        return entries

    @abstractmethod
    def reveal(self, entries: Entries) -> pl.Series:
        """What to show of entries that are there."""

    def _write(self, entries: Entries) -> Parts:
        return write(self.trim(entries), [name for name, _ in self.fields])


@dataclass(frozen=True, slots=True)
class TimedMultiset(Multiset):
    """Entries of (time, value)."""

    @property
    def keys(self) -> Fields:
        """Time, then value."""
        return (("times", pl.Int64()), ("values", self.input))

    def entry(self, rows: pl.DataFrame, times: Array) -> list[pl.Series]:
        """The time and value of each row."""
        return [pl.Series(times), canonical(rows[self.column])]


@dataclass(frozen=True, slots=True)
class DistinctFold(Multiset):
    """How many different values. Counts them only when rows may be taken back."""

    taking_back: bool

    @property
    def counted(self) -> bool:
        """Only to take back."""
        return self.taking_back

    def reveal(self, entries: Entries) -> pl.Series:
        """How many."""
        return pl.Series(entries.lengths(), dtype=pl.Int64)


@dataclass(frozen=True, slots=True)
class KeptExtreme(Multiset):
    """The least or greatest value, with all others kept, so that it can be taken back."""

    greatest: bool

    def reveal(self, entries: Entries) -> pl.Series:
        """The first or the last entry."""
        return end_of(entries, greatest=self.greatest)


@dataclass(frozen=True, slots=True)
class KeptEdge(TimedMultiset):
    """The first or last value in time, with all others kept, so that it can be taken back."""

    greatest: bool

    def reveal(self, entries: Entries) -> pl.Series:
        """The first or the last entry."""
        return end_of(entries, greatest=self.greatest)


@dataclass(frozen=True, slots=True)
class CollectFold(TimedMultiset):
    """All values in the order of (time, value)."""

    def reveal(self, entries: Entries) -> pl.Series:
        """Each value as often as it occurs."""
        return to_lists(_repeated(entries, [entries.keys[1]])[0], entries.totals())


@dataclass(frozen=True, slots=True)
class TopByCount(Multiset):
    """The k values that occur most often; ties by value."""

    k: int

    def reveal(self, entries: Entries) -> pl.Series:
        """The values with their counts."""
        # Entries are sorted by value already: a stable sort by falling count leaves ties in that order.
        order = np.lexsort((-entries.amounts, entries.ids))
        entries = entries.gather(order, entries.amounts[order])
        entries = entries.filter(entries.places() < self.k)
        columns = [entries.keys[0].alias("value"), pl.Series("count", entries.amounts)]
        return _structs(columns, entries.lengths())


@dataclass(frozen=True, slots=True)
class TopByColumn(Multiset):
    """The k values whose `by` is greatest; ties by time, then value. Keeps no more than k unless rows may be taken back."""

    k: int
    by: str
    by_type: pl.DataType
    taking_back: bool

    @property
    def keys(self) -> Fields:
        """Best first: `by` falling, then time, then value."""
        return (("by", self.by_type), ("times", pl.Int64()), ("values", self.input))

    @property
    def reverse(self) -> tuple[bool, ...]:
        """`by` falls."""
        return (True, False, False)

    def entry(self, rows: pl.DataFrame, times: Array) -> list[pl.Series]:
        """The keys of each row."""
        return [canonical(rows[self.by]), pl.Series(times), canonical(rows[self.column])]

    def trim(self, entries: Entries) -> Entries:
        """The k best are enough where nothing is taken back."""
        return entries if self.taking_back else _first(entries, self.k)

    def reveal(self, entries: Entries) -> pl.Series:
        """The values with what they were judged by."""
        best = _first(entries, self.k)
        by, value = _repeated(best, [best.keys[0], best.keys[2]])
        return _structs([value.alias("value"), by.alias("by")], best.totals())


def end_of(entries: Entries, *, greatest: bool) -> pl.Series:
    """The last key of the first entry of each list, or of the last; null of an empty list."""
    ends = np.cumsum(entries.lengths())
    lengths = entries.lengths()
    at = pl.Series(ends - 1 if greatest else ends - lengths)
    return entries.keys[-1].gather(at.set(pl.Series(lengths == 0), None))


def _first(entries: Entries, k: int) -> Entries:
    """The first k of each list, an entry counting as often as it occurs."""
    left = k - entries.before()
    if (left >= entries.amounts).all():
        return entries
    which = np.flatnonzero(left > 0)
    return entries.gather(which, np.minimum(entries.amounts[which], left[which]))


def _repeated(entries: Entries, keys: Sequence[pl.Series]) -> list[pl.Series]:
    if (entries.amounts == 1).all():
        return list(keys)
    which = np.repeat(np.arange(len(entries.ids)), entries.amounts)
    return [key.gather(which) for key in keys]


def _structs(columns: Sequence[pl.Series], lengths: Array) -> pl.Series:
    return to_lists(pl.DataFrame(columns).to_struct(), lengths)
