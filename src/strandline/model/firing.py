"""What can be known of a trigger before it runs: whether it ends, loses events, or shows a window twice."""

from __future__ import annotations

from dataclasses import Field, fields, is_dataclass
from typing import Any, Final

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
    OrFinally,
    Repeatedly,
    Trigger,
)  # fmt: skip
from strandline.model.windows import Calendar

SHORT: Final = 60  # characters of a trigger that an error may repeat


def with_late_panes(trigger: Trigger, lateness: Span) -> Trigger:
    """The outermost trigger as it runs: with lateness and no late=, every tick that brought late events fires.

    Without lateness a window is forgotten with its on-time pane, and late= is never asked.
    """
    if not isinstance(trigger, AfterWatermark):
        return trigger
    if lateness == 0:
        return AfterWatermark(early=trigger.early)
    return AfterWatermark(early=trigger.early, late=trigger.late or AfterCount(1))


def fires_before_close(trigger: Trigger, lateness: Span) -> bool:
    """Whether a trigger may fire before the tick in which its window is forgotten."""
    if isinstance(trigger, AfterClose | Never):
        return False
    if isinstance(trigger, AfterWatermark):
        return trigger.early is not None or lateness > 0
    if isinstance(trigger, AfterAll | AfterEach):
        inner = [fires_before_close(t, lateness) for t in trigger.triggers]
        return all(inner) if isinstance(trigger, AfterAll) else inner[0]
    if isinstance(trigger, AfterAny):
        return any(fires_before_close(t, lateness) for t in trigger.triggers)
    if isinstance(trigger, Repeatedly):
        return fires_before_close(trigger.trigger, lateness)
    if isinstance(trigger, OrFinally):
        return fires_before_close(trigger.trigger, lateness) or fires_before_close(trigger.until, lateness)
    return True


def ends(trigger: Trigger, lateness: Span, *, outermost: bool = False) -> bool:
    """Whether a trigger may be over while events may still come."""
    if isinstance(trigger, AfterWatermark):
        return lateness > 0 and trigger.late is None and not outermost
    if isinstance(trigger, Repeatedly | AfterClose | Never):
        return False
    if isinstance(trigger, AfterEach):
        return all(ends(t, lateness) for t in trigger.triggers)
    if isinstance(trigger, OrFinally):
        return ends(trigger.trigger, lateness) or fires_before_close(trigger.until, lateness)
    return fires_before_close(trigger, lateness)


def closes(trigger: Trigger, lateness: Span, *, ttl: bool = False) -> bool:
    """Whether a trigger is sure to be ready when its window is forgotten, if anything is new then."""
    if isinstance(trigger, AfterWatermark):
        late = with_late_panes(trigger, lateness)
        assert isinstance(late, AfterWatermark)
        return not ttl and (late.late is None or closes(late.late, lateness))
    if isinstance(trigger, AfterClose):
        return True
    if isinstance(trigger, AfterCount):
        return trigger.count == 1
    if isinstance(trigger, AfterProcessingTime):
        return trigger.delay == 0
    if isinstance(trigger, AfterAny):
        return any(closes(t, lateness, ttl=ttl) for t in trigger.triggers)
    if isinstance(trigger, AfterAll | AfterEach):
        return all(closes(t, lateness, ttl=ttl) for t in trigger.triggers)
    if isinstance(trigger, Repeatedly):
        return closes(trigger.trigger, lateness, ttl=ttl)
    if isinstance(trigger, OrFinally):
        return closes(trigger.trigger, lateness, ttl=ttl) or closes(trigger.until, lateness, ttl=ttl)
    return False


def fires_once(trigger: Trigger, lateness: Span) -> bool:
    """Whether a window is shown once at most."""
    return not fires_before_close(trigger, lateness)


def written(description: object) -> str:
    """A trigger, window, policy or aggregate as one would write it; of a user's own class that is no dataclass, its name.

    >>> written(AfterWatermark(early=AfterAny(AfterCount(3), AfterProcessingTime("10s"))))
    "AfterWatermark(early=AfterAny(AfterCount(3), AfterProcessingTime('10s')))"
    """
    if isinstance(description, AfterAny | AfterAll | AfterEach):
        arguments = [written(part) for part in description.triggers]
    else:
        given = [(field, getattr(description, field.name)) for field in _fields(description)]
        arguments = [
            f"{field.name}={_literal(value)}" if field.kw_only else _literal(value)
            for field, value in given
            if value != field.default
        ]
    return f"{type(description).__name__}({', '.join(arguments)})"


def _fields(description: object) -> list[Field[Any]]:
    """The fields by place first, then those by name."""
    found = fields(description) if is_dataclass(description) and not isinstance(description, type) else ()
    return sorted((field for field in found if field.repr), key=lambda field: field.kw_only is True)


def _literal(value: object) -> str:
    if isinstance(value, Span | Calendar):
        return repr(value.text)
    return written(value) if is_dataclass(value) else repr(value)


def without_loss(trigger: Trigger, *, endless: bool) -> list[str]:
    """What to write in place of a trigger that ends or can lose events; `endless`: the windows have no end.

    Law: none of them ends, and each is sure to show what is new at the close; before, and until the trigger itself would
    have ended, each shows what the trigger shows.

    >>> without_loss(AfterCount(3), endless=False)
    ['OrFinally(Repeatedly(AfterCount(3)), AfterClose())', 'AfterWatermark(early=AfterCount(3))']
    >>> without_loss(AfterEach(AfterCount(1), AfterCount(9)), endless=True)
    ['OrFinally(AfterEach(AfterCount(1), Repeatedly(AfterCount(9))), AfterClose())']
    """
    if isinstance(trigger, AfterWatermark):  # without an end of the window, only early= ever speaks
        early, name = trigger.early or Never(), "what early= is now"
    else:
        early, name = _at_its_last_step(trigger), "what trigger= is now"
    offered = [or_at_close(early, name)]
    if not endless:
        offered.append(
            "AfterWatermark()" if isinstance(early, Never) else f"AfterWatermark(early={_part(early, name)})"
        )
    return offered


def or_at_close(trigger: Trigger, name: str) -> str:
    """A trigger that repeats, and shows the rest at the close; one too long to print is called by a name.

    Not Repeatedly(AfterAny(trigger, AfterClose())): an AfterAny ends with the first firing of a part, so a sequence would
    start anew before it came to its second step.

    >>> or_at_close(Repeatedly(AfterCount(3)), "this")
    'OrFinally(Repeatedly(AfterCount(3)), AfterClose())'
    """
    if isinstance(trigger, Never):
        return "AfterClose()"
    part = _part(trigger, name)
    return f"OrFinally({part if _stays(trigger) else f'Repeatedly({part})'}, AfterClose())"


def _at_its_last_step(trigger: Trigger) -> Trigger:
    """A sequence that goes on with its last step, if it is short enough to print; any other trigger as it is."""
    if not isinstance(trigger, AfterEach) or _stays(trigger):
        return trigger
    *before, last = trigger.triggers
    going_on = AfterEach(*before, Repeatedly(last))
    return going_on if len(written(going_on)) <= SHORT else trigger


def _stays(trigger: Trigger) -> bool:
    """Whether a trigger is a sequence whose last step never ends."""
    return isinstance(trigger, AfterEach) and isinstance(trigger.triggers[-1], Repeatedly | AfterClose | Never)


def _part(trigger: Trigger, name: str) -> str:
    once = trigger.trigger if isinstance(trigger, Repeatedly) else trigger  # it will be repeated anyway
    text = written(once)
    return text if len(text) <= SHORT else f"<{name}>"
