"""Tables: what stands for each key, from a stream of changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strandline.model.nodes import Sink, TableNode
from strandline.model.streams import Stage

if TYPE_CHECKING:
    from strandline.model.flow import Flow


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
        """Let a sink follow the table: inserts, updates and deletes, in order; see Stream.sink.

        Unless `rows` says otherwise it keeps the rows that stand (rows="upsert"), if it can; else it gets each change with
        its op (rows="changelog").
        """
        taken = getattr(sink, "takes", ())
        rows = next((mode for mode in ("upsert", "changelog") if mode in taken), None)
        self.changes.sink(name, sink, **{"rows": rows, **options})
