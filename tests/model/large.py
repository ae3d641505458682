"""A flow that has something of everything: joins, tables, features, a process, a pattern, a lookup, and many sinks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import strandline as sl
from tests.model.sinking import Shelf


class Counter(sl.Process):
    """Counts, and tells when nobody came for a while."""

    seen: Any = sl.Value("bigint", 0)
    silence = sl.Timer("5m")

    def on_event(self, event: Mapping[str, Any], out: Any) -> None:
        self.seen += 1
        self.silence.set(after="5m")
        out.emit(user=event["user"], seen=self.seen)

    def on_timer(self, timer: str, out: Any) -> None:
        out.emit(user="nobody", seen=-1)


async def tier_of(user: str) -> str:
    raise AssertionError("nobody is asked before a flow runs")


def large() -> sl.Flow:
    """Made anew each time."""
    flow = sl.Flow("large")
    schema = "user string, currency string, amount double, at timestamp"
    payments = flow.source("payments", sl.Rows(schema=schema), time="at", watermark=sl.Bounded("20s", idle_after="1m"))
    clicks = flow.source("clicks", sl.Rows(schema="user string, page string, at timestamp"), time="at")
    changes = flow.source("changes", sl.Rows(schema="currency string, rate double, at timestamp"), time="at")
    rates = flow.table("rates", changes, key="currency", ttl="1d")
    good = payments.where("amount > 100").with_column("cents", "amount * 100").dedupe("once", on="user", within="10m")
    priced = good.join_table("priced", rates, on="currency", as_of=True, suffix="_rate")
    minutes = priced.key_by("user").window(
        sl.Tumbling("1m"), trigger=sl.AfterWatermark(early=sl.AfterProcessingTime("10s"), late=sl.AfterCount(1)),
        lateness="10m", mode="retracting",
    ).aggregate("minutes", payments=sl.Count(), amount=sl.Sum("amount"))  # fmt: skip
    hours = minutes.key_by("user").window(sl.Tumbling("1h"), mode="retracting").aggregate("hours", n=sl.Sum("payments"))
    bought = payments.key_by("user").join(
        "bought", clicks.key_by("user"), within=sl.Before("1h"), how="left", suffix="_click"
    )
    features = payments.key_by("user").over("features", n_1h=sl.Count(within="1h"), emit="arrival")
    counted = clicks.key_by("user").process("counted", Counter, output="user string, seen bigint", ttl=sl.TTL("1h"))
    rush = clicks.key_by("user").detect(
        "rush", sl.sequence(sl.step("look", "page = 'look'").times(2), sl.step("buy", "page = 'buy'"), within="10m")
    )
    tiers = payments.lookup("tiers", tier_of, on="user", output="tier string")
    for stream in (hours, bought, features, counted, rush, tiers):
        stream.sink(f"{stream.node.name}_out", Shelf(), rows="changelog" if stream in (hours, features) else "append")
    minutes.sink("minutes_out", Shelf(), rows="upsert")
    minutes.late.sink("late", Shelf())
    payments.rejected.sink("rejected", Shelf())
    rates.sink("rates_out", Shelf(), rows="upsert")
    return flow
