"""When in processing time: triggers.

A trigger is a question put to a window once a tick: are you ready to be shown? It changes nothing by being asked.
Leaves are *ready* on a condition about the events since they last started:

    AfterCount(n)             at least n events                      AfterWatermark()  the watermark passed the end
    AfterProcessingTime(d)    d of processing time since the first   AfterClose()      the window is being forgotten
    When(e)                   e holds for the aggregates             OnEvent(e)        e held for one of the events

When a window fires, every part of its trigger that was ready has *fired*. A leaf that fired has ended;
`AfterAny`, `AfterAll` end when they fire; `AfterEach` goes on to its next part when the current one ended;
`Repeatedly` starts its part anew; `OrFinally` ends when `until` was ready or its trigger ended. An ended trigger is
never ready again.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import NoReturn, TypeAlias

from strandline.errors import DescriptionError, told
from strandline.model.options import require_boolean
from strandline.model.time import Span


@dataclass(frozen=True, slots=True)
class AfterWatermark:
    """Ready when the watermark passes the end of the window: the on-time pane.

    Before that `early`, and after it `late`, decide; both repeat by themselves. A window whose first event
    comes after its end has missed its on-time pane: `late` decides. Outermost, with lateness and no `late`, every
    tick that brought late events fires; without lateness `late` is never asked.
    """

    _: KW_ONLY
    early: Trigger | None = None
    late: Trigger | None = None

    def __init__(self, *unnamed: NoReturn, early: Trigger | None = None, late: Trigger | None = None) -> None:
        if unnamed:
            raise DescriptionError(
                "AfterWatermark takes triggers by name: before the watermark, or after it?",
                fix="Write AfterWatermark(early=AfterCount(100)), or late=AfterCount(100).",
            )
        _triggers("AfterWatermark", *(t for t in (early, late) if t is not None))
        object.__setattr__(self, "early", early)
        object.__setattr__(self, "late", late)


@dataclass(frozen=True, slots=True)
class AfterClose:
    """Ready when the window is forgotten (watermark >= end + lateness): one final pane."""


@dataclass(frozen=True, slots=True)
class AfterCount:
    """Ready when at least `count` events have come, judged once a tick; `exact=True`: at each event, in order of arrival."""

    count: int
    _: KW_ONLY
    exact: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.count, int) or isinstance(self.count, bool) or self.count < 1:
            raise DescriptionError(
                f"AfterCount takes a whole number of events from 1, not {told(self.count)}.",
                fix="Write AfterCount(100).",
            )
        require_boolean("exact", self.exact)


@dataclass(frozen=True, slots=True)
class AfterProcessingTime:
    """Ready `delay` after the first event; or, `aligned_to` a period, at the period's first boundary after that event."""

    delay: Span | None = None
    _: KW_ONLY
    aligned_to: Span | None = None

    def __init__(
        self, delay: str | timedelta | Span | None = None, *, aligned_to: str | timedelta | Span | None = None
    ) -> None:
        if (delay is None) == (aligned_to is None):
            raise DescriptionError(
                "AfterProcessingTime needs a delay or aligned_to=, and not both.",
                fix="Write AfterProcessingTime('10s').",
            )
        if aligned_to is not None and Span.of(aligned_to) <= 0:
            raise DescriptionError("aligned_to= must be a positive span.", fix="Write aligned_to='1m'.")
        if delay is not None and Span.of(delay) < 0:
            raise DescriptionError(
                "The delay of AfterProcessingTime is negative.", fix="Write AfterProcessingTime('10s')."
            )
        object.__setattr__(self, "delay", None if delay is None else Span.of(delay))
        object.__setattr__(self, "aligned_to", None if aligned_to is None else Span.of(aligned_to))


@dataclass(frozen=True, slots=True)
class When:
    """Ready when the expression over keys, window and aggregates holds; `crossing=True`: only when it did not hold before.

    Judged once a tick, on the merged value, of windows that an event came to or whose end is reached; so it may not ask the
    clock. Of a discarding window that has nothing since its last pane it never holds.
    """

    expression: str
    _: KW_ONLY
    crossing: bool = False

    def __post_init__(self) -> None:
        _text("When", self.expression)
        require_boolean("crossing", self.crossing)


@dataclass(frozen=True, slots=True)
class OnEvent:
    """Ready when the expression held for an event of the window: punctuation. It is asked of every row, late ones too."""

    expression: str

    def __post_init__(self) -> None:
        _text("OnEvent", self.expression)


@dataclass(frozen=True, slots=True)
class AfterAny:
    """Ready when one of its parts is."""

    triggers: tuple[Trigger, ...]

    def __init__(self, *triggers: Trigger) -> None:
        object.__setattr__(self, "triggers", _triggers("AfterAny", *triggers, least=1))


@dataclass(frozen=True, slots=True)
class AfterAll:
    """Ready when all of its parts are, at the same time."""

    triggers: tuple[Trigger, ...]

    def __init__(self, *triggers: Trigger) -> None:
        object.__setattr__(self, "triggers", _triggers("AfterAll", *triggers, least=1))


@dataclass(frozen=True, slots=True)
class AfterEach:
    """One part after the other; each counts from when its turn comes."""

    triggers: tuple[Trigger, ...]

    def __init__(self, *triggers: Trigger) -> None:
        object.__setattr__(self, "triggers", _triggers("AfterEach", *triggers, least=1))


@dataclass(frozen=True, slots=True)
class Repeatedly:
    """Start the trigger anew each time it ended."""

    trigger: Trigger

    def __post_init__(self) -> None:
        _triggers("Repeatedly", self.trigger)


@dataclass(frozen=True, slots=True)
class OrFinally:
    """The trigger, until `until` is ready: that firing is the last."""

    trigger: Trigger
    until: Trigger

    def __post_init__(self) -> None:
        _triggers("OrFinally", self.trigger, self.until)


@dataclass(frozen=True, slots=True)
class Never:
    """Never ready."""


Trigger: TypeAlias = (
    AfterWatermark
    | AfterClose
    | AfterCount
    | AfterProcessingTime
    | When
    | OnEvent
    | AfterAny
    | AfterAll
    | AfterEach
    | Repeatedly
    | OrFinally
    | Never
)
KINDS = (
    AfterWatermark, AfterClose, AfterCount, AfterProcessingTime, When, OnEvent,
    AfterAny, AfterAll, AfterEach, Repeatedly, OrFinally, Never,
)  # fmt: skip


def children(trigger: Trigger) -> tuple[Trigger, ...]:
    """The parts of a trigger, in order."""
    if isinstance(trigger, AfterWatermark):
        return tuple(t for t in (trigger.early, trigger.late) if t is not None)
    if isinstance(trigger, AfterAny | AfterAll | AfterEach):
        return trigger.triggers
    if isinstance(trigger, Repeatedly):
        return (trigger.trigger,)
    if isinstance(trigger, OrFinally):
        return (trigger.trigger, trigger.until)
    return ()


def walk(trigger: Trigger) -> list[Trigger]:
    """The trigger and all its parts, outermost first."""
    return [trigger, *(inner for child in children(trigger) for inner in walk(child))]


def _triggers(owner: str, *triggers: Trigger, least: int = 0) -> tuple[Trigger, ...]:
    for trigger in triggers:
        if not isinstance(trigger, KINDS):
            raise DescriptionError(
                f"{owner} takes triggers, not {told(trigger)}.",
                fix="Pass each as an argument of its own, with brackets, such as AfterCount(100).",
            )
    if len(triggers) < least:
        raise DescriptionError(f"{owner} needs at least one trigger.", fix=f"Write {owner}(AfterCount(100)).")
    return triggers


def _text(owner: str, expression: str) -> None:
    if not isinstance(expression, str) or not expression.strip():
        raise DescriptionError(
            f"{owner} takes a text expression in Spark SQL, not {told(expression)}.",
            fix=f'Write {owner}("total > 100").',
        )
