"""Counted lists: accumulators that keep entries, each with an amount, as parallel lists.

Law: entries of a list are different, sorted, and no amount is 0; so equal contents are equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
import polars as pl
import pyarrow as pa

from strandline.kernel.folds.fold import Parts
from strandline.kernel.folds.order import codes
from strandline.kernel.folds.slide import Cells, Windows
from strandline.kernel.groups import Array, Groups

# Doubles count exactly up to here, so a dense table may add amounts as doubles.
_WHOLE = 2**53
_AT_ONCE = 1 << 18


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """The entries of `count` lists, one behind the other: entry j stands in list ids[j], ids never fall."""

    ids: Array
    keys: list[pl.Series]
    amounts: Array
    count: int

    def filter(self, chosen: Array) -> Entries:
        """The chosen entries."""
        if chosen.all():
            return self
        which = np.flatnonzero(chosen)
        return self.gather(which, self.amounts[which])

    def gather(self, which: Array, amounts: Array) -> Entries:
        """The entries of these numbers, with these amounts."""
        return Entries(self.ids[which], [k.gather(which) for k in self.keys], amounts, self.count)

    def lengths(self) -> Array:
        """How many entries each list has."""
        return np.bincount(self.ids, minlength=self.count)

    def places(self) -> Array:
        """Each entry's place in its list, from 0."""
        lengths = self.lengths()
        places: Array = np.arange(len(self.ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return places

    def before(self) -> Array:
        """The sum of the amounts that stand before each entry in its list."""
        running = np.cumsum(self.amounts)
        lengths = self.lengths()
        firsts = (np.cumsum(lengths) - lengths)[lengths > 0]
        before: Array = running - self.amounts
        before -= np.repeat(before[firsts], lengths[lengths > 0])
        return before

    def totals(self) -> Array:
        """The sum of each list's amounts."""
        totals = np.zeros(self.count, dtype=np.int64)
        groups = Groups.of_ids(self.ids)
        totals[self.ids[groups.starts]] = groups.add(self.amounts)
        return totals


def to_lists(flat: pl.Series, lengths: Array) -> pl.Series:
    """Cut a column into lists of these lengths.

    >>> to_lists(pl.Series([1, 2, 3]), np.array([2, 0, 1])).to_list()
    [[1, 2], [], [3]]
    """
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    result = pl.from_arrow(pa.LargeListArray.from_arrays(offsets, flat.rechunk().to_arrow()))
    assert isinstance(result, pl.Series)
    return result


def from_lists(lists: pl.Series) -> tuple[pl.Series, Array]:
    """The contents of lists, one behind the other, and where each list starts (and the last ends)."""
    array = lists.rechunk().to_arrow()
    offsets = np.asarray(array.offsets)
    flat = pl.from_arrow(array.values.slice(offsets[0], offsets[-1] - offsets[0]))
    assert isinstance(flat, pl.Series)
    inner = lists.dtype.inner  # type: ignore[attr-defined]
    return (flat if flat.dtype == inner else flat.cast(inner)), offsets - offsets[0]


def list_lengths(lists: pl.Series) -> Array:
    """How long each list is; one that is null has nothing in it.

    >>> list_lengths(pl.Series([[1, 2], None, []]))
    array([2, 0, 0], dtype=uint32)
    """
    if lists.null_count() == len(lists):
        return np.zeros(len(lists), np.uint32)
    lengths = lists.list.len()
    return (lengths.fill_null(0) if lengths.null_count() else lengths).to_numpy()


def read(parts: Parts, groups: Groups | None = None, *, counted: bool = True) -> Entries:
    """The entries of parallel lists, the last of which are the amounts; with groups, those of a group stand together."""
    flats = []
    offsets: Array = np.zeros(1, dtype=np.int64)
    for part in parts:
        flat, offsets = from_lists(part)
        flats.append(flat)
    ends = offsets if groups is None else np.append(offsets[groups.starts], offsets[-1])
    ids = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    if not counted:
        return Entries(ids, flats, np.ones(len(ids), dtype=np.int64), len(ends) - 1)
    return Entries(ids, flats[:-1], flats[-1].to_numpy(), len(ends) - 1)


def write(entries: Entries, names: Sequence[str]) -> Parts:
    """Entries as parallel lists; the amounts are the last, and left out when there is no name for them."""
    lengths = entries.lengths()
    flats = [*entries.keys, pl.Series(entries.amounts)][: len(names)]
    return [to_lists(flat, lengths).alias(name) for flat, name in zip(flats, names, strict=True)]


def tally(entries: Entries, *, reverse: Sequence[bool] = (), mixed: bool = False) -> Entries:
    """Sort the entries of each list, add the amounts of equal ones, and drop those that come to 0.

    `reverse` says which keys are sorted from the greatest down; `mixed`, that ids may fall as yet.
    """
    if not len(entries.ids):
        return entries
    groups = Groups.of_ids(entries.ids)
    if 2 * groups.count > groups.length and not mixed:
        return _tally_apart(entries, groups, reverse)
    if groups.length > _AT_ONCE and groups.count > 1 and not mixed:
        return _joined([_tally_all(part, reverse) for part in _in_turn(entries, groups)])
    return _tally_all(entries, reverse)


def _in_turn(entries: Entries, groups: Groups) -> Iterator[Entries]:
    """Whole lists at a time, few enough that what they are added up in stays close to the processor."""
    cuts = np.unique(np.searchsorted(groups.starts, np.arange(0, groups.length, _AT_ONCE), side="right") - 1)
    bounds = [*groups.starts[cuts].tolist(), groups.length]
    for first, last in pairwise(bounds):
        keys = [key.slice(first, last - first) for key in entries.keys]
        yield Entries(entries.ids[first:last], keys, entries.amounts[first:last], entries.count)


def _joined(parts: Sequence[Entries]) -> Entries:
    return Entries(
        np.concatenate([part.ids for part in parts]),
        [pl.concat(keys) for keys in zip(*(part.keys for part in parts), strict=True)],
        np.concatenate([part.amounts for part in parts]),
        parts[0].count,
    )


def _tally_apart(entries: Entries, groups: Groups, reverse: Sequence[bool]) -> Entries:
    """Most entries are alone in their lists, and need no sorting: tally the others, and put both together."""
    alone = groups.spread(groups.lengths == 1)
    single = entries.filter(alone & (entries.amounts != 0))
    if alone.all():
        return single
    several = _tally_all(entries.filter(~alone), reverse)
    both = _joined([single, several])
    order = np.argsort(both.ids, kind="stable")
    return both.gather(order, both.amounts[order])


def _tally_all(entries: Entries, reverse: Sequence[bool]) -> Entries:
    columns = [entries.ids]
    for i, key in enumerate(entries.keys):
        down = bool(reverse) and reverse[i]
        columns += [~code if down else code for code in codes(key)]
    least = [int(c.min()) for c in columns]
    spans = [int(c.max()) - low + 1 for c, low in zip(columns, least, strict=True)]
    packed, size = _pack(columns, least, spans), prod(spans)
    greatest = max(int(entries.amounts.max()), -int(entries.amounts.min()))
    if size > max(1 << 16, 4 * len(entries.ids)) or greatest * len(entries.ids) >= _WHOLE:
        return _tally_sorted(entries, _order(packed), packed)
    found, amounts = _tally_dense(packed[0], entries.amounts, size)
    if len(columns) == 2 and not any(reverse) and entries.keys[0].dtype.is_integer():
        key = pl.Series(found % spans[1] + least[1], dtype=entries.keys[0].dtype)
        return Entries(found // spans[1] + least[0], [key], amounts, entries.count)
    # Equal entries are equal in every bit, so any one of them stands for all.
    sample = np.empty(size, dtype=np.int64)
    sample[packed[0]] = np.arange(len(packed[0]))
    return entries.gather(sample[found], amounts)


def _pack(columns: Sequence[Array], least: Sequence[int], spans: Sequence[int]) -> list[Array]:
    """The columns as few as 62 bits each allow, in the same order; each lies within its span from its least."""
    packed, size = [columns[0] - least[0]], spans[0]
    for column, low, span in zip(columns[1:], least[1:], spans[1:], strict=True):
        if size * span > 1 << 62:
            packed.append(column)
            size = 1 << 64
            continue
        packed[-1] *= span
        packed[-1] += column
        packed[-1] -= low
        size *= span
    return packed


def _order(columns: Sequence[Array]) -> Array:
    """The order of rows by columns: by the first, and by the others only where the first ties."""
    order = np.argsort(columns[0], kind="stable")
    if len(columns) == 1:
        return order
    groups = Groups.of_ids(columns[0][order])
    tied = np.flatnonzero(groups.spread(groups.lengths > 1))
    rows = order[tied]
    order[tied] = rows[np.lexsort([column[rows] for column in reversed(columns)])]
    return order


def _tally_dense(packed: Array, amounts: Array, size: int) -> tuple[Array, Array]:
    """Add in a table of all that there might be, which needs no sorting: what is found, and how much of it."""
    table = np.bincount(packed, amounts, minlength=size)
    found = np.flatnonzero(table)
    return found, table[found].astype(np.int64)


def _tally_sorted(entries: Entries, order: Array, columns: Sequence[Array]) -> Entries:
    differs = np.zeros(len(order), dtype=bool)
    for column in columns:
        in_order = column[order]
        differs[1:] |= in_order[1:] != in_order[:-1]
    differs[0] = True
    groups = Groups(np.flatnonzero(differs), len(order))
    amounts = groups.add(entries.amounts[order])
    kept = np.flatnonzero(amounts)
    return entries.gather(order[groups.starts[kept]], amounts[kept])


def slide_lists(parts: Parts, cells: Cells, windows: Windows) -> Iterator[Parts] | None:
    """Lists of whole-number keys, moved along slices: what enters a window is added, what leaves it is taken away.

    None where the table of all that there might be would be much larger than what there is.
    """
    entries = read(parts)
    keys = entries.keys[0].to_numpy()
    span = int(keys.max()) - int(keys.min()) + 1 if len(keys) else 1
    if cells.keys * span > max(1 << 20, 16 * len(keys)):
        return None
    return _slide_dense(entries, keys, span, cells, windows)


def _slide_dense(entries: Entries, keys: Array, span: int, cells: Cells, windows: Windows) -> Iterator[Parts]:
    low = int(keys.min()) if len(keys) else 0
    bounds = np.searchsorted(cells.cell[entries.ids], np.arange(cells.cells + 1))
    place = cells.key[entries.ids] * span + (keys - low)
    table = np.zeros(cells.keys * span, np.int64)
    labels = np.tile(np.arange(low, low + span, dtype=keys.dtype), cells.keys)
    # Booleans are searched and counted many times faster than numbers; they change only where something comes or goes.
    there = np.zeros((cells.keys, span), np.bool_)

    def move(cell: int, sign: int) -> None:
        part = slice(bounds[cell], bounds[cell + 1])
        moved = table.take(place[part]) + sign * entries.amounts[part]
        table[place[part]] = moved
        there.ravel()[place[part]] = moved != 0

    held = (windows[0][0],) * 2 if windows else (0, 0)
    for first, last in windows:
        for cell in range(held[0], min(first, held[1])):
            move(cell, -1)
        for cell in range(max(held[1], first), last):
            move(cell, 1)
        held = (first, max(held[1], last))
        found, lengths = np.flatnonzero(there), np.count_nonzero(there, axis=1)
        bins, amounts = pl.Series(labels.take(found)), pl.Series(table.take(found))
        yield [to_lists(bins, lengths), to_lists(amounts, lengths)]
