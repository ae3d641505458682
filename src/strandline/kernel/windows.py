"""Windows in columns: which windows each row belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.errors import DataError
from strandline.kernel.groups import Groups
from strandline.model.panes import CAME_FROM, HIDDEN
from strandline.model.time import EPOCH, Instant
from strandline.model.windows import Calendar, CustomWindow, Global, Hopping, SameWindow, Session, Tumbling, Window

Array = npt.NDArray[Any]

DAY = 86_400_000_000
MONDAY = date(1970, 1, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """Windows of rows: row `row[i]` belongs to [start[i], end[i]). Rows without a place stand in `rejected`, with the reason."""

    row: Array
    start: Array
    end: Array
    rejected: Mapping[int, str]


def assign(window: Window, rows: pl.DataFrame, times: Array, *, cell: int | None = None) -> Assigned:
    """Say which windows rows belong to. For hopping windows, `cell` asks for their slices instead."""
    if isinstance(window, Hopping) and cell is not None:
        start = (times - int(window.offset)) // cell * cell + int(window.offset)
        return _one_each(start, start + cell)
    if isinstance(window, Hopping):
        return hops_of(window, times, times + 1)
    if isinstance(window, Tumbling):
        return _tumbling(window, rows, times)
    if isinstance(window, Session):
        return _session(window, rows, times)
    if isinstance(window, Global):
        everywhere = np.full(len(times), int(Instant.BEFORE_ALL_TIME))
        return _one_each(everywhere, -everywhere)
    if isinstance(window, SameWindow):
        return _one_each(rows[CAME_FROM[0]].to_numpy(), rows[CAME_FROM[1]].to_numpy())
    return _custom(window, rows, times)


def hops_of(window: Hopping, start: Array, end: Array) -> Assigned:
    """The hopping windows that hold each slice [start, end) whole."""
    every, offset = int(window.every), int(window.offset)
    last = (start - offset) // every
    first = -((int(window.size) - (end - offset)) // every)
    counts = last - first + 1
    groups = Groups.of_lengths(counts[counts > 0])
    row = np.repeat(np.arange(len(start)), np.maximum(counts, 0))
    place = np.arange(len(row)) - np.repeat(groups.starts, groups.lengths)
    starts = (first[row] + place) * every + offset
    return Assigned(row=row, start=starts, end=starts + int(window.size), rejected={})


def _one_each(start: Array, end: Array, rejected: Mapping[int, str] | None = None) -> Assigned:
    rows = np.arange(len(start))
    if rejected:
        kept = np.ones(len(start), np.bool_)
        kept[list(rejected)] = False
        rows, start, end = rows[kept], start[kept], end[kept]
    return Assigned(row=rows, start=start, end=end, rejected=rejected or {})


def _tumbling(window: Tumbling, rows: pl.DataFrame, times: Array) -> Assigned:
    offset = int(window.offset)
    if not isinstance(window.size, Calendar):
        start = (times - offset) // int(window.size) * int(window.size) + offset
        return _one_each(start, start + int(window.size))
    if window.zone is not None:
        return _one_each(*calendar_windows(window.size, offset, ZoneInfo(window.zone), times))
    assert window.zone_column is not None
    start, end = np.zeros_like(times), np.zeros_like(times)
    rejected: dict[int, str] = {}
    zones = rows[window.zone_column]
    for name in zones.unique().to_list():
        mine = np.flatnonzero((zones.is_null() if name is None else (zones == name).fill_null(False)).to_numpy())
        zone = _zone(name)
        if zone is None:
            reason = "the time zone is null" if name is None else f"the time zone {name!r} is not known"
            rejected |= dict.fromkeys(mine.tolist(), reason)
        else:
            start[mine], end[mine] = calendar_windows(window.size, offset, zone, times[mine])
    return _one_each(start, end, rejected)


def _zone(name: str | None) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except Exception:  # zoneinfo raises several kinds for one mistake
        return None


def calendar_windows(size: Calendar, offset: int, zone: ZoneInfo, times: Array) -> tuple[Array, Array]:
    """The local calendar period of each instant: where it starts and ends."""
    if not len(times):
        return times, times
    periods: set[int] = set()
    for day in np.unique(times // DAY).tolist():
        near = _period(size, offset, zone, day * DAY)
        last = _period(size, offset, zone, (day + 1) * DAY)
        periods.update(range(near - 1, last + 2))
    ordered = sorted(periods)
    starts = np.array([_starts(size, offset, zone, p) for p in ordered], np.int64)
    ends = np.array([_starts(size, offset, zone, p + 1) for p in ordered], np.int64)
    place = np.searchsorted(starts, times, side="right") - 1
    return starts[place], ends[place]


def _period(size: Calendar, offset: int, zone: ZoneInfo, instant: int) -> int:
    """The number of the local period that an instant lies in, give or take one around a change of clocks."""
    local = (EPOCH + timedelta(microseconds=instant)).astimezone(zone).replace(tzinfo=None) - timedelta(
        microseconds=offset
    )
    if size.months:
        return ((local.year - 1970) * 12 + local.month - 1) // size.months
    if size.weeks:
        return (local.date() - MONDAY).days // (7 * size.weeks)
    return (local.date() - EPOCH.date()).days // size.days


def _starts(size: Calendar, offset: int, zone: ZoneInfo, period: int) -> int:
    """The instant at which a local period starts."""
    if size.months:
        years, month = divmod(period * size.months, 12)
        day = date(1970 + years, month + 1, 1)
    elif size.weeks:
        day = MONDAY + timedelta(days=7 * size.weeks * period)
    else:
        day = EPOCH.date() + timedelta(days=size.days * period)
    # Adding to an aware datetime moves its wall time: the offset is one of the local clock.
    local = datetime(day.year, day.month, day.day, tzinfo=zone) + timedelta(microseconds=offset)
    return (local.astimezone(timezone.utc) - EPOCH) // timedelta(microseconds=1)


def _session(window: Session, rows: pl.DataFrame, times: Array) -> Assigned:
    if window.gap is not None:
        return _one_each(times, times + int(window.gap))
    assert window.gap_column is not None
    column = rows[window.gap_column]
    gaps = column.cast(pl.Int64).fill_null(0).to_numpy()
    bad = np.flatnonzero(gaps <= 0)
    rejected = {
        int(i): "the session gap is null" if column[int(i)] is None else "the session gap is not positive" for i in bad
    }
    return _one_each(times, times + gaps, rejected)


def _said(window: CustomWindow, windows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """What a user's window said, each window once, in order."""
    for start, end in windows:
        if end <= start:
            raise DataError(
                f"{type(window).__name__}.assign gave a window that ends at {int(end)}, not after its start {int(start)}.",
                fix="Let assign return (start, end) with start < end.",
            )
    return sorted({(int(start), int(end)) for start, end in windows})


def _custom(window: CustomWindow, rows: pl.DataFrame, times: Array) -> Assigned:
    visible = rows.select(c for c in rows.columns if not c.startswith(HIDDEN))
    found = [
        (number, int(start), int(end))
        for number, row in enumerate(visible.iter_rows(named=True))
        for start, end in _said(window, window.assign(Instant(int(times[number])), row))
    ]
    row, start, end = (
        (np.array(part, np.int64) for part in zip(*found, strict=True)) if found else (np.zeros(0, np.int64),) * 3
    )
    nowhere = np.setdiff1d(np.arange(rows.height), row)
    return Assigned(row=row, start=start, end=end, rejected={int(i): "it belongs to no window" for i in nowhere})
