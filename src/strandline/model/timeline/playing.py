"""Play the example of a stage with the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from strandline.errors import StrandlineError, exception_in_words
from strandline.model.aggregates import columns_of
from strandline.model.expressions import Expression, parse
from strandline.model.flow import Flow
from strandline.model.latency import bound_of
from strandline.model.lineage import inputs_of, longest, schema_of, windows_of
from strandline.model.lookups import Asker
from strandline.model.nodes import (
    Arrival,
    DedupeNode,
    JoinNode,
    JoinTableNode,
    LookupNode,
    Node,
    OverNode,
    ProcessNode,
    SelectNode,
    SourceNode,
    StageNode,
    Stateful,
    TableNode,
    WhereNode,
    WithColumnNode,
    lineage,
    origin_of,
    parents_of,
    stage_before,
)
from strandline.model.oracle.passing import Outcome
from strandline.model.oracle.stage import StageOracle
from strandline.model.oracles import Oracle, oracle_of, stateless_rows
from strandline.model.panes import HIDDEN
from strandline.model.process import Process
from strandline.model.ticks import Edge
from strandline.model.time import Instant, Span
from strandline.model.timeline.rows import plain
from strandline.model.timeline.script import Script, Step, write
from strandline.model.triggers import OnEvent, walk
from strandline.model.types import Schema

Rows = list[dict[str, Any]]


class NoExample(Exception):
    """Why a stage has no example, as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A step of an example, and what the stage gave: what it showed, and what it put aside."""

    step: Step
    shown: Rows
    late: Rows
    rejected: Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A tiny stream and what a stage made of it. `through` names the stages before it that were played too.

    `used` are the columns of the events that the stage looks at, where not at all; `new` those that it adds to them.
    """

    stage: str
    bound: Span
    keys: tuple[str, ...]
    used: frozenset[str]
    new: frozenset[str]
    ports: tuple[str, ...]
    through: tuple[str, ...]
    steps: tuple[Played, ...]

    def to_json(self) -> dict[str, Any]:
        """The example as plain JSON; times in whole microseconds, as everywhere."""
        steps = [
            {
                "clock": int(played.step.clock), "watermark": int(played.step.watermark), "note": played.step.note,
                "events": [{"port": self.ports[port], **_visible(row)} for port, row in played.step.rows],
                "shown": [_visible(row) for row in played.shown], "late": [_visible(row) for row in played.late],
                "rejected": [_visible(row) for row in played.rejected],
            }
            for played in self.steps
        ]  # fmt: skip
        return {"bound": int(self.bound), "through": list(self.through), "steps": steps}


def example(flow: Flow, node: Stateful) -> Example:
    """A tiny stream made for the settings of a stage, played; NoExample says why there is none.

    >>> from strandline.model.aggregates import Count
    >>> from strandline.model.windows import Tumbling
    >>> from strandline.sources.rows import Rows
    >>> clicks = Flow("f").source("clicks", Rows(schema="user string, at timestamp"), time="at")
    >>> stage = clicks.key_by("user").window(Tumbling("1m")).aggregate("n", clicks=Count())
    >>> [pane["clicks"] for played in example(stage.flow, stage.node).steps for pane in played.shown]
    [3]
    """
    if isinstance(node, LookupNode):
        raise NoExample("A row comes out in the tick in which it came in; nothing in it depends on time.")
    if isinstance(node, ProcessNode) and not issubclass(node.process, Process):
        raise NoExample(f"{node.process.__name__} works in columns, and is played by the kernel alone.")
    try:
        return _example(flow, node)
    except NoExample:
        raise
    except Exception as error:  # a user's own code may want other rows than those that are made up
        said = error.what if isinstance(error, StrandlineError) else exception_in_words(error)
        raise NoExample(f"It cannot be played with rows that are made up: {said}") from None


def _example(flow: Flow, node: Stateful) -> Example:
    path = _path(node)
    first = path[0]
    assert isinstance(first, Stateful), "a path begins with a stage"
    schemas = inputs_of(first)
    if schemas is None:
        raise NoExample("It stands behind PySpark code, whose columns are known to Spark alone.")
    bound = bound_of(node)
    script = Script(
        schemas=schemas, keys=_keys(first, schemas), bound=bound,
        times=[_time_column(parent) for parent in parents_of(first)],
        filters=[_filters(parent) for parent in parents_of(first)],
        fine=longest(windows_of(first)) if isinstance(first, StageNode) and first is not node else None,
        in_order=all(isinstance(each.time, Arrival) for each in lineage(node) if isinstance(each, SourceNode)),
    )  # fmt: skip
    write(node, script)
    oracles = {id(each): oracle_of(flow, each, _nobody) for each in path if isinstance(each, Stateful)}
    edges = {id(each): Edge.first() for each in path}
    steps = tuple(_tick(path, oracles, edges, step, len(schemas)) for step in script.steps)
    through = tuple(each.name for each in path[:-1] if isinstance(each, Stateful))
    ports = tuple(origin_of(parent).name for parent in parents_of(first))
    return Example(
        stage=node.name, bound=bound, keys=tuple(script.keys[0]), used=_used(path), new=_new(node, schemas[0]),
        ports=ports, through=through, steps=steps,
    )  # fmt: skip


def _new(node: Stateful, given: Schema) -> frozenset[str]:
    """The columns of what is shown that say something new; an aggregate may be called as a column of the events is."""
    if isinstance(node, StageNode):
        return frozenset(name for name, _ in node.aggregates)
    return frozenset(schema_of(node) or ()) - {*given, "op"}


def _used(path: list[Node]) -> frozenset[str]:
    """The columns of the events that the first stage looks at; none where it hands on whole rows."""
    first = path[0]
    if isinstance(first, OverNode):
        return frozenset(name for _, aggregate in first.features for name in columns_of(aggregate))
    if not isinstance(first, StageNode):
        return frozenset()
    asked = [condition for each in walk(first.trigger) if isinstance(each, OnEvent) for condition in [each.expression]]
    asked += [aggregate.where for _, aggregate in first.aggregates if aggregate.where is not None]
    columns = {name for _, aggregate in first.aggregates for name in columns_of(aggregate)}
    return frozenset(columns | {name for text in asked for name in parse(text).references})


def _path(node: Stateful) -> list[Node]:
    """The stage, behind the window stages whose panes it takes: they must be played too, for panes cannot be made up."""
    if not isinstance(node, StageNode) or stage_before(node.parent) is None:
        return [node]
    between: list[Node] = []
    parent = node.parent
    while not isinstance(parent, StageNode):
        between.append(parent)
        if not isinstance(parent, WhereNode | SelectNode | WithColumnNode):
            raise NoExample("It stands behind PySpark code, which only Spark can run.")
        parent = parent.parent
    return [*_path(parent), *reversed(between), node]


def _keys(node: Stateful, schemas: Sequence[Schema]) -> list[tuple[str, ...]]:
    if isinstance(node, DedupeNode):
        return [node.on]
    if isinstance(node, JoinNode | JoinTableNode):
        return [node.keys, node.other_keys]
    if isinstance(node, TableNode):
        return [node.key]
    return [getattr(node, "keys", ())] * len(schemas)


def _time_column(node: Node) -> str | None:
    source = next((each for each in lineage(node) if isinstance(each, SourceNode)), None)
    return source.time if source is not None and isinstance(source.time, str) else None


def _filters(node: Node) -> list[Expression]:
    """The conditions that rows have met which come to a stage, as far as nothing between has changed them."""
    found = []
    while isinstance(node, WhereNode):
        found.append(node.condition)
        node = node.parent
    return found


def _nobody(node: LookupNode, key: Schema) -> Asker:
    raise AssertionError("lookups are not played here")


def _tick(path: list[Node], oracles: dict[int, Oracle], edges: dict[int, Edge], step: Step, ports: int) -> Played:
    batches: list[Rows] = [[dict(row) for port, row in step.rows if port == each] for each in range(ports)]
    seen = Instant(max((row["__time"] for _, row in step.rows), default=int(Instant.BEFORE_ALL_TIME)))
    edge = edges[id(path[0])].moved_to(step.watermark, seen)
    edges[id(path[0])] = edge
    outcome: Outcome | None = None
    for place, node in enumerate(path):
        if isinstance(node, WhereNode):
            continue  # made-up values say nothing of what would pass
        if isinstance(node, SelectNode | WithColumnNode):
            batches = [stateless_rows(node, batches[0], step.clock)]
            continue
        if outcome is not None:
            edge = edges[id(node)] = edges[id(node)].moved_to(outcome.watermark, edge.seen)
        oracle = oracles[id(node)]
        outcome = (
            oracle.tick(batches[0], edge, step.clock)
            if isinstance(oracle, StageOracle)
            else oracle.tick(batches, edge, step.clock)
        )
        if place < len(path) - 1:
            batches = [list(outcome.panes)]
    assert outcome is not None, "a path has a stage"
    return Played(step=step, shown=list(outcome.panes), late=list(outcome.late), rejected=list(outcome.rejected))


def _visible(row: dict[str, Any]) -> dict[str, Any]:
    return {name: plain(value) for name, value in row.items() if not name.startswith(HIDDEN)}
