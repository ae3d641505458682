"""Hopping windows that are shown once: kept as slices, and put together when they fire.

An event is added to one slice, however many windows hold it. Slices are gcd(size, every) wide, so every window is
made of whole ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.fire import fire, no_panes
from strandline.kernel.groups import Groups
from strandline.kernel.merge import arrange_rows, combine, newest
from strandline.kernel.plan import Plan
from strandline.kernel.segments import Reads, segment_of
from strandline.kernel.state import State
from strandline.kernel.windows import hops_of
from strandline.model.ticks import Edge, Tick
from strandline.model.windows import Hopping

Array = npt.NDArray[Any]


def advance_slices(
    plan: Plan, state: State, table: pl.DataFrame, tick: Tick, reads: Reads | None
) -> tuple[State, pl.DataFrame]:
    """Add to the slices, show the windows that the watermark passed, and forget slices that no window needs."""
    edge = tick.edges[plan.stage.name]
    state = state.add(plan, table.drop("round"), tick.number)
    windows = _due_windows(plan, state, edge)
    panes = no_panes(plan)
    if len(windows):
        first, last = int(windows[0]), int(windows[-1]) + int(_hopping(plan).size)
        needed = [n for n in sorted(state.slices) if first < (n + 1) * plan.cell + _shift(plan) <= last]
        state = _compact(plan, state, needed, tick.number, reads)
        fired = fire(plan, _assembled(plan, state, needed, windows, reads), np.zeros(0, np.bool_), edge, tick.now)
        panes = fired.panes.drop("__owner", "__rank")
    over = [n for n in state.slices if edge.after >= plan.deadline(_last_end(plan, n))]
    return state.without(over).merged(plan, watermark=edge.after), panes


def _hopping(plan: Plan) -> Hopping:
    assert isinstance(plan.window, Hopping)
    return plan.window


def _shift(plan: Plan) -> int:
    """How far the ends of slices lie past the multiples of their width."""
    return int(_hopping(plan).offset) % plan.cell - (plan.cell if int(_hopping(plan).offset) % plan.cell else 0)


def _slice_ends(plan: Plan, numbers: Array) -> Array:
    """Where slices end: their one window's end, which lies in (number * width, (number + 1) * width]."""
    return (numbers + 1) * plan.cell + _shift(plan)


def _last_end(plan: Plan, number: int) -> int:
    """The end of the last window that holds a slice."""
    window = _hopping(plan)
    start = int(_slice_ends(plan, np.array([number]))[0]) - plan.cell - int(window.offset)
    return start // int(window.every) * int(window.every) + int(window.offset) + int(window.size)


def _due_windows(plan: Plan, state: State, edge: Edge) -> Array:
    """The starts of the windows that fire in this tick and hold a slice."""
    if not state.slices:
        return np.zeros(0, np.int64)
    ends = _slice_ends(plan, np.array(sorted(state.slices)))
    hops = hops_of(_hopping(plan), ends - plan.cell, ends)
    at = plan.deadline(hops.end) if plan.has_close else hops.end
    due = (edge.before < at) & (at <= edge.after)
    return np.unique(hops.start[due])


def _compact(plan: Plan, state: State, numbers: list[int], tick: int, reads: Reads | None) -> State:
    """Slices that many windows will read, each in one segment."""
    slices = dict(state.slices)
    for number in numbers:
        segments = slices[number]
        if len(segments) > 1:
            rows = combine(plan, *newest(plan, state.whole([number], plan.state_schema, reads)), settle=False)
            slices[number] = (segment_of(rows, number, segments[0].first_tick, tick),)
    return State(slices=slices, timers=state.timers, expiries=state.expiries)


def _assembled(plan: Plan, state: State, numbers: list[int], windows: Array, reads: Reads | None) -> pl.DataFrame:
    """The windows, each made of the slices it holds."""
    ends = _slice_ends(plan, np.array(numbers))
    frames = [state.whole([n], plan.state_schema, reads) for n in numbers]
    size = int(_hopping(plan).size)
    # Windows that start within half a size of each other share at least half of their slices.
    runs = Groups.of_ids((windows - windows[0]) // max(size // 2, 1))
    parts = [
        part
        for first, count in zip(runs.starts, runs.lengths, strict=True)
        for part in _overlapping(plan, windows[first : first + count].tolist(), frames, ends)
    ]
    rows, groups = arrange_rows(plan, pl.concat(parts))
    return combine(plan, rows, groups, settle=True)


def _overlapping(plan: Plan, windows: list[int], frames: list[pl.DataFrame], ends: Array) -> Iterator[pl.DataFrame]:
    """Windows that overlap: what all of them hold is merged once; what lies before and behind, step by step."""
    size = int(_hopping(plan).size)

    def merged(low: int, high: int, more: pl.DataFrame | None = None) -> pl.DataFrame | None:
        held = [frame for frame, end in zip(frames, ends, strict=True) if low < end <= high]
        return _merge_slices(plan, [*held, *([] if more is None else [more])])

    core = merged(windows[-1], windows[0] + size)
    before: dict[int, pl.DataFrame | None] = {windows[-1]: None}
    for start, later in reversed([*zip(windows, windows[1:], strict=False)]):
        before[start] = merged(start, later, before[later])
    behind: pl.DataFrame | None = None
    for start, earlier in zip(windows, [windows[0], *windows], strict=False):
        behind = merged(earlier + size, start + size, behind)
        for part in (before[start], core, behind):
            if part is not None:
                yield _as_window(part, start, start + size)


def _merge_slices(plan: Plan, frames: list[pl.DataFrame]) -> pl.DataFrame | None:
    """Slices as one, whatever window they are of."""
    if len(frames) < 2:  # noqa: PLR2004
        return frames[0] if frames else None
    rows, groups = arrange_rows(plan, _as_window(pl.concat(frames), 0, plan.cell))
    return combine(plan, rows, groups, settle=False)


def _as_window(rows: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    return rows.with_columns(window_start=pl.lit(start, pl.Int64), window_end=pl.lit(end, pl.Int64))
