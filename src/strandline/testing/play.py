"""Play a flow in a test: give it events, watermarks and the time of day, and see what it shows.

A play is the driver in small: for each step it makes one tick and leads the rows from the source through all stages to
the stream that is asked for. It decides nothing about windows; the runner does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from strandline.errors import CheckFailed, DataError, TranscriptError, told
from strandline.model.checks import check_node
from strandline.model.expressions import Expression, bind
from strandline.model.flow import Flow
from strandline.model.lineage import schema_of
from strandline.model.nodes import (
    AnyNode,
    Node,
    SelectNode,
    SideNode,
    SinkNode,
    SourceNode,
    StageNode,
    Stateful,
    TransformNode,
    WhereNode,
    WithColumnNode,
    lineage,
    origin_of,
    parents_of,
)
from strandline.model.rebuild import rebuild
from strandline.model.streams import Stream
from strandline.model.ticks import Edge, joint
from strandline.model.time import Instant
from strandline.model.types import Schema
from strandline.testing.results import Books, Played, PlayedTick
from strandline.testing.runners import Batch, Runner, StageOutcome, Stateless, make_runner, play_with_spark
from strandline.testing.source import Arrived, PlayedSource
from strandline.testing.steps import Crash, Step, Tick, as_tick, named


def play(
    stream: Stream, steps: Iterable[Step], *, runner: str = "oracle", skip: Collection[str] = (), **options: Any
) -> Played:
    """What a stream shows, step by step; without a JVM unless Spark is asked for.

    `runner` is "oracle", "kernel" or "spark": the same answer. The kernel takes `buckets=` and `tasks=`; Spark takes
    these and `spark=`, a session, and is the engine itself, with its files: slow, and for few plays. `skip` names
    transforms to pass over; one that is not named is refused by the others, since only Spark can run it.

    Law: rows = kept + late + rejected, at every stage and every step; play raises otherwise.

    >>> import strandline as sl
    >>> source = sl.Rows(schema="user string, at timestamp")
    >>> events = sl.Flow("doc").source("events", source, time="at")
    >>> counts = events.key_by("user").window(sl.Tumbling("1m")).aggregate("per_minute", n=sl.Count())
    >>> shown = play(counts, [Tick([{"user": "ann", "at": "2026-01-01T12:00:03Z"}]), Tick(watermark="2026-01-01T12:01:00Z")])
    >>> [[pane["n"] for pane in panes] for panes in shown]
    [[], [1]]
    """
    if not isinstance(stream, Stream):
        raise TranscriptError(f"{stream!r} cannot be played.", fix="Play a stream: a source, a stage, or its .late.")
    given, path = _given(steps), _path(stream, _names(skip), on_spark=runner == "spark")
    # Only what is played counts: a stage need not carry what some other branch would merge.
    flow = Flow(stream.flow.name, buckets=stream.flow.buckets, nodes=[*path])
    if runner == "spark":
        return Played(play_with_spark(flow, given, options))
    return Played(_Piece(path, make_runner(runner, flow, options)).play(given))


def _given(steps: Iterable[Step]) -> list[Step]:
    if not isinstance(steps, Iterable) or isinstance(steps, str | bytes | Mapping):
        raise TranscriptError(
            f"play takes a list of steps, not {told(steps)}.",
            fix="Write play(stream, [Events([...]), Watermark(...)]).",
        )
    return list(steps)


def _names(skip: Collection[str]) -> Collection[str]:
    if not isinstance(skip, Collection) or isinstance(skip, str | bytes):
        raise TranscriptError(
            f"skip={skip!r} is no list of names.",
            fix=f"Write skip=[{skip!r}]." if isinstance(skip, str) else "Write skip=['score'].",
        )
    return skip


def _path(stream: Stream, skip: Collection[str], *, on_spark: bool) -> list[Node]:
    """The nodes from the sources to the stream, each behind what it comes from, checked, without the skipped ones."""
    path = [*lineage(stream.node)][::-1]
    names = {node.name for node in path if isinstance(node, TransformNode)}
    for name in () if on_spark else sorted(names.difference(skip)):
        raise TranscriptError(
            f"The transform {name!r} is PySpark code, which cannot be played without Spark.",
            fix=f"Leave it out with skip=[{name!r}] if the test does not need it, or use runner='spark'.",
        )
    for name in skip:
        if name not in names:
            raise TranscriptError(
                f"skip names {name!r}, and no transform on the way has that name.", fix="Leave it out."
            )
    path = _without_transforms(path, skip)
    if problems := [problem for node in path for problem in check_node(node)]:
        raise CheckFailed(problems)
    if not on_spark:
        for node in path:
            _require_playable(node)
    return path


def _require_playable(node: Node) -> None:
    """Raise for an expression that only Spark understands: never silently skip a filter."""
    if isinstance(node, WhereNode | SelectNode | WithColumnNode):
        schema = schema_of(node.parent)
        assert schema is not None, "the nodes before are playable"
        for expression in _expressions(node):
            bind(expression, schema)


def _expressions(node: Stateless) -> tuple[Expression, ...]:
    if isinstance(node, SelectNode):
        return node.columns
    return (node.condition,) if isinstance(node, WhereNode) else (node.expression,)


def _without_transforms(path: list[Node], skip: Collection[str]) -> list[Node]:
    """The same nodes, each behind the nearest one that stays."""
    left_out = [node for node in path if isinstance(node, TransformNode) and node.name in skip]

    def passed_over(node: AnyNode) -> AnyNode:
        """The node, or what stands before it if it is left out: rebuild has put it behind what stays already."""
        return node.parent if isinstance(node, TransformNode) and node.name in skip else node

    made = rebuild(Flow("played", nodes=[*path]), passed_over).nodes if left_out else path
    found = {id(node): node for node in made}
    return [node for node in found.values() if not isinstance(node, SinkNode)]


@dataclass(slots=True)
class _Kept:
    """Everything that a crash leaves: each source's JSON, each stage's state and output edge."""

    sources: dict[str, str]
    stages: dict[str, Any]
    edges: dict[str, Edge]


class _Piece:
    """A flow being played."""

    def __init__(self, path: list[Node], runner: Runner) -> None:
        self.path, self.runner = path, runner
        self.sources = {node.name: PlayedSource(node) for node in path if isinstance(node, SourceNode)}
        self.stages = {node.name: runner.stage(node) for node in path if isinstance(node, Stateful)}
        self.edges = {name: Edge.first() for name in (*self.sources, *self.stages)}
        self.before = self.keep()
        self.last: tuple[Tick, str, PlayedTick] | None = None

    def play(self, steps: list[Step]) -> Iterator[PlayedTick]:
        for at, (place, step) in enumerate(named(steps), 1):
            if isinstance(step, Crash):
                self.crash(place)
                yield PlayedTick(watermarks=self.watermarks())
            else:
                if at < len(steps) and isinstance(steps[at], Crash):  # encoding all state is worth its time only then
                    self.before = self.keep()
                tick = as_tick(step)
                shown = self.tick(tick, place)
                self.last = (tick, place, shown)
                yield shown

    def crash(self, place: str) -> None:
        """Make the last tick again from state that went through bytes; nothing may differ. Then go on from bytes."""
        after = self.keep()
        if self.last is not None:
            tick, where, shown = self.last
            self.restore(self.before)
            again = self.tick(tick, where)
            if repr(again) != repr(shown):  # by repr, because NaN is not equal to itself
                raise _differs(place, f"shows {again}, where it had shown {shown}")
            self._compare(after, self.keep(), place)
        self.restore(after)

    def tick(self, tick: Tick, place: str) -> PlayedTick:
        record = PlayedTick()
        given: dict[int, Batch] = {}  # what each node gave
        aside: dict[tuple[str, str], Batch] = {}  # what each source and stage put aside
        now = Instant(0)
        for node in self.path:
            if isinstance(node, SourceNode):
                arrived = self._read(node, tick.of(node.name, self.sources, place), place, record)
                now, aside[node.name, "rejected"] = arrived.now, self._rejected(node, arrived)
                given[id(node)] = self.runner.read(arrived.rows, node.source.schema)
            elif isinstance(node, Stateful):
                outcome = self._step(node, [given[id(parent)] for parent in parents_of(node)], now, record)
                aside |= {(node.name, "late"): outcome.late, (node.name, "rejected"): outcome.rejected}
                aside |= {(node.name, side): rows for side, rows in outcome.sides.items()}
                given[id(node)] = outcome.panes
            elif isinstance(node, SideNode):
                given[id(node)] = aside[node.parent.name, node.side]
            elif not isinstance(node, TransformNode):
                given[id(node)] = self.runner.stateless(node, given[id(node.parent)], now)
        record.panes.extend(self.runner.rows(given[id(self.path[-1])]))
        record.watermarks.update(self.watermarks())
        return record

    def _read(self, node: SourceNode, tick: Tick, place: str, record: PlayedTick) -> Arrived:
        arrived = self.sources[node.name].tick(tick, place)
        self.edges[node.name] = arrived.edge
        kept, rejected = len(arrived.rows), len(arrived.rejected)
        record.rejected.extend(arrived.rejected)
        record.books[node.name] = Books(rows=kept + rejected, kept=kept, rejected=rejected)
        return arrived

    def _rejected(self, node: SourceNode, arrived: Arrived) -> Batch:
        schema = schema_of(SideNode(parent=node, side="rejected"))
        return self.runner.read(arrived.rejected, schema or Schema(()))

    def _step(self, node: Stateful, batches: list[Batch], now: Instant, record: PlayedTick) -> StageOutcome:
        edge = joint([self.edges[origin_of(parent).name] for parent in parents_of(node)])
        outcome = self.stages[node.name].tick(batches, edge, now)
        self._record(record, node, sum(map(len, batches)), outcome)
        self.edges[node.name] = self.edges[node.name].moved_to(outcome.watermark, edge.seen)
        return outcome

    def _record(self, record: PlayedTick, node: Stateful, rows: int, outcome: StageOutcome) -> None:
        late, rejected = self.runner.rows(outcome.late), self.runner.rows(outcome.rejected)
        windows = isinstance(node, StageNode)
        outcome.books.balance(node.name, rows=rows, late=late, rejected=rejected, windows=windows)
        record.late.extend(late)
        record.rejected.extend(rejected)
        record.replaced.extend(self.runner.rows(outcome.replaced))
        record.books[node.name] = outcome.books

    def watermarks(self) -> dict[str, Any]:
        return {name: edge.after for name, edge in self.edges.items()}

    def keep(self) -> _Kept:
        sources = {name: source.encode() for name, source in self.sources.items()}
        stages = {name: stage.encode() for name, stage in self.stages.items()}
        return _Kept(sources, stages, dict(self.edges))

    def restore(self, kept: _Kept) -> None:
        for source, data in kept.sources.items():
            self.sources[source].restore(data)
        self.edges = dict(kept.edges)
        for name, stage in self.stages.items():
            stage.restore(kept.stages[name])

    def _compare(self, after: _Kept, again: _Kept, place: str) -> None:
        if after.sources != again.sources or after.edges != again.edges:
            raise _differs(place, "leaves other watermarks")
        for name, stage in self.stages.items():
            if not stage.same(after.stages[name], again.stages[name]):
                raise _differs(place, f"leaves the stage {name!r} in another state")


def _differs(place: str, how: str) -> DataError:
    return DataError(
        f"{place}: after the crash the tick, made again, {how}.",
        fix="A user's own window, aggregate or policy must be a pure function; otherwise please report this fault.",
    )
