"""Windows in columns: which windows each row belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.groups import Groups
from strandline.kernel.users import python_rows
from strandline.model.panes import CAME_FROM, HIDDEN
from strandline.model.time import EPOCH, Instant, Span
from strandline.model.users import windows_said
from strandline.model.windows import Calendar, CustomWindow, Global, Hopping, SameWindow, Session, Tumbling, Window

Array = npt.NDArray[Any]

DAY = 86_400_000_000
MONDAY = 4  # the day 1970-01-05
DAYS_OF_400_YEARS = 146_097
EPOCH_DAY = EPOCH.date()
FIRST, LAST = int(Instant.FIRST_IN_CALENDAR), int(Instant.LAST_IN_CALENDAR)

LEAVES = "its window leaves the calendar"


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
        return _one_each(start, start + cell, _hops_that_leave(window, times))
    if isinstance(window, Global):
        everywhere = np.full(len(times), int(Instant.BEFORE_ALL_TIME))
        return _one_each(everywhere, -everywhere)
    if isinstance(window, SameWindow):
        return _one_each(rows[CAME_FROM[0]].to_numpy(), rows[CAME_FROM[1]].to_numpy())
    return _in_calendar(_dated(window, rows, times))


def _dated(window: Tumbling | Hopping | Session | CustomWindow, rows: pl.DataFrame, times: Array) -> Assigned:
    """Windows that are shown with their dates, whether the calendar has these or not."""
    if isinstance(window, Hopping):
        return hops_of(window, times, times + 1)
    if isinstance(window, Tumbling):
        return _tumbling(window, rows, times)
    if isinstance(window, Session):
        return _session(window, rows, times)
    return _custom(window, rows, times)


def _in_calendar(found: Assigned) -> Assigned:
    """Without the rows that have a window outside of the calendar: it could not be shown."""
    outside = _outside(found.start, found.end)
    if not len(outside):
        return found
    gone = np.unique(found.row[outside])
    kept = ~np.isin(found.row, gone)
    return Assigned(
        row=found.row[kept], start=found.start[kept], end=found.end[kept],
        rejected={**found.rejected, **dict.fromkeys(gone.tolist(), LEAVES)},
    )  # fmt: skip


def _outside(start: Array, end: Array) -> Array:
    """Which windows leave the calendar; nearly always none, and that is soon seen."""
    if not len(start) or (start.min() >= FIRST and end.max() <= LAST):
        return np.zeros(0, np.int64)
    return np.flatnonzero((start < FIRST) | (end > LAST))


def _hops_that_leave(window: Hopping, times: Array) -> dict[int, str]:
    """The events that have a hopping window outside of the calendar."""
    size, every, offset = int(window.size), int(window.every), int(window.offset)
    if not len(times) or (times.min() - size >= FIRST and times.max() + size <= LAST):
        return {}
    first, last = _hops(window, times, times + 1)
    return dict.fromkeys(_outside(first * every + offset, last * every + offset + size).tolist(), LEAVES)


def _hops(window: Hopping, start: Array, end: Array) -> tuple[Array, Array]:
    """The numbers of the first and of the last window that hold each slice [start, end) whole."""
    every, offset = int(window.every), int(window.offset)
    return -((int(window.size) - (end - offset)) // every), (start - offset) // every


def hops_of(window: Hopping, start: Array, end: Array) -> Assigned:
    """The hopping windows that hold each slice [start, end) whole."""
    first, last = _hops(window, start, end)
    counts = last - first + 1
    groups = Groups.of_lengths(counts[counts > 0])
    row = np.repeat(np.arange(len(start)), np.maximum(counts, 0))
    place = np.arange(len(row)) - np.repeat(groups.starts, groups.lengths)
    starts = (first[row] + place) * int(window.every) + int(window.offset)
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
    # Within a day of the calendar's ends a local time may have no date; and no clock changes there.
    inside = min(max(instant, FIRST + DAY), LAST - DAY)
    day = (instant + _micros((EPOCH + timedelta(microseconds=inside)).astimezone(zone).utcoffset()) - offset) // DAY
    if not size.months:
        return (day - MONDAY) // (7 * size.weeks) if size.weeks else day // size.days
    # The calendar repeats itself every 400 years; but dates end with the year 9999.
    rounds, rest = divmod(day, DAYS_OF_400_YEARS)
    found = EPOCH_DAY + timedelta(days=rest)
    return ((400 * rounds + found.year - 1970) * 12 + found.month - 1) // size.months


def _starts(size: Calendar, offset: int, zone: ZoneInfo, period: int) -> int:
    """The instant at which a local period starts."""
    if size.months:
        rounds, rest = divmod(period * size.months, 12 * 400)
        day = rounds * DAYS_OF_400_YEARS + (date(1970 + rest // 12, 1 + rest % 12, 1) - EPOCH_DAY).days
    else:
        day = MONDAY + 7 * size.weeks * period if size.weeks else size.days * period
    wall = day * DAY + offset  # the offset is one of the local clock
    inside = min(max(wall, FIRST), LAST)
    return wall - _micros((EPOCH + timedelta(microseconds=inside)).replace(tzinfo=zone).utcoffset())


def _micros(length: timedelta | None) -> int:
    assert length is not None, "every zone knows how far it is from UTC"
    return length // timedelta(microseconds=1)


def _session(window: Session, rows: pl.DataFrame, times: Array) -> Assigned:
    if window.gap is not None:
        return _one_each(times, times + int(window.gap))
    assert window.gap_column is not None
    column = rows[window.gap_column]
    gaps = column.cast(pl.Int64).fill_null(0).to_numpy()
    bad = np.flatnonzero((gaps <= 0) | (gaps > int(Span.LONGEST)))
    return _one_each(times, times + gaps, {int(i): _what_is_wrong(column[int(i)], int(gaps[i])) for i in bad})


def _what_is_wrong(value: Any, gap: int) -> str:
    if value is None:
        return "the session gap is null"
    return "the session gap is not positive" if gap <= 0 else "the session gap is too long"


def _custom(window: CustomWindow, rows: pl.DataFrame, times: Array) -> Assigned:
    visible = [name for name in rows.columns if not name.startswith(HIDDEN)]
    found = [
        (number, start, end)
        for number, row in enumerate(python_rows(rows, visible))
        for start, end in windows_said(window, Instant(int(times[number])), dict(zip(visible, row, strict=True)))
    ]
    row, start, end = (
        (np.array(part, np.int64) for part in zip(*found, strict=True)) if found else (np.zeros(0, np.int64),) * 3
    )
    nowhere = np.setdiff1d(np.arange(rows.height), row)
    return Assigned(row=row, start=start, end=end, rejected={int(i): "it belongs to no window" for i in nowhere})
