"""Write the stored states of this version: `python -m tests.states.write`.

State bytes are a public format. For each case a flow is played up to a point, and left are: the state of each of its
stages (v1-<case>-<stage>.state), and what the next tick must show (v1-<case>.json). `tests/test_states.py` takes up the
files and makes that tick. Files of a released version are never written again: a new format gets new names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import strandline as sl
from strandline.kernel.plan import plan_stage
from strandline.kernel.stage import Outcome, StageKernel
from strandline.model.flow import SourceNode, StageNode, lineage
from strandline.model.lineage import carried
from strandline.model.ticks import Edge
from strandline.model.time import Instant
from strandline.testing import Events, ProcessingTime, Tick, Watermark
from strandline.testing.runners.kernel import KernelRunner
from strandline.testing.source import PlayedSource
from strandline.testing.steps import Step, as_tick

HERE: Final = Path(__file__).parent
VERSION: Final = "v1"
SCHEMA: Final = "user string, country string, n bigint, price decimal(10,2), x double, word string, at timestamp"


@dataclass(frozen=True)
class Case:
    """A stage, the steps that lead up to the stored state, and the step after it."""

    stage: sl.Stage
    before: tuple[Step, ...]
    after: Step


class Piece:
    """The stages of a case, one feeding the next, on their way from tick to tick."""

    def __init__(self, case: Case) -> None:
        path = [*lineage(case.stage.node)][::-1]
        first, *rest = path
        assert isinstance(first, SourceNode)
        self.source = PlayedSource(first)
        self.runner = KernelRunner(case.stage.flow)
        nodes = [node for node in rest if isinstance(node, StageNode)]
        flow = case.stage.flow
        self.stages = {node.name: StageKernel(plan_stage(node, carry=carried(flow, node))) for node in nodes}
        self.edges = {name: Edge.first() for name in self.stages}

    def tick(self, step: Step) -> Outcome:
        """One tick of all stages; what the last of them gives."""
        arrived = self.source.tick(as_tick(step), "A stored state")
        batch, edge = self.runner.read(arrived.rows, self.source.schema), arrived.edge
        for name, stage in self.stages.items():
            outcome = stage.tick(batch, edge, arrived.now)
            batch = outcome.panes
            edge = self.edges[name] = self.edges[name].moved_to(outcome.watermark)
        return outcome

    def shown(self, step: Step) -> dict[str, Any]:
        """The same as plain JSON, to compare."""
        outcome = self.tick(step)
        sides = {"panes": outcome.panes, "late": outcome.late, "replaced": outcome.replaced}
        rows = {name: self.runner.rows(frame) for name, frame in sides.items()}
        return json.loads(json.dumps({**rows, "watermark": outcome.watermark}, default=said))

    def place(self) -> dict[str, Any]:
        """Where the case stands in time, apart from the state."""
        edges = {name: [edge.before, edge.after] for name, edge in self.edges.items()}
        numbers = {name: stage.number for name, stage in self.stages.items()}
        return {"now": self.source.now, "source": [*_ends(self.source.edge)], "edges": edges, "numbers": numbers}

    def restore(self, place: dict[str, Any], states: dict[str, bytes]) -> None:
        """Stand where `place` says, with these states."""
        self.source.now = Instant(place["now"])
        self.source.edge = _edge(place["source"])
        self.edges = {name: _edge(ends) for name, ends in place["edges"].items()}
        for name, stage in self.stages.items():
            stage.restore(states[name], number=place["numbers"][name])


def _ends(edge: Edge) -> Iterator[int]:
    yield from (edge.before, edge.after)


def _edge(ends: list[int]) -> Edge:
    return Edge(before=Instant(ends[0]), after=Instant(ends[1]))


def said(value: Any) -> str:
    """A value that JSON cannot say, as text."""
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _events(*rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Rows as (user, n, time of day), the other columns derived from them."""
    return [
        {
            "user": user, "country": None if n % 5 == 0 else "de" if n % 2 else "fr", "n": n, "price": f"{n}.25",
            "x": n * 0.1, "word": "abc"[n % 3], "at": f"2026-01-01T{at}Z",
        }
        for user, n, at in rows
    ]  # fmt: skip


def _keyed(*keys: str) -> sl.Keyed:
    return sl.Flow("stored").source("events", sl.Rows(schema=SCHEMA), time="at").key_by(*keys)


class Product(sl.Aggregate):
    """An aggregate of a user's own."""

    columns = ("n",)
    result = "bigint"

    def start(self) -> int:
        return 1

    def add(self, accumulator: int, n: int) -> int:
        return accumulator * n

    def merge(self, left: int, right: int) -> int:
        return left * right

    def output(self, accumulator: int) -> int:
        return accumulator


def tumbling() -> Case:
    """Every aggregate, two key columns with nulls, early panes shown and retracted."""
    early = sl.AfterWatermark(early=sl.AfterCount(2), late=sl.AfterCount(1))
    stage = _keyed("user", "country").window(sl.Tumbling("1m"), trigger=early, lateness="5m", mode="retracting").aggregate(
        "stage", count=sl.Count(), whole=sl.Sum("n"), money=sl.Sum("price"), grid=sl.Sum("x"), exact=sl.Sum("x", exact=True),
        mean=sl.Mean("price"), least=sl.Min("word"), greatest=sl.Max("x"), first=sl.First("word"), last=sl.Last("n"),
        variance=sl.Variance("x"), spread=sl.StdDev("price"), distinct=sl.Distinct("word"), about=sl.ApproxDistinct("n"),
        quantiles=sl.Quantile("x", (0.5, 0.9)), often=sl.TopK("word", 2), top=sl.TopK("word", 2, by="x"),
        all=sl.Collect("n"), recent=sl.Ewma("x", half_life="10s"), product=Product(), chosen=sl.Count(where="n > 3"),
    )  # fmt: skip
    first = _events(("ann", 1, "12:00:03"), ("ann", 3, "12:00:10"), ("bob", 5, "12:00:20"), (None, 2, "12:01:30"))
    second = _events(("ann", 7, "12:00:40"), ("bob", 10, "12:00:05"), (None, 4, "12:01:59"), ("eve", 6, "12:02:01"))
    late = _events(("ann", 9, "12:00:59"), ("bob", 15, "12:00:01"), ("eve", 8, "12:02:02"), (None, 12, "12:01:00"))
    return Case(
        stage, (Events(first), Events(second), Watermark("2026-01-01T12:01:00Z")), Tick(late, "2026-01-01T12:02:00Z")
    )


def sessions() -> Case:
    """Sessions that were shown, and that the next tick merges."""
    early = sl.AfterWatermark(early=sl.AfterCount(1), late=sl.AfterCount(1))
    stage = _keyed("user").window(sl.Session("10s"), trigger=early, lateness="1m", mode="retracting").aggregate(
        "stage", count=sl.Count(), total=sl.Sum("x"), words=sl.Collect("word")
    )  # fmt: skip
    first = _events(("ann", 1, "12:00:00"), ("ann", 2, "12:00:15"), ("bob", 3, "12:00:00"))
    second = _events(("bob", 4, "12:00:30"), ("ann", 5, "12:01:40"))
    joining = _events(("ann", 6, "12:00:08"), ("bob", 7, "12:00:05"), ("bob", 8, "11:58:00"))
    return Case(stage, (Events(first), Tick(second, "2026-01-01T12:00:30Z")), Tick(joining, "2026-01-01T12:00:45Z"))


def hopping() -> Case:
    """Slices that several windows share."""
    window = sl.Hopping("1m", every="20s")
    stage = _keyed("user").window(window).aggregate(
        "stage", count=sl.Count(), total=sl.Sum("price"), highest=sl.Max("n"), median=sl.Quantile("x", 0.5)
    )  # fmt: skip
    first = _events(("ann", 1, "12:00:05"), ("ann", 2, "12:00:25"), ("bob", 3, "12:00:45"))
    second = _events(("ann", 4, "12:00:50"), ("bob", 5, "12:01:10"))
    after = _events(("ann", 6, "12:01:01"), ("bob", 7, "11:59:59"))
    return Case(stage, (Events(first), Tick(second, "2026-01-01T12:00:40Z")), Tick(after, "2026-01-01T12:01:20Z"))


def refined_hopping() -> Case:
    """Hopping windows that are kept whole, because they may be shown again."""
    window = sl.Hopping("1m", every="30s")
    stage = _keyed("user").window(window, lateness="5m", on_time="always", timestamp="earliest").aggregate(
        "stage", count=sl.Count(), first=sl.First("word")
    )  # fmt: skip
    first = _events(("ann", 1, "12:00:05"), ("bob", 3, "12:00:45"))
    late = _events(("ann", 6, "12:00:40"), ("bob", 7, "11:50:00"))
    return Case(stage, (Events(first), Watermark("2026-01-01T12:00:30Z")), Tick(late, "2026-01-01T12:01:00Z"))


def timers() -> Case:
    """Global windows with a time to live, and timers that have not rung."""
    stage = _keyed("user").window(
        sl.Global(ttl="1h"), trigger=sl.Repeatedly(sl.AfterProcessingTime("10s")), mode="discarding", allow_loss=True
    ).aggregate("stage", count=sl.Count(), total=sl.Sum("x"))  # fmt: skip
    first, second = _events(("ann", 1, "12:00:00"), ("bob", 2, "12:00:01")), _events(("ann", 3, "12:30:00"))
    before = (
        Tick(first, processing_time="2026-01-01T13:00:00Z"),
        ProcessingTime("2026-01-01T13:00:10Z"),
        Tick(second, watermark="2026-01-01T12:30:00Z", processing_time="2026-01-01T13:00:12Z"),
    )
    return Case(stage, before, Tick((), "2026-01-01T13:00:01Z", "2026-01-01T13:00:22Z"))


def composed() -> Case:
    """A trigger of many parts, in the middle of its way; counts at each event; calendar days."""
    trigger = sl.Repeatedly(
        sl.AfterAny(
            sl.AfterEach(sl.AfterCount(2, exact=True), sl.OnEvent("word = 'c'")),
            sl.AfterAll(sl.When("total > 5", crossing=True), sl.AfterProcessingTime("1m")),
        )
    )
    window = sl.Tumbling("1d", zone="Europe/Berlin")
    stage = _keyed("user").window(window, trigger=trigger, mode="accumulating", coalesce=False, allow_loss=True)
    first = _events(("ann", 1, "12:00:00"), ("ann", 3, "12:00:01"), ("ann", 4, "12:00:02"), ("bob", 3, "12:00:03"))
    after = _events(("ann", 2, "12:00:04"), ("ann", 5, "12:00:05"), ("bob", 6, "12:00:06"))
    return Case(
        stage.aggregate("stage", count=sl.Count(), total=sl.Sum("n")),
        (Tick(first, processing_time="2026-01-01T13:00:00Z"),),
        Tick(after, processing_time="2026-01-01T13:01:00Z"),
    )


def chained() -> Case:
    """A stage behind one that retracts: counted multisets, and a sum that is rolled up."""
    late = sl.AfterWatermark(late=sl.AfterCount(1))
    users = _keyed("user", "country").window(sl.Tumbling("1m"), trigger=late, lateness="1h", mode="retracting").aggregate(
        "users", total=sl.Sum("n"), best=sl.Max("x"), word=sl.Last("word")
    )  # fmt: skip
    stage = users.key_by("country").window(sl.SameWindow(), mode="retracting").aggregate(
        "countries", users=sl.Count(), total=sl.Merge("total"), best=sl.Max("best"), words=sl.TopK("word", 2),
        mean=sl.Mean("best"), highest=sl.Max("total"), each=sl.Collect("total"),
    )  # fmt: skip
    first = _events(("ann", 1, "12:00:03"), ("bob", 3, "12:00:10"), ("eve", 2, "12:00:20"), ("ann", 5, "12:00:30"))
    after = _events(("ann", 7, "12:00:59"), ("eve", 4, "12:00:58"))
    return Case(stage, (Events(first), Watermark("2026-01-01T12:01:00Z")), Events(after))


CASES: Final = {
    make.__name__: make for make in (tumbling, sessions, hopping, refined_hopping, timers, composed, chained)
}


def state_file(case: str, stage: str) -> Path:
    return HERE / f"{VERSION}-{case}-{stage}.state"


def expectation_file(case: str) -> Path:
    return HERE / f"{VERSION}-{case}.json"


def main() -> None:
    for name, make in CASES.items():
        case = make()
        case.stage.flow.check()
        piece = Piece(case)
        for step in case.before:
            piece.tick(step)
        for stage, kernel in piece.stages.items():
            state_file(name, stage).write_bytes(kernel.encode())
        expected = {"place": piece.place(), "shows": piece.shown(case.after)}
        expectation_file(name).write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")
        print(f"{name}: {len(expected['shows']['panes'])} panes, {len(expected['shows']['late'])} late")


if __name__ == "__main__":
    main()
