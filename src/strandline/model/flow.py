"""A flow: what is read, what is done to it, and what is shown. Descriptions only; nothing runs here.

`model/nodes.py` has the parts that a flow is made of. The verbs that make them stand in `model/streams.py` (rows on their
way), `model/keyed.py` (what is grouped by key) and `model/tables.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from strandline.errors import DescriptionError, told
from strandline.model.nodes import AnyNode, Arrival, Source, SourceNode, TableNode
from strandline.model.operators import describe_table
from strandline.model.options import require_name
from strandline.model.streams import Stream
from strandline.model.tables import Table
from strandline.model.time import Span
from strandline.model.types import Schema
from strandline.model.watermarks import Bounded, Policy

BEING_READ: Final[ContextVar[bool]] = ContextVar("being_read", default=False)
"""While a file is read only for the flow that it makes: then no flow is run."""


@dataclass(slots=True)
class Flow:
    """A named flow. Making one starts nothing.

    It may be subclassed; the streams of a flow carry the flow that made them.

    >>> flow = Flow("revenue")
    """

    name: str
    buckets: int = 64
    nodes: list[AnyNode] = field(default_factory=list, repr=False)
    tables: list[TableNode] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        require_name("flow", self.name)
        if not isinstance(self.buckets, int) or isinstance(self.buckets, bool) or not 1 <= self.buckets <= 65_536:
            raise DescriptionError(
                f"buckets={self.buckets!r} is out of range.", fix="Give 1 to 65536; 64 suits most flows."
            )

    def source(
        self, name: str, source: Source, *, time: str | Arrival | None = None, watermark: Policy | None = None
    ) -> Stream:
        """Read a source; `time` names the column of event time, and is never guessed."""
        require_name("source", name)
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
        changes: Stream | None = None,
        *,
        key: str | Sequence[str] | None = None,
        order: str = "offset",
        ttl: str | timedelta | Span | None = None,
        broadcast: bool = False,
    ) -> Table:
        """Keep the row that stands for each key, from a stream of changes; join streams with it, or follow it to a sink.

        Every row is an upsert, but for those whose column `op`, if there is one, says "delete" or "retract"; besides it may
        say "insert", "update", "upsert" or "snapshot", or Debezium's c, u, r and d. What says anything else is rejected, by
        whoever keeps the table: `.rejected` of the join, or of table.changes. `order` says which of two
        changes is the newer: the one that comes later ("offset"), or that with the greater value in a column. Behind a
        stage with another key rows do not come as they arrived, and check() wants a column. For a join with as_of=True
        the time of a change says from when on it counts, and `order` decides among those of one moment.

        With a `ttl` a row goes when the watermark is so far past its last change. When the input ends, in batch or by a drain,
        those rows stay that the greatest event time has not outlived.

        A small table may be `broadcast`: it is kept whole in several places, and rows that are joined with it are spread
        over them, so that a key with many rows is no more work than many keys. The answer is the same.
        """
        require_name("stage", name)
        if not isinstance(changes, Stream) or changes.flow is not self:
            raise DescriptionError(
                f"A table takes a stream of this flow, not {told(changes)}.",
                fix="Write flow.table('rates', flow.source('rates_in', ...), key='currency').",
            )
        node = describe_table(changes.node, name, key=key, order=order, ttl=ttl, broadcast=broadcast)
        self.tables.append(node)  # kept where it is used, and a node only if it is followed
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
        """The flow drawn as a tree: sources, steps, stages with their four questions, their sides, and sinks."""
        from strandline.model.graph import graph

        return graph(self)

    def svg(self) -> str:
        """The flow drawn as a picture, one SVG that needs nothing beside it; a notebook shows it by itself."""
        from strandline.model.drawing.diagram import Diagram
        from strandline.model.drawing.svg import svg

        return svg(Diagram.of(self))

    def _repr_html_(self) -> str:
        """What a notebook shows: the picture, and what check() has to say."""
        from strandline.model.drawing.notebook import html

        return html(self)

    def add(self, node: AnyNode) -> None:
        """Remember a node, so that check() sees branches that lead nowhere."""
        self.nodes.append(node)
