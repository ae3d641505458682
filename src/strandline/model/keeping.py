"""What stages keep, and what a join holds back: known before anything runs."""

from __future__ import annotations

from strandline.model.intervals import Interval
from strandline.model.nodes import JoinNode, JoinTableNode, ProcessNode, StageNode, Stateful, TableNode
from strandline.model.process import fields_of
from strandline.model.time import Span
from strandline.model.windows import Global


def keeps_all_keys(node: Stateful) -> bool:
    """Whether every key that was ever seen is kept for ever."""
    if isinstance(node, StageNode):
        return isinstance(node.window, Global) and node.window.ttl is None
    if isinstance(node, ProcessNode):
        return node.ttl is None and bool(fields_of(node.process))
    return isinstance(node, TableNode | JoinTableNode) and node.ttl is None


def lives_of(node: JoinNode) -> tuple[Span, Span]:
    """How long rows of each side may be needed by what is not late: for a match, or to know that another has had one.

    Of a join by windows it is none: a row is needed until the end of its window.
    """
    if not isinstance(node.within, Interval):
        return Span(0), Span(0)
    left, right = decided_sides(node)
    low, high = int(node.within.low), int(node.within.high)
    ours = high + (max(-low, 0) if right else 0)
    theirs = -low + (max(high, 0) if left or node.how == "semi" else 0)
    return Span(ours), Span(theirs)


def decided_sides(node: JoinNode) -> tuple[bool, bool]:
    """Whether something is shown of a row of each side when no match can come any more."""
    return node.match != "all" or node.how in ("left", "full", "anti"), node.how in ("right", "full")


def held_back(node: JoinNode) -> Span:
    """How far the output of a join stays behind its input: a row that waits for word of its match has its own time."""
    if not isinstance(node.within, Interval):
        return Span(0)
    left, right = decided_sides(node)
    ours = int(node.within.high) if left or node.how == "semi" else 0
    return Span(max(ours, -int(node.within.low) if right else 0, 0))
