"""Look rows up in a play: what comes out, and what is rejected."""

from __future__ import annotations

from typing import Any

import strandline as sl
from strandline.testing import Events, play

AT = "2026-01-01T12:00:00Z"


def looked_up(
    lookup: Any, schema: str, rows: list[dict[str, Any]], *, on: Any, output: str, **options: Any
) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows with their answers, without their time, in an order of their own; and the reasons."""
    events = sl.Flow("played").source("events", sl.Rows(schema=f"{schema}, at timestamp"), time="at")
    stream = events.lookup("found", lookup, on=on, output=output, **({"timeout": "30s", "retries": 0} | options))
    shown = play(stream, [Events([{**row, "at": AT} for row in rows])], runner="kernel", tasks=2)
    found = [{name: value for name, value in row.items() if name != "at"} for tick in shown for row in tick]
    return sorted(found, key=repr), [row["reason"] for tick in shown.rejected for row in tick]
