"""A flow: what is read, what is done to it, and what is shown. Descriptions only; nothing runs here.

`model/nodes.py` has the parts that a flow is made of; here are the verbs that make them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, NoReturn, get_args

from strandline.errors import DescriptionError, did_you_mean, told
from strandline.model.aggregates import BUILT_IN, Aggregate, AnyAggregate, within_of
from strandline.model.expressions import parse, require_text
from strandline.model.intervals import Interval
from strandline.model.lookups import Asked, Cache, OnError
from strandline.model.nodes import (
    AnyNode,
    Arrival,
    Emit,
    How,
    Match,
    Node,
    OnTime,
    Order,
    Origin,
    PaneTime,
    ProcessNode,
    RowsMode,
    SelectNode,
    SideNode,
    Sink,
    SinkNode,
    Source,
    SourceNode,
    StageNode,
    Stateful,
    TableNode,
    TransformNode,
    WhereNode,
    WithColumnNode,
    lineage,
    stage_before,
)  # fmt: skip
from strandline.model.operators import (
    describe_dedupe,
    describe_detect,
    describe_join,
    describe_join_table,
    describe_lookup,
    describe_over,
    describe_process,
    describe_table,
)  # fmt: skip
from strandline.model.options import require_boolean
from strandline.model.panes import Mode
from strandline.model.patterns import Pattern
from strandline.model.process import TTL, Process, TableProcess
from strandline.model.time import Span
from strandline.model.triggers import KINDS, AfterWatermark, Trigger
from strandline.model.types import Schema
from strandline.model.watermarks import Bounded, Policy
from strandline.model.windows import CustomWindow, Global, Hopping, SameWindow, Session, Tumbling, Window

__all__ = [
    "AnyNode", "Arrival", "Flow", "Keyed", "Node", "OnTime", "PaneTime", "RowsMode", "SelectNode", "SideNode", "Sink",
    "SinkNode", "Source", "SourceNode", "Stage", "StageNode", "Stream", "TransformNode", "WhereNode", "Windowed",
    "WithColumnNode", "lineage", "stage_before",
]  # fmt: skip


@dataclass(slots=True)
class Flow:
    """A named flow. Making one starts nothing.

    It may be subclassed; the streams of a flow carry the flow that made them.

    >>> flow = Flow("revenue")
    """

    name: str
    buckets: int = 64
    nodes: list[AnyNode] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        _named("flow", self.name)
        if not isinstance(self.buckets, int) or isinstance(self.buckets, bool) or not 1 <= self.buckets <= 65_536:
            raise DescriptionError(
                f"buckets={self.buckets!r} is out of range.", fix="Give 1 to 65536; 64 suits most flows."
            )

    def source(
        self, name: str, source: Source, *, time: str | Arrival | None = None, watermark: Policy | None = None
    ) -> Stream:
        """Read a source; `time` names the column of event time, and is never guessed."""
        _named("source", name)
        if not isinstance(getattr(source, "schema", None), Schema):
            raise DescriptionError(
                f"{told(source)} is no source: it has no schema.",
                fix="Write sl.Rows([...], schema='user string, at timestamp').",
            )
        if not isinstance(time, str | Arrival):
            raise DescriptionError(
                f"time={told(time)} names no column.",
                fix="Name the column of event time, such as time='at', or write time=sl.Arrival().",
            )
        policy = Bounded("0s") if watermark is None else watermark
        if not isinstance(policy, Policy):
            raise DescriptionError(
                f"watermark={told(watermark)} is no watermark policy.",
                fix="Write watermark=sl.Bounded('20s'); derive your own from sl.Policy, with update(self, stats, state).",
            )
        node = SourceNode(name=name, source=source, time=time, watermark=policy)
        self.add(node)
        return Stream(self, node)

    def table(
        self,
        name: str,
        changes: Stream,
        *,
        key: str | Sequence[str],
        order: str = "offset",
        ttl: str | timedelta | Span | None = None,
        broadcast: bool = False,
    ) -> Table:
        """Keep the row that stands for each key, from a stream of changes; join streams with it, or follow it to a sink.

        Every row is an upsert, but for those whose column `op` says "delete" or "retract". `order` says which of two
        changes is the newer: the one that comes later ("offset"), or that with the greater value in a column.

        A small table may be `broadcast`: it is kept whole in several places, and rows that are joined with it are spread
        over them, so that a key with many rows is no more work than many keys. The answer is the same.
        """
        _named("stage", name)
        if not isinstance(changes, Stream) or changes.flow is not self:
            raise DescriptionError(
                f"A table takes a stream of this flow, not {told(changes)}.",
                fix="Write flow.table('rates', flow.source('rates_in', ...), key='currency').",
            )
        node = describe_table(changes.node, name, key=key, order=order, ttl=ttl, broadcast=broadcast)
        return Table(self, node)

    def check(self) -> list[str]:
        """Raise CheckFailed with all that is wrong; return what is only risky."""
        from strandline.model.checks import check  # checks reads flows; importing it above would be a circle

        return check(self)

    def explain(self) -> str:
        """What this flow means, in plain sentences: times, windows, triggers, what can be lost, what is promised."""
        from strandline.model.explain import explain

        return explain(self)

    def graph(self) -> str:
        """The flow drawn as a tree: sources, steps, stages, their sides, and sinks."""
        from strandline.model.graph import graph

        return graph(self)

    def add(self, node: AnyNode) -> None:
        """Remember a node, so that check() sees branches that lead nowhere."""
        self.nodes.append(node)


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows on their way, and what can be done to them."""

    flow: Flow
    node: Node

    def where(self, condition: str) -> Stream:
        """Keep rows for which the condition (Spark SQL) is true."""
        return self._then(WhereNode(parent=self.node, condition=parse(require_text(".where()", condition))))

    def select(self, *columns: str) -> Stream:
        """Make rows of these columns: names, or expressions with `as`."""
        if not columns:
            raise DescriptionError(
                ".select() without columns leaves nothing.", fix="Name some: .select('user', 'amount')."
            )
        return self._then(
            SelectNode(parent=self.node, columns=tuple(parse(require_text(".select()", c)) for c in columns))
        )

    def with_column(self, name: str, expression: str) -> Stream:
        """Add or replace a column."""
        if not isinstance(name, str) or not name:
            raise DescriptionError(
                f".with_column() takes a name and an expression, not the name {told(name)}.",
                fix="Write .with_column('double', 'amount * 2').",
            )
        parsed = parse(require_text(".with_column()", expression))
        return self._then(WithColumnNode(parent=self.node, name=name, expression=parsed))

    def transform(
        self, function: Callable[[Any], Any], *, name: str | None = None, schema: str | Schema | None = None
    ) -> Stream:
        """Put the rows through any stateless PySpark code: DataFrame in, DataFrame out.

        `schema` says which columns come out, so that what follows can be checked before Spark is there.
        """
        if not callable(function):
            raise DescriptionError(
                f".transform() takes a function of a DataFrame, not {function!r}.", fix="Pass it without calling it."
            )
        called = str(name or getattr(function, "__name__", "transform"))
        columns = None if schema is None else Schema.of(schema)
        return self._then(TransformNode(parent=self.node, name=called, function=function, schema=columns))

    def key_by(self, *columns: str) -> Keyed:
        """Group by columns; without any, all rows are one group."""
        for column in columns:
            if not isinstance(column, str):
                raise DescriptionError(
                    f".key_by() takes the names of columns as text, not {told(column)}.",
                    fix="Write .key_by('user', 'country'); compute a key first with .with_column('key', '...').",
                )
        return Keyed(self, columns)

    def window(self, *_given: Any, **_options: Any) -> NoReturn:
        """Nothing, but to say what is missing: windows are kept by key."""
        raise DescriptionError(
            ".window() stands behind .key_by().",
            fix="Write .key_by('user').window(...); .key_by() without columns makes all rows one group.",
        )

    def aggregate(self, *_given: Any, **_aggregates: Any) -> NoReturn:
        """Nothing, but to say what is missing."""
        raise _without_a_window()

    def dedupe(self, name: str, *, on: str | Sequence[str], within: str | timedelta | Span, salt: None = None) -> Stage:
        """Let the first of equal rows through: those that repeat it in the columns `on`, within this time, go no further.

        Exact for as long as `within` says, also after a restart. The name is the identity of the stage's state. There is
        no `salt`, and the error says why.
        """
        _named("stage", name)
        node = describe_dedupe(self.node, name, on, within, salt=salt)
        self.flow.add(node)
        return Stage(self.flow, node)

    def join_table(
        self,
        name: str,
        table: Table,
        *,
        on: str | Sequence[str] | None = None,
        as_of: bool = False,
        how: Literal["left", "inner"] = "left",
        max_wait: str | timedelta | Span | None = None,
        suffix: str = "_table",
    ) -> Stage:
        """Each row with the row of a table for its key: the one that stands now, or, with as_of, that stood at its time.

        With as_of a row waits until the watermark of both says that the answer cannot change, or for `max_wait` of
        processing time at most.
        """
        _named("stage", name)
        if not isinstance(table, Table) or table.flow is not self.flow:
            raise DescriptionError(f"{told(table)} is no table of this flow.", fix="Make one with flow.table(...).")
        node = describe_join_table(
            self.node, name, table.node, on=on, as_of=as_of, how=how, max_wait=max_wait, suffix=suffix
        )
        self.flow.add(node)
        return Stage(self.flow, node)

    def lookup(
        self,
        name: str,
        lookup: Asked,
        *,
        on: str | Sequence[str],
        output: str | Schema,
        concurrency: int = 100,
        timeout: str | timedelta | Span = Span(2_000_000),
        retries: int = 2,
        cache: Cache | None = None,
        ordered: bool = True,
        on_error: OnError = "reject",
    ) -> Stage:
        """Each row with what somebody outside answers for its columns `on`: a service, a database, a model.

        `lookup` is a function, async or not, or what is derived from `sl.Lookup`. Equal keys are asked for once a tick, and
        `concurrency` calls are under way at a time in each task. A call that fails, or takes longer than `timeout`, is made
        again up to `retries` times; then `on_error` says whether the row is rejected, gets nulls, or the flow stops.
        Null is not asked for. Rows of a key keep their order, and go to one task; with ordered=False they go to all.
        """
        _named("stage", name)
        node = describe_lookup(
            self.node, name, lookup, on=on, output=output, concurrency=concurrency, timeout=timeout, retries=retries,
            cache=cache, ordered=ordered, on_error=on_error,
        )  # fmt: skip
        self.flow.add(node)
        return Stage(self.flow, node)

    def sink(
        self,
        name: str,
        sink: Sink,
        *,
        rows: RowsMode | None = None,
        key: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        max_lag: int | None = None,
    ) -> None:
        """Let the rows leave the flow, to a sink such as `sl.Files("out").write(format="json")`.

        `rows`: "append" writes them as they are, "changelog" with `op`, "upsert" keeps one row per `key` (behind a
        stage by default its keys and the window). Rows that are never withdrawn are appended unless said otherwise.
        `columns` picks some; with `max_lag` the sink may fall so many ticks behind before the flow waits for it.
        """
        from strandline.model.sinks import describe_sink  # it reads lineages, which read flows

        _named("sink", name)
        self.flow.add(describe_sink(self.node, name, sink, rows=rows, key=key, columns=columns, max_lag=max_lag))

    @property
    def rejected(self) -> Stream:
        """The rows that had no usable time or could not be decoded, with the reason."""
        if not isinstance(self.node, Origin):
            raise DescriptionError(
                "Only a source and a stage reject rows.",
                fix="Take .rejected right from flow.source(...) or .aggregate(...).",
            )
        return self._then(SideNode(parent=self.node, side="rejected"))

    @property
    def late(self) -> Stream:
        """Nothing, but to say where it is: only a stage has windows that an event can miss."""
        raise DescriptionError(
            "Only a stage has late rows: they missed its windows.", fix="Take .late right from .aggregate(...)."
        )

    def _then(self, node: Node) -> Stream:
        self.flow.add(node)
        return Stream(self.flow, node)


@dataclass(frozen=True, slots=True)
class Stage(Stream):
    """The panes of a stage, as a stream; and what it could not use."""

    @property
    def late(self) -> Stream:
        """The events that came after their windows were forgotten, or what would have matched them, and by how much."""
        assert isinstance(self.node, Stateful)
        return self._then(SideNode(parent=self.node, side="late"))

    def as_table(self, name: str | None = None) -> Table:
        """What stands for each key of a window stage, and window, as a table to join with."""
        if not isinstance(self.node, StageNode):
            raise DescriptionError(
                "Only a stage of windows is a table by itself.",
                fix="Say what tells rows apart: flow.table(name, stream, key=...).",
            )
        window = () if isinstance(self.node.window, Global) else ("window_start", "window_end")
        return self.flow.table(name or f"{self.node.name}-table", self, key=[*self.node.keys, *window])

    def side(self, name: str) -> Stream:
        """What a process gives out at one of its sides."""
        sides = dict(self.node.sides) if isinstance(self.node, ProcessNode) else {}
        if not isinstance(self.node, ProcessNode) or name not in sides:
            raise DescriptionError(
                f"There is no side {told(name)} here.",
                fix=did_you_mean(str(name), sides)
                if sides
                else "Describe it: .process(..., side={'alerts': 'user string'}).",
            )
        return self._then(SideNode(parent=self.node, side=name))


@dataclass(frozen=True, slots=True)
class Table:
    """A table: what stands for each key now. Its state is kept where it is joined, or followed."""

    flow: Flow
    node: TableNode

    @property
    def changes(self) -> Stage:
        """What changes in the table, in order: what stood is taken back, what stands is inserted (`op`)."""
        if self.node not in self.flow.nodes:
            self.flow.add(self.node)
        return Stage(self.flow, self.node)

    def sink(self, name: str, sink: Sink, **options: Any) -> None:
        """Let a sink follow the table; see Stream.sink."""
        self.changes.sink(name, sink, **options)


@dataclass(frozen=True, slots=True)
class Keyed:
    """A stream grouped by key."""

    stream: Stream
    keys: tuple[str, ...]

    def window(
        self,
        window: Window,
        *,
        trigger: Trigger | None = None,
        lateness: str | timedelta | Span = Span(0),
        mode: Mode = "accumulating",
        on_time: OnTime = "if_any",
        timestamp: PaneTime = "end",
        coalesce: bool = True,
        allow_loss: bool = False,
    ) -> Windowed:
        """Say where in event time, when in processing time, and how refinements relate."""
        if not isinstance(window, Tumbling | Hopping | Session | Global | SameWindow | CustomWindow):
            raise DescriptionError(
                f"{told(window)} is no window.",
                fix="Write sl.Tumbling('1m'), with brackets, or subclass sl.CustomWindow.",
            )
        if isinstance(window, SameWindow) and window.window is not None:
            raise DescriptionError(
                "A stage takes the windows that panes came with: SameWindow names none there.",
                fix=f"Write SameWindow(), or window={window.window!r} for windows of its own.",
            )
        if isinstance(window, CustomWindow) and not isinstance(window.longest, Span | None):
            name = type(window).__name__
            raise DescriptionError(
                f"`longest` of {name} is {told(window.longest)}, no span.",
                fix=f"Write longest = sl.Span.of('8h') in {name}, or leave it out.",
            )
        trigger = AfterWatermark() if trigger is None else trigger
        if not isinstance(trigger, KINDS):
            raise DescriptionError(
                f"trigger={told(trigger)} is no trigger.", fix="Write trigger=sl.AfterWatermark(), with brackets."
            )
        for option, value, known in (
            ("mode", mode, get_args(Mode)), ("on_time", on_time, get_args(OnTime)), ("timestamp", timestamp, get_args(PaneTime)),
        ):  # fmt: skip
            if value not in known:
                raise DescriptionError(
                    f"{option}={value!r} is not known.", fix=f"Give one of {', '.join(map(repr, known))}."
                )
        require_boolean("coalesce", coalesce)
        require_boolean("allow_loss", allow_loss)
        granted = Span.of(lateness)
        if granted < 0:
            raise DescriptionError(
                f"lateness={granted.text!r} is negative.", fix="Give '0s' for none, or such as '10m'."
            )
        return Windowed(
            keyed=self, window=window, trigger=trigger, lateness=granted, mode=mode, on_time=on_time,
            timestamp=timestamp, coalesce=coalesce, allow_loss=allow_loss,
        )  # fmt: skip

    def join(
        self,
        name: str,
        other: Keyed,
        *,
        within: Interval | SameWindow | None = None,
        match: Match = "all",
        how: How = "inner",
        suffix: str = "_right",
        salt: int | None = None,
    ) -> Stage:
        """Pair rows of two streams whose keys are equal and whose times lie as `within` says, seen from this side.

        `match` takes all rows of the other side that fit, or for each row of this side the first or last of them. Rows
        without a match, where `how` asks for them, come once the watermark says that none can come any more.

        `salt` is for keys with very many rows on this side (with how="right" on the other): they are spread over so many
        places, and those of the other side copied to each. The answer is the same; rows of a key come in another order.
        """
        _named("stage", name)
        if not isinstance(other, Keyed):
            raise DescriptionError(
                f"A join takes another keyed stream, not {told(other)}.", fix="Write other.key_by('user')."
            )
        if other.stream.flow is not self.stream.flow:
            raise DescriptionError(
                f"The join {name!r} is between streams of two flows.", fix="Read both sources in one flow."
            )
        node = describe_join(
            (self.stream.node, self.keys), name, (other.stream.node, other.keys),
            within=within, match=match, how=how, suffix=suffix, salt=salt,
        )  # fmt: skip
        self.stream.flow.add(node)
        return Stage(self.stream.flow, node)

    def over(
        self, name: str, *, emit: Emit = "arrival", include_current: bool = True, **features: AnyAggregate
    ) -> Stage:
        """Each event with features over the time before it, several horizons at once: n_1h=sl.Count(within="1h").

        A feature looks at the events of the key from `within` before the event up to it, both included. With
        emit="arrival" an event comes at once, from what is known, and is corrected (`op`) when older ones come; with
        "watermark" it comes when nothing earlier can come any more, once and in order.
        """
        _named("stage", name)
        node = describe_over(self.stream.node, self.keys, name, features, emit=emit, include_current=include_current)
        self.stream.flow.add(node)
        return Stage(self.stream.flow, node)

    def detect(self, name: str, pattern: Pattern, *, salt: None = None) -> Stage:
        """Find events of a key that follow each other as a pattern says, in event-time order; each match is a row.

        There is no `salt`, and the error says why.
        """
        _named("stage", name)
        node = describe_detect(self.stream.node, self.keys, name, pattern, salt=salt)
        self.stream.flow.add(node)
        return Stage(self.stream.flow, node)

    def process(
        self,
        name: str,
        process: type[Process] | type[TableProcess],
        *,
        output: str | Schema,
        side: Mapping[str, str | Schema] | None = None,
        order: Order = "arrival",
        ttl: TTL | None = None,
        salt: None = None,
    ) -> Stage:
        """Hand the events of each key to a class of your own, with state, timers and side outputs.

        In order of arrival, or, with order="event_time", by event time: then each waits until the watermark has passed it.
        There is no `salt`, and the error says why.
        """
        _named("stage", name)
        node = describe_process(
            self.stream.node, self.keys, name, process,
            output=output, side={} if side is None else side, order=order, ttl=ttl, salt=salt,
        )  # fmt: skip
        self.stream.flow.add(node)
        return Stage(self.stream.flow, node)

    def aggregate(self, *_given: Any, **_aggregates: Any) -> NoReturn:
        """Nothing, but to say what is missing: an aggregate is of a window."""
        raise _without_a_window()


@dataclass(frozen=True, slots=True, kw_only=True)
class Windowed:
    """A keyed stream with its windows: say what to compute."""

    keyed: Keyed
    window: Window
    trigger: Trigger
    lateness: Span
    mode: Mode
    on_time: OnTime
    timestamp: PaneTime
    coalesce: bool
    allow_loss: bool

    def aggregate(self, name: str = "", /, **aggregates: AnyAggregate) -> Stage:
        """Compute aggregates; the stage's name, which must be given, is the identity of its state."""
        if name == "":
            raise DescriptionError(
                "A stage without a name: it is the identity of its state.",
                fix="Give it first, as in .aggregate('per_user', n=sl.Count()).",
            )
        _named("stage", name)
        if not aggregates:
            raise DescriptionError(f"The stage {name!r} computes nothing.", fix="Add one: n=sl.Count().")
        for column, aggregate in aggregates.items():
            if not isinstance(aggregate, (*BUILT_IN, Aggregate)):
                raise DescriptionError(
                    f"{column}={told(aggregate)} is no aggregate.", fix="Write sl.Sum('amount'), with brackets."
                )
            if within_of(aggregate) is not None:
                raise DescriptionError(
                    f"within= of {column!r} means nothing in a window.",
                    fix="Leave it out: the window says what counts; or use .key_by(...).over(...).",
                )
            if aggregate.where is not None:  # a user's own aggregate may say anything
                require_text(f"`where` of {type(aggregate).__name__}", aggregate.where)
        stream = self.keyed.stream
        node = StageNode(
            name=name, parent=stream.node, keys=self.keyed.keys, window=self.window, trigger=self.trigger,
            lateness=self.lateness, mode=self.mode, on_time=self.on_time, timestamp=self.timestamp,
            coalesce=self.coalesce, allow_loss=self.allow_loss, aggregates=tuple(aggregates.items()),
        )  # fmt: skip
        stream.flow.add(node)
        return Stage(stream.flow, node)


def _without_a_window() -> DescriptionError:
    return DescriptionError(
        ".aggregate() stands behind .window().",
        fix="Write .key_by('user').window(sl.Tumbling('1m')).aggregate(...); sl.Global() is one window for all time.",
    )


def _named(what: str, name: str) -> None:
    if not isinstance(name, str) or not name.replace("_", "").replace("-", "").isalnum():
        raise DescriptionError(
            f"{name!r} cannot be the name of a {what}.",
            fix="Use letters, digits, '_' and '-': it names state and files.",
        )
