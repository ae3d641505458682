"""Let windows take up what came for them; windows of a key that now overlap become one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.frames import changed, only, rows_at, stacked, without
from strandline.kernel.groups import Groups
from strandline.kernel.merge import Union, arrange_rows, combine
from strandline.kernel.order import arrange
from strandline.kernel.plan import Plan
from strandline.kernel.sessions import components
from strandline.model.ticks import Edge

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


def absorb(
    plan: Plan, table: pl.DataFrame, pieces: pl.DataFrame, touched: Mask, edge: Edge
) -> tuple[pl.DataFrame, Mask, Mask]:
    """Windows with what came for them; which of them got rows now, and which had before."""
    fresh = np.arange(table.height + pieces.height) >= table.height
    marks = {"__new": fresh, "__old": np.concatenate([touched, np.zeros(pieces.height, np.bool_)])}
    both = changed(stacked([table, without(pieces, ["round"])]), marks)
    union = None
    if plan.merging:
        both, groups, union = _merge_windows(plan, both, edge)
    else:
        both, groups = arrange_rows(plan, both)
    new, old = (groups.any_bits(both[name].to_numpy()) for name in marks)
    rows = combine(plan, both, groups, settle=True, union=union)
    return rows, np.asarray(new, np.bool_), np.asarray(old, np.bool_)


def _merge_windows(plan: Plan, both: pl.DataFrame, edge: Edge) -> tuple[pl.DataFrame, Groups, Union]:
    """Windows of a key that overlap stand together, with the window that they become."""
    keys, hashes = only(both, plan.keys), both["hash"].to_numpy()
    own_start, own_end = both["window_start"].to_numpy(), both["window_end"].to_numpy()
    start, end = components(keys, hashes, own_start, own_end, inclusive=plan.inclusive)
    order, groups = arrange(keys, plan.slices(end), hashes, start, end)
    same = ~both["__new"].to_numpy() & (own_start == start) & (own_end == end)
    firsts = order[groups.starts]
    union = Union(
        start=start[firsts],
        end=end[firsts],
        new=~np.asarray(groups.any_bits(same[order]), np.bool_),
        before=edge.before,
    )
    # A living window stands before what came for it, and the one that goes on before all others.
    ranked = np.lexsort((both["__new"].to_numpy()[order], ~same[order], groups.ids))
    return rows_at(both, order[ranked]), groups, union
