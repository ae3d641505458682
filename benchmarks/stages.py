"""What every case shares: how much is measured, when it begins, and a compiled stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import strandline as sl
from strandline.kernel.plan import Plan, plan_stage
from strandline.model.nodes import StageNode

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
BEGIN = 490_000 * HOUR  # in 2025, on a full hour
NOW = sl.Instant(BEGIN)
COUNT_AND_SUM: dict[str, Any] = {"n": sl.Count(), "total": sl.Sum("amount")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured; a limit is only meant at full size."""

    events: int = 4_000_000
    tick: int = 250_000
    state: int = 10_000_000
    small_state: int = 10_000
    ticks: int = 200
    rounds: int = 3


FULL = Size()
QUICK = Size(events=200_000, tick=25_000, state=200_000, ticks=40, rounds=1)


def plan_of(window: Any, *, key: str = "bigint", trigger: Any = None, **aggregates: Any) -> Plan:
    """A stage over (user, amount, at), compiled."""
    source = sl.Rows(schema=f"user {key}, amount double, at timestamp")
    events = sl.Flow("bench").source("events", source, time="at")
    stage = events.key_by("user").window(window, trigger=trigger).aggregate("stage", **aggregates)
    assert isinstance(stage.node, StageNode)
    return plan_stage(stage.node)
