"""Find the rows of state that a tick may concern: cost follows what is touched or due, not what is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.fire import closing
from strandline.kernel.groups import Groups
from strandline.kernel.judge import raw_hashes
from strandline.kernel.merge import alive, combine, newest
from strandline.kernel.order import sorted_unique
from strandline.kernel.plan import Plan
from strandline.kernel.segments import Reads, Segment
from strandline.kernel.state import State, hashes_of
from strandline.model.ticks import Edge
from strandline.model.time import Instant
from strandline.model.windows import Global

Array = npt.NDArray[Any]


def gather(
    plan: Plan, state: State, pieces: pl.DataFrame, raw: pl.DataFrame, edge: Edge, now: Instant, reads: Reads | None
) -> pl.DataFrame:
    """The living windows that this tick may concern, one row each: due ones, touched ones, and those whose timer rang."""
    due = [n for n, segments in state.slices.items() if _is_due(plan, segments, edge)]
    wanted = _touched(plan, state, pieces, raw)
    for entries in (state.timers.due(now, reads), state.expiries.due(edge.after, reads)):
        for number, found in _by_slice(plan, entries).items():
            wanted[number] = np.union1d(wanted[number], found) if number in wanted else found
    rows = pl.concat([
        _due_rows(plan, state.whole(due, plan.state_schema, reads), wanted, edge),
        state.find({n: h for n, h in wanted.items() if n not in set(due)}, plan.state_schema, reads),
    ])  # fmt: skip
    if rows.is_empty():
        return rows
    rows = combine(plan, *newest(plan, rows), settle=False)
    living = alive(rows) & ~closing(plan, rows, edge.before)
    return rows if living.all() else rows.filter(pl.Series(living))


def _due_rows(plan: Plan, rows: pl.DataFrame, wanted: Mapping[int, Array], edge: Edge) -> pl.DataFrame:
    """Of slices in which some windows are due, those windows, and the ones that are wanted anyway."""
    end = rows["window_end"].to_numpy()
    if plan.one_window_per_slice or not len(end):
        return rows
    deadline = plan.deadline(end)
    due = (edge.before < end) & (end <= edge.after)
    if plan.has_close:
        due |= (edge.before < deadline) & (deadline <= edge.after)
    hashes = np.concatenate([*wanted.values(), np.zeros(0, np.uint64)])
    due |= np.isin(rows["hash"].to_numpy(), hashes)
    return rows.filter(pl.Series(due))


def _is_due(plan: Plan, segments: Sequence[Segment], edge: Edge) -> bool:
    """Whether the watermark passes the end, or the deadline, of a window that may be in the slice."""
    if isinstance(plan.window, Global):
        return edge.after >= Instant.END_OF_TIME and edge.before < Instant.END_OF_TIME
    least = min(block.least_time for segment in segments for block in segment.blocks)
    greatest = max(block.greatest_time for segment in segments for block in segment.blocks)
    if plan.closes_once:
        return bool(edge.after >= plan.deadline(least))
    crossing = edge.before < greatest and least <= edge.after
    closes = plan.has_close and edge.before < plan.deadline(greatest) and plan.deadline(least) <= edge.after
    return bool(crossing or closes)


def _touched(plan: Plan, state: State, pieces: pl.DataFrame, raw: pl.DataFrame) -> dict[int, Array]:
    """The hashes to look up, by slice. A session may merge with any of its key's, wherever it ends."""
    if not plan.merging:
        return _by_slice(plan, pieces)
    hashes = hashes_of(pieces)
    if raw.height:
        hashes = np.union1d(hashes, raw_hashes(plan, raw))
    return dict.fromkeys(state.slices, hashes) if len(hashes) else {}


def _by_slice(plan: Plan, table: pl.DataFrame) -> dict[int, Array]:
    if table.is_empty():
        return {}
    numbers, hashes = plan.slices(table["window_end"].to_numpy()), table["hash"].to_numpy()
    order = np.argsort(numbers, kind="stable")
    groups = Groups.of_ids(numbers[order])
    parts = np.split(hashes[order], groups.starts[1:])
    return {int(numbers[order[at]]): sorted_unique(part) for at, part in zip(groups.starts, parts, strict=True)}
