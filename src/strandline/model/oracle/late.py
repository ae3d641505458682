"""What a stage without windows says of a row that came too late."""

from __future__ import annotations

from datetime import timedelta

from strandline.model.oracle.values import Row
from strandline.model.panes import TIME
from strandline.model.ticks import Edge


def late_by(row: Row, edge: Edge) -> dict[str, timedelta]:
    """How far behind the watermark it came."""
    return {"late_by": timedelta(microseconds=int(edge.before - row[TIME]))}
