"""Is this payment fraud? Velocity, a customer service that is asked while payments wait, and a model from a file, live.

    python examples/fraud.py

Payments come to be while the flow runs, 200 in a second. Each card's customer is looked up, many at a time, and remembered;
then a process of one's own, which has loaded a model from `fraud_model.json`, scores the payment by its amount, by what the
card did in the ten seconds before, and by what kind of customer it is. Nothing waits for a watermark: payments are judged in
the order in which they come.

It prints how many were blocked, which is the same at every run, and how long a decision took: from the moment when a payment
came to be until the sink was given its decision, whose tick was committed by then. A few hundred payments go through before,
so that Spark is warm; still the first ticks are the longest, and payments pile up meanwhile. So the last ten seconds are shown
by themselves too.
"""

import asyncio
import json
import math
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import strandline as sl

RATE, SECONDS, SETTLED = 200, 20, 10
PAYMENTS = {"seed": 9, "rate": RATE, "keys": 400, "skew": 0.5}
WITHIN = timedelta(seconds=10)
MODEL = Path(__file__).resolve().with_name("fraud_model.json")


async def customer(card):
    """Stands for a service that takes its time: a fifth of the customers are new."""
    await asyncio.sleep(0.02)
    return "new" if int(card[1:]) % 5 == 0 else "known"


class Score(sl.Process):
    """Scores the payments of a card, and remembers those of the last ten seconds."""

    times = sl.List("timestamp")
    amounts = sl.List("double")

    def open(self):
        """Once in each worker: load the model."""
        self.model = json.loads(MODEL.read_text(encoding="utf-8"))

    def on_event(self, event, out):
        """Velocity first, this payment included; then the model's word."""
        self.times.append(event["at"])
        self.amounts.append(event["amount"])
        while self.times[0] < event["at"] - WITHIN:
            del self.times[0], self.amounts[0]
        features = {
            "amount": event["amount"],
            "payments": len(self.times),
            "spent": sum(self.amounts),
            "is_new": event["customer"] == "new",
        }
        weighed = self.model["bias"] + sum(self.model["weights"][name] * value for name, value in features.items())
        score = 1 / (1 + math.exp(-weighed))
        blocked = score > self.model["block_above"]
        out.emit(card=event["card"], n=event["n"], made=event["made"], score=score, blocked=blocked)


def make_flow(payments: sl.Generator, decided: list) -> sl.Flow:
    """The flow, which puts its decisions into a list, each with the time that it took, in seconds."""
    flow = sl.Flow("fraud")
    made = flow.source("payments", payments, time="at").select(
        "key as card", "value as amount", "n", "at", "unix_micros(at) as made"
    )
    known = made.lookup(
        "customers",
        customer,
        on="card",
        output="customer string",
        concurrency=100,
        timeout="2s",
        cache=sl.Cache("10m"),
        on_error="null",  # whoever has no answer in time decides without
    )
    decisions = known.key_by("card").process(
        "scores",
        Score,
        output="card string, n bigint, made bigint, score double, blocked boolean",
        ttl=sl.TTL("1m"),
    )

    def decide(df, tick):
        now = time.time()
        decided.extend({**row.asDict(), "took": now - row["made"] / 1_000_000} for row in df.collect())

    decisions.sink("decisions", sl.ForeachTick(decide))
    return flow


decided: list = []
flow = make_flow(sl.Generator(**PAYMENTS, rows=RATE * SECONDS, live=True), decided)


def table() -> Table:
    """How many were blocked, and how long it took."""
    shown = Table(title="From payment to decision")
    for column in ("payments", "decided", "blocked", "p50", "p99"):
        shown.add_column(column, justify="left" if column == "payments" else "right")
    for name, first in (("all", 0), (f"of the last {SETTLED} s", RATE * (SECONDS - SETTLED))):
        rows = [row for row in decided if row["n"] >= first]
        p50, p99 = np.quantile([row["took"] for row in rows], (0.5, 0.99))
        blocked = sum(row["blocked"] for row in rows)
        shown.add_row(name, f"{len(rows):,}", f"{blocked:,}", f"{p50 * 1000:,.0f} ms", f"{p99 * 1000:,.0f} ms")
    return shown


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="strandline-") as folder:
        make_flow(sl.Generator(**PAYMENTS, rows=500), []).run(state=f"{folder}/before", until="caught_up")
        run = flow.run(state=f"{folder}/state", batch_interval="100ms", wait=False)
        while run.running and len(decided) < RATE * SECONDS:
            time.sleep(0.1)
        run.stop()
        run.wait()
    Console().print(table())
