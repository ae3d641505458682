"""When results come: how long an event waits for what is shown of it, in words and with the numbers of the flow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from strandline.model.intervals import Interval
from strandline.model.keeping import decided_sides, held_back
from strandline.model.lineage import lateness_of, longest, windows_of
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
from strandline.model.triggers import AfterClose, AfterCount, AfterProcessingTime, AfterWatermark, Trigger, walk
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
    parts = walk(stage.trigger)
    window, bound = windows_of(stage), bound_of(stage)
    if any(isinstance(part, AfterWatermark) for part in parts):
        yield from _on_time(stage, bound)
    early = next((part.early for part in parts if isinstance(part, AfterWatermark) and part.early), None)
    if early is not None:
        yield f"Early: {_soon(early)}."
    if lateness_of(stage) and not isinstance(window, Global):
        yield f"Late: {_A_TICK} after a late event has come."
    if any(isinstance(part, AfterClose) for part in parts):
        yield f"At the close: {_end_plus(stage, Span(bound + lateness_of(stage)), 'lateness and bound')}."
    if not any(isinstance(part, AfterWatermark | AfterClose) for part in parts):
        yield f"{_soon(stage.trigger).capitalize()}."


def _on_time(stage: StageNode, bound: Span) -> Iterator[str]:
    window = windows_of(stage)
    if isinstance(window, Global):
        yield "On time: when the input ends, for the window has no end."
    elif isinstance(window, Session):
        gap = window.gap.text if window.gap else "its gap"
        yield f"On time: once an event comes that is {gap}{_and(bound)} past the last one of the session."
    else:
        past = f"{bound.text} past" if bound else "at or past"
        length = longest(window)
        most = (
            "" if length is None else f" to {Span(length + bound).text} (the window{' and the bound' if bound else ''})"
        )
        least = f"from {bound.text}{' (the bound)' if bound else ''}"
        yield f"On time: once an event comes that is {past} the end of the window. An event waits for that {least}{most}."


def _end_plus(stage: StageNode, span: Span, what: str) -> str:
    window = windows_of(stage)
    if isinstance(window, Global):
        return (
            f"{Span(span + (window.ttl or 0)).text} after the latest event of its key"
            if window.ttl
            else "when the input ends"
        )
    return (
        f"once an event comes that is {span.text} ({what}) past the end of the window"
        if span
        else "at the end of the window"
    )


def _and(bound: Span) -> str:
    return f" and {bound.text} (the bound)" if bound else ""


def _soon(trigger: Trigger) -> str:
    """What a trigger that does not look at the watermark waits for."""
    for part in walk(trigger):
        if isinstance(part, AfterProcessingTime):
            if part.aligned_to is not None:
                return f"at most {part.aligned_to.text} by the clock after its first new event"
            return f"{part.delay.text} by the clock after its first new event" if part.delay else f"{_A_TICK}"
        if isinstance(part, AfterCount):
            return f"{_A_TICK} once {part.count} new event{'s have' if part.count > 1 else ' has'} come"
    return f"{_A_TICK} after what the trigger waits for"


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
