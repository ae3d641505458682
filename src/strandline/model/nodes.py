"""The parts of a flow: what is read, what is done to the rows, and where they leave.

Each names what comes before it, so a node knows its whole past; two nodes are the same only if they are one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from strandline.model.aggregates import AnyAggregate
from strandline.model.expressions import Expression
from strandline.model.intervals import Interval
from strandline.model.lookups import Asked, Cache, OnError
from strandline.model.panes import Mode
from strandline.model.patterns import Pattern
from strandline.model.process import TTL, Process, TableProcess
from strandline.model.time import Span
from strandline.model.triggers import Trigger
from strandline.model.types import Schema, Type
from strandline.model.watermarks import Policy
from strandline.model.windows import SameWindow, Window

OnTime = Literal["if_any", "always"]
PaneTime = Literal["end", "earliest", "latest"]
RowsMode = Literal["append", "changelog", "upsert"]
Match = Literal["all", "first", "last"]
How = Literal["inner", "left", "right", "full", "semi", "anti"]
Order = Literal["arrival", "event_time"]
Emit = Literal["arrival", "watermark"]


class Source(Protocol):
    """Where events come from: for a description, only its columns matter."""

    @property
    def schema(self) -> Schema:
        """The columns of its rows."""


@runtime_checkable
class ReadsBytes(Protocol):
    """A source whose messages need not be text: what it cannot decode is rejected as it came."""

    @property
    def raw_type(self) -> Type:
        """The type of the column `raw` of its rejected rows."""


def raw_type(source: Source) -> Type:
    """The type of what a source could not decode: text, if it does not say otherwise."""
    return source.raw_type if isinstance(source, ReadsBytes) else Type.of("string")


class Sink(Protocol):
    """Where rows go: for a description, only what it promises and which rows it can take matter."""

    @property
    def guarantee(self) -> str:
        """One sentence: exactly once or at least once, and the conditions."""

    @property
    def takes(self) -> frozenset[str]:
        """Which of "append", "changelog" and "upsert" it can do."""

    def prepare(self, target: Any) -> Any:
        """Make ready to publish, or say before the start why not."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Take processing time for event time, on purpose."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceNode:
    """Rows read from outside."""

    name: str
    source: Source
    time: str | Arrival
    watermark: Policy


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WhereNode:
    """Rows for which a condition is true."""

    parent: Node
    condition: Expression


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SelectNode:
    """Rows made of other columns."""

    parent: Node
    columns: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WithColumnNode:
    """Rows with one more, or one other, column."""

    parent: Node
    name: str
    expression: Expression


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransformNode:
    """Rows put through stateless PySpark code. `schema` is what comes out, where that is known."""

    parent: Node
    name: str
    function: Callable[[Any], Any]
    schema: Schema | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageNode:
    """Aggregates per key and window. `name` is the identity of its state."""

    name: str
    parent: Node
    keys: tuple[str, ...]
    window: Window
    trigger: Trigger
    lateness: Span
    mode: Mode
    on_time: OnTime
    timestamp: PaneTime
    coalesce: bool
    allow_loss: bool
    aggregates: tuple[tuple[str, AnyAggregate], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DedupeNode:
    """Rows without those that repeat an earlier one in the columns `on`, less than `within` before or after it."""

    name: str
    parent: Node
    on: tuple[str, ...]
    within: Span


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinNode:
    """Rows of two streams whose keys are equal and whose times lie as `within` says; `other` is the right side."""

    name: str
    parent: Node
    other: Node
    keys: tuple[str, ...]
    other_keys: tuple[str, ...]
    within: Interval | SameWindow
    match: Match
    how: How
    suffix: str
    salt: int | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProcessNode:
    """Rows of each key handed to a user's own code, in order of arrival or of event time."""

    name: str
    parent: Node
    keys: tuple[str, ...]
    process: type[Process] | type[TableProcess]
    output: Schema
    sides: tuple[tuple[str, Schema], ...]
    order: Order
    ttl: TTL | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OverNode:
    """Each row with features: aggregates over the rows of its key in the time before it."""

    name: str
    parent: Node
    keys: tuple[str, ...]
    features: tuple[tuple[str, AnyAggregate], ...]
    emit: Emit
    include_current: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableNode:
    """The row that stands for each key now, from a stream of changes; what comes out is what changes in the table."""

    name: str
    parent: Node
    key: tuple[str, ...]
    order: str
    ttl: Span | None
    broadcast: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinTableNode:
    """Rows with the row of a table: the one that stands now, or that stood at their time. `other` are the table's changes."""

    name: str
    parent: Node
    other: Node
    keys: tuple[str, ...]
    other_keys: tuple[str, ...]
    order: str
    ttl: Span | None
    as_of: bool
    how: Literal["left", "inner"]
    max_wait: Span | None
    suffix: str
    broadcast: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DetectNode:
    """Events of a key that follow each other as a pattern says, in event-time order."""

    name: str
    parent: Node
    keys: tuple[str, ...]
    pattern: Pattern


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LookupNode:
    """Rows with what somebody outside answers for their key, the columns `on`."""

    name: str
    parent: Node
    lookup: Asked
    on: tuple[str, ...]
    output: Schema
    concurrency: int
    timeout: Span
    retries: int
    cache: Cache | None
    ordered: bool
    on_error: OnError


OperatorNode: TypeAlias = (
    DedupeNode | JoinNode | ProcessNode | OverNode | TableNode | JoinTableNode | DetectNode | LookupNode
)
"""Stages other than windows: each keeps rows, or something of them, under its name."""
Stateful: TypeAlias = StageNode | OperatorNode
Origin: TypeAlias = SourceNode | Stateful
"""What has a watermark of its own: rows behind it, up to the next such node, come along its edge."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SideNode:
    """What a source or a stage puts aside: its late or its rejected rows, or the windows that others "replaced".

    A process has sides of its own besides, by the names that it gives them.
    """

    parent: Origin
    side: str


Node: TypeAlias = (
    SourceNode | WhereNode | SelectNode | WithColumnNode | TransformNode | StageNode | OperatorNode | SideNode
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SinkNode:
    """Rows that leave the flow. `key` is () where none was given and none follows from the stream.

    `rows` says as what they leave: "append" is rows as they are, "changelog" rows with `op` (insert or retract),
    "upsert" the row that now stands for a key, or that there is none any more.
    """

    name: str
    parent: Node
    sink: Sink
    rows: RowsMode
    key: tuple[str, ...]
    columns: tuple[str, ...] | None
    max_lag: int | None


AnyNode: TypeAlias = Node | SinkNode


def parents_of(node: AnyNode) -> tuple[Node, ...]:
    """The nodes whose rows a node takes, in the order of its ports."""
    if isinstance(node, SourceNode):
        return ()
    return (node.parent, node.other) if isinstance(node, JoinNode | JoinTableNode) else (node.parent,)


def lineage(node: Node) -> Iterator[Node]:
    """A node and all that it comes from, each once and before what it comes from itself."""
    order: list[Node] = []
    seen: set[int] = set()

    def visit(each: Node) -> None:
        if id(each) not in seen:
            seen.add(id(each))
            for parent in reversed(parents_of(each)):
                visit(parent)
            order.append(each)

    visit(node)
    yield from reversed(order)


def nearest(node: Node) -> Origin | SideNode:
    """The node itself or the first before it that is more than stateless work on rows."""
    while not isinstance(node, Origin | SideNode):
        node = node.parent
    return node


def origin_of(node: Node) -> Origin:
    """The source or stage along whose edge a node's rows come: itself, if it is one."""
    found = nearest(node)
    return found.parent if isinstance(found, SideNode) else found


def stage_before(node: Node) -> StageNode | None:
    """The window stage whose panes a node's rows are, if they are any."""
    found = nearest(node)
    return found if isinstance(found, StageNode) else None
