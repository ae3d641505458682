"""Windows, triggers, modes and watermark policies in plain words, for people who read `explain()`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strandline.model.firing import with_late_panes
from strandline.model.panes import Mode
from strandline.model.time import Span
from strandline.model.triggers import (
    AfterAll,
    AfterAny,
    AfterClose,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    Never,
    OnEvent,
    OrFinally,
    Repeatedly,
    Trigger,
    When,
)  # fmt: skip
from strandline.model.watermarks import AtEnd, Bounded, FromSource, Monotonic, Percentile, Policy
from strandline.model.windows import CustomWindow, Global, Hopping, SameWindow, Session, Tumbling, Window

MODES: Final[dict[Mode, str]] = {
    "discarding": "each pane shows only what is new since the one before; they add up to the whole",
    "accumulating": "each pane shows everything so far, and replaces the one before",
    "retracting": "each pane shows everything so far, and the one before is taken back first, with op = retract",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moments:
    """When a window is over, and when it is forgotten."""

    over: str = "when the watermark reaches its end"
    forgotten: str = "when it is forgotten"

    @classmethod
    def of(cls, window: Window | None) -> _Moments:
        """Those of a window; one without an end is over with the input, and without a ttl forgotten then."""
        if not isinstance(window, Global):
            return cls()
        at_the_end = "when the input ends"
        return cls(over=at_the_end, forgotten=cls().forgotten if window.ttl is not None else at_the_end)


def trigger_in_words(trigger: Trigger, lateness: Span = Span(0), window: Window | None = None) -> str:
    """When a window is shown, as a phrase; `lateness` is that of the stage, for its outermost trigger.

    >>> trigger_in_words(AfterWatermark(early=AfterProcessingTime("10s")))
    'when the watermark reaches its end (on time); until then, again and again, 10s of processing time after its first new event (early)'
    >>> trigger_in_words(AfterWatermark(), Span.of("1h"), Global())
    'when the input ends (on time)'
    """
    granted = Span(0) if isinstance(window, Global) else lateness
    return _phrase(with_late_panes(trigger, granted), _Moments.of(window))


def _phrase(trigger: Trigger, moments: _Moments) -> str:
    if isinstance(trigger, AfterWatermark):
        return _by_watermark(trigger, moments)
    if isinstance(trigger, AfterClose):
        return f"{moments.forgotten}, with all that came"
    if isinstance(trigger, AfterCount):
        return _by_count(trigger)
    if isinstance(trigger, AfterProcessingTime):
        return _by_clock(trigger)
    if isinstance(trigger, When):
        begins = "begins to hold" if trigger.crossing else "holds"
        return f"when `{trigger.expression}` {begins} for its keys and aggregates"
    if isinstance(trigger, OnEvent):
        return f"when an event comes for which `{trigger.expression}` holds"
    return "never" if isinstance(trigger, Never) else _composed(trigger, moments)


def _by_watermark(trigger: AfterWatermark, moments: _Moments) -> str:
    parts = [f"{moments.over} (on time)"]
    if trigger.early is not None:
        parts.append(f"until then, {_repeated(trigger.early, moments)} (early)")
    if trigger.late == AfterCount(1):
        parts.append("afterwards in every tick that brings late events (late)")
    elif trigger.late is not None:
        parts.append(f"afterwards, {_repeated(trigger.late, moments)} (late)")
    return "; ".join(parts)


def _by_count(trigger: AfterCount) -> str:
    events = "a new event has" if trigger.count == 1 else f"at least {trigger.count} new events have"
    if trigger.exact:
        events = "a new event has" if trigger.count == 1 else f"{trigger.count} new events have"
        return f"as soon as {events} come, event by event"
    return f"when {events} come by the end of a tick"


def _by_clock(trigger: AfterProcessingTime) -> str:
    if trigger.aligned_to is not None:
        return f"at the next full {trigger.aligned_to.text} of processing time after its first new event"
    assert trigger.delay is not None, "one of the two is given"
    if trigger.delay == 0:
        return "in the tick of its first new event"
    return f"{trigger.delay.text} of processing time after its first new event"


def _repeated(trigger: Trigger, moments: _Moments) -> str:
    """A trigger that starts anew each time it ended, as `early` and `late` do by themselves: said once of one that repeats."""
    if isinstance(trigger, Never):
        return _phrase(trigger, moments)
    if isinstance(trigger, Repeatedly):
        return _repeated(trigger.trigger, moments)
    if isinstance(trigger, AfterAny | AfterAll | AfterEach) and len(trigger.triggers) == 1:
        return _repeated(trigger.triggers[0], moments)
    if isinstance(trigger, OrFinally):
        again, until = _repeated(trigger.trigger, moments), _phrase(trigger.until, moments)
        if isinstance(trigger.until, AfterClose):  # nothing starts anew in a window that is forgotten
            return f"{again}; for the last time {until}"
        return f"{again}; also {until}, and then anew"
    return f"again and again, {_phrase(trigger, moments)}"


def _composed(trigger: AfterAny | AfterAll | AfterEach | Repeatedly | OrFinally, moments: _Moments) -> str:
    if isinstance(trigger, AfterAny | AfterAll | AfterEach):
        parts = [f"({_phrase(part, moments)})" for part in trigger.triggers]
        if len(parts) == 1:
            return _phrase(trigger.triggers[0], moments)
        if isinstance(trigger, AfterAny):
            return f"at the first of these: {' or '.join(parts)}"
        if isinstance(trigger, AfterAll):
            return f"once all of these are so in one tick: {' and '.join(parts)}"
        return f"first {', then '.join(parts)}"
    if isinstance(trigger, Repeatedly):
        return _repeated(trigger.trigger, moments)
    return f"{_phrase(trigger.trigger, moments)}; for the last time {_phrase(trigger.until, moments)}"


def window_in_words(window: Window) -> str:
    """Where in event time, as a phrase.

    >>> window_in_words(Hopping("10m", every="1m"))
    'windows of 10m, a new one every 1m, so that they overlap'
    """
    if isinstance(window, Tumbling):
        return _tumbling(window)
    if isinstance(window, Hopping):
        overlap = ", so that they overlap" if window.every < window.size else ""
        return f"windows of {window.size.text}, a new one every {window.every.text}{overlap}{_shift(window.offset)}"
    if isinstance(window, Session):
        gap = f"{window.gap.text}" if window.gap is not None else f"the gap in its column {window.gap_column!r}"
        how = "at most" if window.inclusive else "less than"
        return f"sessions: an event that comes {how} {gap} after another of its key is in the same window"
    if isinstance(window, Global):
        return "one window for all time"
    if isinstance(window, SameWindow):
        return "the window that each pane came with"
    assert isinstance(window, CustomWindow)
    merging = ", which merge where they overlap" if window.merging else ""
    return f"the windows of {type(window).__name__}{merging}"


def _tumbling(window: Tumbling) -> str:
    zone = "each event's own time zone" if window.zone_column is not None else window.zone
    calendar = "" if zone is None else f" by the calendar of {zone}"
    column = "" if window.zone_column is None else f" (column {window.zone_column!r})"
    return f"windows of {window.size.text}, one after the other{calendar}{column}{_shift(window.offset)}"


def _shift(offset: Span) -> str:
    return f", shifted by {offset.text}" if offset else ""


def policy_in_words(policy: Policy) -> list[str]:
    """How far time has come, as sentences.

    >>> policy_in_words(Bounded("20s"))[0]
    'The watermark of a partition is the greatest time seen, less 20s: an event may come up to 20s after a later one.'
    """
    sentences = [_rule(policy)]
    if isinstance(policy, AtEnd):
        pass  # no partition is ever idle in batch
    elif policy.idle_after is None:
        sentences.append("The slowest partition counts, and one that is silent holds the others back.")
    else:
        all_idle = "goes to the greatest of theirs" if policy.advance_when_idle else "stays"
        sentences.append(
            f"The slowest partition counts; one that is caught up and silent for {policy.idle_after.text} does not. When all "
            f"are silent the watermark {all_idle}."
        )
    if policy.max_future is not None:
        sentences.append(f"An event more than {policy.max_future.text} ahead of processing time is rejected.")
    return sentences


def _rule(policy: Policy) -> str:
    start = "The watermark of a partition is"
    if isinstance(policy, Bounded):
        bound = policy.delay.text
        known = f", less {bound}: an event may come up to {bound} after a later one."
        return f"{start} the greatest time seen{known if policy.delay else ': events are expected in order.'}"
    if isinstance(policy, Percentile):
        return (
            f"{start} the greatest time seen, less a delay that is learnt: it covers {policy.quantile:.4g} of the lags of the "
            f"last {policy.over.text}; {policy.fallback.delay.text} at least while too little is known."
        )
    if isinstance(policy, Monotonic):
        return f"{start} the greatest time seen: each is in order."
    if isinstance(policy, FromSource):
        column = "" if policy.column is None else f", in the column {policy.column!r}"
        return f"{start} what the source itself says{column}."
    if isinstance(policy, AtEnd):
        return "Nothing is complete before everything is read; then everything is (batch)."
    return f"{start} what {type(policy).__name__} says."
