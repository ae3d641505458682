"""How far apart two events of a join may be: the time of the other one, seen from this one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from strandline.errors import DescriptionError
from strandline.model.time import Span

AnySpan = str | timedelta | Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The other event comes from `low` to `high` after this one, both included; a negative span is before it.

    >>> Before("24h")
    Interval(low=Span('-1d'), high=Span('0s'))
    """

    low: Span
    high: Span

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise DescriptionError(
                f"An interval from {self.low.text!r} to {self.high.text!r} is empty.",
                fix="Give the earlier end first: sl.Between('-1h', '5m').",
            )

    @property
    def text(self) -> str:
        """The interval as the end of a sentence: "the other comes ..."."""
        if self.high == 0:
            return f"at most {Span(-self.low).text} before it, or with it"
        if self.low == 0:
            return f"at most {self.high.text} after it, or with it"
        if self.low == -self.high:
            return f"at most {self.high.text} before or after it"
        return f"{_side(self.low)} to {_side(self.high)} it"


def Before(span: AnySpan) -> Interval:  # noqa: N802 - it reads as a description
    """The other event comes at most so long before this one, or at the same time."""
    return Interval(low=Span(-_length(span)), high=Span(0))


def After(span: AnySpan) -> Interval:  # noqa: N802
    """The other event comes at most so long after this one, or at the same time."""
    return Interval(low=Span(0), high=_length(span))


def Around(span: AnySpan) -> Interval:  # noqa: N802
    """The other event comes at most so long before or after this one."""
    return Interval(low=Span(-_length(span)), high=_length(span))


def Between(low: AnySpan, high: AnySpan) -> Interval:  # noqa: N802
    """The other event comes between two spans from this one; "-1h" is an hour before it.

    >>> Between("-1h", "5m").text
    '1h before to 5m after it'
    """
    return Interval(low=signed(low), high=signed(high))


def signed(value: AnySpan) -> Span:
    """A span that may be negative, such as "-1h"."""
    if isinstance(value, str) and value.strip().startswith("-"):
        return Span(-Span.of(value.strip()[1:]))
    return Span.of(value)


def _length(value: AnySpan) -> Span:
    span = signed(value)
    if span < 0:
        raise DescriptionError(
            f"The span {span.text!r} is negative.", fix="Before, After and Around say the direction by themselves."
        )
    return span


def _side(span: Span) -> str:
    return f"{Span(-span).text} before" if span < 0 else f"{span.text} after"
