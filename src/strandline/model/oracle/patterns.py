"""A pattern, looked for in all events of a key: every way to choose events is tried, in the order in which it is preferred."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from strandline.model.evaluate import evaluate
from strandline.model.expressions import parse
from strandline.model.nodes import DetectNode
from strandline.model.oracle.late import late_by
from strandline.model.oracle.living import Key
from strandline.model.oracle.passing import Books, Outcome, in_order_of_keys
from strandline.model.oracle.values import Row, canonical, rank, shown_instant, visible
from strandline.model.panes import TIME
from strandline.model.patterns import Pattern
from strandline.model.ticks import Edge
from strandline.model.time import Instant, Span
from strandline.model.types import Schema

Taken: TypeAlias = tuple[tuple[int, int], ...]
"""A match: of each of its events the place among the key's events, and the step that it is taken for."""


class Event(NamedTuple):
    """An event of a key: its time, how far time had come when it was known, its columns, and the steps that it fits."""

    time: int
    known: int
    row: dict[str, Any]
    fits: frozenset[int]


@dataclass(eq=False)
class Keyed:
    """A key: its values as they are shown, events that wait for the watermark, all others, and which matches were told."""

    values: tuple[Any, ...]
    waiting: list[Row] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    told: set[Taken] = field(default_factory=set)


class DetectOracle:
    """Every event that ever came, of every key. In each tick all matches are looked for anew; what is new is shown."""

    def __init__(self, node: DetectNode, *, lateness: Span, schemas: Sequence[Schema]) -> None:
        self.node, self.lateness, (self.schema,) = node, lateness, schemas
        self.keys: dict[Key, Keyed] = {}

    def tick(self, batches: Sequence[Sequence[Row]], edge: Edge, now: Instant) -> Outcome:
        """Take in the events that are complete, and look."""
        (rows,) = batches
        late, shown = [], []
        for row in rows:
            if row[TIME] < edge.before - self.lateness:
                late.append({**row, **late_by(row, edge)})
            else:
                values = tuple(canonical(row[name], self.schema[name]) for name in self.node.keys)
                self.keys.setdefault(tuple(map(rank, values)), Keyed(values)).waiting.append(row)
        for key in self.keys.values():
            ready = self._ready(key, edge)
            key.waiting = [row for row in key.waiting if not any(row is each for each in ready)]
            key.events += [self._event(row, edge) for row in ready]
            for match in matches(self.node.pattern, key.events, edge.after):
                if match not in key.told:
                    key.told.add(match)
                    shown.append((key.values, self._shown(key, match, edge)))
        if edge.after >= Instant.END_OF_TIME:
            self.keys = {}
        return Outcome(
            panes=in_order_of_keys(shown), late=late, rejected=[], replaced=[], watermark=edge.after,
            books=Books(rows=len(rows), kept=len(rows) - len(late), late=len(late), rejected=0, missed=0),
        )  # fmt: skip

    def _ready(self, key: Keyed, edge: Edge) -> list[Row]:
        """The events whose turn it is, by their time."""
        return sorted((row for row in key.waiting if row[TIME] < edge.after), key=lambda row: int(row[TIME]))

    def _event(self, row: Row, edge: Edge) -> Event:
        clean = {name: canonical(value, self.schema[name]) for name, value in visible(row).items()}
        steps = self.node.pattern.steps
        held = [evaluate(parse(each.condition), clean, schema=self.schema) is True for each in steps]
        fits = frozenset(at for at, fit in enumerate(held) if fit)
        return Event(int(row[TIME]), max(int(row[TIME]), int(edge.before)), clean, fits)

    def _shown(self, key: Keyed, match: Taken, edge: Edge) -> dict[str, Any]:
        steps, (first, last) = self.node.pattern.steps, (key.events[match[at][0]].time for at in (0, -1))
        over = max(first + self.node.pattern.within + 1, edge.before)
        return {
            **dict(zip(self.node.keys, key.values, strict=True)),
            "match_start": shown_instant(first), "match_end": shown_instant(last),
            "events": [{"step": steps[step].name, **key.events[place].row} for place, step in match],
            TIME: over if steps[-1].negated else last,
        }  # fmt: skip


def matches(pattern: Pattern, events: Sequence[Event], watermark: int) -> list[Taken]:
    """All matches that are to be told, in the order in which they are known."""
    ends_absent = pattern.steps[-1].negated
    found = []
    for first, event in enumerate(events):
        if ends_absent and event.time + pattern.within >= watermark:
            continue  # what must not come may still come
        match = match_of(pattern, events, first)
        if match is not None:
            found.append((event.time if ends_absent else match[-1][0], first, match))
    told: list[Taken] = []
    for _, first, match in sorted(found):
        if pattern.skip == "to_next" or first > max((each[-1][0] for each in told), default=-1):
            told.append(match)
    return told


def match_of(pattern: Pattern, events: Sequence[Event], first: int) -> Taken | None:
    """The match that begins with an event: the one that is complete first, and of those the one that is preferred."""
    limit, end = events[first].time + pattern.within, first
    while end + 1 < len(events) and events[end + 1].known <= limit:
        end += 1
    ends = [end] if pattern.steps[-1].negated else range(first, end + 1)
    tries = (Ways(pattern, events, each).begin(first) for each in ends)
    return next((match for match in tries if match is not None), None)


class Ways:
    """All ways to choose events up to `end`, which is the last one taken unless an absence is waited for.

    An event is rather taken than passed by, and rather for the step at which a match is than for the next one.
    """

    def __init__(self, pattern: Pattern, events: Sequence[Event], end: int) -> None:
        self.steps, self.events, self.end = pattern.steps, events, end
        self.go_on = cache(self._go_on)  # slow is well, but not that slow

    def begin(self, first: int) -> Taken | None:
        """The first way that begins with an event, if there is one."""
        for step in self._following(-1):
            if step in self.events[first].fits:
                rest = self.go_on(step, 1, first, first + 1)
                if rest is not None:
                    return ((first, step), *rest)
        return None

    def _go_on(self, at: int, count: int, last: int, here: int) -> Taken | None:
        """The first way from an event on, with so many events of a step, the last of them there."""
        if here > self.end:
            return () if self._complete(at, count, last) else None
        for step, number in self._choices(at, count, last, here):
            rest = self.go_on(step, number, here, here + 1)
            if rest is not None:
                return ((here, step), *rest)
        return self.go_on(at, count, last, here + 1)

    def _choices(self, at: int, count: int, last: int, here: int) -> Iterator[tuple[int, int]]:
        """The steps that an event may be taken for, and its number there."""
        fits, direct, step = self.events[here].fits, last == here - 1, self.steps[at]
        if count < step.high and at in fits and (direct or not step.adjoining):
            yield at, count + 1
        if count >= step.low:
            for ahead in self._following(at):
                strict = self.steps[ahead].strict
                if ahead in fits and (direct or not strict) and not self._broken(at, ahead, last, here):
                    yield ahead, 1

    def _complete(self, at: int, count: int, last: int) -> bool:
        rest = self.steps[at + 1 :]
        if count < self.steps[at].low or not all(each.negated or each.skippable for each in rest):
            return False
        waits = self.steps[-1].negated
        return not self._broken(at, len(self.steps), last, self.end) if waits else last == self.end

    def _following(self, at: int) -> Iterator[int]:
        """The steps that may come after one: the next that is not absent, and those behind optional ones."""
        for place in range(at + 1, len(self.steps)):
            if not self.steps[place].negated:
                yield place
                if not self.steps[place].skippable:
                    return

    def _broken(self, at: int, step: int, last: int, here: int) -> bool:
        """Whether an event behind the last one taken, up to here, is one that must not come between two steps."""
        absent = {place for place in range(at + 1, step) if self.steps[place].negated}
        return any(absent & self.events[place].fits for place in range(last + 1, here + 1))
