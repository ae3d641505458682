"""What the live panel shows, for its picture."""

from __future__ import annotations

from typing import Any, Final

from rich.console import RenderableType

from strandline.cli.panel import panel
from strandline.model.time import Instant

SECOND: Final = 1_000_000
NOON: Final = Instant.of("2026-01-01T12:00:00Z")


def panel_of_the_documents() -> RenderableType:
    """The live panel of a flow that does not exist."""
    return panel([_tick(number) for number in range(40)], Instant(NOON + 40 * SECOND), (80, 22))


def _tick(number: int) -> dict[str, Any]:
    now = NOON + number * SECOND
    behind = {"orders/0": 2, "orders/1": 3, "orders/2": 41, "orders/3": 2}
    partitions = {
        name: {
            "watermark": now - seconds * SECOND, "greatest": now - (seconds - 1) * SECOND, "lag": (seconds - 1) * SECOND,
            "position": 10, "end": 10, "idle": False,
        }
        for name, seconds in behind.items()
    }  # fmt: skip
    books = {
        "orders": {"rows": 1_650, "late": 0, "rejected": 2},
        "per_minute": {"rows": 1_648, "late": 3, "rejected": 0},
    }
    return {
        "flow": "revenue", "tick": 1_200 + number, "now": now, "restarts": 1, "finished": False, "caught_up": True,
        "watermarks": {"orders": now - 41 * SECOND, "per_minute": now - 41 * SECOND}, "interval": SECOND,
        "bounds": {"orders": 2 * SECOND}, "partitions": {"orders": partitions},
        "rows": {"orders": {"orders/0": 550, "orders/1": 548, "orders/3": 550}}, "behind": {"orders": {}},
        "backlog": {"orders": dict.fromkeys(behind, 0)}, "books": books, "endless": [],
        "panes": {"per_minute": {"early": 60, "on_time": 21, "late": 2, "retract": 2}},
        "state": {"per_minute": {"rows": 4_000 + 3 * number, "bytes": 700_000 + 500 * number}},
        "hottest": {"per_minute": [{"key": "ann", "rows": 400, "share": 0.25}]},
        "sinks": {"table": {"rows": 85, "pending": 0}, "late": {"rows": 3, "pending": 2}},
        "took": {"make": 410_000, "read": 300_000, "step": 90_000, "waited": 10_000, "commit": 5_000, "publish": 22_000},
    }  # fmt: skip
