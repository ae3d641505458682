"""What a stage without windows says of rows that it puts aside, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from strandline.model.oracle.passing import in_order_of_keys
from strandline.model.oracle.values import Row, canonical
from strandline.model.panes import TIME
from strandline.model.ticks import Edge
from strandline.model.types import Schema


def late_by(row: Row, edge: Edge) -> dict[str, timedelta]:
    """How far behind the watermark it came."""
    return {"late_by": timedelta(microseconds=int(edge.before - row[TIME]))}


def aside(rows: Sequence[dict[str, Any]], keys: Sequence[str], schema: Schema) -> list[dict[str, Any]]:
    """Rows that were put aside, late or rejected, by the hash of their key as all rows are; those of a key as they came."""
    return in_order_of_keys((tuple(canonical(row[name], schema[name]) for name in keys), row) for row in rows)
