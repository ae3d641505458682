"""The other decisions about tables, processes and patterns: which change counts, what is still known, what follows what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pytest

from strandline.kernel.advance import Advanced
from strandline.kernel.operators.detect import DetectPlan
from strandline.kernel.operators.plan import Taken
from strandline.kernel.operators.process import ProcessPlan
from strandline.kernel.operators.runs import Machine
from strandline.kernel.operators.table import TablePlan
from strandline.kernel.operators.table_join import JoinTablePlan
from strandline.kernel.operators.turn import Turn
from strandline.kernel.state import State
from strandline.model import processing
from strandline.model.nodes import DetectNode
from strandline.model.oracle import tables as oracle_tables
from strandline.model.oracle.patterns import DetectOracle, Ways
from strandline.model.oracle.process import Keyed, ProcessOracle
from strandline.model.oracle.tables import JoinTableOracle, TableOracle
from strandline.model.processing import KeyState, Moment
from strandline.model.ticks import Edge, Tick
from strandline.model.time import Instant, Span
from tests.mutants.changing import change_node

Patch: TypeAlias = pytest.MonkeyPatch


def the_later_change_wins(patch: Patch) -> None:
    """Which of two changes is the newer is never asked: the one that comes later is."""
    for made in (TablePlan, TableOracle):
        change_node(patch, made, lambda node: replace(node, order="offset"))


def the_end_of_time_ends_every_row(patch: Patch) -> None:
    """At the end of time every time to live is over."""
    patch.setattr(Edge, "come", property(lambda self: self.after))
    patch.setattr(oracle_tables, "_come", lambda edge: edge.after)


def only_watermarks_end_rows(patch: Patch) -> None:
    """A time to live is over when a watermark has passed it: in batch never, since there is none before the end."""

    def come(edge: Edge) -> Instant:
        return edge.after if edge.after < Instant.END_OF_TIME else edge.before

    patch.setattr(Edge, "come", property(come))
    patch.setattr(oracle_tables, "_come", come)


def a_change_always_changes_something(patch: Patch) -> None:
    """What stands is taken back and shown again, though it is the same."""
    patch.setattr(TablePlan, "_same", lambda self, table, one, other: np.zeros(len(one), np.bool_))
    patch.setattr(oracle_tables, "_changes_nothing", lambda before, after: False)


def rows_come_before_the_changes_of_their_tick(patch: Patch) -> None:
    """A row takes what stood before its tick."""
    advance, tick_one = JoinTablePlan.advance, JoinTableOracle.tick

    def kernel(self: JoinTablePlan, state: State, taken: Taken, edge: Edge, tick: Tick) -> Advanced:
        rows, changes = taken.ports
        first = advance(self, state, Taken(ports=(rows, changes.clear())), edge, tick)
        second = advance(self, first.state, Taken(ports=(rows.clear(), changes)), edge, tick)
        return replace(first, state=second.state, books=first.books + second.books)

    def oracle(self: JoinTableOracle, batches: Any, edge: Edge, now: Instant) -> Any:
        rows, changes = batches
        found = tick_one(self, [rows, []], edge, now)
        tick_one(self, [[], changes], edge, now)
        count = len(rows) + len(changes)
        return replace(found, books=replace(found.books, rows=count, kept=count - found.books.late))

    patch.setattr(JoinTablePlan, "advance", kernel)
    patch.setattr(JoinTableOracle, "tick", oracle)


def a_row_takes_what_is_known_when_it_comes(patch: Patch) -> None:
    """As of its time, but of those versions that have come: nobody waits."""
    for made in (JoinTablePlan, JoinTableOracle):
        change_node(patch, made, lambda node: replace(node, max_wait=Span(0)))


def of_one_moment_the_later_to_come_counts(patch: Patch) -> None:
    """As of a time it is never asked which of two changes of one moment is the newer."""
    for made in (JoinTablePlan, JoinTableOracle):
        change_node(patch, made, lambda node: replace(node, order="offset"))


def state_expires_with_the_watermark(patch: Patch) -> None:
    """What is remembered is seen until it is swept away."""
    visible, expired = Turn._visible, ProcessOracle._expired

    def kernel(self: Turn, state: KeyState | None, time: int) -> KeyState | None:
        return visible(self, state, int(self.edge.before))

    def oracle(self: ProcessOracle, key: Keyed, moment: Moment) -> bool:
        return expired(self, key, Moment(moment.watermark, moment.watermark, moment.now))

    patch.setattr(Turn, "_visible", kernel)
    patch.setattr(ProcessOracle, "_expired", oracle)


def a_timer_is_gone_when_its_key_is(patch: Patch) -> None:
    """A key that has expired when somebody looks takes its timers along."""
    outlives, outlives_one = Turn._outlives, ProcessOracle._outlives

    def kernel(self: Turn, state: KeyState, name: str, at: int) -> bool:
        return outlives(self, state, name, int(self.now) if self.plan.by_clock else at)

    patch.setattr(Turn, "_outlives", kernel)

    def tick(self: ProcessOracle, batches: Any, edge: Edge, now: Instant) -> Any:
        self.looked = now  # type: ignore[attr-defined]
        return tick_one(self, batches, edge, now)

    def oracle(self: ProcessOracle, key: Keyed, name: str, at: int) -> bool:
        by_clock = self.node.ttl is not None and self.node.ttl.clock == "processing"
        return outlives_one(self, key, name, self.looked if by_clock else at)  # type: ignore[attr-defined]

    tick_one = ProcessOracle.tick
    patch.setattr(ProcessOracle, "tick", tick)
    patch.setattr(ProcessOracle, "_outlives", oracle)


def what_is_changed_in_place_is_not_seen(patch: Patch) -> None:
    """A process is handed what is kept itself, and not a copy: after it, nothing seems to have changed."""
    patch.setattr(processing, "copied", lambda value: value)


def an_event_comes_before_a_timer_of_its_moment(patch: Patch) -> None:
    """A timer rings when its moment is over."""
    ring, ring_all = Turn._ring, ProcessOracle._ring_all

    def earlier(until: int | None) -> int | None:
        return None if until is None else until - 1

    patch.setattr(Turn, "_ring", lambda self, *given, until: ring(self, *given, until=earlier(until)))
    patch.setattr(ProcessOracle, "_ring_all", lambda self, *given, until: ring_all(self, *given, until=earlier(until)))


def events_are_taken_as_they_come(patch: Patch) -> None:
    """Nobody waits for the watermark to know the order of events."""
    for made in (ProcessPlan, ProcessOracle):
        change_node(patch, made, lambda node: replace(node, order="arrival"))
    patch.setattr(DetectOracle, "_ready", lambda self, key, edge: [*key.waiting])


def others_may_come_between_consecutive_events(patch: Patch) -> None:
    """A repetition passes others by, as a step does."""

    def relaxed(node: DetectNode) -> DetectNode:
        steps = tuple(replace(each, adjoining=False) for each in node.pattern.steps)
        return replace(node, pattern=replace(node.pattern, steps=steps))

    for made in (DetectPlan, DetectOracle):
        change_node(patch, made, relaxed)


def matches_share_events(patch: Patch) -> None:
    """After a match nothing is skipped."""
    for made in (DetectPlan, DetectOracle):
        change_node(patch, made, lambda node: replace(node, pattern=replace(node.pattern, skip="to_next")))


def an_event_that_fits_is_taken(patch: Patch) -> None:
    """A run never passes an event by that it may take, and takes it for the step at which it is."""
    after = Machine._after

    def kernel(self: Machine, found: Any, *before: Any) -> Any:
        first: dict[int, Any] = {}
        for source, *rest in found:
            first.setdefault(source, (source, *rest))
        return after(self, [*first.values()], *before)

    def oracle(self: Ways, at: int, count: int, last: int, here: int) -> Any:
        if here > self.end:
            return () if self._complete(at, count, last) else None
        for step, number in self._choices(at, count, last, here):
            rest = self.go_on(step, number, here, here + 1)
            return None if rest is None else ((here, step), *rest)
        return self.go_on(at, count, last, here + 1)

    patch.setattr(Machine, "_after", kernel)
    patch.setattr(Ways, "_go_on", oracle)


def what_must_not_come_is_asked_of_the_step_beside_it_alone(patch: Patch) -> None:
    """Where that step was left out, nobody asks."""
    broken, move = Ways._broken, Machine._move

    def beside(steps: Any, at: int) -> int:
        return next((place for place in range(at + 1, len(steps)) if not steps[place].negated), len(steps))

    def oracle(self: Ways, at: int, step: int, last: int, here: int) -> bool:
        return broken(self, at, min(step, beside(self.steps, at)), last, here)

    def kernel(self: Machine, profile: Any, fits: int) -> Any:
        asked = sum(1 << each for place in profile for each in range(place.at + 1, beside(self.steps, place.at)))
        absent = sum(1 << each for each in self.absent)
        return move(self, profile, fits & (asked | ~absent))

    patch.setattr(Ways, "_broken", oracle)
    patch.setattr(Machine, "_move", kernel)
