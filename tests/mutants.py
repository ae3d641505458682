"""The other decisions: each function makes Strandline decide a question of meaning the other way.

`tests/decisions.yaml` names, for each question, a transcript that must fail under the mutant. A mutant changes as
little as it can, in the kernel, the oracle or the source; where it changes both runners, both must be caught.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

from strandline.kernel import advance, fire, judge, merge, plan, preaggregate, sessions, show, stage, triggers, windows
from strandline.kernel.folds import extremes, sums
from strandline.kernel.groups import Groups
from strandline.model import checks, progress
from strandline.model.aggregates import Merge
from strandline.model.flow import StageNode
from strandline.model.oracle import aggregates as oracle_aggregates
from strandline.model.oracle import stage as oracle_stage
from strandline.model.oracle import triggers as oracle_triggers
from strandline.model.oracle import windows as oracle_windows
from strandline.model.oracle.living import Living
from strandline.model.oracle.stage import StageOracle
from strandline.model.oracle.values import Entry
from strandline.model.panes import CAME_FROM, TIME, WEIGHT
from strandline.model.partitions import PartitionState
from strandline.model.ticks import Edge
from strandline.model.time import Instant
from strandline.model.triggers import AfterAll, AfterAny, AfterCount, AfterEach, AfterWatermark, Trigger
from strandline.model.watermarks import Policy
from strandline.model.windows import Hopping, SameWindow
from strandline.testing import source
from strandline.testing.runners import oracle as oracle_runner

Patch: TypeAlias = pytest.MonkeyPatch
Change: TypeAlias = Callable[[Edge], Edge]

# What both runners do alike.


def _judge_by(patch: Patch, change: Change) -> None:
    """Let lateness be judged by another edge; everything else keeps the real one."""
    fold, judged = stage.preaggregate, StageOracle._judge
    patch.setattr(stage, "preaggregate", lambda p, rows, edge, now: fold(p, rows, change(edge), now))
    patch.setattr(StageOracle, "_judge", lambda self, rows, edge: judged(self, rows, change(edge)))


def _work_by(patch: Patch, change: Callable[[Edge, bool], Edge]) -> None:
    """Let stages work by another edge; `change` also learns whether the rows are panes of a stage."""
    in_columns, one_by_one = stage.StageKernel.tick, StageOracle.tick

    def kernel(self: stage.StageKernel, rows: pl.DataFrame, edge: Edge, now: Instant) -> stage.Outcome:
        return in_columns(self, rows, change(edge, TIME in rows.columns and CAME_FROM[0] in rows.columns), now)

    def oracle(self: Any, rows: list[dict[str, Any]], edge: Edge, now: Instant) -> Any:
        return one_by_one(self, rows, change(edge, any(CAME_FROM[0] in row for row in rows)), now)

    patch.setattr(stage.StageKernel, "tick", kernel)
    patch.setattr(StageOracle, "tick", oracle)


def _lowered(edge: Edge) -> Edge:
    return Edge(before=Instant(edge.before - 1), after=Instant(edge.after - 1))


def a_window_is_complete_only_after_its_end(patch: Patch) -> None:
    """Complete iff watermark > end."""
    _work_by(patch, lambda edge, _: _lowered(edge))


def the_first_watermark_is_1970(patch: Patch) -> None:
    """A flow that has seen nothing stands at 1970, as one that counts from the epoch does."""
    patch.setattr(Edge, "first", classmethod(lambda cls: cls(before=Instant(0), after=Instant(0))))


def events_are_judged_by_the_watermark_after_the_tick(patch: Patch) -> None:
    """The watermark moves first, and closes windows to the tick's own events."""
    _judge_by(patch, lambda edge: Edge(before=edge.after, after=edge.after))


def panes_are_judged_by_the_watermark_after_the_tick(patch: Patch) -> None:
    """A second stage sees the panes of the first only when its own windows are over."""
    _work_by(patch, lambda edge, panes: Edge(before=edge.after, after=edge.after) if panes else edge)


def nothing_is_ever_late(patch: Patch) -> None:
    """Old events open their windows anew."""
    _judge_by(patch, lambda edge: Edge(before=Instant.BEFORE_ALL_TIME, after=edge.after))


def late_only_after_the_deadline(patch: Patch) -> None:
    """Dropped iff watermark > end + lateness."""
    _judge_by(patch, _lowered)


def lateness_is_not_inherited(patch: Patch) -> None:
    """A stage grants what it says itself, whatever the stage before it may still correct."""

    def own(node: StageNode) -> Any:
        return node.lateness

    patch.setattr(plan, "lateness_of", own)
    patch.setattr(oracle_runner, "lateness_of", own)


def late_events_need_a_late_trigger(patch: Patch) -> None:
    """Lateness without a late trigger shows nothing late."""
    patch.setattr(plan, "with_late_panes", lambda trigger, lateness: trigger)
    patch.setattr(oracle_stage, "plant", lambda trigger, lateness: oracle_triggers._plant(trigger))


def sessions_that_touch_merge(patch: Patch) -> None:
    """Flink's and Spark's rule."""

    def touching(*args: Any, inclusive: bool) -> Any:
        return sessions.components(*args, inclusive=True)

    for module in (advance, judge, preaggregate):
        if hasattr(module, "components"):
            patch.setattr(module, "components", touching)
    patch.setattr(oracle_windows, "_joins", lambda window, before, start, end: start <= before.end)


def a_retraction_counts_as_a_row(patch: Patch) -> None:
    """The second stage adds what the first one withdraws."""
    fold, arrive = stage.preaggregate, StageOracle._arrival

    def kernel(compiled: Any, rows: pl.DataFrame, edge: Edge, now: Instant) -> Any:
        return fold(compiled, rows.with_columns(pl.lit(1, pl.Int64).alias(WEIGHT)), edge, now)

    patch.setattr(stage, "preaggregate", kernel)
    patch.setattr(
        StageOracle, "_arrival",
        lambda self, number, row, found, now: arrive(self, number, {**row, WEIGHT: 1}, found, now),
    )  # fmt: skip


def panes_are_placed_by_their_time(patch: Patch) -> None:
    """SameWindow cuts time anew, in windows as long as the one that the pane came with."""
    in_columns, one_by_one = windows.assign, oracle_windows.windows_of

    def kernel(window: Any, rows: pl.DataFrame, times: Any, **options: Any) -> windows.Assigned:
        found = in_columns(window, rows, times, **options)
        if not isinstance(window, SameWindow):
            return found
        size = found.end - found.start
        start = times // size * size
        return replace(found, start=start, end=start + size)

    def oracle(window: Any, time: int, row: Any) -> list[tuple[int, int]]:
        ((start, end), *rest) = one_by_one(window, time, row)
        if not isinstance(window, SameWindow):
            return [(start, end), *rest]
        size = end - start
        return [(time // size * size, time // size * size + size)]

    patch.setattr(preaggregate, "assign", kernel)
    patch.setattr(oracle_stage, "windows_of", oracle)


# The source.


def the_greatest_partition_counts(patch: Patch) -> None:
    """The source is as far as its fastest partition."""

    def greatest(policy: Policy, partitions: Iterable[PartitionState]) -> Instant:
        return max(p.watermark for p in partitions)

    patch.setattr(progress, "_joined", greatest)


def a_partition_that_never_spoke_does_not_hold(patch: Patch) -> None:
    """Only partitions that brought something are waited for."""
    joined = progress._joined

    def spoken(policy: Policy, partitions: Iterable[PartitionState]) -> Instant | None:
        return joined(policy, [p for p in partitions if p.watermark > Instant.BEFORE_ALL_TIME])

    patch.setattr(progress, "_joined", spoken)


def silence_is_a_promise(patch: Patch) -> None:
    """When all partitions are idle the watermark goes on by itself."""
    joined = progress._joined

    def going_on(policy: Policy, partitions: Iterable[PartitionState]) -> Instant | None:
        known = list(partitions)
        return joined(policy, [replace(p, idle=False) for p in known if not p.idle] or known[:1])

    patch.setattr(progress, "_joined", lambda policy, parts: going_on(policy, parts) or max(p.watermark for p in parts))


def clocks_are_believed(patch: Patch) -> None:
    """An event from the far future is an event."""
    gather = source.gather
    patch.setattr(source.PlayedSource, "_too_far", lambda self, time: None)
    patch.setattr(source, "gather", lambda times, now, **options: gather(times, now, **{**options, "max_future": None}))


# What check() refuses.


def counting_twice_is_allowed(patch: Patch) -> None:
    """Nobody asks whether panes are counted again."""
    patch.setattr(checks, "RULES", tuple(rule for rule in checks.RULES if rule is not checks._counted_twice))


def losing_events_is_allowed(patch: Patch) -> None:
    """Nobody asks whether a trigger loses events."""
    patch.setattr(checks, "RULES", tuple(rule for rule in checks.RULES if rule is not checks._loss))


# Each runner by its own means.


def an_event_late_for_one_window_is_dropped(patch: Patch) -> None:
    """Late is said of an event, and not of an event and a window."""
    patch.setattr(
        preaggregate, "_missed_everywhere", lambda p, assigned, edge, missed: np.isin(assigned.row, missed.row)
    )
    patch.setattr(
        preaggregate, "_window_counts",
        lambda p, assigned, times, missed: np.bincount(missed.row, minlength=len(times)),
    )  # fmt: skip
    judged = StageOracle._judge

    def oracle(self: StageOracle, arrivals: list[Any], edge: Edge) -> None:
        judged(self, arrivals, edge)
        for arrival in arrivals:
            arrival.windows = [] if arrival.missed else arrival.windows

    patch.setattr(StageOracle, "_judge", oracle)


def an_event_late_for_one_window_is_booked_as_late(patch: Patch) -> None:
    """The books call an event late that some window kept."""
    fold = stage.preaggregate

    def booked(*args: Any) -> preaggregate.Partials:
        partials = fold(*args)
        late = partials.late.height
        moved = late - partials.books.late
        return replace(partials, books=replace(partials.books, late=late, kept=partials.books.kept - moved))

    patch.setattr(stage, "preaggregate", booked)


def sessions_are_judged_before_they_merge(patch: Patch) -> None:
    """An old event is late even if a living session would take it."""
    patch.setattr(judge, "_merged_windows", lambda p, stored, pieces, raw, assigned: (assigned.start, assigned.end))

    def oracle(self: StageOracle, arrivals: list[Any], edge: Edge) -> None:
        for arrival in arrivals:
            for start, end in [*arrival.windows]:
                alone = oracle_windows.Component(start, end, [arrival])
                if self._is_gone(alone, edge):
                    self._miss(alone)

    patch.setattr(StageOracle, "_judge", oracle)


def a_session_that_grows_stays_the_same_window(patch: Patch) -> None:
    """Panes are numbered on, and the trigger goes on."""
    merged = advance._merge_windows

    def same(*args: Any) -> Any:
        both, groups, union = merged(*args)
        return both, groups, replace(union, new=np.zeros_like(union.new))

    patch.setattr(advance, "_merge_windows", same)
    window_of = StageOracle._window_of

    def oracle(self: StageOracle, key: Any, component: Any, edge: Edge) -> Living:
        window = window_of(self, key, component, edge)
        olds = [member for member in component.members if isinstance(member, Living)]
        window.index = max([window.index, *(old.index for old in olds)])
        return window

    patch.setattr(StageOracle, "_window_of", oracle)


def a_merged_session_forgets_what_was_shown(patch: Patch) -> None:
    """Panes of windows that merged stay as ghosts."""
    patch.setattr(
        merge, "_joined_lists",
        lambda lists, groups: lists.clear().extend_constant(None, groups.count),
    )  # fmt: skip
    patch.setattr(Living, "standing", property(lambda window: [] if window.shown is None else [window.shown]))


def slices_are_as_wide_as_the_hop(patch: Patch) -> None:
    """Slices of `every` instead of gcd(size, every)."""

    def hop(self: plan.Plan) -> int:
        assert isinstance(self.window, Hopping)
        return int(self.window.every)

    patch.setattr(plan.Plan, "cell", property(hop))


def the_on_time_pane_needs_news(patch: Patch) -> None:
    """What an early pane showed is not shown again at the end."""
    shown = fire._shown
    patch.setattr(
        fire, "_shown",
        lambda p, table, fired, *rest: shown(p, table, fired & (table["new"].to_numpy() > 0), *rest),
    )  # fmt: skip
    show_one = StageOracle._show
    patch.setattr(
        StageOracle, "_show",
        lambda self, window, *rest, **options: show_one(self, window, *rest, **options) if window.new else None,
    )  # fmt: skip


def the_on_time_pane_always_comes(patch: Patch) -> None:
    """Discarding shows an empty on-time pane without being asked to."""
    asked = advance.fire
    patch.setattr(
        advance, "fire",
        lambda p, *rest, **options: asked(replace(p, stage=replace(p.stage, on_time="always")), *rest, **options),
    )  # fmt: skip
    ask = StageOracle._ask

    def oracle(self: StageOracle, *rest: Any) -> None:
        self.stage = replace(self.stage, on_time="always")
        ask(self, *rest)

    patch.setattr(StageOracle, "_ask", oracle)


def _counting(trigger: Trigger, *, exact: bool) -> Trigger:
    if isinstance(trigger, AfterCount):
        return AfterCount(trigger.count, exact=exact)
    if isinstance(trigger, AfterWatermark):
        early, late = (None if part is None else _counting(part, exact=exact) for part in (trigger.early, trigger.late))
        return AfterWatermark(early=early, late=late)
    if isinstance(trigger, AfterAny | AfterAll | AfterEach):
        return type(trigger)(*(_counting(part, exact=exact) for part in trigger.triggers))
    return trigger


def _let_counts_be(patch: Patch, *, exact: bool) -> None:
    compiled, planted = plan.compile_trigger, oracle_stage.plant
    patch.setattr(plan, "compile_trigger", lambda trigger: compiled(_counting(trigger, exact=exact)))
    patch.setattr(oracle_stage, "plant", lambda trigger, lateness: planted(_counting(trigger, exact=exact), lateness))


def every_event_is_counted_by_itself(patch: Patch) -> None:
    """AfterCount means what exact=True means."""
    _let_counts_be(patch, exact=True)


def exact_counts_are_judged_once_a_tick(patch: Patch) -> None:
    """exact=True means nothing."""
    _let_counts_be(patch, exact=False)


def every_event_moves_the_watermark(patch: Patch) -> None:
    """An event is judged by the events before it in its own tick, so that no cut matters and more is lost."""
    fold = stage.preaggregate

    def one_by_one(compiled: Any, rows: pl.DataFrame, edge: Edge, now: Instant) -> preaggregate.Partials:
        if rows.height < 2:
            return fold(compiled, rows, edge, now)
        times = rows[TIME].to_numpy()
        behind = times.max() - edge.after
        reached = [max(edge.before, times[:n].max() - behind) if n else edge.before for n in range(len(times))]
        parts = [
            fold(compiled, rows[n : n + 1], Edge(before=Instant(before), after=edge.after), now)
            for n, before in enumerate(reached)
        ]
        return preaggregate.Partials(
            table=merge.arrange_rows(compiled, pl.concat([part.table for part in parts]))[0],
            raw=pl.concat([part.raw for part in parts]),
            late=pl.concat([part.late for part in parts]),
            rejected=pl.concat([part.rejected for part in parts]),
            books=sum((part.books for part in parts), preaggregate.Books()),
        )

    patch.setattr(stage, "preaggregate", one_by_one)


def processing_time_counts_from_the_first_event_ever(patch: Patch) -> None:
    """The timer goes on with the pane instead of starting anew."""
    started = triggers.start

    def start(part: triggers.Part, book: triggers.Book, mask: Any) -> None:
        firsts = {name: book[name] for name in book if name.endswith(".first")}
        started(part, book, mask)
        book |= firsts

    patch.setattr(triggers, "start", start)
    started_one = oracle_triggers.start

    def oracle(state: oracle_triggers.State) -> None:
        firsts = [part.first for part in oracle_triggers.tree(state)]
        started_one(state)
        for part, first in zip(oracle_triggers.tree(state), firsts, strict=True):
            part.first = first

    patch.setattr(oracle_triggers, "start", oracle)


def forgotten_only_after_the_deadline(patch: Patch) -> None:
    """State goes when watermark > end + lateness."""
    closing = fire.closing
    for module in (fire, advance):
        patch.setattr(module, "closing", lambda p, table, watermark: closing(p, table, watermark - 1))
    deadline = StageOracle._deadline
    patch.setattr(StageOracle, "_deadline", lambda self, window: deadline(self, window) + 1)


def a_retraction_stands_after_its_insert(patch: Patch) -> None:
    """First what is new, then what it replaces."""
    ordered = advance._in_order

    def turned(compiled: Any, parts: list[pl.DataFrame]) -> pl.DataFrame:
        return ordered(compiled, [part.with_columns(__rank=2 - pl.col("__rank")) for part in parts])

    patch.setattr(advance, "_in_order", turned)
    in_order = StageOracle._in_order
    patch.setattr(StageOracle, "_in_order", lambda self, shown: in_order(self, shown)[::-1])


def _retracting(patch: Patch, change: Callable[[Any, pl.DataFrame, pl.DataFrame], pl.DataFrame]) -> None:
    """Let withdrawn panes differ from what was shown; `change` gets the plan, the windows that fire, and the panes."""
    retractions = fire.retractions

    def changed(compiled: Any, table: pl.DataFrame, shown: show.Shown) -> pl.DataFrame:
        withdrawn = retractions(compiled, table, shown)
        return change(compiled, table[withdrawn["__owner"].to_numpy()], withdrawn)

    patch.setattr(fire, "retractions", changed)


def a_retraction_has_the_time_of_its_insert(patch: Patch) -> None:
    """The withdrawal is placed where the new pane is."""
    _retracting(patch, lambda p, table, panes: panes.with_columns(show.pane_times(p, table).alias(TIME)))


def a_retraction_has_the_values_of_today(patch: Patch) -> None:
    """The withdrawal is computed from what the window holds now."""
    _retracting(
        patch,
        lambda p, table, panes: panes.with_columns(each.alias(name) for name, each in show.values(p, table).items()),
    )


def every_day_has_24_hours(patch: Patch) -> None:
    """A local day is found by the offset of the moment."""

    def day_of(zone: ZoneInfo, time: int) -> tuple[int, int]:
        shift = datetime.fromtimestamp(time / 1e6, zone).utcoffset() or timedelta(0)
        local = shift // timedelta(microseconds=1)
        start = (time + local) // windows.DAY * windows.DAY - local
        return start, start + windows.DAY

    def kernel(size: Any, offset: int, zone: ZoneInfo, times: Any) -> tuple[Any, Any]:
        start, end = zip(*(day_of(zone, time) for time in times.tolist()), strict=True)
        return np.array(start), np.array(end)

    patch.setattr(windows, "calendar_windows", kernel)
    patch.setattr(oracle_windows, "_calendar", lambda size, offset, zone, time: day_of(zone, time))


def nothing_holds_the_output(patch: Patch) -> None:
    """A stage promises its input's watermark, whatever it may still show."""
    patch.setattr(advance, "_hold", lambda *args: None)
    patch.setattr(StageOracle, "_holds", lambda self: [])


def panes_coalesce_across_timings(patch: Patch) -> None:
    """Of the panes of one window in one tick only the last is shown, early or not."""
    coalesce = StageOracle._coalesce

    def across(self: Any, window: Any, tick: Any, timing: str) -> None:
        for other in ("early", "on_time", "late"):
            coalesce(self, window, tick, other)

    patch.setattr(StageOracle, "_coalesce", across)
    coalesced = advance._coalesced

    def kernel(compiled: Any, table: pl.DataFrame, final: pl.DataFrame, shown: list[pl.DataFrame]) -> Any:
        shown = [panes.with_columns(pane_timing=pl.lit("on_time")) for panes in shown]
        return coalesced(compiled, table, final, shown)

    patch.setattr(advance, "_coalesced", kernel)


def ties_stand_by_arrival(patch: Patch) -> None:
    """Of events at one time, the one that came first is first."""

    def as_they_came(column: str, entries: list[Entry]) -> list[Any]:
        found = [(entry.time, entry.row[column]) for entry in entries if entry.row[column] is not None]
        return [value for _, value in sorted(found, key=lambda item: item[0])]

    patch.setattr(oracle_aggregates, "_left_in_time", as_they_came)
    best_rows = extremes.best_rows
    patch.setattr(
        extremes, "best_rows", lambda keys, groups, *, greatest, then=None: best_rows(keys, groups, greatest=greatest)
    )


def floats_are_added_as_they_come(patch: Patch) -> None:
    """Each sum is rounded, so that the order matters."""

    def naive(aggregate: Any, entries: list[Entry], digits: Any, *, exact: bool) -> float:
        total = 0.0
        for entry in entries:
            total += entry.row[aggregate.column]
        return total

    patch.setattr(oracle_aggregates, "sum_of", naive)
    fold = sums.GridSum.fold

    def kernel(self: sums.GridSum, rows: pl.DataFrame, times: Any, weights: Any, groups: Groups) -> Any:
        rounded = np.zeros(rows.height)
        rounded[groups.starts] = np.add.reduceat(rows[self.column].to_numpy(), groups.starts)
        return fold(self, rows.with_columns(pl.Series(self.column, rounded)), times, weights, groups)

    patch.setattr(sums.GridSum, "fold", kernel)


def rolling_up_is_averaging(patch: Patch) -> None:
    """The median of an hour is the mean of its minutes' medians."""
    compute = oracle_stage.compute

    def mean(aggregate: Any, entries: list[Entry], reading: Any) -> Any:
        if not isinstance(aggregate, Merge):
            return compute(aggregate, entries, reading)
        return sum(entry.row[aggregate.column] for entry in entries) / len(entries)

    patch.setattr(oracle_stage, "compute", mean)
