"""The step: move a stage's state from one tick to the next. Pure: same arguments, same bytes.

This module is a table of contents; each verb below is a module of its own.

    judge     decide which events came too late            (preaggregate; for sessions, here)
    gather    find the rows of state that may fire
    absorb    let them take up what came                   (merge, sessions)
    fire      ask the triggers, show panes                 (fire, show)
    expire    forget windows that are over
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.fire import closing, fire, no_panes
from strandline.kernel.groups import Groups
from strandline.kernel.hold import held
from strandline.kernel.hopping import advance_slices
from strandline.kernel.judge import judge, raw_hashes
from strandline.kernel.merge import Union, alive, arrange_rows, combine, newest
from strandline.kernel.order import arrange, sorted_unique
from strandline.kernel.plan import GONE, Plan
from strandline.kernel.preaggregate import Books, Partials
from strandline.kernel.segments import Reads, Segment
from strandline.kernel.sessions import components
from strandline.kernel.show import no_replacements
from strandline.kernel.state import State, hashes_of
from strandline.kernel.triggers import NOT_YET, earliest_due
from strandline.model.ticks import Edge, Tick
from strandline.model.time import Instant
from strandline.model.windows import Global, Session

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced:
    """A stage after a tick: its state, what it shows, what came too late, and how far it may promise its output."""

    state: State
    panes: pl.DataFrame
    late: pl.DataFrame
    replaced: pl.DataFrame
    books: Books
    hold: Instant | None


def advance(plan: Plan, state: State, partials: Partials, tick: Tick, *, reads: Reads | None = None) -> Advanced:
    """Move a set of buckets from one tick to the next."""
    edge, now = tick.edges[plan.stage.name], tick.now
    if plan.sliced:
        state, fired = advance_slices(plan, state, partials.table, tick, reads)
        panes = _in_order(plan, [_placed(plan, each.panes, each.table, step=NOT_YET) for each in fired])
        return Advanced(
            state=state,
            panes=panes,
            late=partials.late,
            replaced=no_replacements(plan),
            books=partials.books,
            hold=None,
        )
    waiting, pieces = _split(plan, partials.table, edge)
    stored = _gather(plan, state, pieces, partials.raw, edge, now, reads)
    pieces, late, books = judge(plan, stored, pieces, partials, edge, now)
    table, panes, replaced = _rounds(plan, stored, pieces, edge, now)
    kept = table.filter(pl.Series(~closing(plan, table, edge.after)))
    gone = _gone(plan, stored, table)
    after = _next_state(plan, state, kept, gone, waiting, tick)
    after, hold = held(plan, after, pl.concat([kept, waiting.drop("round")]), edge, reads)
    return Advanced(state=after, panes=panes, late=late, replaced=replaced, books=books, hold=hold)


def _split(plan: Plan, table: pl.DataFrame, edge: Edge) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The partials that can wait unread, and those that must be asked now."""
    if not plan.lazy or table.is_empty():
        return table.clear(), table
    end = table["window_end"].to_numpy()
    now = edge.after >= (plan.deadline(end) if plan.closes_once else end)
    return table.filter(pl.Series(~now)), table.filter(pl.Series(now))


def _gather(
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


def _rounds(
    plan: Plan, stored: pl.DataFrame, pieces: pl.DataFrame, edge: Edge, now: Instant
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Absorb what came, ask, and show; where events are counted one at a time, once for each and then for all."""
    rounds = pieces["round"].unique().sort().to_list() if plan.exact else []
    table, shown, replaced = stored, [], []
    touched = np.zeros(table.height, np.bool_)
    for number in rounds:
        table, new, carried = _absorb(plan, table, pieces.filter(pl.col("round") == number), touched, edge)
        fired = fire(plan, table.filter(pl.Series(new)), new[new], edge, now, mid_tick=True)
        table = _put_back(table, fired.table, new)
        touched = carried | new
        shown.append(_placed(plan, fired.panes, fired.table, step=int(number)))
        replaced.append(fired.replaced)
    if not rounds:
        table, touched, _ = _absorb(plan, table, pieces, touched, edge)
    if "pending" in plan.columns:
        table = table.with_columns(index=pl.col("index") + pl.col("pending"))
    fired = fire(plan, table, touched, edge, now)
    final = _placed(plan, fired.panes, fired.table, step=NOT_YET)
    table = fired.table
    if "pending" in plan.columns:
        table, final, shown = _coalesced(plan, table, final, shown)
        table = table.with_columns(pending=pl.lit(False))
    replaced.append(fired.replaced)
    return table, _in_order(plan, [*shown, final]), pl.concat(replaced)


def _absorb(
    plan: Plan, table: pl.DataFrame, pieces: pl.DataFrame, touched: Mask, edge: Edge
) -> tuple[pl.DataFrame, Mask, Mask]:
    """Windows with what came for them; which of them got rows now, and which had before."""
    both = pl.concat([
        table.with_columns(__new=pl.lit(False), __old=pl.Series(touched)),
        pieces.drop("round").with_columns(__new=pl.lit(True), __old=pl.lit(False)),
    ])  # fmt: skip
    union = None
    if plan.merging:
        both, groups, union = _merge_windows(plan, both, edge)
    else:
        both, groups = arrange_rows(plan, both)
    new, old = (groups.any_bits(both[name].to_numpy()) for name in ("__new", "__old"))
    rows = combine(plan, both, groups, settle=True, union=union)
    return rows, np.asarray(new, np.bool_), np.asarray(old, np.bool_)


def _merge_windows(plan: Plan, both: pl.DataFrame, edge: Edge) -> tuple[pl.DataFrame, Groups, Union]:
    """Windows of a key that overlap stand together, with the window that they become."""
    keys, hashes = both.select(plan.keys), both["hash"].to_numpy()
    own_start, own_end = both["window_start"].to_numpy(), both["window_end"].to_numpy()
    inclusive = isinstance(plan.window, Session) and plan.window.inclusive
    start, end = components(keys, hashes, own_start, own_end, inclusive=inclusive)
    order, groups = arrange(keys, plan.slices(end), hashes, start, end)
    same = ~both["__new"].to_numpy() & (own_start == start) & (own_end == end)
    firsts = order[groups.starts]
    union = Union(
        start=start[firsts],
        end=end[firsts],
        new=~np.asarray(groups.any_bits(same[order]), np.bool_),
        before=edge.before,
    )
    # A living window stands before what came for it, and the one that goes on before all others.
    ranked = np.lexsort((both["__new"].to_numpy()[order], ~same[order], groups.ids))
    return both[order[ranked]], groups, union


def _put_back(table: pl.DataFrame, changed: pl.DataFrame, mask: Mask) -> pl.DataFrame:
    if mask.all():
        return changed
    rest = table.filter(pl.Series(~mask))
    order = np.argsort(np.concatenate([np.flatnonzero(~mask), np.flatnonzero(mask)]))
    return pl.concat([rest, changed])[order]


def _placed(plan: Plan, panes: pl.DataFrame, table: pl.DataFrame, *, step: int) -> pl.DataFrame:
    """Panes with what they are ordered by: the window that fired, the step of the tick, the order within."""
    owner = panes["__owner"].to_numpy()
    firing = table.select("hash", "window_start", "window_end")[owner]
    return panes.drop("__owner").with_columns(
        __hash=firing["hash"], __start=firing["window_start"], __end=firing["window_end"], __step=pl.lit(step, pl.Int64)
    )


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
    names = {"__hash": "hash", "__start": "window_start", "__end": "window_end"} | {
        k: f"k.{k}" for k in plan.stage.keys
    }
    return _less(table, late.rename(names), list(names.values()), "index"), final, [middle]


def _less(frame: pl.DataFrame, late: pl.DataFrame, on: list[str], column: str) -> pl.DataFrame:
    joined = frame.join(late, on=on, how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(pl.col(column) - pl.col("__less").fill_null(0)).drop("__less")


def _in_order(plan: Plan, parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Panes by hash first, and not by slice as the state is.

    Tasks own stretches of hashes, and however many there are, their panes one after the other are in this order. A
    next stage that counts exactly takes it for the order of arrival.
    """
    hidden = ["__hash", "__start", "__end", "__step", "__rank"]
    panes = pl.concat(parts) if parts else no_panes(plan)
    if panes.is_empty():
        return no_panes(plan)
    hashes = panes["__hash"].to_numpy()
    if len(parts) == 1 and bool((hashes[1:] > hashes[:-1]).all()):
        return panes.drop(hidden)
    if plan.one_window_per_slice and (panes["__step"] == NOT_YET).all() and (panes["__rank"] == 1).all():
        # Windows come one slice after the other, each sorted by hash: runs that a stable sort has only to merge.
        return panes.drop(hidden)[np.argsort(hashes, kind="stable")]
    by = ["__hash", *plan.stage.keys, "__start", "__end", "__step", "__rank"]
    return panes.sort(by, maintain_order=True, nulls_last=False).drop(hidden)


def _gone(plan: Plan, stored: pl.DataFrame, table: pl.DataFrame) -> pl.DataFrame:
    """Word, for windows that were stored and have merged away, that they are gone."""
    if not plan.merging or stored.is_empty():
        return stored.clear()
    window = ["hash", *plan.keys, "window_start", "window_end"]
    return stored.join(table, on=window, how="anti", nulls_equal=True).with_columns(kind=pl.lit(GONE, pl.UInt8))


def _next_state(
    plan: Plan, state: State, kept: pl.DataFrame, gone: pl.DataFrame, waiting: pl.DataFrame, tick: Tick
) -> State:
    edge, now = tick.edges[plan.stage.name], tick.now
    over = [n for n in state.slices if edge.after >= plan.deadline((n + 1) * plan.slice_width) and plan.ttl is None]
    fresh = pl.concat([kept, gone.filter(pl.Series(~closing(plan, gone, edge.after)))])
    if plan.merging and fresh.height:
        fresh, _ = arrange_rows(plan, fresh)
    after = state.without(over).add(plan, fresh, tick.number).add(plan, waiting.drop("round"), tick.number)
    timers, expiries = state.timers.forget(now), state.expiries.forget(edge.after)
    if plan.has_timers:
        timers = timers.add(_entries(kept, _timer_dues(plan, kept, now), int(now)))
    if plan.ttl is not None:
        expiries = expiries.add(_entries(kept, kept["latest"].to_numpy() + int(plan.ttl), int(edge.after)))
    return replace(after, timers=timers, expiries=expiries).merged(plan, watermark=edge.after)


def _timer_dues(plan: Plan, table: pl.DataFrame, now: Instant) -> Array:
    book = {name: table[name].to_numpy() for name in plan.columns if name.startswith("t")}
    return earliest_due(plan.trigger, book, int(now))


def _entries(table: pl.DataFrame, due: Array, now: int) -> pl.DataFrame:
    waiting = (due > now) & (due < NOT_YET)
    rows = table.select("hash", "window_start", "window_end").with_columns(due=pl.Series(due))
    return rows.filter(pl.Series(waiting)).select("due", "hash", "window_start", "window_end")
