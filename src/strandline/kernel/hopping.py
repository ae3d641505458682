"""Hopping windows that are shown once: kept as slices, and put together when they fire.

An event is added to one slice, however many windows hold it. Slices are gcd(size, every) wide, so every window is
made of whole ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.fire import Fired, fire
from strandline.kernel.folds import state_columns
from strandline.kernel.folds.slide import Cells, Windows, slide
from strandline.kernel.frames import framed, kept, only, rows_at, stacked, without
from strandline.kernel.merge import combine, newest
from strandline.kernel.order import arrange, sorted_unique
from strandline.kernel.plan import WHOLE, Plan
from strandline.kernel.segments import Reads, segment_of
from strandline.kernel.state import State
from strandline.kernel.windows import hops_of
from strandline.model.ticks import Edge, Tick
from strandline.model.windows import Hopping

Array = npt.NDArray[Any]

AT_ONCE: Final = 8


def advance_slices(
    plan: Plan, state: State, table: pl.DataFrame, tick: Tick, reads: Reads | None
) -> tuple[State, list[Fired]]:
    """Add to the slices, show the windows that the watermark passed, and forget slices that no window needs."""
    edge = tick.edges[plan.stage.name]
    state = state.add(plan, without(table, ["round"]), tick.number)
    windows = _due_windows(plan, state, edge)
    fired = []
    if len(windows):
        first, last = int(windows[0]), int(windows[-1]) + int(_hopping(plan).size)
        needed = [n for n in sorted(state.slices) if first < (n + 1) * plan.cell + _shift(plan) <= last]
        state = _compact(plan, state, needed, tick.number, reads)
        assembled = _assembled(plan, state, needed, windows, reads)
        fired = [fire(plan, each, np.zeros(each.height, np.bool_), edge, tick.now) for each in assembled]
    over = [n for n in state.slices if edge.after >= plan.deadline(last_end(plan, n))]
    touched = sorted_unique(plan.slices(table["window_end"].to_numpy())).tolist()
    return state.without(over).merged(plan, touched, watermark=edge.after), fired


def _hopping(plan: Plan) -> Hopping:
    assert isinstance(plan.window, Hopping)
    return plan.window


def _shift(plan: Plan) -> int:
    """How far the ends of slices lie past the multiples of their width."""
    return int(_hopping(plan).offset) % plan.cell - (plan.cell if int(_hopping(plan).offset) % plan.cell else 0)


def ends_of_slices(plan: Plan, numbers: Array) -> Array:
    """Where slices end: their one window's end, which lies in (number * width, (number + 1) * width]."""
    return (numbers + 1) * plan.cell + _shift(plan)


def last_end(plan: Plan, number: int) -> int:
    """The end of the last window that holds a slice."""
    window = _hopping(plan)
    start = int(ends_of_slices(plan, np.array([number]))[0]) - plan.cell - int(window.offset)
    return start // int(window.every) * int(window.every) + int(window.offset) + int(window.size)


def _due_windows(plan: Plan, state: State, edge: Edge) -> Array:
    """The starts of the windows that fire in this tick and hold a slice."""
    if not state.slices:
        return np.zeros(0, np.int64)
    ends = ends_of_slices(plan, np.array(sorted(state.slices)))
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
    return replace(state, slices=slices)


def _assembled(
    plan: Plan, state: State, numbers: list[int], windows: Array, reads: Reads | None
) -> Iterator[pl.DataFrame]:
    """The windows, each made of the slices it holds, a few at a time: together they may be many times the state."""
    ends = ends_of_slices(plan, np.array(numbers))
    frames = [state.whole([n], plan.state_schema, reads) for n in numbers]
    rows = stacked(frames)
    order, by_key = arrange(only(rows, plan.keys), np.zeros(rows.height, np.int64), rows["hash"].to_numpy())
    key = np.empty(rows.height, np.int64)
    key[order] = by_key.ids
    cell = np.repeat(np.arange(len(frames)), [frame.height for frame in frames])
    cells = Cells(cell, key, len(frames), by_key.count)
    size = int(_hopping(plan).size)
    firsts, lasts = (np.searchsorted(ends, windows + edge, side="right").tolist() for edge in (0, size))
    held = [*zip(firsts, lasts, strict=True)]
    keys = rows_at(only(rows, ["hash", *plan.keys]), order[by_key.starts])
    found = zip(windows.tolist(), _columns(plan, rows, cells, held), strict=True)
    while some := [_as_window(plan, keys, columns, start, start + size) for start, columns in islice(found, AT_ONCE)]:
        yield stacked(some)


def _as_window(plan: Plan, keys: pl.DataFrame, columns: dict[str, pl.Series], start: int, end: int) -> pl.DataFrame:
    """The rows of one window: the keys that it has."""
    window = {"window_start": np.full(keys.height, start), "window_end": np.full(keys.height, end)}
    found = {each.name: each for each in keys.get_columns()} | columns | window
    rows = framed({**found, "kind": np.full(keys.height, WHOLE, np.uint8)}, plan.state_schema)
    return kept(rows, columns["new"].to_numpy() > 0)


def _columns(plan: Plan, rows: pl.DataFrame, cells: Cells, held: Windows) -> Iterator[dict[str, pl.Series]]:
    """What every key has in each window, column by column."""
    slid = [
        slide(fold, [rows[column] for column in state_columns(name, fold)], cells, held) for name, fold in plan.folds
    ]
    plain = {
        name: cells.table(rows[name].to_numpy(), column.initial)
        for name, column in plan.columns.items()
        if column.rule != "fold"
    }
    for (first, last), *parts in zip(held, *slid, strict=True):
        found = {
            column: part
            for (name, fold), mine in zip(plan.folds, parts, strict=True)
            for column, part in zip(state_columns(name, fold), mine, strict=True)
        }
        yield found | {
            name: pl.Series(_REDUCE[plan.columns[name].rule](t[first:last], axis=0)) for name, t in plain.items()
        }


_REDUCE: Final[dict[str, Callable[..., Array]]] = {"sum": np.sum, "least": np.min, "greatest": np.max}
