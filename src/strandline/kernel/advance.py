"""The step: move a stage's state from one tick to the next. Pure: same arguments, same bytes.

This module is a table of contents; each verb is a module of its own.

    gather    find the rows of state that may fire
    judge     decide which events came too late for windows that merge (for others, preaggregate did)
    ask       absorb what came, ask the triggers, show panes
    expire    forget windows that are over
    hold      say how far the output may be promised
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from strandline.kernel.ask import ask, in_order, placed
from strandline.kernel.expire import expire
from strandline.kernel.frames import kept, without
from strandline.kernel.gather import gather
from strandline.kernel.hold import hold
from strandline.kernel.hopping import advance_slices
from strandline.kernel.judge import judge
from strandline.kernel.plan import Plan, no_state
from strandline.kernel.preaggregate import Books, Partials
from strandline.kernel.segments import Reads
from strandline.kernel.show import no_replacements
from strandline.kernel.state import State
from strandline.model.ticks import Edge, Tick
from strandline.model.time import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced:
    """A stage after a tick: its state, what it shows, what it put aside, and what holds its output's watermark."""

    state: State
    panes: pl.DataFrame
    late: pl.DataFrame
    rejected: pl.DataFrame
    replaced: pl.DataFrame
    books: Books
    hold: Instant | None
    sides: Mapping[str, pl.DataFrame] = field(default_factory=dict)  # what a process gives out besides


def advance(plan: Plan, state: State, partials: Partials, tick: Tick, *, reads: Reads | None = None) -> Advanced:
    """Move a set of buckets from one tick to the next."""
    if plan.sliced:
        return _advance_slices(plan, state, partials, tick, reads)
    edge, now = tick.edges[plan.stage.name], tick.now
    waiting, pieces = _split(plan, partials.table, edge)
    stored = gather(plan, state, pieces, partials.raw, edge, now, reads)
    pieces, late, books = judge(plan, stored, pieces, partials, edge, now)
    table, panes, replaced = ask(plan, stored, pieces, edge, now)
    after, changed = expire(plan, state, stored, table, waiting, tick)
    after, held = hold(plan, after, changed, edge, reads)
    return Advanced(
        state=after, panes=panes, late=late, rejected=partials.rejected, replaced=replaced, books=books, hold=held
    )


def _split(plan: Plan, table: pl.DataFrame, edge: Edge) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The partials that can wait unread, and those that must be asked now."""
    if not plan.lazy or table.is_empty():
        return no_state(plan), table
    end = table["window_end"].to_numpy()
    now = np.asarray(edge.after >= (plan.deadline(end) if plan.closes_once else end))
    return without(kept(table, ~now), ["round"]), kept(table, now)


def _advance_slices(plan: Plan, state: State, partials: Partials, tick: Tick, reads: Reads | None) -> Advanced:
    """The same for hopping windows that are kept as slices: nothing of them is asked before it is due."""
    state, fired = advance_slices(plan, state, partials.table, tick, reads)
    return Advanced(
        state=state, panes=in_order(plan, [placed(each) for each in fired]), late=partials.late,
        rejected=partials.rejected, replaced=no_replacements(plan), books=partials.books, hold=None,
    )  # fmt: skip
