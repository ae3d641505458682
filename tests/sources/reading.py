"""Reading a source from end to end, as the engine does: offsets, parts, pieces."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

import polars as pl

from strandline.sources.contract import Limit, Offset, Piece, Reader

NO_LIMIT = Limit()


def pieces(reader: Reader, start: Offset, end: Offset, wanted: int = 1) -> list[Piece]:
    """The pieces between two offsets, read as in a worker: reader and parts travel as bytes."""
    found: list[Piece] = []
    for part in reader.parts(start, end, wanted):
        away, work = pickle.loads(pickle.dumps((reader, part)))
        found += away.read(work)
    return found


def offsets(reader: Reader, limit: Limit = NO_LIMIT) -> Iterator[tuple[Offset, Offset]]:
    """Tick after tick until nothing is left; every offset goes through JSON."""
    start = reader.first()
    while (end := json.loads(json.dumps(reader.latest(start, limit)))) != start:
        yield start, end
        start = end


def everything(reader: Reader, limit: Limit = NO_LIMIT, wanted: int = 1) -> list[tuple[Any, ...]]:
    """All rows, in order of arrival."""
    return [row for start, end in offsets(reader, limit) for row in rows_of(pieces(reader, start, end, wanted))]


def rows_of(found: list[Piece]) -> list[tuple[Any, ...]]:
    return [row for piece in found for row in piece.rows.rows()]


def malformed_of(found: list[Piece]) -> list[tuple[str, str]]:
    return [row for piece in found if piece.malformed is not None for row in piece.malformed.rows()]


def table_of(found: list[Piece]) -> pl.DataFrame:
    return pl.concat([piece.rows for piece in found])
