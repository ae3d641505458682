"""A pattern in a step: of each key the matches that have begun, and the events that they have taken so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from strandline.kernel.expressions import evaluate_columns
from strandline.kernel.frames import only
from strandline.kernel.operators.process import ProcessPlan
from strandline.kernel.operators.runs import Machine, Match, Node, Place, Runs
from strandline.kernel.operators.turn import EVENT, Turn
from strandline.kernel.users import python_rows
from strandline.model.expressions import parse
from strandline.model.nodes import DetectNode, ProcessNode
from strandline.model.operators import match_schema
from strandline.model.process import List, Process, Timer, Value
from strandline.model.processing import KeyState
from strandline.model.time import Instant, Span
from strandline.model.types import Schema, Type, array_of, struct_of

Array = npt.NDArray[Any]
OVER = "over"


class DetectPlan(ProcessPlan):
    """Waits, and is woken, like a process by event time; its state is that of the pattern, and of no other."""

    def __init__(self, node: DetectNode, inputs: tuple[Schema, ...], lateness: Span) -> None:
        super().__init__(_as_process(node, inputs[0]), inputs, lateness)
        self.pattern = node.pattern

    def said(self) -> dict[str, Any]:
        """The key and the pattern."""
        return {"keys": self.node.keys, "pattern": self.pattern}

    @cached_property
    def machine(self) -> Machine:
        """The pattern as moves, which are found when they are first made."""
        return Machine(self.pattern)

    @property
    def turning(self) -> type[Turn]:
        """Runs are moved in a way of their own."""
        return DetectTurn


class DetectTurn(Turn):
    """The keys that are woken in a tick; the runs of each are read once, moved by all of its events, and written once."""

    plan: DetectPlan

    def _events(self, rows: Array) -> Iterator[tuple[int, Any]]:
        """The events in this order: the time of each, the steps that it fits, and its columns."""
        schema, ready = self.plan.inputs[0], self.ready[rows]
        events = only(ready, [EVENT + name for name in schema]).rename({EVENT + name: name for name in schema})
        fits = np.zeros(events.height, object)  # bits of any number
        for at, step in enumerate(self.plan.pattern.steps):
            held = evaluate_columns(parse(step.condition), events, schema).fill_null(value=False).to_numpy()
            fits[held.astype(bool)] += 1 << at
        yield from zip(
            ready["window_start"].to_list(),
            zip(fits.tolist(), python_rows(events, list(schema)), strict=True),
            strict=True,
        )

    def _run_key(
        self, key: dict[str, Any], state: KeyState | None, events: Iterable[tuple[int, Any]]
    ) -> KeyState | None:
        runs, before = self._opened(state), int(self.edge.before)
        latest = int(Instant.BEFORE_ALL_TIME) if state is None else state.latest
        for time, (fits, row) in events:
            latest = max(latest, time)
            if runs.groups:
                self._tell(key, runs, runs.expire(max(time, before)))
            self._tell(key, runs, runs.take(time, fits, row))
        self._tell(key, runs, runs.expire(int(self.edge.after)))
        return self._closed(runs, latest) if runs.changed else state

    def _tell(self, key: dict[str, Any], runs: Runs, matches: Iterable[Match]) -> None:
        names, steps = list(self.plan.inputs[0]), self.plan.pattern.steps
        for taken, known in matches:
            found = [(runs.events[number], steps[step].name) for number, step in taken]
            first, last = (Instant(found[at][0][0]).moment for at in (0, -1))
            events = [{"step": step, **dict(zip(names, row, strict=True))} for (_, row), step in found]
            row = {**key, "match_start": first, "match_end": last, "events": events}
            self.given[None].add(row, max(known, int(self.edge.before)) if runs.machine.waits else known)

    def _opened(self, state: KeyState | None) -> Runs:
        runs = Runs(self.plan.machine)
        if state is None:
            return runs
        names = list(self.plan.inputs[0])
        runs.next = state.values["next"]
        runs.events = {
            each["number"]: (each["at"], tuple(each["event"][name] for name in names))
            for each in state.values["events"]
        }
        runs.restore([
            (Place(each["place"], each["many"], each["direct"], each["wall"]), _chain(each["taken"], each["steps"]))
            for each in state.values["threads"]
        ])  # fmt: skip
        return runs

    def _closed(self, runs: Runs, latest: int) -> KeyState | None:
        over = runs.over
        if over is None:
            return None
        names, threads = list(self.plan.inputs[0]), []
        needed: set[int] = set()
        for place, node in runs.threads():
            taken = runs.taken(node)
            needed.update(number for number, _ in taken)
            threads.append({
                "place": place.at, "many": place.many, "direct": place.direct, "wall": place.wall,
                "taken": [number for number, _ in taken], "steps": [step for _, step in taken],
            })  # fmt: skip
        kept = ((number, *runs.events[number]) for number in sorted(needed))
        events = [{"number": number, "at": at, "event": dict(zip(names, row, strict=True))} for number, at, row in kept]
        # An event of the last moment comes before its time is over.
        ends = {OVER: over + int(self.plan.pattern.within) + 1}
        return KeyState({"events": events, "next": runs.next, "threads": threads}, ends, None, latest)


def _chain(numbers: list[int], steps: list[int]) -> Node:
    node: Any = None
    for number, step in zip(numbers, steps, strict=True):
        node = (node, number, step)
    return node  # type: ignore[no-any-return]


def _as_process(node: DetectNode, inputs: Schema) -> ProcessNode:
    """What a pattern keeps of a key, described as that of a process is."""
    whole, flag = Type.of("bigint"), Type.of("boolean")
    event = struct_of((("number", whole), ("at", whole), ("event", struct_of(inputs.columns))))
    numbers = (("taken", array_of(whole)), ("steps", array_of(whole)))
    thread = struct_of((("place", whole), ("many", whole), ("direct", flag), ("wall", whole), *numbers))
    fields = {
        "next": Value("bigint"),
        "events": List(event),
        "threads": List(thread),
        OVER: Timer(Span(node.pattern.within + 1)),
    }
    return ProcessNode(
        name=node.name, parent=node.parent, keys=node.keys, process=type("Runs", (Process,), fields),
        output=match_schema(node, inputs), sides=(), order="event_time", ttl=None,
    )  # fmt: skip
