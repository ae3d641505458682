"""How long windows are, for people: by the name that a calendar has for it, with the least and the most that it may be."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from math import gcd
from typing import Final

from strandline.model.lineage import longest
from strandline.model.time import Span
from strandline.model.windows import Calendar, Tumbling, Window

DAY: Final = Span.of("1d")
CLOCK_CHANGE: Final = Span.of("1h")  # by so much a day is longer or shorter where clocks are put forward and back
ALL_MONTHS: Final = 4800  # after 400 years the calendar repeats itself
WINDOW: Final = "the window"


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """What a length is called, and how long it is at least and at most."""

    name: str
    least: Span
    most: Span

    @property
    def text(self) -> str:
        """A name that says how long it is: that of the calendar, or one with the time."""
        return f"{WINDOW} of {self.most.text}" if self.name == WINDOW else self.name


def length_of(window: Window) -> Length | None:
    """How long a window may be; None where nothing bounds it.

    `lineage.longest` is greater than the most: it bounds what a later stage must take, also where a zone was moved by a day.

    >>> length_of(Tumbling("1d", zone="Europe/Berlin"))
    Length(name='the day', least=Span('23h'), most=Span('1d1h'))
    """
    if isinstance(window, Tumbling) and isinstance(window.size, Calendar):
        change = 0 if window.zone == "UTC" else CLOCK_CHANGE
        least, most = _days(window.size)
        return Length(
            name=f"the {_named(window.size)}", least=Span(least * DAY - change), most=Span(most * DAY + change)
        )
    length = longest(window)
    return None if length is None else Length(name=WINDOW, least=length, most=length)


def _named(size: Calendar) -> str:
    years = size.months // 12 if size.months % 12 == 0 else 0
    counts = ((size.days, "day"), (size.weeks, "week"), (years, "year"), (size.months, "month"))
    count, unit = next((count, unit) for count, unit in counts if count)
    return unit if count == 1 else f"{count} {unit}s"


def _days(size: Calendar) -> tuple[int, int]:
    """The least and the most days of a size, of all the windows that there are."""
    if not size.months:
        days = size.days + 7 * size.weeks
        return days, days
    firsts = range(0, ALL_MONTHS, gcd(size.months, ALL_MONTHS))
    found = {_ordinal(first + size.months) - _ordinal(first) for first in firsts}
    return min(found), max(found)


def _ordinal(month: int) -> int:
    """The day on which a month begins, counted from January 1970."""
    return date(1970 + month // 12, month % 12 + 1, 1).toordinal()
