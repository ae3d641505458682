"""Put a tick's question to windows: absorb what came, ask the triggers, show panes, and put the panes in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.absorb import absorb
from strandline.kernel.fire import Fired, fire, no_panes
from strandline.kernel.frames import changed, kept, rows_at, stacked, without
from strandline.kernel.keys import KEY
from strandline.kernel.order import sorted_unique
from strandline.kernel.plan import Plan
from strandline.kernel.show import no_replacements
from strandline.kernel.triggers import NOT_YET
from strandline.model.ticks import Edge
from strandline.model.time import Instant

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


def ask(
    plan: Plan, stored: pl.DataFrame, pieces: pl.DataFrame, edge: Edge, now: Instant
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Absorb what came, ask, and show; where events are counted one at a time, once for each and then for all."""
    if stored.is_empty() and pieces.is_empty():
        return stored, no_panes(plan), no_replacements(plan)
    each_round = pieces["round"].to_numpy()
    rounds = sorted_unique(each_round).tolist() if plan.exact else []
    table, shown, replaced = stored, [], []
    touched = np.zeros(table.height, np.bool_)
    for number in rounds:
        table, new, carried = absorb(plan, table, kept(pieces, each_round == number), touched, edge)
        fired = fire(plan, kept(table, new), new[new], edge, now, mid_tick=True)
        table = _put_back(table, fired.table, new)
        touched = carried | new
        shown.append(placed(fired, step=number))
        replaced.append(fired.replaced)
    if not rounds:
        table, touched, _ = absorb(plan, table, pieces, touched, edge)
    if "pending" in plan.columns:
        table = changed(table, {"index": table["index"].to_numpy() + table["pending"].to_numpy()})
    fired = fire(plan, table, touched, edge, now)
    final = placed(fired, step=NOT_YET)
    table = fired.table
    if "pending" in plan.columns:
        table, final, shown = _coalesced(plan, table, final, shown)
        table = changed(table, {"pending": np.zeros(table.height, np.bool_)})
    replaced.append(fired.replaced)
    return table, in_order(plan, [*shown, final]), stacked(replaced)


def _put_back(table: pl.DataFrame, asked: pl.DataFrame, mask: Mask) -> pl.DataFrame:
    if mask.all():
        return asked
    order = np.argsort(np.concatenate([np.flatnonzero(~mask), np.flatnonzero(mask)]))
    return rows_at(stacked([kept(table, ~mask), asked]), order)


def placed(fired: Fired, *, step: int = NOT_YET) -> pl.DataFrame:
    """Panes with what they are ordered by: the step of the tick, the window that fired, the order within."""
    owner = fired.panes["__owner"].to_numpy()
    window = {"__hash": "hash", "__start": "window_start", "__end": "window_end"}
    firing = {name: fired.table[column].to_numpy()[owner] for name, column in window.items()}
    return changed(without(fired.panes, ["__owner"]), firing | {"__step": np.full(len(owner), step)})


def _coalesced(
    plan: Plan, table: pl.DataFrame, final: pl.DataFrame, shown: list[pl.DataFrame]
) -> tuple[pl.DataFrame, pl.DataFrame, list[pl.DataFrame]]:
    """Of a window's panes of one timing in one tick, the last alone; those left are numbered without gaps."""
    if not shown:
        return table, final, shown
    window = ["__hash", *plan.stage.keys, "__start", "__end"]
    middle = pl.concat(shown).unique(subset=window, keep="last", maintain_order=True)
    overtaken = middle.join(final, on=[*window, "pane_timing"], how="semi", nulls_equal=True)
    middle = middle.join(overtaken, on=window, how="anti", nulls_equal=True, maintain_order="left")
    late = overtaken.select(window).with_columns(__less=pl.lit(1, pl.Int64))
    final = _less(final, late, window, "pane_index")
    names = {"__hash": "hash", "__start": "window_start", "__end": "window_end"}
    names |= {key: KEY + key for key in plan.stage.keys}
    return _less(table, late.rename(names), list(names.values()), "index"), final, [middle]


def _less(frame: pl.DataFrame, late: pl.DataFrame, on: list[str], column: str) -> pl.DataFrame:
    joined = frame.join(late, on=on, how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(pl.col(column) - pl.col("__less").fill_null(0)).drop("__less")


def in_order(plan: Plan, parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Panes by hash first, and not by slice as the state is; those of a key in the order of showing, then by window.

    Tasks own stretches of hashes, and however many there are, their panes one after the other are in this order. A
    next stage that counts exactly takes it for the order of arrival. A session that is shown, grows and is shown again
    within a tick is withdrawn under its old bounds: after it was shown, whichever window comes first.
    """
    hidden = ["__hash", "__start", "__end", "__step", "__rank"]
    if not any(part.height for part in parts):
        return no_panes(plan)
    panes = stacked(parts)
    hashes = panes["__hash"].to_numpy()
    if bool((hashes[1:] > hashes[:-1]).all()):
        return without(panes, hidden)
    if plan.one_window_per_slice and (panes["__step"] == NOT_YET).all() and (panes["__rank"] == 1).all():
        # Windows come one slice after the other, each sorted by hash: runs that a stable sort has only to merge.
        return rows_at(without(panes, hidden), np.argsort(hashes, kind="stable"))
    by = ["__hash", *plan.stage.keys, "__step", "__start", "__end", "__rank"]
    return without(panes.sort(by, maintain_order=True, nulls_last=False), hidden)
