"""Stages other than windows in plain words: what they do, what they keep, and what they hold back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from strandline.model.aggregates import within_of
from strandline.model.firing import written
from strandline.model.intervals import Interval
from strandline.model.keeping import held_back, lives_of
from strandline.model.lineage import lateness_of
from strandline.model.lookups import called
from strandline.model.nodes import (
    DedupeNode,
    DetectNode,
    JoinNode,
    JoinTableNode,
    LookupNode,
    Node,
    OperatorNode,
    OverNode,
    ProcessNode,
    TableNode,
    origin_of,
)
from strandline.model.patterns import Step
from strandline.model.process import kept_of, timers_of
from strandline.model.salting import BROADCAST
from strandline.model.time import Span

_HOW: Final = {
    "inner": "a pair is shown as soon as both are there",
    "left": "a pair is shown as soon as both are there, and a row of this side without a match once none can come",
    "right": "a pair is shown as soon as both are there, and a row of the other side without a match once none can come",
    "full": "a pair is shown as soon as both are there, and any row without a match once none can come",
    "semi": "a row of this side is shown when its first match comes",
    "anti": "a row of this side without a match is shown once none can come",
}


def operator_in_short(node: OperatorNode) -> str:
    """One line for a drawing."""
    return _IN_SHORT[type(node)](node)


def operator_in_words(node: OperatorNode) -> Iterator[str]:
    """What an operator does, for people who read `explain()`."""
    return _IN_WORDS[type(node)](node)


# -- joins ------------------------------------------------------------------------------------------------------


def _join_in_short(node: JoinNode) -> str:
    kind = "" if node.how == "inner" else f"{node.how} "
    return f"{kind}join with {origin_of(node.other).name!r} by {', '.join(node.keys)}, {_within(node)}"


def _join(node: JoinNode) -> Iterator[str]:
    yield f"What:  rows of {origin_of(node.parent).name!r} with rows of {origin_of(node.other).name!r} of equal {_keys(node)}."
    if isinstance(node.within, Interval):
        yield f"Where: for each row of this side, the other comes {node.within.text}; the time of a pair is the later one."
    else:
        yield f"Where: both fall into one window of {written(node.within.window)}, whose last moment is the time of a pair."
    chosen = (
        f"the {node.match} match of each row of this side is shown once it is known"
        if node.match != "all"
        else _HOW[node.how]
    )
    also = ", and a row without one then too" if node.match != "all" and node.how == "left" else ""
    yield f"When:  {chosen}{also}."
    yield from _state(node)
    if node.salt is not None:
        spread, copied = (origin_of(each).name for each in _spread_first(node))
        yield (
            f"Salt:  the rows of a key of {spread!r} are spread over {node.salt} places, and those of {copied!r} are copied to each."
        )


def _spread_first(node: JoinNode) -> tuple[Node, Node]:
    return (node.other, node.parent) if node.how == "right" else (node.parent, node.other)


def _state(node: JoinNode) -> Iterator[str]:
    if not isinstance(node.within, Interval):
        yield "State: the rows of both sides, until the watermark reaches the end of their window."
        return
    granted = lateness_of(node)
    ours, theirs = (Span(max(each + granted, Span(0))) for each in lives_of(node))
    yield (
        f"State: rows of this side until the watermark is {ours.text} past them, of the other side until it is {theirs.text} past "
        "them; and all that are ahead of it."
    )
    if held := held_back(node):
        yield f"Hold:  the watermark of its output is {held.text} behind that of its input: so long a row may wait for word of a match."


def _keys(node: JoinNode) -> str:
    pairs = zip(node.keys, node.other_keys, strict=True)
    return ", ".join(key if key == other else f"{key} = {other}" for key, other in pairs)


def _within(node: JoinNode) -> str:
    return (
        node.within.text
        if isinstance(node.within, Interval)
        else f"in the same window of {written(node.within.window)}"
    )


# -- deduplication and features ---------------------------------------------------------------------------------


def _dedupe_in_short(node: DedupeNode) -> str:
    return f"the first of equal {', '.join(node.on)} within {node.within.text}"


def _dedupe(node: DedupeNode) -> Iterator[str]:
    yield f"What:  of rows that are equal in {', '.join(node.on)}, less than {node.within.text} apart, the first to come passes."
    yield f"State: {', '.join(node.on)} of each row that passed, until the watermark is {node.within.text} past its time."


def _over_in_short(node: OverNode) -> str:
    return f"features by {', '.join(node.keys) or 'nothing'}: {', '.join(name for name, _ in node.features)}"


def _over(node: OverNode) -> Iterator[str]:
    told = ", ".join(f"{name} = {written(aggregate)}" for name, aggregate in node.features)
    yield f"What:  each row with {told}, over the rows of {'its ' + ', '.join(node.keys) if node.keys else 'the stream'}."
    own = "its own included" if node.include_current else "without itself"
    yield f"Where: for each row the time from `within` before it up to it, {own}."
    if node.emit == "arrival":
        yield "When:  at once, from what has come; an older row that comes later corrects those it changes, with op."
    else:
        yield "When:  once the watermark has passed it, in order; nothing is corrected."
    yield f"State: rows until the watermark is {longest_within(node).text} past them."


def longest_within(node: OverNode) -> Span:
    """How far back the widest feature looks."""
    return max(span for _, aggregate in node.features if (span := within_of(aggregate)) is not None)


# -- tables -----------------------------------------------------------------------------------------------------


def _table_in_short(node: TableNode) -> str:
    return f"table by {', '.join(node.key)}"


def _table(node: TableNode) -> Iterator[str]:
    yield f"What:  for each {', '.join(node.key)} the row of the change {_newer(node)}; one with op 'delete' or 'retract' is gone."
    yield "When:  each change comes out as it comes in: what stood is taken back, and what stands is inserted (op)."
    yield f"State: a row of the table {_lives(node)}."


def _join_table_in_short(node: JoinTableNode) -> str:
    when = "at its time" if node.as_of else "now"
    return (
        f"{node.how} join with the table of {origin_of(node.other).name!r} by {', '.join(node.keys)}, as it is {when}"
    )


def _join_table(node: JoinTableNode) -> Iterator[str]:
    yield f"What:  each row with the row of the table of {origin_of(node.other).name!r} for its {', '.join(node.keys)}."
    if node.as_of:
        bound = "" if node.max_wait is None else f", but not longer than {node.max_wait.text}"
        moment = f"the change {_newer(node)}" + ("" if node.order == "offset" else ", or that comes later")
        yield f"When:  once the watermark of both has passed it{bound}: with the row that stood at its time; of one moment {moment}."
    else:
        yield f"When:  at once, with the change {_newer(node)} of those that have come; changes of a tick count before its rows."
    yield f"State: a row of the table {_lives(node)}{f', in each of {BROADCAST} places' if node.broadcast else ''}."


def _newer(node: TableNode | JoinTableNode) -> str:
    return "that comes later" if node.order == "offset" else f"with the greater {node.order}"


def _lives(node: TableNode | JoinTableNode) -> str:
    return "for ever" if node.ttl is None else f"for {node.ttl.text} of event time"


# -- processes and patterns -------------------------------------------------------------------------------------


def _process_in_short(node: ProcessNode) -> str:
    return f"{node.process.__name__} by {', '.join(node.keys) or 'nothing'}, in order of {node.order.replace('_', ' ')}"


def _process(node: ProcessNode) -> Iterator[str]:
    keys = f"of each {', '.join(node.keys)}" if node.keys else "of all rows as one group"
    waits = "as they come" if node.order == "arrival" else "by event time, each when the watermark has passed it"
    yield f"What:  {node.process.__name__} is given the rows {keys}, {waits}."
    kept = ", ".join(f"{name} ({each.kind.text})" for name, each in kept_of(node.process).items()) or "nothing"
    until = "for ever"
    if node.ttl is not None:
        until = f"until {node.ttl.span.text} of {node.ttl.clock} time after it was last {'written' if node.ttl.since == 'write' else 'read'}"
    yield f"State: {kept}, for each key {until}."
    for name, timer in timers_of(node.process).items():
        yield f"Timer: {name}, at most {timer.longest.text} in {timer.clock} time."


def _detect_in_short(node: DetectNode) -> str:
    return f"{', '.join(each.name for each in node.pattern.steps)} within {node.pattern.within.text}, by {', '.join(node.keys)}"


def _detect(node: DetectNode) -> Iterator[str]:
    yield f"What:  of each {', '.join(node.keys) or 'stream'}: {', '.join(map(_step, node.pattern.steps))}, in event-time order."
    yield f"Where: from the first to the last event at most {node.pattern.within.text}."
    yield "When:  once the watermark has passed the last event; where the last step is absent, when its time is over."
    past = "none begins before its last event" if node.pattern.skip == "past_last" else "any event may begin another"
    yield f"Then:  of one beginning the match that is complete first is told; after it {past}."
    yield f"State: what a match may still be made of, for {node.pattern.within.text}."


def _step(step: Step) -> str:
    if step.negated:
        return f"no {step.name} (`{step.condition}`)"
    many = (
        "" if step.high == 1 else f" {step.low} times" if step.low == step.high else f" {step.low} to {step.high} times"
    )
    said = f"{'directly ' if step.strict else ''}{step.name}{many} (`{step.condition}`)"
    return said + (" in a row" if step.adjoining else "") + (", or not" if step.skippable else "")


# -- lookups ----------------------------------------------------------------------------------------------------


def _lookup_in_short(node: LookupNode) -> str:
    return f"{', '.join(node.output)} for each {', '.join(node.on)}, from {called(node.lookup)}"


def _lookup(node: LookupNode) -> Iterator[str]:
    yield f"What:  each row with {', '.join(node.output)}, which {called(node.lookup)} is asked for by {', '.join(node.on)}."
    again = f", {node.retries} more times if need be" if node.retries else ""
    yield f"When:  in its tick, up to {node.concurrency} calls at a time in each task, each for {node.timeout.text}{again}."
    if node.cache is not None:
        yield f"Cache: an answer is used again for {node.cache.ttl.text}, up to {node.cache.size} of them in each worker."
    if not node.ordered:
        yield "Order: rows of a key go to all tasks, and come in any order."
    yield "State: none. A tick that is made again asks again; what was shown is never asked for again."


_IN_SHORT: Final[Mapping[type, Callable[[Any], str]]] = {
    DedupeNode: _dedupe_in_short, DetectNode: _detect_in_short, JoinNode: _join_in_short, JoinTableNode: _join_table_in_short,
    LookupNode: _lookup_in_short, OverNode: _over_in_short, ProcessNode: _process_in_short, TableNode: _table_in_short,
}  # fmt: skip
_IN_WORDS: Final[Mapping[type, Callable[[Any], Iterator[str]]]] = {
    DedupeNode: _dedupe, DetectNode: _detect, JoinNode: _join, JoinTableNode: _join_table, LookupNode: _lookup,
    OverNode: _over, ProcessNode: _process, TableNode: _table,
}  # fmt: skip
