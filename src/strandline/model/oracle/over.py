"""Features, one event at a time: each looks at all events of its key that ever came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from strandline.model.nodes import OverNode
from strandline.model.oracle.aggregates import Reading, compute
from strandline.model.oracle.late import late_by
from strandline.model.oracle.living import Key
from strandline.model.oracle.passing import Books, Outcome, in_order_of_keys
from strandline.model.oracle.values import Entry, Row, canonical, holds, rank, same
from strandline.model.panes import INSERT, RETRACT, TIME, WEIGHT
from strandline.model.ticks import Edge
from strandline.model.time import Instant, Span
from strandline.model.types import Schema


@dataclass(eq=False)
class Event:
    """An event, with what was last shown of it."""

    row: Row
    entry: Entry
    key: Key
    values: tuple[Any, ...]
    shown: dict[str, Any] | None = None


class OverOracle:
    """All events, for ever."""

    def __init__(self, node: OverNode, *, lateness: Span, schemas: Sequence[Schema]) -> None:
        self.node, self.lateness, (self.schema,) = node, lateness, schemas
        self.reading = Reading(self.schema)
        self.events: list[Event] = []

    def tick(self, batches: Sequence[Sequence[Row]], edge: Edge, now: Instant) -> Outcome:
        """Take events, and show those that are new, changed or complete."""
        (rows,) = batches
        late = []
        for row in rows:
            event = self._event(row, now)
            if row[TIME] < edge.before - self.lateness:
                late.append({**row, **late_by(row, edge)})
            else:
                self.events.append(event)
        shown: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        for event in sorted(self.events, key=lambda each: each.entry.time):
            if self.node.emit == "arrival":
                shown += [(event.values, row) for row in self._refined(event)]
            elif event.shown is None and event.entry.time < edge.after:
                event.shown = self._features(event)
                shown.append((event.values, {**event.row, **event.shown}))
        return Outcome(
            panes=in_order_of_keys(shown), late=late, rejected=[], replaced=[],
            watermark=edge.after,
            books=Books(rows=len(rows), kept=len(rows) - len(late), late=len(late), rejected=0, missed=0),
        )  # fmt: skip

    def _event(self, row: Row, now: Instant) -> Event:
        clean = {name: canonical(value, dict(self.schema.columns).get(name)) for name, value in row.items()}
        entry = Entry(row[TIME], 1, clean, now)
        for (
            _,
            aggregate,
        ) in self.node.features:  # asked of every row that comes, so that an error does not depend on more
            if aggregate.where is not None:
                holds(aggregate.where, entry, self.schema)
        values = tuple(clean[name] for name in self.node.keys)
        return Event(row, entry, tuple(map(rank, values)), values)

    def _refined(self, event: Event) -> list[dict[str, Any]]:
        """The event as it is now, if it is new or was shown otherwise; what was shown is taken back first."""
        features = self._features(event)
        if event.shown is not None and same(event.shown, features):
            return []
        before = [] if event.shown is None else [{**event.row, **event.shown, "op": RETRACT, WEIGHT: -1}]
        event.shown = features
        return [*before, {**event.row, **features, "op": INSERT, WEIGHT: 1}]

    def _features(self, event: Event) -> dict[str, Any]:
        found = {}
        for name, aggregate in self.node.features:
            first = event.entry.time - aggregate.within  # type: ignore[operator, union-attr]
            seen = [
                other.entry for other in self.events
                if other.key == event.key and first <= other.entry.time <= event.entry.time
                and (self.node.include_current or other is not event)
            ]  # fmt: skip
            found[name] = compute(aggregate, seen, self.reading)
        return found
