"""Tables and joins with them, one change at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from strandline.model.changelog import DELETES, OP, UPSERTS, unknown_op
from strandline.model.nodes import JoinTableNode, TableNode
from strandline.model.oracle.late import late_by
from strandline.model.oracle.living import Key
from strandline.model.oracle.passing import Books, Outcome, in_order_of_keys
from strandline.model.oracle.values import Row, canonical, rank, same, visible
from strandline.model.panes import INSERT, RETRACT, TIME, WEIGHT
from strandline.model.ticks import Edge
from strandline.model.time import Instant, Span
from strandline.model.types import Schema


@dataclass(eq=False)
class Version:
    """A row of a table from a moment on; None is that there is none. `expires` never comes before an older version's."""

    row: dict[str, Any] | None
    time: int
    order: Any
    values: tuple[Any, ...]
    expires: int | None


class Changes:
    """Reads the changes of a table."""

    def __init__(self, key: Sequence[str], order: str, ttl: Span | None, schema: Schema) -> None:
        self.key, self.order, self.ttl, self.schema = key, order, ttl, schema

    def understood(self, rows: Sequence[Row]) -> tuple[list[Row], list[dict[str, Any]]]:
        """The changes that say what they are; and those that do not, with the reason."""
        good, rejected = [], []
        for row in rows:
            op = row.get(OP)
            if op is None or op in UPSERTS or op in DELETES:
                good.append(row)
            else:
                rejected.append({**row, "reason": unknown_op(op)})
        return good, rejected

    def version(self, row: Row, before: Version | None) -> tuple[Key, Version]:
        """The version that a change makes."""
        values = tuple(canonical(row[name], self.schema[name]) for name in self.key)
        plain = {name: value for name, value in visible(row).items() if name != OP}
        plain |= dict(zip(self.key, values, strict=True))
        order = (0, 0) if self.order == "offset" else rank(canonical(row[self.order], self.schema[self.order]))
        expires = None
        if self.ttl is not None:
            expires = row[TIME] + self.ttl
            expires = max(expires, before.expires) if before is not None and before.expires is not None else expires
        gone = row.get(OP) in DELETES
        return tuple(map(rank, values)), Version(None if gone else plain, row[TIME], order, values, expires)

    def stale(self, version: Version, before: Version | None) -> bool:
        """Whether a newer change has come already."""
        return before is not None and bool(version.order < before.order)


class TableOracle:
    """The last version of each key."""

    def __init__(self, node: TableNode, *, lateness: Span, schemas: Sequence[Schema]) -> None:
        self.node = node
        self.changes = Changes(node.key, node.order, node.ttl, schemas[0])
        self.rows: dict[Key, Version] = {}

    def tick(self, batches: Sequence[Sequence[Row]], edge: Edge, now: Instant) -> Outcome:
        """Apply changes in the order in which they came; then what has outlived its time is gone."""
        rows, rejected = self.changes.understood(batches[0])
        self.rows = {key: version for key, version in self.rows.items() if not _forgotten(version, edge)}
        shown: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        for row in rows:
            values = tuple(canonical(row[name], self.changes.schema[name]) for name in self.node.key)
            before = self.rows.get(tuple(map(rank, values)))
            key, version = self.changes.version(row, before)
            if self.changes.stale(version, before):
                continue
            if _changes_nothing(before, version):
                version = replace(version, row=before.row, time=before.time)  # type: ignore[union-attr]
            shown += [(values, each) for each in _difference(before, version)]
            self.rows[key] = version
        for version in self.rows.values():
            if version.expires is not None and version.expires <= _come(edge):
                shown += [(version.values, each) for each in _difference(version, None)]
                version.row = None
        return Outcome(
            panes=in_order_of_keys(shown), late=[], rejected=rejected, replaced=[], watermark=edge.after,
            books=Books(rows=len(batches[0]), kept=len(rows), late=0, rejected=len(rejected), missed=0),
        )  # fmt: skip


def _come(edge: Edge) -> int:
    """How far time has come. The end of time is none that a row could outlive: then it is the last that is known."""
    ended = Instant.END_OF_TIME
    return max(at for at in (edge.before, edge.seen) if at < ended) if edge.after == ended else edge.after


def _forgotten(version: Version, edge: Edge) -> bool:
    """Whether a version outlived its time before the tick: then it is forgotten with it which change was the newer."""
    return version.expires is not None and version.expires <= edge.before


def _changes_nothing(before: Version | None, after: Version) -> bool:
    """Whether what stands stays as it was shown, with its time: a row that is the same does not replace it."""
    return before is not None and before.row is not None and after.row is not None and same(before.row, after.row)


def _difference(before: Version | None, after: Version | None) -> Iterator[dict[str, Any]]:
    """What stood is taken back, and what stands is inserted; nothing, if that is one row."""
    old, new = (None if version is None else version.row for version in (before, after))
    if old is new:
        return
    if old is not None and before is not None:
        yield {**old, "op": RETRACT, TIME: before.time, WEIGHT: -1}
    if new is not None and after is not None:
        yield {**new, "op": INSERT, TIME: after.time, WEIGHT: 1}


@dataclass(eq=False)
class Waiting:
    """A row of the stream that waits for its answer."""

    row: Row
    values: tuple[Any, ...]
    arrived: Instant


class JoinTableOracle:
    """All versions of each key, for ever."""

    def __init__(self, node: JoinTableNode, *, lateness: Span, schemas: Sequence[Schema]) -> None:
        self.node, self.lateness, self.schemas = node, lateness, schemas
        self.changes = Changes(node.other_keys, node.order, node.ttl, schemas[1])
        self.versions: dict[Key, list[Version]] = {}
        self.waiting: list[Waiting] = []

    def tick(self, batches: Sequence[Sequence[Row]], edge: Edge, now: Instant) -> Outcome:
        """Changes first, then rows."""
        rows, (changes, rejected) = batches[0], self.changes.understood(batches[1])
        if not self.node.as_of:
            self.versions = {key: known for key, known in self.versions.items() if not _forgotten(known[-1], edge)}
        for row in changes:
            self._change(row)
        late = []
        for row in rows:
            if self.node.as_of and row[TIME] < edge.before - self.lateness:
                late.append({**row, **late_by(row, edge)})
            else:
                values = tuple(canonical(row[name], self.schemas[0][name]) for name in self.node.keys)
                self.waiting.append(Waiting(row, values, now))
        ready = [each for each in self.waiting if self._is_ready(each, edge, now)]
        self.waiting = [each for each in self.waiting if each not in ready]
        if self.node.as_of:
            ready.sort(key=lambda each: int(each.row[TIME]))
        shown = [(each.values, row) for each in ready for row in self._joined(each, edge)]
        kept = len(rows) + len(changes) - len(late)
        return Outcome(
            panes=in_order_of_keys(shown), late=late, rejected=rejected, replaced=[], watermark=edge.after,
            books=Books(
                rows=kept + len(late) + len(rejected), kept=kept, late=len(late), rejected=len(rejected), missed=0
            ),
        )  # fmt: skip

    def _change(self, row: Row) -> None:
        values = tuple(canonical(row[name], self.schemas[1][name]) for name in self.node.other_keys)
        known = self.versions.setdefault(tuple(map(rank, values)), [])
        last = known[-1] if known else None
        _, version = self.changes.version(row, None if self.node.as_of else last)
        if self.node.as_of or not self.changes.stale(version, last):
            known.append(version)

    def _is_ready(self, each: Waiting, edge: Edge, now: Instant) -> bool:
        if not self.node.as_of or each.row[TIME] < edge.after:
            return True
        return self.node.max_wait is not None and each.arrived + self.node.max_wait <= now

    def _joined(self, each: Waiting, edge: Edge) -> Iterator[dict[str, Any]]:
        """The row with that of the table, or nulls; nothing, if it must have one."""
        found = self._found(each, edge)
        if found is None and self.node.how == "inner":
            return
        ours, theirs = self.schemas
        beside: dict[str, Any] = {}
        for name in theirs:
            if name not in self.node.other_keys and name != OP:
                beside[name + self.node.suffix if name in ours else name] = None if found is None else found[name]
        yield {**visible(each.row), **beside, TIME: each.row[TIME]}

    def _found(self, each: Waiting, edge: Edge) -> dict[str, Any] | None:
        if None in each.values:
            return None
        known = self.versions.get(tuple(map(rank, each.values)), [])
        time = each.row[TIME]
        if self.node.as_of:
            # Of versions of one moment the newest counts, and of equals the one that came last: sorting keeps the order of arrival.
            known = [version for version in sorted(known, key=lambda v: (v.time, v.order)) if version.time <= time]
        else:
            time = max(time, edge.before)
        if not known:
            return None
        last = known[-1]
        return None if last.expires is not None and last.expires <= time else last.row
