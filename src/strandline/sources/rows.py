"""Rows given in the program: the in-memory source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from strandline.model.types import Schema
from strandline.model.values import checked_row


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
        checked = tuple(checked_row(columns, row, f"Row {number}") for number, row in enumerate(rows, 1))
        object.__setattr__(self, "schema", columns)
        object.__setattr__(self, "rows", checked)
