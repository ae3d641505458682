"""Instants and spans: whole microseconds, as types.

Text becomes a type here, at the edge; inward of this module nobody guesses a unit.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from typing import ClassVar, Final

from strandline.errors import DescriptionError

EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_UNITS: Final = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d|w)\s*")


class Span(int):
    """A length of time in whole microseconds.

    >>> Span.of("1h30m"), Span.of("250ms")
    (Span('1h30m'), Span('250ms'))
    """

    __slots__ = ()

    LONGEST: ClassVar[Span]

    @classmethod
    def of(cls, value: str | timedelta | Span) -> Span:
        """Read a span from text, a timedelta, or a span.

        Law: a span that is read is at most `Span.LONGEST` long, either way.
        """
        span = value if isinstance(value, Span) else cls.read(value)
        if abs(span) > cls.LONGEST:
            raise DescriptionError(
                f"The span {value if isinstance(value, str) else span.text!r} is longer than 10,000 years.",
                fix="Give a shorter one; leave it out if no bound is meant.",
            )
        return span

    @classmethod
    def read(cls, value: str | timedelta) -> Span:
        """Read a span of any length, as data may have it; a description takes `Span.of`."""
        if isinstance(value, timedelta):
            return cls((value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds)
        if not isinstance(value, str):
            raise DescriptionError(
                f"A span must be text or a timedelta, not {value!r}.",
                fix="Write it with its unit, such as '10s', '5m', '1h30m' or '250ms'.",
            )
        text = value.strip()
        total, at = 0, 0
        while match := _PART.match(text, at):
            total += _micros(value, *match.groups())
            at = match.end()
        if not text or at != len(text):
            raise _unreadable(value)
        return cls(total)

    @property
    def text(self) -> str:
        """The shortest text that reads back as this span."""
        if self < 0:
            return "-" + Span(-self).text
        rest, parts = int(self), []
        for unit in ("d", "h", "m", "s", "ms", "us"):
            count, rest = divmod(rest, _UNITS[unit])
            if count:
                parts.append(f"{count}{unit}")
        return "".join(parts) or "0s"

    def __repr__(self) -> str:
        return f"Span({self.text!r})"

    __str__ = __repr__


class Instant(int):
    """A point in event time or processing time: whole microseconds since 1970-01-01T00:00:00Z.

    >>> Instant.of("2026-01-01T12:00:00Z")
    Instant('2026-01-01T12:00:00Z')
    >>> Instant.of("1969-12-31T23:59:59Z") < Instant(0)
    True
    """

    __slots__ = ()

    BEFORE_ALL_TIME: ClassVar[Instant]
    END_OF_TIME: ClassVar[Instant]
    FIRST_IN_CALENDAR: ClassVar[Instant]
    LAST_IN_CALENDAR: ClassVar[Instant]

    @classmethod
    def of(cls, value: str | datetime | int) -> Instant:
        """Read an instant from ISO text, an aware datetime, or whole microseconds."""
        if isinstance(value, Instant):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return cls(value)
        if isinstance(value, str):
            value = _parse(value)
        if not isinstance(value, datetime):
            raise DescriptionError(
                f"An instant must be ISO text, an aware datetime or whole microseconds, not {value!r}.",
                fix="Write it as '2026-01-01T12:00:00Z'.",
            )
        if value.tzinfo is None:
            raise DescriptionError(
                f"The instant {value.isoformat()} has no time zone.",
                fix="Add one: '...Z' for UTC, '...+01:00', or datetime(..., tzinfo=timezone.utc).",
            )
        return cls((value - EPOCH) // timedelta(microseconds=1))

    @property
    def in_calendar(self) -> bool:
        """Whether this instant has a date: it lies in the years 1 to 9999 of UTC."""
        return Instant.FIRST_IN_CALENDAR <= self <= Instant.LAST_IN_CALENDAR

    @property
    def moment(self) -> datetime:
        """This instant as an aware datetime in UTC. Ask only of instants that a calendar has."""
        return EPOCH + timedelta(microseconds=int(self))

    @property
    def text(self) -> str:
        """This instant as ISO text in UTC."""
        if self <= Instant.BEFORE_ALL_TIME:
            return "before all time"
        if self >= Instant.END_OF_TIME:
            return "end of time"
        if not self.in_calendar:
            return f"{int(self)}us from 1970"
        return self.moment.isoformat().replace("+00:00", "Z")

    def __repr__(self) -> str:
        return f"Instant({self.text!r})"

    __str__ = __repr__


# Beyond every event: no two instants of a calendar are further apart.
Span.LONGEST = Span(10_000 * 366 * _UNITS["d"])
# Far outside every calendar, and far enough from the ends of 64 bits that a dozen of the longest spans never wrap.
Instant.BEFORE_ALL_TIME = Instant(-(2**62))
Instant.END_OF_TIME = Instant(2**62)
Instant.FIRST_IN_CALENDAR = Instant.of(datetime.min.replace(tzinfo=timezone.utc))
Instant.LAST_IN_CALENDAR = Instant.of(datetime.max.replace(tzinfo=timezone.utc))


def _micros(span: str, amount: str, unit: str) -> int:
    """So much of a unit, exactly."""
    try:
        micros = Fraction(amount) * _UNITS[unit]
    except ValueError:  # Python reads no number of thousands of digits
        raise _unreadable(span) from None
    if micros.denominator != 1:
        raise DescriptionError(
            f"The span {span!r} is finer than a microsecond.", fix="Round it to whole microseconds: '1us'."
        )
    return int(micros)


def _unreadable(span: str) -> DescriptionError:
    return DescriptionError(
        f"The span {span!r} cannot be read.",
        fix="Write numbers with units us, ms, s, m, h, d or w, such as '10s', '1h30m' or '250ms'.",
    )


def _parse(text: str) -> datetime:
    try:
        # Python 3.10 reads neither a final Z nor a fraction of other than three or six digits.
        iso = re.sub(r"[zZ]$", "+00:00", text.strip())
        iso = re.sub(r"\.(\d{1,5})(?=[+-]|$)", lambda m: "." + m[1].ljust(6, "0"), iso)
        return datetime.fromisoformat(iso)
    except ValueError:
        raise DescriptionError(
            f"The instant {text!r} cannot be read.", fix="Write ISO 8601 with a zone: '2026-01-01T12:00:00Z'."
        ) from None
