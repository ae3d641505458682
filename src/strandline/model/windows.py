"""Where in event time: the shapes of windows.

A window is a half-open interval [start, end) of event time. These are descriptions; the oracle and the
kernel each say for themselves which windows a row belongs to.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Any, ClassVar, TypeAlias
from zoneinfo import ZoneInfo

from strandline.errors import DescriptionError, told
from strandline.model.intervals import signed
from strandline.model.options import require_boolean, require_column
from strandline.model.time import Instant, Span

_CALENDAR = re.compile(r"(\d{1,18})\s*(d|w|mo|y)")
_MOST_YEARS = 1000  # of a calendar size


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """A size that only a calendar can measure: days may have 23 or 25 hours, months 28 to 31 days.

    Days count from 1970-01-01, weeks from the Monday 1970-01-05, months and years from January 1970, all local.
    """

    days: int = 0
    weeks: int = 0
    months: int = 0

    @classmethod
    def of(cls, text: str) -> Calendar | None:
        """Read whole days, weeks, months or years; None when the text says something else."""
        match = _CALENDAR.fullmatch(text.strip())
        if not match:
            return None
        count, unit = int(match[1]), match[2]
        return {
            "d": cls(days=count), "w": cls(weeks=count), "mo": cls(months=count), "y": cls(months=12 * count),
        }[unit]  # fmt: skip

    @property
    def text(self) -> str:
        """The text that reads back as this size."""
        return f"{self.days}d" if self.days else f"{self.weeks}w" if self.weeks else f"{self.months}mo"


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Cut event time into adjoining windows of one size.

    Window n covers [n * size + offset, (n + 1) * size + offset). With `zone=` (or `zone_column=`, a column
    that names each row's zone) days, weeks and months follow the local calendar. Without one "1w" is a plain span of seven
    days counted from 1970-01-01, so it starts on Thursdays: zone="UTC" makes it start on Mondays, and so does offset="4d".

    Law: every instant lies in exactly one window.

    >>> Tumbling("1m")
    Tumbling(size=Span('1m'), offset=Span('0s'), zone=None, zone_column=None)
    """

    size: Span | Calendar
    _: KW_ONLY
    offset: Span = Span(0)
    zone: str | None = None
    zone_column: str | None = None

    def __init__(
        self,
        size: str | timedelta | Span | Calendar,
        *,
        offset: str | timedelta | Span = Span(0),
        zone: str | None = None,
        zone_column: str | None = None,
    ) -> None:
        offset = signed(offset)
        require_column("zone_column", zone_column)
        if zone is not None and zone_column is not None:
            raise DescriptionError("zone= and zone_column= are both given.", fix="Give the one that is meant.")
        calendar = size if isinstance(size, Calendar) else Calendar.of(size) if isinstance(size, str) else None
        if calendar == Calendar():
            raise DescriptionError("A window of size zero holds no event.", fix="Give a size such as '1m' or '1d'.")
        local = zone is not None or zone_column is not None
        if calendar is not None and (local or calendar.months):
            measured: Span | Calendar = _not_too_long(calendar)
            zone = zone if local else "UTC"
        elif local:
            raise DescriptionError(
                f"A window of {size!r} does not follow a calendar, so a zone means nothing to it.",
                fix="Use whole days, weeks, months or years ('1d', '1w', '1mo', '1y'), or leave the zone out.",
            )
        else:
            measured = _positive(size, "size")  # type: ignore[arg-type]
        if zone is not None:
            _known_zone(zone)
        _set(self, size=measured, offset=offset, zone=zone, zone_column=zone_column)


@dataclass(frozen=True, slots=True)
class Hopping:
    """Overlapping windows of one size, one starting every `every`.

    Law: every instant lies in size / every windows (rounded up or down where that is no whole number).
    """

    size: Span
    _: KW_ONLY
    every: Span
    offset: Span = Span(0)

    def __init__(
        self,
        size: str | timedelta | Span,
        *,
        every: str | timedelta | Span | None = None,
        offset: str | timedelta | Span = Span(0),
    ) -> None:
        if every is None:
            raise DescriptionError(
                "Hopping windows need every=: how long after one the next starts.",
                fix="Write Hopping('1m', every='10s'); Tumbling('1m') for windows that adjoin.",
            )
        size, every = _positive(size, "size"), _positive(every, "every")
        if every > size:
            raise DescriptionError(
                f"A hop of {every.text} is longer than the window of {size.text}: events between windows would vanish.",
                fix=f"Let every= be at most {size.text}, or filter with .where() if gaps are meant.",
            )
        _set(self, size=size, every=every, offset=signed(offset))


@dataclass(frozen=True, slots=True)
class Session:
    """Windows that grow with activity: an event opens [time, time + gap), and windows of a key that overlap merge.

    Events exactly `gap` apart are two sessions; with `inclusive=True` (Flink's and Spark's rule) windows that touch
    merge too, as long as the watermark has not closed the first: at that one instant it matters who came first.
    `gap_column=` takes each event's own gap from a column: an interval, or a bigint of microseconds.

    Law: two sessions of a key never overlap.
    """

    gap: Span | None = None
    _: KW_ONLY
    gap_column: str | None = None
    inclusive: bool = False

    def __init__(
        self, gap: str | timedelta | Span | None = None, *, gap_column: str | None = None, inclusive: bool = False
    ) -> None:
        if (gap is None) == (gap_column is None):
            raise DescriptionError(
                "A session needs a gap or a gap_column, and not both.", fix="Write Session(gap='10m')."
            )
        require_column("gap_column", gap_column)
        require_boolean("inclusive", inclusive)
        _set(self, gap=None if gap is None else _positive(gap, "gap"), gap_column=gap_column, inclusive=inclusive)


@dataclass(frozen=True, slots=True)
class Global:
    """One window for all time per key, forgotten `ttl` and the stage's lateness after the key's greatest event time.

    Without a ttl, state grows with the number of keys for ever, and `check()` warns of it.
    """

    _: KW_ONLY
    ttl: Span | None = None

    def __init__(self, *, ttl: str | timedelta | Span | None = None) -> None:
        _set(self, ttl=None if ttl is None else _positive(ttl, "ttl"))


@dataclass(frozen=True, slots=True)
class SameWindow:
    """Group the panes of an earlier stage by the window they came with; of a join: rows that fall into the same window.

    A join names the windows: `SameWindow(Tumbling("1h"))`. Panes bring theirs.
    """

    window: Tumbling | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.window, Tumbling | None) or (self.window and self.window.zone_column is not None):
            raise DescriptionError(
                f"SameWindow({told(self.window)}): a join takes windows that are the same for all rows, and adjoin.",
                fix="Write SameWindow(Tumbling('1h')); for events that are close to each other, sl.Around('1h').",
            )


class CustomWindow(ABC):
    """A user's own window: subclass it, say which windows a row belongs to, as pairs of whole microseconds.

    `assign` must be a pure function of its arguments. With `merging = True` windows of one key that overlap
    merge, as sessions do, and a row has one window at most. `longest` is the length that no window exceeds, where one is known.

    >>> class Shift(CustomWindow):
    ...     longest = Span.of("8h")
    ...     def assign(self, time, row):
    ...         start = time - time % Span.of("8h")
    ...         return [(start, start + Span.of("8h"))]
    """

    merging: ClassVar[bool] = False
    longest: ClassVar[Span | None] = None

    @abstractmethod
    def assign(self, time: Instant, row: Mapping[str, Any]) -> Iterable[tuple[int, int]]:
        """The (start, end) of every window that a row with this time belongs to; may be a generator."""


Window: TypeAlias = Tumbling | Hopping | Session | Global | SameWindow | CustomWindow


def _positive(value: str | timedelta | Span, what: str) -> Span:
    span = Span.of(value)
    if span <= 0:
        raise DescriptionError(
            f"{what}={span.text!r} is not positive.", fix=f"Give a longer span, such as {what}='1m'."
        )
    return span


def _not_too_long(size: Calendar) -> Calendar:
    if size.months > 12 * _MOST_YEARS or size.days + 7 * size.weeks > 366 * _MOST_YEARS:
        raise DescriptionError(
            f"A window of {size.text} is longer than {_MOST_YEARS} years.",
            fix="Give a shorter size, or use Global() for one window over all time.",
        )
    return size


def _known_zone(zone: str) -> None:
    try:
        ZoneInfo(zone)
    except Exception:  # zoneinfo raises several kinds for one mistake
        raise DescriptionError(
            f"The time zone {zone!r} is not known.", fix="Use an IANA name such as 'Europe/Berlin' or 'UTC'."
        ) from None


def _set(description: object, **fields: object) -> None:
    """Give a frozen description its checked fields."""
    for name, value in fields.items():
        object.__setattr__(description, name, value)
