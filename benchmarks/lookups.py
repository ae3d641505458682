"""Lookups that take 50 ms each: how much sooner are they done with 100 of them under way than one at a time?

    python -m benchmarks.lookups [--quick]

One task, distinct keys, no cache: rows go into the stage as a task has them, and come out with their answers, which are
looked at before a speed counts. The time is the clock's: nearly all of it is waiting.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import polars as pl

import strandline as sl
from benchmarks.verdicts import Verdict, conclude
from strandline.kernel.stage import StageKernel
from strandline.kernel.stateful import plan_operator
from strandline.lookups.asking import asker_of
from strandline.model.nodes import LookupNode
from strandline.model.panes import TIME
from strandline.model.ticks import Edge
from strandline.model.time import Instant

TAKES = 0.05
IN_FLIGHT = 100
AT_LEAST = 50
NOW = Instant.of("2026-01-01T12:00:00Z")


async def awaited(key: int) -> int:
    """A service with a client that waits for many at once."""
    await asyncio.sleep(TAKES)
    return -key


def blocking(key: int) -> int:
    """One whose client waits for one at a time, in a thread."""
    time.sleep(TAKES)
    return -key


def speed(lookup: Callable[[int], int | Awaitable[int]], keys: int, concurrency: int) -> float:
    """Rows per second through a stage, opening and closing included."""
    events = sl.Flow("asked").source("events", sl.Rows(schema="key bigint, at timestamp"), time="at")
    node = events.lookup(
        "answers", lookup, on="key", output="answer bigint", concurrency=concurrency, timeout="30s"
    ).node
    assert isinstance(node, LookupNode)
    at = pl.Series([NOW.moment] * keys, dtype=pl.Datetime("us", "UTC"))
    rows = pl.DataFrame({"key": np.arange(1, keys + 1), "at": at, TIME: np.full(keys, int(NOW))})
    began = time.perf_counter()
    outcome = StageKernel(plan_operator(node, asker_of)).tick(rows, Edge.first(), NOW)
    took = time.perf_counter() - began
    if outcome.panes.height != keys or (outcome.panes["answer"] != -outcome.panes["key"]).any():
        raise SystemExit(f"{outcome.panes.height:,} of {keys:,} rows have their answer")
    return keys / took


def measure(name: str, lookup: Callable[[int], Any], keys: int, rounds: int, at_least: float | None) -> Verdict:
    """Both take turns, and the best of each counts."""
    together, alone = 0.0, 0.0
    for _ in range(rounds):
        together = max(together, speed(lookup, keys, IN_FLIGHT))
        alone = max(alone, speed(lookup, max(keys // IN_FLIGHT, 1), 1))
    return Verdict(
        what=f"{name}: {IN_FLIGHT} in flight against one at a time", measured=together / alone, unit="times",
        at_least=at_least, notes=f"{together:,.0f}/s against {alone:,.1f}/s, {keys:,} keys",
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lookups", description="Measure lookups.")
    parser.add_argument("--quick", action="store_true", help="does it run?")
    asked = parser.parse_args()
    keys, rounds = (1_000, 1) if asked.quick else (20_000, 3)
    verdicts = [
        measure("an async function", awaited, keys, rounds, AT_LEAST),
        measure("an ordinary function, in threads", blocking, keys, rounds, None),
    ]
    about = f"lookups of {TAKES * 1000:g} ms each, distinct keys, no cache, one task"
    return conclude("lookups", about, verdicts, {}, quick=asked.quick)


if __name__ == "__main__":
    sys.exit(main())
