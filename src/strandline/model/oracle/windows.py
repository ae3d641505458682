"""Which windows an event belongs to, and which windows of a key are one."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Generic, TypeVar
from zoneinfo import ZoneInfo

from strandline.model.oracle.values import Row, visible
from strandline.model.panes import CAME_FROM
from strandline.model.time import EPOCH, Instant, Span
from strandline.model.users import windows_said
from strandline.model.windows import Calendar, CustomWindow, Global, Hopping, SameWindow, Session, Tumbling, Window

Interval = tuple[int, int]
ALL_TIME: Interval = (int(Instant.BEFORE_ALL_TIME), int(Instant.END_OF_TIME))
MICROSECOND = timedelta(microseconds=1)
DAY = 86_400_000_000
DAYS_OF_400_YEARS = 146_097
MONDAY = 4  # the day 1970-01-05


def reason_to_reject(window: Window, row: Row) -> str | None:
    """Why no window can be found for a row, if so."""
    if isinstance(window, Tumbling) and window.zone_column is not None:
        zone = row.get(window.zone_column)
        if zone is None:
            return "the time zone is null"
        if not _is_known(zone):
            return f"the time zone {zone!r} is not known"
    if isinstance(window, Session) and window.gap_column is not None:
        gap = row.get(window.gap_column)
        if gap is None:
            return "the session gap is null"
        if _micros(gap) <= 0:
            return "the session gap is not positive"
        if _micros(gap) > Span.LONGEST:
            return "the session gap is too long"
    return None


def reason_to_reject_windows(window: Window, found: list[Interval]) -> str | None:
    """Why an event cannot be taken into its windows, if so: there are none, or one has no dates to be shown with."""
    if not found:
        return "it belongs to no window"
    # The one window of all time is shown without dates; the window that a pane came with was judged before.
    exempt = isinstance(window, Global | SameWindow)
    first, last = Instant.FIRST_IN_CALENDAR, Instant.LAST_IN_CALENDAR
    if not exempt and any(start < first or end > last for start, end in found):
        return "its window leaves the calendar"
    return None


def windows_of(window: Window, time: int, row: Row) -> list[Interval]:
    """The windows that an event opens or joins, by start."""
    if isinstance(window, Tumbling):
        return [_tumbling(window, time, row)]
    if isinstance(window, Hopping):
        return _hopping(window, time)
    if isinstance(window, Session):
        gap = window.gap if window.gap_column is None else row[window.gap_column]
        return [(time, time + _micros(gap))]
    if isinstance(window, Global):
        return [ALL_TIME]
    if isinstance(window, SameWindow):
        return [(row[CAME_FROM[0]], row[CAME_FROM[1]])]
    return windows_said(window, Instant(time), visible(row))


def _tumbling(window: Tumbling, time: int, row: Row) -> Interval:
    if isinstance(window.size, Calendar):
        zone = window.zone if window.zone_column is None else row[window.zone_column]
        return _calendar(window.size, int(window.offset), ZoneInfo(str(zone)), time)
    size, offset = int(window.size), int(window.offset)
    start = (time - offset) // size * size + offset
    return (start, start + size)


def _hopping(window: Hopping, time: int) -> list[Interval]:
    size, every, offset = int(window.size), int(window.every), int(window.offset)
    start = (time - offset) // every * every + offset
    found = []
    while start + size > time:
        found.append((start, start + size))
        start -= every
    return found[::-1]


def _calendar(size: Calendar, offset: int, zone: ZoneInfo, time: int) -> Interval:
    """The local period of an instant. Clocks that are put back or on may move its bounds past the instant: step then."""
    number = _period_of(size, time + _ahead_at(zone, time) - offset)
    while _starts(size, offset, zone, number) > time:
        number -= 1
    while _starts(size, offset, zone, number + 1) <= time:
        number += 1
    return (_starts(size, offset, zone, number), _starts(size, offset, zone, number + 1))


# Wall times and days are plain numbers from 1970 on, since the window of an event in the year 1 may start in the year 0.


def _period_of(size: Calendar, wall: int) -> int:
    day = wall // DAY
    if size.months:
        return _months_until(day) // size.months
    if size.weeks:
        return (day - MONDAY) // (7 * size.weeks)
    return day // size.days


def _first_day(size: Calendar, number: int) -> int:
    if size.months:
        return _day_of_month(number * size.months)
    if size.weeks:
        return MONDAY + 7 * size.weeks * number
    return size.days * number


def _months_until(day: int) -> int:
    """How many months after January 1970 a day lies. The calendar repeats itself every 400 years."""
    rounds, rest = divmod(day, DAYS_OF_400_YEARS)
    found = date(1970, 1, 1) + timedelta(days=rest)
    return (400 * rounds + found.year - 1970) * 12 + found.month - 1


def _day_of_month(months: int) -> int:
    """The first day of the month that lies so many months after January 1970."""
    rounds, rest = divmod(months, 12 * 400)
    found = date(1970 + rest // 12, 1 + rest % 12, 1)
    return rounds * DAYS_OF_400_YEARS + (found - date(1970, 1, 1)).days


def _starts(size: Calendar, offset: int, zone: ZoneInfo, number: int) -> int:
    """The instant at which a local period starts."""
    wall = _first_day(size, number) * DAY + offset
    return wall - _ahead_on_the_wall(zone, wall)


def _ahead_at(zone: ZoneInfo, time: int) -> int:
    """How far a local clock is ahead of UTC at an instant. In the first and the last day of the calendar no clock changes."""
    inside = min(max(time, Instant.FIRST_IN_CALENDAR + DAY), Instant.LAST_IN_CALENDAR - DAY)
    return _micros((EPOCH + timedelta(microseconds=inside)).astimezone(zone).utcoffset())


def _ahead_on_the_wall(zone: ZoneInfo, wall: int) -> int:
    """How far a local clock that shows this is ahead of UTC; of a wall time that comes twice, the first."""
    inside = min(max(wall, Instant.FIRST_IN_CALENDAR), Instant.LAST_IN_CALENDAR)
    return _micros((EPOCH + timedelta(microseconds=inside)).replace(tzinfo=zone, fold=0).utcoffset())


def _is_known(zone: str) -> bool:
    try:
        ZoneInfo(zone)
    except Exception:  # zoneinfo raises several kinds for one mistake
        return False
    return True


def _micros(gap: Any) -> int:
    return gap // MICROSECOND if isinstance(gap, timedelta) else int(gap)


Member = TypeVar("Member")


@dataclass
class Component(Generic[Member]):
    """Windows of one key that are one window, with whatever brought them."""

    start: int
    end: int
    members: list[Member] = field(default_factory=list)


def components(window: Window, pieces: list[tuple[int, int, Member]]) -> list[Component[Member]]:
    """Join the windows of one key: those that merge where windows merge, else those that are equal.

    >>> [(c.start, c.end) for c in components(Session("5us"), [(0, 5, "a"), (9, 14, "b"), (4, 9, "c")])]
    [(0, 9), (9, 14)]
    """
    found: list[Component[Member]] = []
    for start, end, member in sorted(pieces, key=lambda piece: piece[:2]):
        if found and _joins(window, found[-1], start, end):
            found[-1].end = max(found[-1].end, end)
        else:
            found.append(Component(start, end))
        found[-1].members.append(member)
    return found


def _joins(window: Window, before: Component[Any], start: int, end: int) -> bool:
    """Whether a piece, that starts no earlier, is one with the component before it."""
    if isinstance(window, Session) and window.inclusive:
        return start <= before.end
    if isinstance(window, Session) or (isinstance(window, CustomWindow) and window.merging):
        return start < before.end
    return (start, end) == (before.start, before.end)
