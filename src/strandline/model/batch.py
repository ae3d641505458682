"""A flow as batch: everything is read first, and then everything is complete."""

from __future__ import annotations

from dataclasses import replace

from strandline.model.flow import Flow
from strandline.model.nodes import AnyNode, SourceNode, StageNode
from strandline.model.rebuild import rebuild
from strandline.model.triggers import AfterAll, AfterAny, AfterEach, AfterWatermark, OrFinally, Repeatedly, Trigger
from strandline.model.watermarks import AtEnd


def as_batch(flow: Flow) -> Flow:
    """The flow as a bounded stream: no watermark before the end of the input, and no early panes.

    Names stay as they are, and so does all that is not said here. Nothing is late, because nothing is complete before
    all is read. A trigger that counts or waits by itself, outside of `early=`, still fires.

    Law: where aggregates merge in any order and windows fire by the watermark, the order of the events does not matter.

    >>> from strandline.sources.rows import Rows
    >>> flow = Flow("f")
    >>> _ = flow.source("orders", Rows(schema="user string, at timestamp"), time="at")
    >>> as_batch(flow).nodes[0].watermark
    AtEnd(idle_after=None, max_future=None, advance_when_idle=False)
    """
    return rebuild(flow, _bounded)


def _bounded(node: AnyNode) -> AnyNode:
    if isinstance(node, SourceNode) and not isinstance(node.watermark, AtEnd):
        return replace(node, watermark=AtEnd(node.watermark))
    if isinstance(node, StageNode) and (patient := without_early(node.trigger)) != node.trigger:
        return replace(node, trigger=patient)
    return node


def without_early(trigger: Trigger) -> Trigger:
    """The trigger with every `AfterWatermark` in it waiting for the watermark.

    >>> from strandline.model.triggers import AfterCount
    >>> without_early(Repeatedly(AfterWatermark(early=AfterCount(3), late=AfterCount(1))))
    Repeatedly(trigger=AfterWatermark(early=None, late=AfterCount(count=1, exact=False)))
    """
    if isinstance(trigger, AfterWatermark):
        return AfterWatermark(late=None if trigger.late is None else without_early(trigger.late))
    if isinstance(trigger, AfterAny | AfterAll | AfterEach):
        return type(trigger)(*map(without_early, trigger.triggers))
    if isinstance(trigger, Repeatedly):
        return Repeatedly(without_early(trigger.trigger))
    if isinstance(trigger, OrFinally):
        return OrFinally(without_early(trigger.trigger), without_early(trigger.until))
    return trigger
