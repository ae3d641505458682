"""The parts of a flow: what is read, what is done to the rows, and where they leave.

Each names what comes before it, so a node knows its whole past; two nodes are the same only if they are one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from strandline.model.aggregates import AnyAggregate
from strandline.model.expressions import Expression
from strandline.model.panes import Mode
from strandline.model.time import Span
from strandline.model.triggers import Trigger
from strandline.model.types import Schema, Type
from strandline.model.watermarks import Policy
from strandline.model.windows import Window

OnTime = Literal["if_any", "always"]
PaneTime = Literal["end", "earliest", "latest"]
RowsMode = Literal["append", "changelog", "upsert"]


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
class SideNode:
    """What a source or a stage could not use: its late or its rejected rows; or the windows that others replaced."""

    parent: SourceNode | StageNode
    side: Literal["late", "rejected", "replaced"]


Node: TypeAlias = SourceNode | WhereNode | SelectNode | WithColumnNode | TransformNode | StageNode | SideNode


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


def lineage(node: Node) -> Iterator[Node]:
    """A node and what it comes from, nearest first."""
    yield node
    while not isinstance(node, SourceNode):
        node = node.parent
        yield node


def stage_before(node: Node) -> StageNode | None:
    """The nearest stage that a node's rows come out of, if any."""
    for each in lineage(node):
        if isinstance(each, StageNode):
            return each
        if isinstance(each, SideNode):
            return None
    return None
