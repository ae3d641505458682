"""Triggers in columns: the questions of `strandline.model.triggers`, put to all asked windows at once.

Every part of a trigger keeps its state in columns named by its place in the tree ("t0.passed", "t2.n"). The
functions here work on a *book*, a dict of numpy arrays with one entry per asked window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

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
    children,
)  # fmt: skip

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Book = dict[str, Array]

# No processing time yet: later than every clock, so that the least of several is the first real one.
NOT_YET: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a trigger may know when it is asked: the tick, each window's end, and whether it is being forgotten."""

    before: int
    after: int
    now: int
    end: Array
    closing: Mask
    holds: Callable[[str], Mask]
    mid_tick: bool = False

    @property
    def nobody(self) -> Mask:
        """The answer no, for every window."""
        return np.zeros(len(self.end), np.bool_)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a trigger tree, with its place in it."""

    trigger: Trigger
    place: str
    parts: tuple[Part, ...]

    def column(self, name: str) -> str:
        """The name of a column of this part's state."""
        return f"{self.place}.{name}"


def compile_trigger(trigger: Trigger) -> Part:
    """Give every part of a trigger its place."""
    places = (f"t{number}" for number in range(10_000))

    def compile_part(each: Trigger) -> Part:
        place = next(places)
        return Part(each, place, tuple(compile_part(child) for child in children(each)))

    return compile_part(trigger)


def walk(part: Part) -> Iterator[Part]:
    """A part and all within it, outermost first."""
    yield part
    for inner in part.parts:
        yield from walk(inner)


def columns(part: Part) -> dict[str, tuple[pl.DataType, Any]]:
    """The columns of a trigger's state, with their types and how they start."""
    found: dict[str, tuple[pl.DataType, Any]] = {}
    for each in walk(part):
        found[each.column("ended")] = (pl.Boolean(), False)
        if isinstance(each.trigger, AfterCount):
            found[each.column("n")] = (pl.Int64(), 0)
        elif isinstance(each.trigger, AfterProcessingTime):
            found[each.column("first")] = (pl.Int64(), NOT_YET)
        elif isinstance(each.trigger, OnEvent):
            found[each.column("seen")] = (pl.Boolean(), False)
        elif isinstance(each.trigger, When):
            found[each.column("was")] = (pl.Boolean(), False)
        elif isinstance(each.trigger, AfterWatermark):
            found[each.column("passed")] = (pl.Boolean(), False)
        elif isinstance(each.trigger, AfterEach):
            found[each.column("turn")] = (pl.Int64(), 0)
    return found


# What is carried over when windows merge into a new one; everything else starts afresh.
COUNTERS: Final = {"n": "sum", "first": "least", "seen": "any", "was": "any"}
# What a pane uses up; and what starts anew with a part. Whether a `When` held before is neither.
SPENT: Final = ("n", "first", "seen")
AFRESH: Final = (*SPENT, "ended", "passed", "turn")


def hit_column(part: Part) -> str:
    """The column in which partials count the events that an OnEvent waits for."""
    return part.column("hits")


def born(part: Part, book: Book, end: Array, before: int) -> None:
    """Start the watermark's part of new windows: one born after its end has missed its on-time pane."""
    for each in walk(part):
        if isinstance(each.trigger, AfterWatermark) and each.trigger.late is not None:
            book[each.column("passed")] = before >= end


def observe(part: Part, book: Book, arrivals: Mapping[str, Array], active: Mask) -> None:
    """Let the parts whose turn it is count what came: rows, when the first came, and which events were waited for."""
    trigger = part.trigger
    if isinstance(trigger, AfterCount):
        name = part.column("n")
        book[name] = book[name] + np.where(active, arrivals["rows"], 0)
    elif isinstance(trigger, AfterProcessingTime):
        name = part.column("first")
        book[name] = np.where(active, np.minimum(book[name], arrivals["arrived"]), book[name])
    elif isinstance(trigger, OnEvent):
        name = part.column("seen")
        book[name] = book[name] | (active & (arrivals[hit_column(part)] > 0))
    for inner, its_turn in _turns(part, book):
        observe(inner, book, arrivals, active & its_turn)


def _turns(part: Part, book: Book) -> Iterator[tuple[Part, Mask]]:
    trigger = part.trigger
    if isinstance(trigger, AfterEach):
        turn = book[part.column("turn")]
        yield from ((inner, turn == place) for place, inner in enumerate(part.parts))
    elif isinstance(trigger, AfterWatermark):
        passed = book[part.column("passed")]
        if trigger.early is not None:
            yield part.parts[0], ~passed
        if trigger.late is not None:
            yield part.parts[-1], passed
    else:
        everyone = np.ones(len(book[part.column("ended")]), np.bool_)
        yield from ((inner, everyone) for inner in part.parts)


def ready(part: Part, book: Book, asked: Asked) -> Mask:
    """Which windows this part is ready to show. Changes nothing."""
    return _condition(part, book, asked) & ~book[part.column("ended")]


def _condition(part: Part, book: Book, asked: Asked) -> Mask:
    trigger = part.trigger
    if isinstance(trigger, AfterCount):
        if asked.mid_tick and not trigger.exact:
            return asked.nobody
        return np.asarray(book[part.column("n")] >= trigger.count)
    if isinstance(trigger, AfterAny | OrFinally):
        return _any([ready(inner, book, asked) for inner in part.parts])
    if isinstance(trigger, AfterAll):
        return np.asarray(np.logical_and.reduce([ready(inner, book, asked) for inner in part.parts]), np.bool_)
    if isinstance(trigger, Repeatedly):
        return ready(part.parts[0], book, asked)
    if isinstance(trigger, AfterEach):
        return _any([its_turn & ready(inner, book, asked) for inner, its_turn in _turns(part, book)])
    if isinstance(trigger, AfterWatermark):
        return _watermark_condition(part, book, asked)
    if asked.mid_tick or isinstance(trigger, Never):
        return asked.nobody
    if isinstance(trigger, AfterClose):
        return asked.closing
    if isinstance(trigger, AfterProcessingTime):
        return due(trigger, book[part.column("first")]) <= asked.now
    if isinstance(trigger, OnEvent):
        return book[part.column("seen")].astype(np.bool_)
    holds = asked.holds(trigger.expression)
    return holds & ~book[part.column("was")] if trigger.crossing else holds


def _any(answers: list[Mask]) -> Mask:
    return np.asarray(np.logical_or.reduce(answers), np.bool_)


def _watermark_condition(part: Part, book: Book, asked: Asked) -> Mask:
    # In the middle of a tick the watermark has not moved yet, and exact counts alone may answer. Where it stood past the
    # end already and nothing was new to show, the on-time pane is still due: `early` is not asked again.
    over = np.asarray((asked.before if asked.mid_tick else asked.after) >= asked.end)
    answer = ~book[part.column("passed")] & over & (not asked.mid_tick)
    for inner, its_turn in _turns(part, book):
        waiting = its_turn & ~over if inner is part.parts[0] and part.trigger.early is not None else its_turn  # type: ignore[union-attr]
        answer = answer | (waiting & ready(inner, book, asked))
    return np.asarray(answer)


def due(trigger: AfterProcessingTime, first: Array) -> Array:
    """The processing time at which the trigger is ready, given when its first event came."""
    if trigger.aligned_to is not None:
        return np.where(first >= NOT_YET, NOT_YET, (first // trigger.aligned_to + 1) * trigger.aligned_to)
    return np.where(first >= NOT_YET, NOT_YET, first + int(trigger.delay or 0))


def fire(part: Part, book: Book, asked: Asked, fired: Mask) -> None:
    """Note that these windows fired: parts that were ready have ended, or start anew, or let the next one have its turn."""
    trigger = part.trigger
    fired = fired & ~book[part.column("ended")]
    if isinstance(trigger, Repeatedly):
        fire(part.parts[0], book, asked, fired)
        _start_ended(part.parts[0], book, fired)
    elif isinstance(trigger, AfterEach):
        _fire_each(part, book, asked, fired)
    elif isinstance(trigger, OrFinally):
        _fire_or_finally(part, book, asked, fired)
    elif isinstance(trigger, AfterWatermark):
        _fire_watermark(part, book, asked, fired)
    else:
        _end(part, book, fired & ready(part, book, asked))


def _fire_each(part: Part, book: Book, asked: Asked, fired: Mask) -> None:
    turn = part.column("turn")
    for place, inner in reversed([*enumerate(part.parts)]):
        now = fired & (book[turn] == place)
        fire(inner, book, asked, now)
        over = now & book[inner.column("ended")]
        book[turn] = book[turn] + over
        if place + 1 < len(part.parts):
            start(part.parts[place + 1], book, over)
        else:
            _end(part, book, over)


def _fire_or_finally(part: Part, book: Book, asked: Asked, fired: Mask) -> None:
    inner, until = part.parts
    finally_ready = fired & ready(until, book, asked)
    fire(inner, book, asked, fired & ~finally_ready)
    _end(part, book, finally_ready | (fired & book[inner.column("ended")]))


def _fire_watermark(part: Part, book: Book, asked: Asked, fired: Mask) -> None:
    trigger, passed = part.trigger, part.column("passed")
    assert isinstance(trigger, AfterWatermark)
    reached = asked.nobody if asked.mid_tick else asked.after >= asked.end
    on_time = fired & ~book[passed] & reached
    for inner, its_turn in _turns(part, book):
        again = fired & its_turn & ~on_time
        fire(inner, book, asked, again)
        _start_ended(inner, book, again)
    book[passed] = book[passed] | on_time
    if trigger.early is not None:
        _spend(part.parts[0], book, on_time)
    if trigger.late is not None:
        start(part.parts[-1], book, on_time)
    else:
        _end(part, book, on_time)


def start(part: Part, book: Book, mask: Mask) -> None:
    """Start a part anew, all within it too. Whether a `When` held before is no part of this: it survives."""
    _reset(part, book, mask, AFRESH)


def _start_ended(part: Part, book: Book, mask: Mask) -> None:
    start(part, book, mask & book[part.column("ended")])


def _end(part: Part, book: Book, mask: Mask) -> None:
    book[part.column("ended")] = book[part.column("ended")] | mask
    _spend(part, book, mask)


def _spend(part: Part, book: Book, mask: Mask) -> None:
    """Forget what a part has counted: a pane showed it, and a window that this one becomes part of must not count it again."""
    _reset(part, book, mask, SPENT)


def _reset(part: Part, book: Book, mask: Mask, names: tuple[str, ...]) -> None:
    if not mask.any():
        return
    for name, (_, initial) in columns(part).items():
        if name.rpartition(".")[2] in names:
            book[name] = np.where(mask, initial, book[name])


def remember(part: Part, book: Book, holds: Callable[[str], Mask], touched: Mask) -> None:
    """Note for every `When` whether it held, in windows that got rows."""
    for each in walk(part):
        if isinstance(each.trigger, When):
            name = each.column("was")
            book[name] = np.where(touched, holds(each.trigger.expression), book[name])


def earliest_due(part: Part, book: Book, now: int) -> Array:
    """The least processing time after now at which some part may become ready.

    A part whose time has come already waits for something else, and must not hide one whose time is still to come.
    """
    dues = [due(p.trigger, book[p.column("first")]) for p in walk(part) if isinstance(p.trigger, AfterProcessingTime)]
    return np.asarray(np.minimum.reduce([np.where(each > now, each, NOT_YET) for each in dues]))
