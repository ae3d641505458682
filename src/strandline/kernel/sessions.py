"""Windows that merge: which stretches of a key's windows overlap, one way or another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.groups import Groups
from strandline.kernel.order import arrange, collide

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Stretches:
    """Windows of a key that overlap, standing together: rows in `order` make up `groups`, each one window [start, end)."""

    order: Array
    groups: Groups
    start: Array
    end: Array


def stretches(keys: pl.DataFrame, hashes: Array, start: Array, end: Array, *, inclusive: bool) -> Stretches:
    """Put windows that overlap, transitively, together: by hash, key and start."""
    order, ids = _by_key_and_start(keys, hashes, start)
    starts, ends = start[order], _reach(end[order], ids)
    apart = starts[1:] > ends[:-1] if inclusive else starts[1:] >= ends[:-1]
    opens = np.concatenate([np.ones(min(1, len(starts)), np.bool_), apart | (ids[1:] != ids[:-1])])
    groups = Groups(np.flatnonzero(opens), len(starts))
    return Stretches(order, groups, starts[groups.starts], groups.greatest(ends) if groups.count else ends)


def components(keys: pl.DataFrame, hashes: Array, start: Array, end: Array, *, inclusive: bool) -> tuple[Array, Array]:
    """The window that each of a key's windows becomes when all that overlap are merged, transitively.

    >>> keys, hashes = pl.DataFrame({"k": ["a"] * 3}), np.zeros(3, np.uint64)
    >>> components(keys, hashes, np.array([0, 20, 5]), np.array([10, 30, 15]), inclusive=False)
    (array([ 0, 20,  0]), array([15, 30, 15]))
    """
    found = stretches(keys, hashes, start, end, inclusive=inclusive)
    merged_start, merged_end = np.empty_like(start), np.empty_like(end)
    merged_start[found.order] = found.groups.spread(found.start)
    merged_end[found.order] = found.groups.spread(found.end)
    return merged_start, merged_end


def _by_key_and_start(keys: pl.DataFrame, hashes: Array, start: Array) -> tuple[Array, Array]:
    """Rows by hash, key and start; and a number for each key."""
    fast = _packed_order(hashes, start)
    if fast is not None and not collide(keys, fast, hashes):
        return fast, Groups.of_ids(hashes[fast]).ids
    order, by_key = arrange(keys, np.zeros(len(start), np.int64), hashes)
    ids = by_key.ids
    return order[np.lexsort((start[order], ids))], ids


def _packed_order(hashes: Array, start: Array) -> Array | None:
    """The order by hash and start from one sort of packed numbers, three times as fast; None where it cannot tell all apart."""
    if not len(start) or int(start.max()) - int(start.min()) >= 2**32:
        return None
    high = hashes & np.uint64(0xFFFF_FFFF_0000_0000)
    order = np.argsort(high | (start - start.min()).astype(np.uint64))
    ordered = high[order]
    mixed = (ordered[1:] == ordered[:-1]) & (hashes[order[1:]] != hashes[order[:-1]])
    return None if mixed.any() else order


def _reach(end: Array, ids: Array) -> Array:
    """The greatest end so far within each key."""
    if not ((np.diff(end) < 0) & (np.diff(ids) == 0)).any():
        return end
    reached = pl.DataFrame({"end": end, "id": ids}).select(pl.col("end").cum_max().over("id"))
    return reached["end"].to_numpy()
