"""A user's process, one event at a time: who is woken when, with what state."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from strandline.model.nodes import ProcessNode
from strandline.model.oracle.late import late_by
from strandline.model.oracle.living import Key
from strandline.model.oracle.passing import Books, Outcome, in_order_of_keys
from strandline.model.oracle.values import Row, canonical, rank, visible
from strandline.model.panes import TIME
from strandline.model.process import Process, Timer
from strandline.model.processing import Bench, KeyState, Moment
from strandline.model.ticks import Edge
from strandline.model.time import Instant, Span
from strandline.model.types import Schema


@dataclass(eq=False)
class Keyed:
    """A key: its values as they are shown, what is remembered of it, and the events that wait for the watermark."""

    values: tuple[Any, ...]
    state: KeyState | None = None
    waiting: list[Row] = field(default_factory=list)


class ProcessOracle:
    """Every key that ever came, with its state."""

    def __init__(self, node: ProcessNode, *, lateness: Span, schemas: Sequence[Schema]) -> None:
        self.node, self.lateness, (self.schema,) = node, lateness, schemas
        self.keys: dict[Key, Keyed] = {}
        assert issubclass(node.process, Process)
        self.bench = Bench(node.process, node.output, dict(node.sides))
        self.shown: list[tuple[tuple[Any, ...], str | None, dict[str, Any]]] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> ProcessOracle:
        """A copy with its own keys; the user's class is made once."""
        other = copy.copy(self)
        other.keys = copy.deepcopy(self.keys, memo)
        return other

    def tick(self, batches: Sequence[Sequence[Row]], edge: Edge, now: Instant) -> Outcome:
        """Hand over what has come, or what is complete; then let timers ring."""
        (rows,) = batches
        self.shown = []
        late = []
        for row in rows:
            if self.node.order == "event_time" and row[TIME] < edge.before - self.lateness:
                late.append({**row, **late_by(row, edge)})
            else:
                values = tuple(canonical(row[name], self.schema[name]) for name in self.node.keys)
                self.keys.setdefault(tuple(map(rank, values)), Keyed(values)).waiting.append(row)
        for key in self.keys.values():
            self._wake(key, edge, now)
        if edge.after >= Instant.END_OF_TIME:
            self.keys = {}
        sides = {name: self._rows(name) for name, _ in self.node.sides}
        return Outcome(
            panes=self._rows(None), late=late, rejected=[], replaced=[], sides=sides,
            watermark=edge.after,
            books=Books(rows=len(rows), kept=len(rows) - len(late), late=len(late), rejected=0, missed=0),
        )  # fmt: skip

    def _rows(self, side: str | None) -> list[dict[str, Any]]:
        return in_order_of_keys((values, row) for values, name, row in self.shown if name == side)

    def _wake(self, key: Keyed, edge: Edge, now: Instant) -> None:
        """Events and timers of a key, in their order."""
        if self.node.order == "arrival":
            for row in key.waiting:
                self._event(key, row, edge, now)
            key.waiting = []
        else:
            ready = sorted((row for row in key.waiting if row[TIME] < edge.after), key=lambda row: int(row[TIME]))
            key.waiting = [row for row in key.waiting if row[TIME] >= edge.after]
            for row in ready:
                # A timer for a moment comes before an event of that moment: both are known when the watermark is there.
                self._ring_all(key, edge, now, until=row[TIME])
                self._event(key, row, edge, now)
        self._ring_all(key, edge, now, until=None)

    def _ring_all(self, key: Keyed, edge: Edge, now: Instant, *, until: int | None) -> None:
        """Let timers ring that are due, the earliest first."""
        ends = until is None and edge.after >= Instant.END_OF_TIME
        latest = key.state.latest if key.state is not None and ends else None
        while due := sorted(self._due(key, edge, now, until, latest)):
            at, name = due[0]
            self._ring(key, name, at, edge, now)

    def _due(
        self, key: Keyed, edge: Edge, now: Instant, until: int | None, latest: int | None
    ) -> Iterator[tuple[int, str]]:
        """The timers to ring. When time ends, time goes on for as long as a timer may wait behind the `latest` moment."""
        for name, at in (key.state.timers if key.state is not None else {}).items():
            timer = self._timer(name)
            if timer.clock == "event":
                over = latest is not None and at > latest + timer.longest
                if at <= edge.after and (until is None or at <= until) and not over:
                    yield at, name
            elif until is None and at <= now:
                yield at, name

    def _timer(self, name: str) -> Timer:
        return self.bench.described[name]

    def _event(self, key: Keyed, row: Row, edge: Edge, now: Instant) -> None:
        moment = Moment(row[TIME], edge.before, now)
        while (due := self._overdue(key, edge, now)) and self._expired(key, moment):
            self._ring(key, due[0][1], due[0][0], edge, now)  # it was due before its key expired
        self._forget(key, moment)
        self.bench.take_up(key.state)
        clean = {name: canonical(value, self.schema[name]) for name, value in visible(row).items()}
        self.bench.event(self._named(key), clean, moment)
        self._remember(key, moment, read=True)

    def _ring(self, key: Keyed, name: str, at: int, edge: Edge, now: Instant) -> None:
        if self._timer(name).clock == "event":
            moment = Moment(max(at, edge.before), edge.before, now)
        else:
            # By the clock no event time has come; the key's latest one is the best that is known.
            assert key.state is not None
            moment = Moment(max(key.state.latest, edge.before), edge.before, now)
        if not self._outlives(key, name, at):
            key.state = None
            return
        self.bench.take_up(key.state)
        self.bench.ring(self._named(key), name, moment)
        self._remember(key, moment, read=False)

    def _named(self, key: Keyed) -> dict[str, Any]:
        return dict(zip(self.node.keys, key.values, strict=True))

    def _overdue(self, key: Keyed, edge: Edge, now: Instant) -> list[tuple[int, str]]:
        """The timers to which time has come while their key was remembered, the earliest first."""
        timers = {} if key.state is None else key.state.timers
        clocks = {"event": edge.after, "processing": now}
        due = ((at, name) for name, at in timers.items() if at <= clocks[self._timer(name).clock])
        return sorted((at, name) for at, name in due if self._outlives(key, name, at))

    def _outlives(self, key: Keyed, name: str, at: int) -> bool:
        """Whether a key is still remembered at the time for which a timer of its was set."""
        ttl = self.node.ttl
        if ttl is None or key.state is None or key.state.expires is None:
            return True
        return self._timer(name).clock == ttl.clock and at < key.state.expires

    def _expired(self, key: Keyed, moment: Moment) -> bool:
        if key.state is None or key.state.expires is None or self.node.ttl is None:
            return False
        clock = moment.now if self.node.ttl.clock == "processing" else max(moment.time, moment.watermark)
        return key.state.expires <= clock

    def _forget(self, key: Keyed, moment: Moment) -> None:
        """What has expired is as if it had never been."""
        if self._expired(key, moment):
            key.state = None

    def _remember(self, key: Keyed, moment: Moment, *, read: bool) -> None:
        values, timers = self.bench.state(), dict(self.bench.timers)
        before = key.state
        changed = before is None or (before.values, before.timers) != (values, timers)
        latest = max(moment.time, moment.time if before is None else before.latest)
        expires = None if before is None else before.expires
        if self.node.ttl is not None and (changed or (read and self.node.ttl.since == "read")):
            clock = moment.now if self.node.ttl.clock == "processing" else moment.time
            expires = max(clock + self.node.ttl.span, clock if expires is None else expires)
        nothing = all(value is None for value in values.values()) and not timers
        key.state = None if nothing else KeyState(values, timers, expires, latest)
        for side, row, time in self.bench.take_rows():
            self.shown.append((key.values, side, {**self.bench.checked(side, row), TIME: time}))
