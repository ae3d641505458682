"""Watermark policies: when may we say that no event before t will come any more?

A policy speaks for one partition; `progress.advance_source` asks it once a tick and joins the partitions. Every policy is
a pure function of the tick's stats and the kept state.

    Bounded(delay)         events are at most `delay` out of order
    Percentile(quantile)   as out of order as all but a few have been lately
    Monotonic()            each partition is in order
    FromSource()           the source itself says
    AtEnd(policy)          batch: nothing is complete before everything is read
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias

from strandline.errors import DescriptionError
from strandline.model.options import require_boolean
from strandline.model.partitions import PartitionState, PartitionStats
from strandline.model.time import Instant, Span

SpanLike: TypeAlias = str | timedelta | Span


@dataclass(frozen=True)
class Policy(ABC):
    """Derive from this to write your own policy.

    `idle_after`: a partition that is caught up and brought nothing for so long no longer holds the others back.
    `max_future`: an event further ahead of processing time than this is rejected and moves no watermark. In `play` it is
    judged from the first processing time on that a step gives; before, there is no time of day to be ahead of.
    `advance_when_idle`: when every partition is idle, go to the greatest of their watermarks instead of holding.

    >>> class EveryHundred(Policy):
    ...     '''Trust the greatest time seen at each hundredth event.'''
    ...
    ...     def remember(self, stats, memory):
    ...         return (memory or 0) + stats.count
    ...
    ...     def update(self, stats, state):
    ...         return state.greatest if state.memory % 100 == 0 else state.watermark
    >>> EveryHundred(idle_after="1m").idle_after
    Span('1m')
    """

    _: KW_ONLY
    idle_after: Span | None = None
    max_future: Span | None = None
    advance_when_idle: bool = False

    def __init__(
        self,
        *,
        idle_after: SpanLike | None = None,
        max_future: SpanLike | None = None,
        advance_when_idle: bool = False,
    ) -> None:
        _set(self, idle_after=idle_after, max_future=max_future, advance_when_idle=advance_when_idle)
        self.__post_init__()

    def __post_init__(self) -> None:
        # Also reached from the generated __init__ of a derived dataclass, where spans may still be text.
        if self.idle_after is not None:
            _set(self, idle_after=_at_least(1, "idle_after", self.idle_after))
        if self.max_future is not None:
            _set(self, max_future=_at_least(0, "max_future", self.max_future))
        require_boolean("advance_when_idle", self.advance_when_idle)

    @abstractmethod
    def update(self, stats: PartitionStats, state: PartitionState) -> Instant:
        """The partition's watermark after this tick; one that lies behind is held.

        `state` already knows this tick's stats and memory; its watermark is still the one before.
        """

    def remember(self, stats: PartitionStats, memory: Any) -> Any:
        """What to keep until the next tick, as anything JSON can say; at first `memory` is None."""
        return memory

    @property
    def keeps_lags_over(self) -> Span | None:
        """How much processing time of lags `state.lags` should hold; None: not needed."""
        return None

    @property
    def bound(self) -> Span | None:
        """How far the watermark is meant to stay behind the greatest time, if that can be said; health judges by it."""
        return None

    @property
    def marks_column(self) -> str | None:
        """The column in which a row may say how far the source is; None: no row does.

        A row that has such a mark and no time is no event, and is not rejected either.
        """
        return None


@dataclass(frozen=True, init=False)
class Bounded(Policy):
    """An event comes at most `delay` after a later one: the watermark is the greatest time seen, less the delay.

    >>> Bounded("20s", idle_after="1m").delay
    Span('20s')
    """

    delay: Span

    def __init__(
        self,
        delay: SpanLike,
        *,
        idle_after: SpanLike | None = None,
        max_future: SpanLike | None = None,
        advance_when_idle: bool = False,
    ) -> None:
        _set(self, delay=_at_least(0, "delay", delay))
        Policy.__init__(self, idle_after=idle_after, max_future=max_future, advance_when_idle=advance_when_idle)

    @property
    def bound(self) -> Span:
        """The delay."""
        return self.delay

    def update(self, stats: PartitionStats, state: PartitionState) -> Instant:
        """The greatest time seen, less the delay."""
        return Instant(state.greatest - self.delay)


@dataclass(frozen=True, init=False)
class Percentile(Policy):
    """A bound that is learnt: the delay is this quantile of the lag seen over the last while of processing time.

    The lag of old data says how old it is, not how disordered: while a partition catches up its lags are not counted.
    Then, and while too few events came to know the quantile (1 / (1 - quantile)), the delay is at least the
    `fallback`'s. The quantile is exact to 1/32, rounded up. A tick without events moves nothing.

    >>> Percentile(0.99, over="10m").fallback.delay
    Span('1m')
    """

    quantile: float
    over: Span
    fallback: Bounded

    def __init__(
        self,
        quantile: float,
        *,
        over: SpanLike = "10m",
        fallback: Bounded | None = None,
        idle_after: SpanLike | None = None,
        max_future: SpanLike | None = None,
        advance_when_idle: bool = False,
    ) -> None:
        if not _is_share(quantile):
            raise DescriptionError(f"{quantile!r} is no quantile.", fix="Give a number between 0 and 1, such as 0.99.")
        if not isinstance(fallback, Bounded | None):
            raise DescriptionError(f"fallback={fallback!r} is no bound.", fix="Write fallback=Bounded('1m').")
        _set(self, quantile=quantile, over=_at_least(1, "over", over), fallback=fallback or Bounded("1m"))
        Policy.__init__(self, idle_after=idle_after, max_future=max_future, advance_when_idle=advance_when_idle)

    @property
    def keeps_lags_over(self) -> Span:
        """The stretch of processing time that the quantile is taken over."""
        return self.over

    @property
    def bound(self) -> Span:
        """What holds until the quantile is known."""
        return self.fallback.delay

    def update(self, stats: PartitionStats, state: PartitionState) -> Instant:
        """The greatest time seen, less the learnt delay."""
        # Forgetting old lags may shorten the delay; if that alone moved the watermark, empty ticks would have effects.
        return Instant(state.greatest - self._delay(state)) if stats.count else state.watermark

    def _delay(self, state: PartitionState) -> Span:
        lags = state.lags.histogram
        learnt = lags.quantile(self.quantile)
        known = state.live and lags.total >= round(1 / (1 - self.quantile))
        return learnt if known else max(learnt, self.fallback.delay)


@dataclass(frozen=True, init=False)
class Monotonic(Policy):
    """Each partition is in order: the watermark is the greatest time seen. Equal times are in order."""

    def update(self, stats: PartitionStats, state: PartitionState) -> Instant:
        """The greatest time seen."""
        return state.greatest


@dataclass(frozen=True, init=False)
class FromSource(Policy):
    """The source says itself how far it is: in `column`, by its rows that hold a watermark; else by its own means.

    Only what is asserted moves the watermark, until the source says that a partition has ended.
    """

    column: str | None = None

    def __init__(
        self,
        column: str | None = None,
        *,
        idle_after: SpanLike | None = None,
        max_future: SpanLike | None = None,
        advance_when_idle: bool = False,
    ) -> None:
        if column is not None and not _is_name(column):
            raise DescriptionError(f"{column!r} names no column.", fix="Write FromSource('watermark').")
        _set(self, column=column)
        Policy.__init__(self, idle_after=idle_after, max_future=max_future, advance_when_idle=advance_when_idle)

    @property
    def marks_column(self) -> str | None:
        """The column of watermark rows."""
        return self.column

    def update(self, stats: PartitionStats, state: PartitionState) -> Instant:
        """What the source asserted."""
        return state.watermark if stats.asserted is None else stats.asserted


@dataclass(frozen=True, init=False)
class AtEnd(Policy):
    """Batch: before all time until everything is read, then the end of time.

    The end comes when every partition is finished, or with `finish(state)`. No partition is ever idle, so nothing is
    late, whatever the order of the files; the wrapped policy only says what is too far in the future, and which rows
    are marks and no events.

    >>> AtEnd(Bounded("20s", idle_after="1m", max_future="5m"))
    AtEnd(idle_after=None, max_future=Span('5m'), advance_when_idle=False)
    """

    wrapped: Policy = field(repr=False)

    def __init__(self, policy: Policy) -> None:
        _set(self, wrapped=policy)
        Policy.__init__(self, max_future=policy.max_future)

    @property
    def marks_column(self) -> str | None:
        """The wrapped policy's."""
        return self.wrapped.marks_column

    def update(self, stats: PartitionStats, state: PartitionState) -> Instant:
        """Hold."""
        return state.watermark


def _at_least(least: int, name: str, value: SpanLike) -> Span:
    span = Span.of(value)
    if span < least:
        raise DescriptionError(
            f"{name}={span.text!r} is too short.",
            fix=f"Give a {'positive span' if least else 'span that is not negative'}, such as '1m'.",
        )
    return span


def _is_share(value: object) -> bool:
    return isinstance(value, float) and 0 < value < 1


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _set(description: Policy, **fields: object) -> None:
    for name, value in fields.items():
        object.__setattr__(description, name, value)
