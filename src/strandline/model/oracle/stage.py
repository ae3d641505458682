"""One window stage, one tick: reject, judge, take, ask, forget."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from strandline.model.aggregates import AnyAggregate
from strandline.model.evaluate import evaluate
from strandline.model.expressions import parse
from strandline.model.hashing import hash_values
from strandline.model.nodes import StageNode
from strandline.model.oracle.aggregates import CARRIED, Reading, carried, compute
from strandline.model.oracle.living import Key, Living, Pane
from strandline.model.oracle.passing import Arrival, Books, Outcome, Tick, arrivals_of
from strandline.model.oracle.triggers import Moment, bear, fire, observe, parts, plant, ready, remember, tree
from strandline.model.oracle.values import Entry, Row, canonical, holds, rank, shown_instant
from strandline.model.oracle.windows import (
    Component,
    Interval,
    components,
    reason_to_reject,
    reason_to_reject_windows,
    windows_of,
)  # fmt: skip
from strandline.model.panes import CAME_FROM, EARLY, INSERT, LATE, ON_TIME, RETRACT, TIME, WEIGHT
from strandline.model.ticks import Edge
from strandline.model.time import Instant, Span
from strandline.model.triggers import AfterCount, OnEvent, When
from strandline.model.types import Schema
from strandline.model.windows import Global


class StageOracle:
    """A window stage, one event at a time.

    `lateness` is what the stage grants in effect, stages before it included; `taking_back` says that rows may come
    with weight -1; `schema` gives the columns of the rows and `asked` those that a When asks about (without them types are
    those of the values); `carry` names the aggregates whose events travel with the panes, and `merged` the aggregate
    behind each column that a Merge rolls up.
    """

    def __init__(
        self,
        stage: StageNode,
        *,
        lateness: Span,
        taking_back: bool = False,
        schema: Schema | None = None,
        asked: Schema | None = None,
        carry: Sequence[str] = (),
        merged: Mapping[str, AnyAggregate] | None = None,
    ) -> None:
        self.stage = stage
        self.lateness = lateness
        self.schema = schema
        self.asked = asked
        self.carry = tuple(carry)
        self.reading = Reading(schema, taking_back, dict(merged or {}))
        self.living: dict[Key, list[Living]] = {}
        triggers = [part.trigger for part in tree(plant(stage.trigger, lateness))]
        self.counts_exactly = any(isinstance(t, AfterCount) and t.exact for t in triggers)
        self.conditions = [t.expression for t in triggers if isinstance(t, When)]
        self.asked_of_rows = [a.where for _, a in stage.aggregates if a.where is not None]
        self.asked_of_rows += [t.expression for t in parts(stage.trigger) if isinstance(t, OnEvent)]

    def __deepcopy__(self, memo: dict[int, Any]) -> StageOracle:
        """A copy with its own state; the description never changes, and is shared."""
        other = copy.copy(self)
        other.living = copy.deepcopy(self.living, memo)
        return other

    def tick(self, rows: Sequence[Row], edge: Edge, now: Instant) -> Outcome:
        """Move from one tick to the next."""
        tick = Tick(edge, now)
        arrivals, rejected = self._receive(rows, now)
        self._judge(arrivals, edge)
        for window in self._all():
            window.touched = False
        self._take_all([a for a in arrivals if a.windows], tick)
        for window in self._all():
            self._ask_at_the_end(window, tick)
        self._forget(edge)
        return Outcome(
            panes=self._in_order(tick.shown),
            late=[self._late(a, edge) for a in arrivals if a.missed],
            rejected=rejected,
            replaced=tick.replaced,
            watermark=Instant(min([edge.after, *self._holds()])),
            books=Books(
                rows=len(rows),
                kept=sum(1 for a in arrivals if a.windows),
                late=sum(1 for a in arrivals if not a.windows),
                rejected=len(rejected),
                missed=sum(len(a.missed) for a in arrivals),
            ),
        )

    # Reject: a row for which no window can be found.

    def _receive(self, rows: Sequence[Row], now: Instant) -> tuple[list[Arrival], list[dict[str, Any]]]:
        arrivals, rejected = [], []
        for number, row in enumerate(rows):
            clean = self._clean(row)
            self._ask_of_row(clean, now)
            reason = reason_to_reject(self.stage.window, row)
            windows = [] if reason else windows_of(self.stage.window, row[TIME], clean)
            reason = reason or reason_to_reject_windows(self.stage.window, windows)
            if reason is None:
                arrivals.append(self._arrival(number, row, clean, windows, now))
            else:
                rejected.append({**row, "reason": reason})
        return arrivals, rejected

    def _ask_of_row(self, row: Row, now: Instant) -> None:
        """Conditions are asked of every row that comes, so that an error does not depend on what becomes of it."""
        for condition in self.asked_of_rows:
            holds(condition, Entry(0, 1, row, now), self.schema)

    def _clean(self, row: Row) -> Row:
        kinds: Mapping[str, Any] = self.schema or {}
        return {name: canonical(value, kinds.get(name)) for name, value in row.items()}

    def _arrival(self, number: int, row: Row, clean: Row, windows: list[Interval], now: Instant) -> Arrival:
        values = tuple(clean[name] for name in self.stage.keys)
        key = tuple(rank(value) for value in values)
        return Arrival(number, row, Entry(row[TIME], row.get(WEIGHT, 1), clean, now), key, values, windows)

    # Judge: which windows an event comes too late for, by the watermark before the tick.

    def _judge(self, arrivals: list[Arrival], edge: Edge) -> None:
        for key in {a.key: None for a in arrivals}:
            for component in self._components(key, [a for a in arrivals if a.key == key]):
                alive = any(isinstance(member, Living) for member in component.members)
                if not alive and self._is_gone(component, edge):
                    self._miss(component)

    def _components(self, key: Key, arrivals: list[Arrival]) -> list[Component[Living | Arrival]]:
        """The windows of a key, and those that events open, joined where they are one."""
        pieces: list[tuple[int, int, Living | Arrival]] = [(w.start, w.end, w) for w in self.living.get(key, [])]
        pieces += [(start, end, a) for a in arrivals for start, end in a.windows]
        return components(self.stage.window, pieces)

    def _is_gone(self, component: Component[Any], edge: Edge) -> bool:
        return not isinstance(self.stage.window, Global) and edge.before >= self._grace(component.end)

    def _grace(self, end: int) -> int:
        return min(end + self.lateness, Instant.END_OF_TIME)

    def _miss(self, component: Component[Living | Arrival]) -> None:
        for arrival in arrivals_of(component):
            arrival.windows = [
                (start, end)
                for start, end in arrival.windows
                if not (component.start <= start and end <= component.end)
            ]
            arrival.missed.append(component)

    def _late(self, arrival: Arrival, edge: Edge) -> dict[str, Any]:
        missed = [
            {
                "window_start": shown_instant(gone.start),
                "window_end": shown_instant(gone.end),
                "late_by": timedelta(microseconds=int(edge.before - self._grace(gone.end))),
            }
            for gone in arrival.missed
        ]
        late_by = timedelta(microseconds=int(edge.before - arrival.entry.time))
        return {**arrival.row, "missed": missed, "late_by": late_by, "kept": bool(arrival.windows)}

    # Take: events join their windows, and windows that become one merge.

    def _take_all(self, arrivals: list[Arrival], tick: Tick) -> None:
        if self.counts_exactly:
            for arrival in arrivals:
                for window in self._take(arrival.key, [arrival], tick):
                    self._ask_after_an_event(window, tick)
            return
        for key in {a.key: None for a in arrivals}:
            self._take(key, [a for a in arrivals if a.key == key], tick)

    def _take(self, key: Key, arrivals: list[Arrival], tick: Tick) -> list[Living]:
        """Give a key its events; the windows that took one, by start."""
        living, took = [], []
        for component in self._components(key, arrivals):
            window = self._window_of(key, component, tick.edge)
            living.append(window)
            for arrival in arrivals_of(component):
                window.add(arrival.entry)
                observe(window.trigger, arrival.entry, self.schema)
            if arrivals_of(component):
                took.append(window)
        self.living[key] = living
        return took

    def _window_of(self, key: Key, component: Component[Living | Arrival], edge: Edge) -> Living:
        """The living window that a component is; or a new one, where none was, or where it has grown or merged."""
        olds = [member for member in component.members if isinstance(member, Living)]
        if len(olds) == 1 and (olds[0].start, olds[0].end) == (component.start, component.end):
            return olds[0]
        values = component.members[0].values
        window = Living(key, values, component.start, component.end, plant(self.stage.trigger, self.lateness))
        bear(window.trigger, [old.trigger for old in olds], after_its_end=edge.before >= component.end)
        window.inherit(olds)
        return window

    # Ask: is the window ready to be shown?

    def _ask_after_an_event(self, window: Living, tick: Tick) -> None:
        """Only exact counts may answer, and the watermark has not moved yet."""
        before = tick.edge.before
        self._ask(window, Moment(before, window.end, tick.now, False, only_exact_counts=True), tick)

    def _ask_at_the_end(self, window: Living, tick: Tick) -> None:
        closing = tick.edge.after >= self._deadline(window)
        moment = Moment(tick.edge.after, window.end, tick.now, closing, self._true_of(window, tick.edge))
        self._ask(window, moment, tick)
        if window.touched:
            remember(window.trigger, moment)

    def _true_of(self, window: Living, edge: Edge) -> list[str]:
        """What a When asks that is true of the window. Of one that discarded what it had nothing is."""
        moved = window.touched or edge.before < window.end <= edge.after
        if not (window.new > 0 or (moved and self.stage.mode != "discarding")):
            return []
        row = self._row(window) if self.conditions else {}
        return [each for each in self.conditions if evaluate(parse(each), row, schema=self.asked) is True]

    def _ask(self, window: Living, moment: Moment, tick: Tick) -> None:
        crossing = tick.edge.before < window.end <= moment.watermark
        always = crossing and self.stage.on_time == "always"
        if not ((window.new > 0 or crossing) and ready(window.trigger, moment)):
            return
        fire(window.trigger, moment)
        timing = EARLY if moment.watermark < window.end else ON_TIME if crossing else LATE
        last = moment.closing or window.trigger.ended
        # A discarding window with nothing new lets its on-time moment pass unseen.
        if window.new > 0 or always or self.stage.mode != "discarding":
            self._show(window, tick, timing=timing, last=last, always=always)
        window.new = 0
        if self.stage.mode == "discarding":
            window.content = []

    # Show.

    def _show(self, window: Living, tick: Tick, *, timing: str, last: bool, always: bool) -> None:
        """Withdraw what no longer holds, then show what does; a window that is empty again shows no more than it must."""
        mode = self.stage.mode
        if mode == "retracting":
            tick.shown += [(window, {**pane, WEIGHT: -1, "op": RETRACT}) for pane in window.standing]
            window.ghosts, window.shown = [], None
        empty = window.net <= 0 and mode != "discarding"
        if empty and not always and not (mode == "accumulating" and window.index > 0):
            return
        if mode == "accumulating":
            self._coalesce(window, tick, timing)
            tick.replaced += [self._identity(ghost) for ghost in window.ghosts]
        window.ghosts = []
        window.shown = self._pane(window, timing, last)
        window.index += 1
        tick.shown.append((window, window.shown))

    def _coalesce(self, window: Living, tick: Tick, timing: str) -> None:
        """Of several panes of one window and timing in one tick, only the last is shown."""
        if self.stage.coalesce:
            others = [(w, pane) for w, pane in tick.shown if w is not window or pane["pane_timing"] != timing]
            window.index -= len(tick.shown) - len(others)
            tick.shown = others

    def _identity(self, pane: Pane) -> dict[str, Any]:
        return {name: pane[name] for name in (*self.stage.keys, "window_start", "window_end")}

    def _row(self, window: Living) -> dict[str, Any]:
        """The keys, the window and the aggregates as they would be shown now."""
        return {
            **dict(zip(self.stage.keys, window.values, strict=True)),
            "window_start": shown_instant(window.start),
            "window_end": shown_instant(window.end),
            **{name: compute(a, window.content, self.reading) for name, a in self.stage.aggregates},
        }

    def _pane(self, window: Living, timing: str, last: bool) -> Pane:
        return {
            **self._row(window),
            "pane_timing": timing,
            "pane_index": window.index,
            "pane_is_last": last,
            "op": INSERT,
            TIME: self._time(window),
            WEIGHT: 1,
            CAME_FROM[0]: window.start,
            CAME_FROM[1]: window.end,
            **{
                CARRIED + name: carried(aggregate, window.content, self.reading)
                for name, aggregate in self.stage.aggregates
                if name in self.carry
            },
        }

    def _time(self, window: Living) -> int:
        """The event time of a pane. A window that only ever took back has no event to take it from."""
        found = {"end": None, "earliest": window.earliest, "latest": window.latest}[self.stage.timestamp]
        return window.end - 1 if found is None else found

    def _in_order(self, shown: list[tuple[Living, Pane]]) -> list[Pane]:
        """By key; those of a key in the order of showing, which sorting keeps: event by event, then window by window."""
        ordered = sorted(shown, key=lambda each: (hash_values(each[0].values), each[0].key))
        return [pane for _, pane in ordered]

    # Forget.

    def _deadline(self, window: Living) -> int:
        """The watermark at which a window is forgotten."""
        if not isinstance(self.stage.window, Global):
            return self._grace(window.end)
        if self.stage.window.ttl is None:
            return Instant.END_OF_TIME
        latest = Instant.BEFORE_ALL_TIME if window.latest is None else window.latest
        return min(latest + self.stage.window.ttl + self.lateness, Instant.END_OF_TIME)

    def _forget(self, edge: Edge) -> None:
        kept = {key: [w for w in windows if edge.after < self._deadline(w)] for key, windows in self.living.items()}
        self.living = {key: windows for key, windows in kept.items() if windows}

    def _holds(self) -> list[int]:
        """The times that panes may still carry: of what would be shown now, and of what would be withdrawn.

        Panes at their window's end come within its lateness, and so does their withdrawal; unless the window, a session,
        has grown since: it may go on growing for ever before it is shown again. A discarding window with nothing new has
        nothing to show.
        """
        at_the_end, discarding = self.stage.timestamp == "end", self.stage.mode == "discarding"
        found = []
        for window in self._all():
            withdrawn = [pane[TIME] for pane in window.standing] if self.stage.mode == "retracting" else []
            found += [time for time in withdrawn if not (at_the_end and time == window.end - 1)]
            found += [] if at_the_end or (discarding and not window.new) else [self._time(window)]
        return found

    def _all(self) -> list[Living]:
        return [window for windows in self.living.values() for window in windows]
