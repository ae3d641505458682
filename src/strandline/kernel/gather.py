"""Find the rows of state that a tick may concern: cost follows what is touched or due, not what is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.fire import closing
from strandline.kernel.frames import kept, stacked
from strandline.kernel.groups import Groups
from strandline.kernel.judge import raw_hashes
from strandline.kernel.merge import alive, combine, newest
from strandline.kernel.order import sorted_unique
from strandline.kernel.plan import Plan, no_state
from strandline.kernel.segments import Block, Reads
from strandline.kernel.state import State
from strandline.model.panes import TIME
from strandline.model.ticks import Edge
from strandline.model.time import Instant, Span
from strandline.model.windows import Global, Session

Array = npt.NDArray[Any]


def gather(
    plan: Plan, state: State, pieces: pl.DataFrame, raw: pl.DataFrame, edge: Edge, now: Instant, reads: Reads | None
) -> pl.DataFrame:
    """The living windows that this tick may concern, one row each: due ones, touched ones, and those whose timer rang."""
    due = _due_slices(plan, state, edge)
    wanted = _touched(plan, state, pieces, raw)
    for entries in (state.timers.due(now, reads), state.expiries.due(edge.after, reads)):
        for number, found in _by_slice(plan, entries).items():
            wanted[number] = np.union1d(wanted[number], found) if number in wanted else found
    parts = [no_state(plan)]
    if due:
        parts.append(_due_rows(plan, state.whole(due, plan.state_schema, reads), wanted, edge))
    if others := {n: hashes for n, hashes in wanted.items() if n in state.slices and n not in due}:
        parts.append(state.find(others, plan.state_schema, reads))
    rows = stacked(parts)
    if rows.is_empty():
        return rows
    rows = combine(plan, *newest(plan, rows), settle=False)
    return kept(rows, alive(rows) & ~closing(plan, rows, edge.before))


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
    return kept(rows, due)


def _due_slices(plan: Plan, state: State, edge: Edge) -> list[int]:
    """The slices with a window whose end, or whose deadline, the watermark passes."""
    if edge.after >= Instant.END_OF_TIME:
        return list(state.slices) if edge.before < Instant.END_OF_TIME else []
    if isinstance(plan.window, Global) or edge.after == edge.before:
        return []
    waits = [Span(0)] if not plan.closes_once else []
    waits += [plan.lateness] if plan.has_close else []
    near = {
        number
        for wait in waits
        for number in state.between(int(plan.slices(edge.before - wait + 1)), int(plan.slices(edge.after - wait)))
    }
    return sorted(n for n in near if any(_is_due(block, wait, edge) for wait in waits for block in _blocks(state, n)))


def _blocks(state: State, number: int) -> Iterator[Block]:
    return (block for segment in state.slices[number] for block in segment.blocks)


def _is_due(block: Block, wait: Span, edge: Edge) -> bool:
    """Whether the watermark passes, so long after its end, a window that may be in the block."""
    return edge.before < block.greatest_time + wait and block.least_time + wait <= edge.after


def _touched(plan: Plan, state: State, pieces: pl.DataFrame, raw: pl.DataFrame) -> dict[int, Array]:
    """The hashes to look up, by slice."""
    if not plan.merging:
        return _by_slice(plan, pieces)
    hashes = np.concatenate([pieces["hash"].to_numpy(), raw_hashes(plan, raw)])
    starts = np.concatenate([pieces["window_start"].to_numpy(), raw[TIME].to_numpy()])
    if not isinstance(plan.window, Session):  # an event may open a window that starts before it
        starts = np.full(len(starts), int(Instant.BEFORE_ALL_TIME))
    if not len(hashes):
        return {}
    order = np.argsort(starts)
    return _reachable(plan, state, hashes[order], starts[order])


def _reachable(plan: Plan, state: State, hashes: Array, starts: Array) -> dict[int, Array]:
    """A window may merge with any of its key's that does not end before it starts: in each slice, those that come near."""
    numbers = state.between(int(starts[0]) // plan.slice_width - 1, int(Instant.END_OF_TIME))
    counts = np.searchsorted(starts, (np.array(numbers, np.int64) + 1) * plan.slice_width, side="right")
    distinct = {int(count): sorted_unique(hashes[:count]) for count in set(counts.tolist()) if count}
    return {number: distinct[count] for number, count in zip(numbers, counts.tolist(), strict=True) if count}


def _by_slice(plan: Plan, table: pl.DataFrame) -> dict[int, Array]:
    if table.is_empty():
        return {}
    numbers, hashes = plan.slices(table["window_end"].to_numpy()), table["hash"].to_numpy()
    order = np.argsort(numbers, kind="stable")
    groups = Groups.of_ids(numbers[order])
    parts = np.split(hashes[order], groups.starts[1:])
    return {int(numbers[order[at]]): sorted_unique(part) for at, part in zip(groups.starts, parts, strict=True)}
