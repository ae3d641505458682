"""When results come: how long an event waits for what is shown of it, in words and with the numbers of the flow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from strandline.model.firing import with_late_panes
from strandline.model.intervals import Interval
from strandline.model.keeping import decided_sides, held_back
from strandline.model.lengths import length_of
from strandline.model.lineage import lateness_of, windows_of
from strandline.model.nodes import (
    DetectNode,
    JoinNode,
    JoinTableNode,
    Node,
    OverNode,
    ProcessNode,
    SourceNode,
    StageNode,
    Stateful,
    lineage,
)
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
    walk,
)
from strandline.model.windows import Global, Session

BATCH_INTERVAL: Final = Span.of("1s")
_A_TICK: Final = "in the next tick"


def bound_of(node: Node) -> Span:
    """How far the watermark of a node stays behind the greatest time, as far as that is known before anything runs.

    The greatest bound of its sources, and what stages before it hold back.
    """
    bounds = [each.watermark.bound for each in lineage(node) if isinstance(each, SourceNode)]
    held = sum(held_back(each) for each in lineage(node) if isinstance(each, JoinNode) and each is not node)
    return Span(max((bound for bound in bounds if bound is not None), default=Span(0)) + held)


def waits_in_words(node: Stateful) -> Iterator[str]:
    """When what a stage has to say of an event is shown; to each time a tick is added.

    >>> from strandline.model.aggregates import Count
    >>> from strandline.model.flow import Flow
    >>> from strandline.model.watermarks import Bounded
    >>> from strandline.model.windows import Tumbling
    >>> from strandline.sources.rows import Rows
    >>> pages = Rows(schema="user string, at timestamp")
    >>> clicks = Flow("f").source("clicks", pages, time="at", watermark=Bounded("20s"))
    >>> stage = clicks.key_by("user").window(Tumbling("1m")).aggregate("n", clicks=Count())
    >>> print(next(waits_in_words(stage.node)))
    On time: once an event comes that is 20s past the end of the window. An event waits for that from 20s (the bound) to 1m20s (the window and the bound).
    """
    if isinstance(node, StageNode):
        yield from _of_windows(node)
    else:
        yield from _of_operator(node)
    earlier = [each for each in lineage(node) if isinstance(each, StageNode) and each is not node]
    if earlier:
        yield f"All that comes on top of what {' and '.join(repr(each.name) for each in earlier[::-1])} waits before it shows something."


def _of_windows(stage: StageNode) -> Iterator[str]:
    trigger = with_late_panes(stage.trigger, _for_late_events(stage))
    if not isinstance(trigger, AfterWatermark):
        phrase = _soon(stage, trigger)
        yield f"{phrase[0].upper()}{phrase[1:]}."
        return
    yield _on_time(stage)
    if trigger.early is not None:
        yield f"Early: {_soon(stage, trigger.early)}."
    if trigger.late == AfterCount(1):
        yield f"Late: {_A_TICK} after a late event has come."
    elif trigger.late is not None:
        yield f"Late: {_soon(stage, trigger.late)}."


def _for_late_events(stage: StageNode) -> Span:
    """How long late events are taken: a window without an end has none."""
    return Span(0) if isinstance(windows_of(stage), Global) else lateness_of(stage)


def _on_time(stage: StageNode) -> str:
    window, bound = windows_of(stage), bound_of(stage)
    said = f"On time: {_at_the_end(stage)}"
    if isinstance(window, Global):
        return f"{said}, for the window has no end."
    length = length_of(window)
    if isinstance(window, Session) or length is None:
        return f"{said}."
    at_most = " at most" if length.most != length.least else ""
    waits = f"to {Span(length.most + bound).text}{at_most} ({length.name}{' and the bound' if bound else ''})"
    return f"{said}. An event waits for that {f'from {bound.text} (the bound)' if bound else 'up'} {waits}."


def _soon(stage: StageNode, trigger: Trigger) -> str:
    """What an event waits for until a trigger shows it, as a phrase; a trigger that repeats counts anew after each pane."""
    if isinstance(trigger, AfterWatermark):
        return _by_watermark(stage, trigger)
    if isinstance(trigger, AfterClose):
        return _at_the_close(stage)
    if isinstance(trigger, AfterCount):
        return f"{_A_TICK} once {trigger.count} new event{'s have' if trigger.count > 1 else ' has'} come"
    if isinstance(trigger, AfterProcessingTime):
        return _by_clock(trigger)
    if isinstance(trigger, When):
        return f"{_A_TICK} in which `{trigger.expression}` {'begins to hold' if trigger.crossing else 'holds'}"
    if isinstance(trigger, OnEvent):
        return f"{_A_TICK} once an event has come for which `{trigger.expression}` holds"
    return "never" if isinstance(trigger, Never) else _composed(stage, trigger)


def _composed(stage: StageNode, trigger: AfterAny | AfterAll | AfterEach | Repeatedly | OrFinally) -> str:
    if isinstance(trigger, Repeatedly):
        return _soon(stage, trigger.trigger)
    if isinstance(trigger, OrFinally):
        return f"{_soon(stage, trigger.trigger)}; at the latest {_soon(stage, trigger.until)}"
    if len(trigger.triggers) == 1:
        return _soon(stage, trigger.triggers[0])
    parts = [f"({_soon(stage, part)})" for part in trigger.triggers]
    if isinstance(trigger, AfterAny):
        return f"at the first of these: {' or '.join(parts)}"
    if isinstance(trigger, AfterEach):
        return f"first {', then '.join(parts)}"
    # A condition that holds now may not hold when the others do; all else stays as it is until the window is shown.
    last = not any(isinstance(part, When) for part in walk(trigger))
    return f"{'at the last of these' if last else 'once all of these are so in one tick'}: {' and '.join(parts)}"


def _by_watermark(stage: StageNode, trigger: AfterWatermark) -> str:
    parts = [_at_the_end(stage)]
    if trigger.early is not None:
        parts.append(f"until then {_soon(stage, trigger.early)}")
    if trigger.late is not None and _for_late_events(stage):
        parts.append(f"afterwards {_soon(stage, trigger.late)}")
    return "; ".join(parts)


def _by_clock(trigger: AfterProcessingTime) -> str:
    if trigger.aligned_to is not None:
        return f"at most {trigger.aligned_to.text} by the clock after its first new event"
    return f"{trigger.delay.text} by the clock after its first new event" if trigger.delay else _A_TICK


def _at_the_end(stage: StageNode) -> str:
    window, bound = windows_of(stage), bound_of(stage)
    if isinstance(window, Global):
        return "when the input ends"
    if isinstance(window, Session):
        gap = window.gap.text if window.gap else "its gap"
        return f"once an event comes that is {gap}{_and(bound)} past the last one of the session"
    return f"once an event comes that is {f'{bound.text} past' if bound else 'at or past'} the end of the window"


def _at_the_close(stage: StageNode) -> str:
    window, bound, lateness = windows_of(stage), bound_of(stage), lateness_of(stage)
    if isinstance(window, Global):
        if window.ttl is None:
            return "when the input ends"
        after = Span(window.ttl + lateness + bound).text
        return f"once an event comes that is {after} past the latest of its key, which is forgotten then"
    if not lateness:
        return _at_the_end(stage)
    of = "lateness and bound" if bound else "the lateness"
    return f"once an event comes that is {Span(lateness + bound).text} ({of}) past the end of the window"


def _and(bound: Span) -> str:
    return f" and {bound.text} (the bound)" if bound else ""


def _of_operator(node: Stateful) -> Iterator[str]:
    bound = bound_of(node)
    behind = (
        f"once the watermark has passed it, {bound.text} behind the greatest time"
        if bound
        else "once a later event has come"
    )
    if isinstance(node, JoinNode):
        if node.how != "anti":
            yield f"{'A row' if node.how == 'semi' else 'A pair'}: {_A_TICK} after the later of the two has come."
        if any(decided_sides(node)):
            yield f"A row without a match: once none can come, {_to_decide(node, bound)}."
    elif isinstance(node, OverNode) and node.emit == "watermark":
        yield f"A row: {behind}."
    elif isinstance(node, ProcessNode) and node.order == "event_time":
        yield f"A row is handed over {behind}."
    elif isinstance(node, JoinTableNode) and node.as_of:
        limit = "" if node.max_wait is None else f", or after {node.max_wait.text}"
        yield f"A row: {behind}{limit}; both the rows and the changes must have come so far."
    elif isinstance(node, DetectNode):
        yield f"A match: for its last event, {behind}; one that ends with what is absent, up to {node.pattern.within.text} later."
    else:
        yield f"A row: {_A_TICK} after it has come."


def _to_decide(node: JoinNode, bound: Span) -> str:
    """How long a row waits for word that there is no match."""
    if not isinstance(node.within, Interval):
        return f"{bound.text} past the end of their window" if bound else "at the end of their window"
    left, right = decided_sides(node)
    ours = max(int(node.within.high), 0) if left else 0
    theirs = max(-int(node.within.low), 0) if right else 0
    return f"up to {Span(max(ours, theirs) + bound).text} after it (its time to match{_and(bound)})"
