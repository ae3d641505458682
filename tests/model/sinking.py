"""A flow to put sinks behind, and a sink that only describes itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import strandline as sl

SCHEMA = "user string, amount double, n int, tags array<string>, at timestamp"
MINUTES = sl.Tumbling("1m")
AGAIN: dict[str, Any] = {"trigger": sl.AfterWatermark(early=sl.AfterCount(1))}
RETRACTING: dict[str, Any] = {**AGAIN, "mode": "retracting"}


@dataclass(frozen=True)
class Shelf:
    """Takes all kinds of rows, unless told otherwise."""

    takes: frozenset[str] = frozenset({"append", "changelog", "upsert"})
    guarantee: str = "Exactly once, as long as the shelf stands."

    def prepare(self, target: Any) -> Any:
        raise AssertionError("a description prepares nothing")


def orders(schema: str = SCHEMA, **options: Any) -> sl.Stream:
    return sl.Flow("f").source("orders", sl.Rows(schema=schema), **{"time": "at", **options})


def stage(window: Any = MINUTES, **options: Any) -> sl.Stage:
    return orders().key_by("user").window(window, **options).aggregate("one", total=sl.Sum("n"))
