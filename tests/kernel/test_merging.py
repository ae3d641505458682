"""What a tick merges is bounded, in rows and in bytes."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import strandline as sl
from strandline.kernel import state as states
from strandline.kernel.plan import plan_stage
from strandline.kernel.stage import StageKernel
from strandline.model.nodes import StageNode
from strandline.model.ticks import Edge

NOON = sl.Instant.of("2026-01-01T12:00:00Z")
STILL = Edge(before=NOON, after=NOON)
ROWS = 100


def wide_ticks(count: int) -> list[tuple[int, int]]:
    """Ticks that each bring keys with long texts: of each, the segments it left and the bytes that were merged in it."""
    source = sl.Rows(schema="key long, text string, at timestamp")
    events = sl.Flow("wide").source("events", source, time="at")
    stage = events.key_by("key").window(sl.Tumbling("1d")).aggregate("stage", text=sl.Last("text"))
    assert isinstance(stage.node, StageNode)
    kernel, found = StageKernel(plan_stage(stage.node)), []
    for tick in range(count):
        kept = {id(segment) for segments in kernel.state.slices.values() for segment in segments}
        kernel.tick(wide_rows(tick), STILL, NOON)
        left = [segment for segments in kernel.state.slices.values() for segment in segments]
        merged = sum(s.nbytes for s in left if id(s) not in kept and s.first_tick < s.last_tick)
        found.append((len(left), merged))
    assert kernel.state.rows == count * ROWS
    return found


def wide_rows(tick: int) -> pl.DataFrame:
    keys = np.arange(ROWS) + tick * ROWS
    at = pl.Series([int(NOON)] * ROWS)
    texts = ["." * 1_000] * ROWS
    return pl.DataFrame({"key": keys, "text": texts, "at": at.cast(pl.Datetime("us", "UTC")), "__time": at})


def test_wide_rows_are_merged_within_a_budget_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    freely = wide_ticks(80)
    assert freely[-1][0] < 10
    assert max(merged for _, merged in freely) > 4_000_000
    monkeypatch.setattr(states, "MERGE_BYTES", 2_000_000)
    bounded = wide_ticks(80)
    assert 500_000 < max(merged for _, merged in bounded) <= 2_000_000
    assert bounded[-1][0] < 30
