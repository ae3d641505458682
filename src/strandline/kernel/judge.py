"""Which events came too late for windows that merge: only beside the key's living windows can that be said.

The test is made after merging, so an old event that touches a living session is kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.frames import framed, kept, only, rows_at, stacked
from strandline.kernel.keys import hashed_keys
from strandline.kernel.plan import Plan
from strandline.kernel.preaggregate import Books, Partials, fold_pieces, late_rows
from strandline.kernel.sessions import components
from strandline.kernel.windows import Assigned, assign
from strandline.model.panes import TIME
from strandline.model.ticks import Edge
from strandline.model.time import Instant

Array = npt.NDArray[Any]


def judge(
    plan: Plan, stored: pl.DataFrame, pieces: pl.DataFrame, partials: Partials, edge: Edge, now: Instant
) -> tuple[pl.DataFrame, pl.DataFrame, Books]:
    """The pieces to absorb, with those of raw events that are kept; the late events; and the books."""
    raw = partials.raw
    if raw.is_empty():
        return pieces, partials.late, partials.books
    times = raw[TIME].to_numpy()
    assigned = assign(plan.window, raw, times)
    start, end = _merged_windows(plan, stored, pieces, raw, assigned)
    gone = np.asarray(edge.before >= plan.deadline(end))
    more = fold_pieces(plan, raw, times, assigned, ~gone, edge, now)
    pairs = pl.DataFrame({"row": assigned.row, "start": start, "end": end, "gone": gone}).unique(maintain_order=True)
    missed = pairs.filter("gone")
    counts = np.bincount(pairs["row"].to_numpy(), minlength=raw.height)
    which = Assigned(
        row=missed["row"].to_numpy(), start=missed["start"].to_numpy(), end=missed["end"].to_numpy(), rejected={}
    )
    late, books = late_rows(plan, raw, times, edge, which, counts)
    books += Books(rows=raw.height, kept=raw.height - books.late)
    return stacked([pieces, more]), stacked([partials.late, late]), partials.books + books


def raw_hashes(plan: Plan, raw: pl.DataFrame) -> Array:
    """The hashes of the keys of raw events."""
    return hashed_keys(plan.stage.keys, raw)[1]


def _merged_windows(
    plan: Plan, stored: pl.DataFrame, pieces: pl.DataFrame, raw: pl.DataFrame, assigned: Assigned
) -> tuple[Array, Array]:
    """The window that each raw event's window becomes among all of its key's."""
    window = ["hash", *plan.keys, "window_start", "window_end"]
    keys, hashes = hashed_keys(plan.stage.keys, raw)
    own = rows_at(keys, assigned.row).get_columns() if keys.width else []
    mine = framed({
        "hash": hashes[assigned.row], **{key.name: key for key in own},
        "window_start": assigned.start, "window_end": assigned.end,
    })  # fmt: skip
    every = stacked([mine, only(stored, window), only(pieces, window)])
    start, end = components(
        only(every, plan.keys), every["hash"].to_numpy(),
        every["window_start"].to_numpy(), every["window_end"].to_numpy(), inclusive=plan.inclusive,
    )  # fmt: skip
    return start[: mine.height], end[: mine.height]


def raw_rows_within(plan: Plan, raw: pl.DataFrame, least: int, greatest: int) -> pl.DataFrame:
    """The raw events of the keys whose hash is from `least` to `greatest`."""
    hashes = raw_hashes(plan, raw)
    return kept(raw, (hashes >= np.uint64(least)) & (hashes <= np.uint64(greatest)))
