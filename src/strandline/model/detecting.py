"""A pattern as a process: partial matches, called runs, go from event to event of a key in event-time order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from strandline.model.evaluate import evaluate
from strandline.model.expressions import parse
from strandline.model.nodes import DetectNode, ProcessNode
from strandline.model.operators import match_schema
from strandline.model.patterns import Pattern, Step
from strandline.model.process import List, Process, Timer
from strandline.model.processing import Output
from strandline.model.time import Instant, Span
from strandline.model.types import Schema, Type, array_of, struct_of

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """A match so far: the step it is at, how many events that has, whether the last event of the key is its last one."""

    at: int
    count: int
    start: int
    adjacent: bool
    events: tuple[Event, ...]


class Machine:
    """Moves runs of a pattern by one event. Pure."""

    def __init__(self, pattern: Pattern, matches: Callable[[Step, Event], bool]) -> None:
        self.pattern, self.matches = pattern, matches
        self.steps = pattern.steps

    def begin(self, event: Event, time: int) -> Run | None:
        """The run that begins with an event: at the first step, or behind optional ones."""
        for at in self._ahead(-1):
            if self.matches(self.steps[at], event):
                return Run(at, 1, time, True, (self._named(at, event),))
        return None

    def move(self, run: Run, event: Event) -> Run | None:
        """The run after an event: a step on, the same, or over (None)."""
        step = self.steps[run.at]
        if run.count < step.high and (run.adjacent or not step.adjoining) and self.matches(step, event):
            return replace(run, count=run.count + 1, adjacent=True, events=(*run.events, self._named(run.at, event)))
        if run.count >= step.low:
            if any(self.matches(self.steps[at], event) for at in self._guards(run.at)):
                return None
            for at in self._ahead(run.at):
                if (run.adjacent or not self.steps[at].strict) and self.matches(self.steps[at], event):
                    return Run(at, 1, run.start, True, (*run.events, self._named(at, event)))
        return replace(run, adjacent=False) if self._waits(run) else None

    def complete(self, run: Run) -> bool:
        """Whether every step that must be there is."""
        rest = self.steps[run.at + 1 :]
        return run.count >= self.steps[run.at].low and all(step.negated or step.skippable for step in rest)

    @property
    def ends_with_absence(self) -> bool:
        """Whether a complete run must wait for the end of its time."""
        return self.steps[-1].negated

    def _waits(self, run: Run) -> bool:
        """Whether a run that an event passed by can still go on."""
        step = self.steps[run.at]
        if run.count < step.high and not step.adjoining:
            return True
        if run.count < step.low:
            return False
        ahead = [*self._ahead(run.at)]
        return any(not self.steps[at].strict for at in ahead) or (not ahead and self.ends_with_absence)

    def _ahead(self, at: int) -> Iterator[int]:
        """The steps that may come next: the one behind, and those behind optional ones."""
        for place in range(at + 1, len(self.steps)):
            if not self.steps[place].negated:
                yield place
                if not self.steps[place].skippable:
                    return

    def _guards(self, at: int) -> Iterator[int]:
        """The absent steps right behind a step."""
        for place in range(at + 1, len(self.steps)):
            if not self.steps[place].negated:
                return
            yield place

    def _named(self, at: int, event: Event) -> Event:
        return {"step": self.steps[at].name, **event}


class Detector(Process):
    """Keeps the runs of a key, and gives out those that are complete."""

    machine: Machine
    runs: Any
    over: Any

    def on_event(self, event: Mapping[str, Any], out: Output) -> None:
        """Move every run, the oldest first, and begin one."""
        time, plain = int(Instant.of(out.time)), dict(event)
        within = self.machine.pattern.within
        moved = [self.machine.move(run, plain) for run in self._runs() if time - run.start <= within]
        runs = [run for run in moved if run is not None]
        fresh = self.machine.begin(plain, time)
        if fresh is not None:
            runs.append(fresh)
        if not self.machine.ends_with_absence:
            runs = self._told(runs, time, out)
        self._keep(runs)

    def on_timer(self, timer: str, out: Output) -> None:
        """The time of some runs is over: with an absence at the end they are complete now."""
        time, within = int(Instant.of(out.time)), self.machine.pattern.within
        runs = self._runs()
        if self.machine.ends_with_absence:
            for run in runs:
                if run.start + within < time and self.machine.complete(run):
                    self._tell(run, out)
        self._keep([run for run in runs if run.start + within >= time])

    def _told(self, runs: Sequence[Run], time: int, out: Output) -> list[Run]:
        """Give out what is complete; what is left depends on what is to be skipped."""
        left = list(runs)
        for run in runs:
            if run in left and self.machine.complete(run):
                self._tell(run, out)
                skip = self.machine.pattern.skip
                if skip == "past_last":
                    return []
                left = [
                    each for each in left if each is not run and not (skip == "to_next" and each.start == run.start)
                ]
        return left

    def _tell(self, run: Run, out: Output) -> None:
        first, last = (run.events[at]["__at"] for at in (0, -1))
        events = [{name: value for name, value in event.items() if name != "__at"} for event in run.events]
        out.emit(out.key, match_start=first, match_end=last, events=events)

    def _runs(self) -> list[Run]:
        found = []
        for kept in self.runs:
            events = tuple({**event["event"], "step": event["step"], "__at": event["at"]} for event in kept["events"])
            found.append(Run(kept["place"], kept["count"], int(Instant.of(kept["start"])), kept["adjacent"], events))
        return found

    def _keep(self, runs: Sequence[Run]) -> None:
        self.runs = [
            {
                "place": run.at, "count": run.count, "start": Instant(run.start).moment, "adjacent": run.adjacent,
                "events": [
                    {"step": event["step"], "at": event["__at"], "event": {n: v for n, v in event.items() if n not in ("step", "__at")}}
                    for event in run.events
                ],
            }
            for run in runs
        ]  # fmt: skip
        if runs:
            self.over.set(at=min(run.start for run in runs) + self.machine.pattern.within + 1)
        else:
            self.over.clear()


def process_of(node: DetectNode, inputs: Schema) -> ProcessNode:
    """A stage that detects, as a stage that processes."""

    def matches(step: Step, event: Event) -> bool:
        row = {name: value for name, value in event.items() if name != "__at"}
        return evaluate(parse(step.condition), row, schema=inputs) is True

    stamp, event = Type.of("timestamp"), struct_of(inputs.columns)
    events = array_of(struct_of((("step", Type.of("string")), ("at", stamp), ("event", event))))
    run = struct_of((
        ("place", Type.of("int")), ("count", Type.of("int")), ("start", stamp), ("adjacent", Type.of("boolean")), ("events", events),
    ))  # fmt: skip
    detector = type(
        "Detector",
        (Detector,),
        {
            "runs": List(run),
            "over": Timer(Span(node.pattern.within + 1)),  # an event of the last moment comes before it rings
            "machine": Machine(node.pattern, matches),
            "on_event": _with_time,
        },
    )
    return ProcessNode(
        name=node.name, parent=node.parent, keys=node.keys, process=detector, output=match_schema(node, inputs), sides=(),
        order="event_time", ttl=None,
    )  # fmt: skip


def _with_time(self: Detector, event: Mapping[str, Any], out: Output) -> None:
    time: datetime = out.time
    Detector.on_event(self, {**event, "__at": time}, out)
