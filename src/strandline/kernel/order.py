"""The canonical order of state rows: by slice of event time, hash, key and window; and the groups that stand together in it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.frames import rows_at
from strandline.kernel.groups import Groups

Array = npt.NDArray[Any]
Kind = Literal["stable", "quicksort"]


def arrange(
    frame: pl.DataFrame, slices: Array, hashes: Array, *more: Array, stable: bool = True
) -> tuple[Array, Groups]:
    """Put rows in order by (slice, hash, key, *more) and say which of them are equal in all of it.

    `frame` holds the key columns alone. Rows that are equal keep the order they came in, if that is asked for.
    """
    order = _sorted(slices, (hashes, *more), "stable" if stable else "quicksort")
    groups = _groups(order, (slices, hashes, *more))
    if collide(frame, order, hashes):
        return _arrange_by_key(frame, slices, hashes, more)
    return order, groups


def sorted_unique(values: Array) -> Array:
    """The values in order, each once."""
    # numpy.unique hashes them first, which is slower by far for what is asked here.
    ordered = np.sort(values)
    return ordered[
        np.flatnonzero(np.concatenate([np.ones(min(1, len(ordered)), np.bool_), ordered[1:] != ordered[:-1]]))
    ]


def _sorted(slices: Array, columns: tuple[Array, ...], kind: Kind) -> Array:
    """Rows in order of slice, then of the columns. A slice at a time: there are few, and each sorts faster alone."""
    if len(slices) == 0:
        return np.zeros(0, np.int64)
    least, greatest = int(slices.min()), int(slices.max())
    if least == greatest:
        return _lexical(columns, kind)
    if greatest - least < 2**16:
        by_slice = np.argsort((slices - least).astype(np.uint16), kind="stable")
    else:
        by_slice = np.argsort(slices, kind="stable")
    groups = Groups.of_ids(slices[by_slice])
    parts = []
    for start, length in zip(groups.starts.tolist(), groups.lengths.tolist(), strict=True):
        rows = by_slice[start : start + length]
        parts.append(rows[_lexical(tuple(column[rows] for column in columns), kind)])
    return np.concatenate(parts)


def _lexical(columns: tuple[Array, ...], kind: Kind) -> Array:
    varying = [column for column in columns if len(column) and (column != column[0]).any()]
    if not varying:
        return np.arange(len(columns[0]))
    if (varying[0][1:] > varying[0][:-1]).all():  # in order already, as rows are that were arranged by key before
        return np.arange(len(columns[0]))
    if len(varying) == 1:
        return np.argsort(varying[0], kind=kind)
    return np.lexsort(tuple(reversed(varying)))


def _groups(order: Array, columns: tuple[Array, ...]) -> Groups:
    if not len(order):
        return Groups(np.zeros(0, np.int64), 0)
    changed = np.zeros(len(order) - 1, np.bool_)
    for column in columns:
        ordered = column[order]
        changed |= ordered[1:] != ordered[:-1]
    return Groups(np.concatenate([np.zeros(1, np.int64), np.flatnonzero(changed) + 1]), len(order))


def collide(frame: pl.DataFrame, order: Array, hashes: Array) -> bool:
    """Whether two different keys have one hash: very rare, but then only the keys themselves can tell them apart."""
    if not frame.width or len(order) < 2:
        return False
    ordered = hashes[order]
    same = np.flatnonzero(ordered[1:] == ordered[:-1])
    if not len(same):
        return False
    both = rows_at(frame, np.concatenate([order[same], order[same + 1]]))
    return not both[: len(same)].equals(both[len(same) :])


def _arrange_by_key(frame: pl.DataFrame, slices: Array, hashes: Array, more: tuple[Array, ...]) -> tuple[Array, Groups]:
    ranks = [frame[name].rank("dense").fill_null(0).to_numpy().astype(np.int64) for name in frame.columns]
    order = np.lexsort(tuple(reversed((slices, hashes, *ranks, *more))))
    return order, _groups(order, (slices, hashes, *ranks, *more))
