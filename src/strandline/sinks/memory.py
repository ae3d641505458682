"""Rows kept in this process: for notebooks, examples and tests."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from strandline.errors import SinkError
from strandline.kernel.changes import applied, standing
from strandline.kernel.schema import polars_schema
from strandline.sinks.contract import (
    ALL_ROWS,
    SKIPPED,
    Delivery,
    Marker,
    Receipt,
    Rows,
    Target,
    delivered_tables,
    judge_marker,
    own_marker,
    require_rows,
)  # fmt: skip


class _Contents:
    """What was delivered so far. It belongs to one process: a copy that is sent to another one starts empty."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.clear()

    def clear(self) -> None:
        with self.lock:
            self.target: Target | None = None
            self.marker: Marker | None = None
            self.tables: list[pl.DataFrame] = []
            self.current: pl.DataFrame | None = None

    def __reduce__(self) -> tuple[type[_Contents], tuple[()]]:
        return _Contents, ()


@dataclass(frozen=True, slots=True, eq=False)
class MemorySink:
    """Keep rows in this process. Each sink that is made has a memory of its own; the name is for people.

    `rows` are all rows delivered so far, in order, as dicts; `frame()` the same as a Polars frame; `table()` what they
    amount to: upserts and deletes applied, retracted rows gone.

    Law: a tick's rows are all there or not at all, and once, whatever a reader in another thread does meanwhile.

    >>> memory = MemorySink("totals")
    >>> memory.rows
    []
    """

    name: str = "memory"
    _contents: _Contents = field(default_factory=_Contents, init=False, repr=False)

    @property
    def guarantee(self) -> str:
        """What is promised, and on which conditions."""
        return "exactly once within one process; the rows and the marker end with it"

    @property
    def takes(self) -> frozenset[str]:
        """Every kind of rows."""
        return ALL_ROWS

    def own_target(self, rows: Rows) -> MemorySink:
        """Itself: it keeps one marker."""
        return self

    def prepare(self, target: Target) -> MemoryPublisher:
        """Check that the memory is empty, or holds rows of this incarnation."""
        require_rows(target, self.takes)
        contents = self._contents
        with contents.lock:
            own_marker(contents.marker, target)
            before = contents.target
            if contents.tables and before is not None and before.delivered != target.delivered:
                raise SinkError(
                    f"The memory {self.name!r} holds rows with the columns {before.delivered.text}; {target} brings "
                    f"{target.delivered.text}.",
                    fix="Call its .clear(), or give the sink a new sl.Memory().",
                )
            contents.target = target
        return MemoryPublisher(target, contents)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows delivered so far, in order; with `op` where they are changes."""
        return self.frame().to_dicts()

    def frame(self) -> pl.DataFrame:
        """All rows delivered so far, in order; with `op` where they are changes."""
        contents = self._contents
        with contents.lock:
            if contents.target is None:
                return pl.DataFrame()
            empty = pl.DataFrame(schema=polars_schema(contents.target.delivered))
            return pl.concat([empty, *contents.tables])

    def table(self) -> pl.DataFrame:
        """What the rows amount to: the last upsert of each key that was not deleted; inserts that were not retracted."""
        contents = self._contents
        with contents.lock:
            target, current = contents.target, contents.current
        if target is None:
            return pl.DataFrame()
        if target.rows == "upsert":
            return pl.DataFrame(schema=polars_schema(target.schema)) if current is None else current
        return standing(self.frame()).select(list(target.schema)) if target.rows == "changelog" else self.frame()

    def clear(self) -> None:
        """Forget the rows and the marker, as if nothing had been delivered."""
        self._contents.clear()


@dataclass(slots=True)
class MemoryPublisher:
    """A memory, open for deliveries."""

    target: Target
    contents: _Contents

    @property
    def marker(self) -> Marker | None:
        """The last delivery."""
        return self.contents.marker

    def publish(self, delivery: Delivery) -> Receipt:
        """Add the rows of a tick, once."""
        with self.contents.lock:
            if judge_marker(self.contents.marker, delivery, self.target, kept=False) == "skip":
                return SKIPPED
            tables = list(delivered_tables(self.target, delivery))
            if self.target.rows == "upsert":
                self.contents.current = self._after(tables)
            self.contents.target = self.target
            self.contents.tables += tables
            self.contents.marker = Marker.of(delivery)
            self.target = self.target.once_published
        return Receipt(rows=sum(table.height for table in tables))

    def close(self) -> None:
        """Nothing is open; the rows stay."""

    def _after(self, tables: list[pl.DataFrame]) -> pl.DataFrame:
        current = self.contents.current
        if current is None:
            current = pl.DataFrame(schema=polars_schema(self.target.schema))
        for table in tables:
            current = applied(current, table, self.target.key)
        return current
