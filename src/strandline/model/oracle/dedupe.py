"""Deduplication, one row at a time: a row passes unless one like it has passed, not long before or after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from strandline.model.nodes import DedupeNode
from strandline.model.oracle.late import late_by
from strandline.model.oracle.living import Key
from strandline.model.oracle.passing import Books, Outcome, in_order_of_keys
from strandline.model.oracle.values import Row, canonical, rank
from strandline.model.panes import TIME
from strandline.model.ticks import Edge
from strandline.model.time import Instant, Span
from strandline.model.types import Schema


class DedupeOracle:
    """Remembers the times of all rows that passed, for ever: what is far away in time never matters."""

    def __init__(self, node: DedupeNode, *, lateness: Span, schemas: Sequence[Schema]) -> None:
        self.node, self.lateness, (self.schema,) = node, lateness, schemas
        self.passed: dict[Key, list[int]] = {}

    def tick(self, batches: Sequence[Sequence[Row]], edge: Edge, now: Instant) -> Outcome:
        """Let rows pass in the order in which they came."""
        (rows,) = batches
        shown: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        late = []
        for row in rows:
            if row[TIME] < edge.before - self.lateness:
                late.append({**row, **late_by(row, edge)})
                continue
            values = tuple(canonical(row[name], self.schema[name]) for name in self.node.on)
            passed = self.passed.setdefault(tuple(map(rank, values)), [])
            if all(abs(row[TIME] - time) >= self.node.within for time in passed):
                passed.append(row[TIME])
                shown.append((values, dict(row)))
        return Outcome(
            panes=in_order_of_keys(shown), late=late, rejected=[], replaced=[], watermark=edge.after,
            books=Books(rows=len(rows), kept=len(rows) - len(late), late=len(late), rejected=0, missed=0),
        )  # fmt: skip
