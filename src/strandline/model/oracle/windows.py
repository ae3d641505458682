"""Which windows an event belongs to, and which windows of a key are one."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from typing import Any, Generic, TypeVar
from zoneinfo import ZoneInfo

from strandline.errors import DataError
from strandline.model.oracle.values import Row, visible
from strandline.model.panes import CAME_FROM
from strandline.model.time import EPOCH, Instant
from strandline.model.windows import Calendar, CustomWindow, Global, Hopping, SameWindow, Session, Tumbling, Window

Interval = tuple[int, int]
ALL_TIME: Interval = (int(Instant.BEFORE_ALL_TIME), int(Instant.END_OF_TIME))
MICROSECOND = timedelta(microseconds=1)


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
    return _custom(window, time, row)


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


def _custom(window: CustomWindow, time: int, row: Row) -> list[Interval]:
    found = sorted({(int(start), int(end)) for start, end in window.assign(Instant(time), visible(row))})
    for start, end in found:
        if end <= start:
            raise DataError(
                f"{type(window).__name__}.assign gave a window that ends at {end} and starts at {start}.",
                fix="Let every window end after it starts.",
            )
    return found


def _calendar(size: Calendar, offset: int, zone: ZoneInfo, time: int) -> Interval:
    """The local period of an instant. Clocks that are put back or on may move its bounds past the instant: step then."""
    local = (EPOCH + timedelta(microseconds=time)).astimezone(zone).replace(tzinfo=None)
    number = _period_of(size, local - timedelta(microseconds=offset))
    while _starts(size, offset, zone, number) > time:
        number -= 1
    while _starts(size, offset, zone, number + 1) <= time:
        number += 1
    return (_starts(size, offset, zone, number), _starts(size, offset, zone, number + 1))


def _period_of(size: Calendar, local: datetime) -> int:
    if size.months:
        return ((local.year - 1970) * 12 + local.month - 1) // size.months
    if size.weeks:
        return (local.date() - date(1970, 1, 5)).days // (7 * size.weeks)
    return (local.date() - date(1970, 1, 1)).days // size.days


def _first_day(size: Calendar, number: int) -> date:
    if size.months:
        years, months = divmod(number * size.months, 12)
        return date(1970 + years, 1 + months, 1)
    if size.weeks:
        return date(1970, 1, 5) + timedelta(weeks=number * size.weeks)
    return date(1970, 1, 1) + timedelta(days=number * size.days)


def _starts(size: Calendar, offset: int, zone: ZoneInfo, number: int) -> int:
    """The instant at which a local period starts; of a wall time that comes twice, the first."""
    day = _first_day(size, number)
    wall = datetime(day.year, day.month, day.day) + timedelta(microseconds=offset)  # noqa: DTZ001 - the zone comes next
    return (wall.replace(tzinfo=zone, fold=0).astimezone(timezone.utc) - EPOCH) // MICROSECOND


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
