"""When a window is shown: a trigger's state, and what happens to it.

`ready` is a question and changes nothing. `observe` tells the parts whose turn it is of an event; `fire` moves on
the parts that were ready; `start` makes a part new.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from strandline.model.oracle.values import Entry, holds
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
from strandline.model.types import Schema


@dataclass
class State:
    """A part of a trigger: what it is, what it has seen since it started, and its own parts.

    The parts of AfterWatermark are `early` (Never, if none is given) and, if there is one, `late`.
    """

    trigger: Trigger
    parts: list[State] = field(default_factory=list)
    ended: bool = False
    count: int = 0
    first: int | None = None
    seen: bool = False
    was: bool = False
    passed: bool = False
    turn: int = 0


@dataclass(frozen=True)
class Moment:
    """What a trigger may know when it is asked; `true` are the conditions that hold."""

    watermark: int
    end: int
    now: int
    closing: bool
    true: Collection[str] = ()
    only_exact_counts: bool = False


def plant(trigger: Trigger, lateness: int) -> State:
    """The state of a stage's trigger. Outermost, late events with no trigger of their own show at every tick.

    Without lateness there is nothing that could be shown late: a window is forgotten when it is over.
    """
    if isinstance(trigger, AfterWatermark):
        early, late = _plant(trigger.early or Never()), _plant(trigger.late or AfterCount(1))
        return State(trigger, [early, late] if lateness > 0 else [early])
    return _plant(trigger)


def _plant(trigger: Trigger) -> State:
    return State(trigger, [_plant(part) for part in _parts(trigger)])


def _parts(trigger: Trigger) -> tuple[Trigger, ...]:
    if isinstance(trigger, AfterWatermark):
        early = trigger.early or Never()
        return (early,) if trigger.late is None else (early, trigger.late)
    if isinstance(trigger, AfterAny | AfterAll | AfterEach):
        return trigger.triggers
    if isinstance(trigger, Repeatedly):
        return (trigger.trigger,)
    if isinstance(trigger, OrFinally):
        return (trigger.trigger, trigger.until)
    return ()


def parts(trigger: Trigger) -> list[Trigger]:
    """A trigger as it was described, and all its parts."""
    return [part.trigger for part in tree(_plant(trigger))]


def tree(state: State) -> list[State]:
    """A state and all its parts."""
    return [state, *(inner for part in state.parts for inner in tree(part))]


def start(state: State) -> None:
    """Make a part new. What a When said last is no counter, and stays."""
    for part in tree(state):
        part.ended, part.count, part.first, part.seen, part.passed, part.turn = False, 0, None, False, False, 0


def spend(state: State) -> None:
    """Forget what a part has counted: a pane showed it."""
    for part in tree(state):
        part.count, part.first, part.seen = 0, None, False


def bear(state: State, olds: Sequence[State], *, after_its_end: bool) -> None:
    """Start for a new window, with the counters of the windows that merged into it, where they were not spent on a pane.

    A window whose first event comes after its end has missed its on-time pane: `late` decides from the start.
    """
    start(state)
    for part in tree(state):
        if isinstance(part.trigger, AfterWatermark) and len(part.parts) == 2:
            part.passed = after_its_end
    for old in olds:
        for part, before in zip(tree(state), tree(old), strict=True):
            part.count += before.count
            part.seen = part.seen or before.seen
            part.was = part.was or before.was
            firsts = [first for first in (part.first, before.first) if first is not None]
            part.first = min(firsts, default=None)


def observe(state: State, entry: Entry, schema: Schema | None) -> None:
    """Tell the parts whose turn it is of an event."""
    trigger = state.trigger
    if isinstance(trigger, AfterCount):
        state.count += 1
    elif isinstance(trigger, AfterProcessingTime):
        state.first = int(entry.now) if state.first is None else state.first
    elif isinstance(trigger, OnEvent):
        state.seen = state.seen or holds(trigger.expression, entry, schema)
    else:
        takes_turns = isinstance(trigger, AfterWatermark | AfterEach)
        for part in _current(state) if takes_turns else state.parts:
            observe(part, entry, schema)


def _current(state: State) -> list[State]:
    """The part of AfterWatermark or AfterEach whose turn it is; none, past the last."""
    turn = int(state.passed) if isinstance(state.trigger, AfterWatermark) else state.turn
    return state.parts[turn : turn + 1]


def ready(state: State, moment: Moment) -> bool:
    """Whether a window should be shown."""
    trigger = state.trigger
    if state.ended:
        return False
    if isinstance(trigger, AfterAny | OrFinally | Repeatedly):
        return any(ready(part, moment) for part in state.parts)
    if isinstance(trigger, AfterAll):
        return all(ready(part, moment) for part in state.parts)
    if isinstance(trigger, AfterEach):
        return any(ready(part, moment) for part in _current(state))
    if isinstance(trigger, AfterWatermark):
        if not state.passed and moment.watermark >= moment.end:
            return not moment.only_exact_counts
        return any(ready(part, moment) for part in _current(state))
    if isinstance(trigger, AfterCount):
        return state.count >= trigger.count and (trigger.exact or not moment.only_exact_counts)
    return not moment.only_exact_counts and _leaf_ready(state, moment)


def _leaf_ready(state: State, moment: Moment) -> bool:
    trigger = state.trigger
    if isinstance(trigger, AfterProcessingTime):
        return state.first is not None and moment.now >= _due(trigger, state.first)
    if isinstance(trigger, OnEvent):
        return state.seen
    if isinstance(trigger, When):
        return trigger.expression in moment.true and not (trigger.crossing and state.was)
    return isinstance(trigger, AfterClose) and moment.closing


def _due(trigger: AfterProcessingTime, first: int) -> int:
    if trigger.aligned_to is not None:
        return (first // trigger.aligned_to + 1) * trigger.aligned_to
    return first + (trigger.delay or 0)


def remember(state: State, moment: Moment) -> None:
    """After the asking: note whether each When holds, for the next time."""
    for part in tree(state):
        if isinstance(part.trigger, When):
            part.was = part.trigger.expression in moment.true


def fire(state: State, moment: Moment) -> None:
    """Move on what was ready, because the window is shown."""
    trigger = state.trigger
    if not ready(state, moment):
        return
    if isinstance(trigger, AfterWatermark):
        _fire_watermark(state, moment)
    elif isinstance(trigger, AfterEach):
        current = state.parts[state.turn]
        fire(current, moment)
        if current.ended:
            state.turn += 1
            state.ended = state.turn == len(state.parts)
            for following in _current(state):
                start(following)
    elif isinstance(trigger, Repeatedly):
        _fire_again(state.parts[0], moment)
    elif isinstance(trigger, OrFinally):
        inner, until = state.parts
        state.ended = ready(until, moment)
        if not state.ended:
            fire(inner, moment)
            state.ended = inner.ended
    else:
        state.ended = True
    if state.ended:
        spend(state)


def _fire_watermark(state: State, moment: Moment) -> None:
    if state.passed or moment.watermark < moment.end:
        for part in _current(state):
            _fire_again(part, moment)
        return
    state.passed = True
    state.ended = len(state.parts) == 1
    spend(state.parts[0])
    for late in state.parts[1:]:
        start(late)


def _fire_again(part: State, moment: Moment) -> None:
    fire(part, moment)
    if part.ended:
        start(part)
