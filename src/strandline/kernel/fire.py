"""Ask windows whether they fire, show those that do, and note in their state that they did."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel import triggers
from strandline.kernel.expressions import evaluate_columns
from strandline.kernel.folds import state_columns
from strandline.kernel.folds.lists import list_lengths
from strandline.kernel.frames import changed, constant, framed, kept, no_rows, stacked
from strandline.kernel.keys import KEY
from strandline.kernel.plan import Plan, once_per_plan
from strandline.kernel.show import (
    TIMINGS,
    Shown,
    inserts,
    moments,
    no_replacements,
    pane_schema,
    replacements,
    retractions,
    shown_now,
    values,
)  # fmt: skip
from strandline.model.expressions import parse
from strandline.model.panes import EARLY, LATE, ON_TIME
from strandline.model.ticks import Edge
from strandline.model.time import Instant
from strandline.model.triggers import AfterClose

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """Windows after they were asked, the panes shown, and the windows replaced.

    `panes` has two more columns: `__owner`, the row of the window that fired, and `__rank`, the order within it.
    """

    table: pl.DataFrame
    panes: pl.DataFrame
    replaced: pl.DataFrame


def closing(plan: Plan, table: pl.DataFrame, watermark: int) -> Mask:
    """Which windows are forgotten when the watermark stands there."""
    if plan.ttl is not None:
        ends = np.minimum(table["latest"].to_numpy() + plan.ttl, int(Instant.END_OF_TIME))
        return np.asarray(watermark >= ends)
    return np.asarray(watermark >= plan.deadline(table["window_end"].to_numpy()))


def fire(plan: Plan, table: pl.DataFrame, touched: Mask, edge: Edge, now: Instant, *, mid_tick: bool = False) -> Fired:
    """Ask every window of the table; between events of a tick (`mid_tick`) only exact counts can answer yes."""
    end = table["window_end"].to_numpy()
    crossing = (edge.before < end) & (end <= edge.after) & (not mid_tick)
    closes = closing(plan, table, edge.after) & (not mid_tick)
    book = {name: table[name].to_numpy() for name in plan.columns if name.startswith("t")}
    before = dict(book)
    holds = _Holds(plan, table, now, moved=touched | crossing)
    asked = triggers.Asked(
        before=edge.before, after=edge.after, now=int(now), end=end, closing=closes, holds=holds.ask, mid_tick=mid_tick
    )
    remembers = plan.trigger.column("ended") in plan.columns
    ready = triggers.ready(plan.trigger, book, asked) if remembers else _ready_once(plan, asked)
    fired = ready & ((table["new"].to_numpy() > 0) | crossing)
    if remembers:
        triggers.fire(plan.trigger, book, asked, fired)
        if not mid_tick:
            triggers.remember(plan.trigger, book, holds.ask, touched)
    ended = book[plan.trigger.column("ended")] if remembers else np.zeros(len(end), np.bool_)
    shown = _shown(plan, table, fired, crossing, closes | ended, _timing(edge, end, crossing, mid_tick))
    noted = {name: values for name, values in book.items() if values is not before[name]}
    return _noted(plan, table, noted, shown, fired, mid_tick)


def _ready_once(plan: Plan, asked: triggers.Asked) -> Mask:
    if isinstance(plan.trigger.trigger, AfterClose):
        return asked.closing
    return np.asarray(asked.after >= asked.end) & (not asked.mid_tick)


def _timing(edge: Edge, end: Array, crossing: Mask, mid_tick: bool) -> Array:
    early = (edge.before if mid_tick else edge.after) < end
    return np.where(early, TIMINGS.index(EARLY), np.where(crossing, TIMINGS.index(ON_TIME), TIMINGS.index(LATE)))


def _shown(plan: Plan, table: pl.DataFrame, fired: Mask, crossing: Mask, last: Mask, timing: Array) -> Shown:
    """Which of the windows that fired have something to show."""
    count = len(fired)
    index = table["index"].to_numpy() if "index" in plan.columns else np.zeros(count, np.int64)
    filled = table["net"].to_numpy() > 0 if plan.taking_back else np.ones(count, np.bool_)
    always = crossing & (plan.stage.on_time == "always")
    retract = np.zeros(count, np.bool_)
    if plan.stage.mode == "accumulating":
        insert = fired & (filled | (index > 0) | always)
    elif plan.stage.mode == "retracting":
        insert = fired & (filled | always)
    else:
        # A discarding window with nothing new lets its on-time moment pass unseen.
        insert = fired & ((table["new"].to_numpy() > 0) | always)
    if plan.stage.mode == "retracting" and "shown" in plan.columns:
        retract = fired & (list_lengths(table["shown"]) > 0)
    return Shown(insert=insert, retract=retract, timing=timing, index=index, last=last)


def _noted(plan: Plan, table: pl.DataFrame, book: triggers.Book, shown: Shown, fired: Mask, mid_tick: bool) -> Fired:
    panes = inserts(plan, table, shown)
    ranked = changed(panes, {"__owner": np.flatnonzero(shown.insert), "__rank": constant(1, pl.Int64(), panes.height)})
    replaced = no_replacements(plan)
    if shown.retract.any():
        withdrawn = retractions(plan, table, shown)
        ranked = stacked([changed(withdrawn, {"__rank": constant(0, pl.Int64(), withdrawn.height)}), ranked])
    changes: dict[str, Any] = {**book, "new": np.where(fired, 0, table["new"].to_numpy())}
    if "pending" in plan.columns and mid_tick:
        changes["pending"] = table["pending"].to_numpy() | shown.insert
    elif "index" in plan.columns:
        changes["index"] = shown.index + shown.insert
    if "shown" in plan.columns:
        if plan.stage.mode == "accumulating":
            replaced = replacements(plan, table, shown)
        changes["shown"] = shown_now(plan, table, panes, shown, fired)
    if plan.stage.mode == "discarding" and fired.any():
        changes |= _emptied(plan, table, fired)
    return Fired(table=changed(table, changes), panes=ranked, replaced=replaced)


def _emptied(plan: Plan, table: pl.DataFrame, fired: Mask) -> dict[str, pl.Series]:
    """The accumulators, started anew where the window fired."""
    found: dict[str, pl.Series] = {}
    mask = pl.Series(fired)
    for name, fold in plan.folds:
        for column, empty in zip(state_columns(name, fold), fold.empty(table.height), strict=True):
            found[column] = empty.zip_with(mask, table[column])
    return found


@once_per_plan
def no_panes(plan: Plan) -> pl.DataFrame:
    """No panes, with the columns they would have."""
    return no_rows(pane_schema(plan))


class _Holds:
    """Whether text expressions hold for some windows of a table; the aggregates are shown once, and only if asked."""

    def __init__(self, plan: Plan, table: pl.DataFrame, now: Instant, *, moved: Mask) -> None:
        self.plan, self.table, self.now, self.moved = plan, table, now, moved
        self.frame: pl.DataFrame | None = None
        self.answers: dict[str, Mask] = {}

    def ask(self, expression: str) -> Mask:
        if expression not in self.answers:
            if self.frame is None:
                self.frame = self._visible()
            answer = evaluate_columns(parse(expression), self.frame, self.plan.asked, self.now)
            found = np.zeros(self.table.height, np.bool_)
            found[self.of] = answer.fill_null(False).to_numpy()
            self.answers[expression] = found
        return self.answers[expression]

    @cached_property
    def of(self) -> Mask:
        """Windows that may be shown. Of one that discarded what it had nothing is true: there is nothing to ask about."""
        new = np.asarray(self.table["new"].to_numpy() > 0)
        return new if self.plan.stage.mode == "discarding" else new | self.moved

    def _visible(self) -> pl.DataFrame:
        table = kept(self.table, self.of)
        window = {name: moments(table[name]) for name in ("window_start", "window_end")}
        keys = {key: table[KEY + key] for key in self.plan.stage.keys}
        return framed({**keys, **window, **values(self.plan, table)})
