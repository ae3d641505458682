"""Windows that merge: which stretches of a key's windows overlap, one way or another."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.groups import Groups
from strandline.kernel.order import arrange

Array = npt.NDArray[Any]


def components(
    keys: pl.DataFrame, hashes: Array, start: Array, end: Array, *, inclusive: bool
) -> tuple[Array, Array]:
    """The window that each of a key's windows becomes when all that overlap are merged, transitively.

    >>> keys, hashes = pl.DataFrame({"k": ["a"] * 3}), np.zeros(3, np.uint64)
    >>> components(keys, hashes, np.array([0, 20, 5]), np.array([10, 30, 15]), inclusive=False)
    (array([ 0, 20,  0]), array([15, 30, 15]))
    """
    order, by_key = arrange(keys, np.zeros(len(start), np.int64), hashes)
    ids = by_key.ids
    order = order[np.lexsort((end[order], start[order], ids))]
    starts, ends = start[order], _reach(end[order], ids)
    apart = starts[1:] > ends[:-1] if inclusive else starts[1:] >= ends[:-1]
    opens = np.concatenate([np.ones(min(1, len(starts)), np.bool_), apart | (ids[1:] != ids[:-1])])
    groups = Groups(np.flatnonzero(opens), len(starts))
    merged_start, merged_end = np.empty_like(start), np.empty_like(end)
    merged_start[order] = groups.spread(starts[groups.starts])
    merged_end[order] = groups.spread(groups.greatest(ends))
    return merged_start, merged_end


def _reach(end: Array, ids: Array) -> Array:
    """The greatest end so far within each key."""
    if not ((np.diff(end) < 0) & (np.diff(ids) == 0)).any():
        return end
    reached = pl.DataFrame({"end": end, "id": ids}).select(pl.col("end").cum_max().over("id"))
    return reached["end"].to_numpy()
