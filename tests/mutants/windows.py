"""The other decisions about windows: sessions, hops, days, and the window that a pane came with."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

from strandline.kernel import absorb, judge, merge, plan, preaggregate, sessions, windows
from strandline.model.oracle import stage as oracle_stage
from strandline.model.oracle import windows as oracle_windows
from strandline.model.oracle.living import Living
from strandline.model.oracle.stage import StageOracle
from strandline.model.ticks import Edge
from strandline.model.windows import Hopping, SameWindow

Patch: TypeAlias = pytest.MonkeyPatch


def sessions_that_touch_merge(patch: Patch) -> None:
    """Flink's and Spark's rule."""

    found, merged = sessions.stretches, sessions.components
    patch.setattr(preaggregate, "stretches", lambda *args, inclusive: found(*args, inclusive=True))
    for module in (absorb, judge):
        patch.setattr(module, "components", lambda *args, inclusive: merged(*args, inclusive=True))
    patch.setattr(oracle_windows, "_joins", lambda window, before, start, end: start <= before.end)


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


def a_session_that_grows_stays_the_same_window(patch: Patch) -> None:
    """Panes are numbered on, and the trigger goes on."""
    merged = absorb._merge_windows

    def same(*args: Any) -> Any:
        both, groups, union = merged(*args)
        return both, groups, replace(union, new=np.zeros_like(union.new))

    patch.setattr(absorb, "_merge_windows", same)
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
