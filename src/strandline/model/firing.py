"""What can be known of a trigger before it runs: whether it ends, loses events, or shows a window twice."""

from __future__ import annotations

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


def with_late_panes(trigger: Trigger, lateness: Span) -> Trigger:
    """The outermost trigger as it runs: with lateness and no late=, every tick that brought late events fires."""
    if isinstance(trigger, AfterWatermark) and trigger.late is None and lateness > 0:
        return AfterWatermark(early=trigger.early, late=AfterCount(1))
    return trigger


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
        return not ttl and (lateness == 0 or late.late is None or closes(late.late, lateness))
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
