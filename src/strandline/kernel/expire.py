"""Forget windows that are over, and write the others down for the next tick."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.fire import closing
from strandline.kernel.frames import changed, constant, framed, kept, only, stacked
from strandline.kernel.merge import arrange_rows
from strandline.kernel.order import sorted_unique
from strandline.kernel.plan import GONE, Plan
from strandline.kernel.state import State
from strandline.kernel.triggers import NOT_YET, earliest_due
from strandline.model.ticks import Edge, Tick
from strandline.model.time import Instant

Array = npt.NDArray[Any]


def expire(
    plan: Plan, state: State, stored: pl.DataFrame, table: pl.DataFrame, waiting: pl.DataFrame, tick: Tick
) -> tuple[State, pl.DataFrame]:
    """The state after the tick, without windows that are over; and the rows in it that are new.

    `stored` are the windows as they were, `table` as they are now, and `waiting` what nobody asked about yet.
    """
    edge, now = tick.edges[plan.stage.name], tick.now
    left = kept(table, ~closing(plan, table, edge.after))
    gone = _gone(plan, stored, table)
    fresh = stacked([left, kept(gone, ~closing(plan, gone, edge.after))])
    if plan.merging and fresh.height:
        fresh, _ = arrange_rows(plan, fresh)
    after = state.without(_over(plan, state, edge)).add(plan, fresh, tick.number).add(plan, waiting, tick.number)
    timers, expiries = state.timers.forget(now), state.expiries.forget(edge.after)
    if plan.has_timers:
        timers = timers.add(_entries(left, _timer_dues(plan, left, now), int(now)))
    if plan.ttl is not None:
        expiries = expiries.add(_entries(left, left["latest"].to_numpy() + plan.ttl, int(edge.after)))
    after = replace(after, timers=timers, expiries=expiries)
    touched = np.concatenate([rows["window_end"].to_numpy() for rows in (fresh, waiting)])
    after = after.merged(plan, sorted_unique(plan.slices(touched)).tolist(), watermark=edge.after)
    return after, stacked([left, waiting])


def _over(plan: Plan, state: State, edge: Edge) -> list[int]:
    """The slices in which every window is over."""
    if plan.ttl is not None:
        return []
    if edge.after >= Instant.END_OF_TIME:
        return list(state.slices)
    last = (edge.after - plan.lateness) // plan.slice_width - 1
    return state.between(int(Instant.BEFORE_ALL_TIME), int(last))


def _gone(plan: Plan, stored: pl.DataFrame, table: pl.DataFrame) -> pl.DataFrame:
    """Word, for windows that were stored and have merged away, that they are gone."""
    if not plan.merging or stored.is_empty():
        return stored.clear()
    window = ["hash", *plan.keys, "window_start", "window_end"]
    gone = stored.join(only(table, window), on=window, how="anti", nulls_equal=True)
    return changed(gone, {"kind": constant(GONE, pl.UInt8(), gone.height)})


def _timer_dues(plan: Plan, table: pl.DataFrame, now: Instant) -> Array:
    book = {name: table[name].to_numpy() for name in plan.columns if name.startswith("t")}
    return earliest_due(plan.trigger, book, int(now))


def _entries(table: pl.DataFrame, due: Array, now: int) -> pl.DataFrame:
    waiting = (due > now) & (due < NOT_YET)
    window = {name: table[name] for name in ("hash", "window_start", "window_end")}
    return kept(framed({"due": due, **window}), waiting)
