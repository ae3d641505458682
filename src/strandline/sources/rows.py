"""Rows given in the program: the in-memory source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from strandline.errors import DataError, told
from strandline.kernel.schema import polars_schema
from strandline.model.types import Schema
from strandline.model.values import checked_row
from strandline.sources.contract import Limit, Offset, Piece, Place, even_ranges

if TYPE_CHECKING:
    from strandline.store.storage import Storage

_PARTITION = "0"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in memory. A column that a row leaves out is null; times and intervals may be given as text.

    Law: a `Rows` that exists holds only rows that fit its schema.

    >>> Rows([{"team": "a", "at": "2026-01-01T12:00:00Z"}], schema="team string, score long, at timestamp").rows
    ({'team': 'a', 'score': None, 'at': datetime.datetime(2026, 1, 1, 12, 0, tzinfo=datetime.timezone.utc)},)
    """

    rows: tuple[Mapping[str, Any], ...]
    _: KW_ONLY
    schema: Schema

    def __init__(self, rows: Iterable[Mapping[str, Any]] = (), *, schema: str | Schema) -> None:
        columns = Schema.of(schema)
        if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
            raise DataError(
                f"Rows takes a list of rows, not {told(rows)}.", fix="Give dicts: [{'team': 'a', ...}, ...]."
            )
        checked = tuple(checked_row(columns, row, f"Row {number}") for number, row in enumerate(rows, 1))
        object.__setattr__(self, "schema", columns)
        object.__setattr__(self, "rows", checked)

    def reader(self, storage: Storage | None = None) -> RowsReader:
        """What reads these rows; it keeps nothing, so it needs no storage.

        >>> reader = Rows([{"n": 1}, {"n": 2}], schema="n int").reader()
        >>> reader.latest(reader.first(), Limit(rows=1))
        {'rows': 1}
        """
        return RowsReader(pl.DataFrame(list(self.rows), schema=polars_schema(self.schema)))


@dataclass(frozen=True, slots=True, eq=False)
class RowsReader:
    """Reads rows in memory: one partition, counted in rows, whose end is final from the start."""

    table: pl.DataFrame

    def first(self) -> Offset:
        """Before the first row."""
        return {"rows": 0}

    def latest(self, start: Offset, limit: Limit, *, now: int | None = None) -> Offset:
        """As many rows as the limit lets through."""
        left = self.table.height - start["rows"]
        if limit.rows is not None:
            left = min(left, limit.rows)
        if limit.bytes is not None and left:
            each = max(1.0, self.table.estimated_size() / self.table.height)
            left = min(left, max(1, int(limit.bytes / each)))
        return {"rows": start["rows"] + max(0, left)}

    def parts(self, start: Offset, end: Offset, wanted: int) -> list[Any]:
        """Ranges of rows."""
        return even_ranges(start["rows"], end["rows"], wanted)

    def read(self, part: Any) -> Iterator[Piece]:
        """The rows of one range."""
        low, high = part
        yield Piece(partition=_PARTITION, rows=self.table.slice(low, high - low))

    def places(self, offset: Offset) -> dict[str, Place]:
        """The one partition, whose end is known."""
        return {_PARTITION: Place(position=offset["rows"], end=self.table.height, finished=True)}
