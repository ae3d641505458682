"""How far a stage may promise its output: panes that carry an event's time hold the watermark back.

A hold is the earliest time at which a living window may still show a pane. Panes at their window's end need none, but for
those that a session has shown and outgrown since, and will withdraw. Holds are kept in an index by time, with entries that
are looked at again when they come to the front: cost follows what changes, not what is kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.due import ENTRY, DueIndex
from strandline.kernel.fire import closing
from strandline.kernel.frames import framed, kept
from strandline.kernel.groups import Groups
from strandline.kernel.merge import alive, combine, newest
from strandline.kernel.order import sorted_unique
from strandline.kernel.plan import Plan
from strandline.kernel.segments import Reads
from strandline.kernel.show import on_show, pane_times
from strandline.kernel.state import State
from strandline.model.panes import TIME
from strandline.model.ticks import Edge
from strandline.model.time import Instant

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

AT_ONCE: Final = 256
WINDOW: Final = ["hash", "window_start", "window_end"]


def hold(
    plan: Plan, state: State, changed: pl.DataFrame, edge: Edge, reads: Reads | None
) -> tuple[State, Instant | None]:
    """The state with what these rows hold noted in it, and the least time that any living window holds."""
    if plan.stage.timestamp == "end" and not (plan.merging and plan.stage.mode == "retracting"):
        return state, None
    holds = state.holds.add(_entries(plan, changed))
    if holds.rows > 4 * state.rows + AT_ONCE:
        # One quiet window may keep its entry in front while others change theirs again and again behind it.
        everything = holds.due(Instant.END_OF_TIME)
        holds = DueIndex().add(_still_held(plan, state, everything, edge, reads))
    while (front := holds.first(AT_ONCE)).height:
        still = _still_held(plan, state, front, edge, reads)
        if still.height:
            earliest = Instant(int(still["due"][0]))
            return replace(state, holds=holds.forget(Instant(earliest - 1))), earliest
        holds = holds.forget(Instant(int(front["due"][-1])))
    return replace(state, holds=holds), None


def _entries(plan: Plan, table: pl.DataFrame) -> pl.DataFrame:
    """When each window holds, if it does, as the index has it."""
    entries = framed({"due": hold_times(plan, table), **{name: table[name] for name in WINDOW}})
    if plan.stage.timestamp == "end":  # what was outgrown
        return kept(entries, entries["due"].to_numpy() < entries["window_end"].to_numpy() - 1)
    if plan.stage.mode == "discarding":  # what is still to be shown
        return kept(entries, table["new"].to_numpy() > 0)
    return entries


def hold_times(plan: Plan, table: pl.DataFrame) -> Array:
    """The earliest time at which each window may still show a pane: its own, or that of one it may withdraw."""
    times = pane_times(plan, table).to_numpy()
    if plan.stage.mode == "retracting" and "shown" in plan.columns:
        owner, shown = on_show(table["shown"], np.ones(len(times), np.bool_))
        times = times.copy()
        np.minimum.at(times, owner, shown[TIME].to_numpy())
    return times


def _still_held(plan: Plan, state: State, entries: pl.DataFrame, edge: Edge, reads: Reads | None) -> pl.DataFrame:
    """Those of the entries, which stand by time, that say what their window still holds."""
    numbers = plan.slices(entries["window_end"].to_numpy())
    hashes = entries["hash"].to_numpy()
    wanted = {int(n): sorted_unique(hashes[numbers == n]) for n in sorted_unique(numbers)}
    rows = state.find(wanted, plan.state_schema, reads)
    if rows.is_empty():
        return entries.clear()
    rows = combine(plan, *newest(plan, rows), settle=False)
    rows = kept(rows, alive(rows) & ~closing(plan, rows, edge.after))
    return kept(entries, _among(entries, _entries(plan, rows)))


def _among(entries: pl.DataFrame, others: pl.DataFrame) -> Mask:
    """Which entries are among the others too."""
    columns = [np.concatenate([part[name].to_numpy() for part in (others, entries)]) for name in ENTRY]
    order = np.lexsort(columns)
    changes = np.logical_or.reduce([np.diff(column[order]) != 0 for column in columns])
    groups = Groups(np.flatnonzero(np.concatenate([[True], changes])), len(order))
    found = np.empty(len(order), np.bool_)
    found[order] = groups.spread(groups.any_bits(order < others.height))
    return found[others.height :]
