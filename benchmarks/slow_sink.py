"""A sink that takes a tenth of what comes, for five minutes: does anything grow but the backlog in the source?

    python -m benchmarks.slow_sink [--minutes 5] [--rate 5000] [--quick]

A table of SQLite gets every event. For a while each row takes it ten times as long as the source needs to make one; then
it is as fast as ever. The flow waits for its sink, so what is unread must stay in the source, and ticks must become
smaller, until they take about what they may: the target is that of the run's admission. The tick in which the sink becomes
slow was planned before anybody could know; it is told apart.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep, time
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

import strandline as sl
from benchmarks.plots import panels
from benchmarks.processes import MB, Watch, bytes_below, watching
from benchmarks.sessions import steady_session
from benchmarks.verdicts import Verdict, conclude, place
from strandline.sinks.contract import Delivery, Marker, Publisher, Receipt, Sink, Target
from strandline.store.journal import backlog_of, records
from strandline.store.storage import storage_at

INTERVAL = 1.0
TARGET = 5.0  # seconds: five batch intervals, as the driver has it
TIMES = 10
WARM_UP = 5  # ticks


@dataclass(slots=True)
class Pace:
    """How long a row takes a sink, in seconds; may be changed while it runs."""

    row: float = 0.0


@dataclass(frozen=True, slots=True)
class Slowed:
    """A sink that takes its time for every row."""

    sink: Sink
    pace: Pace

    @property
    def guarantee(self) -> str:
        return self.sink.guarantee

    @property
    def takes(self) -> frozenset[str]:
        return self.sink.takes

    def prepare(self, target: Target) -> Publisher:
        return SlowedPublisher(self.sink.prepare(target), self.pace)


@dataclass(frozen=True, slots=True)
class SlowedPublisher:
    publisher: Publisher
    pace: Pace

    @property
    def marker(self) -> Marker | None:
        return self.publisher.marker

    def publish(self, delivery: Delivery) -> Receipt:
        sleep(delivery.rows * self.pace.row)
        return self.publisher.publish(delivery)

    def close(self) -> None:
        self.publisher.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What happened: samples, ticks, and when the sink became slow, fast again, and was caught up (seconds)."""

    watch: Watch
    ticks: list[dict[str, Any]]
    origin: float
    slow: float
    fast: float
    over: float

    def tick_times(self) -> tuple[list[float], list[float]]:
        """When ticks ended, and how long they took."""
        took = [sum(each["took"][k] for k in ("make", "commit", "publish")) / 1e6 for each in self.ticks]
        return [each["now"] / 1e6 + t - self.origin for each, t in zip(self.ticks, took, strict=True)], took

    def handed_over(self) -> list[float]:
        """When the rows of ticks were given to the sink."""
        return [end - each["took"]["publish"] / 1e6 for end, each in zip(self.tick_times()[0], self.ticks, strict=True)]


def course(spark: SparkSession, folder: Path, rate: float, before: float, slow: float, patience: float) -> Course:
    pace, flow = Pace(), sl.Flow("slow")
    events = flow.source("events", sl.Generator(seed=2, live=True, rate=rate), time="at")
    table = sl.Database(f"sqlite:///{folder}/table.db").write("events")
    events.sink("table", Slowed(table, pace), rows="append", columns=["key", "value", "n"])
    state = folder / "state"
    run = flow.run(state=state, spark=spark, batch_interval=f"{INTERVAL:g}s", wait=False)

    def more() -> dict[str, float]:
        return {"kept": sum(bytes_below(state / each) for each in ("outputs", "staging")) / MB}

    def lasting(seconds: float) -> float:
        until = monotonic() + seconds
        while run.running and monotonic() < until:
            sleep(0.1)
        return time() - origin

    while run.running and (run.progress["tick"] or 0) < WARM_UP:
        sleep(0.1)
    with watching(every=1.0, more=more) as watch:
        origin = time()
        began = lasting(before)
        pace.row = TIMES / rate
        ended = lasting(slow)
        pace.row = 0.0
        until = monotonic() + patience
        while run.running and monotonic() < until and _backlog(run) > 2 * rate:
            lasting(0.2)
        over = lasting(2)
        run.stop()
        run.wait(120)
    ticks = list(records(storage_at(state)))
    return Course(watch=watch, ticks=ticks, origin=origin, slow=began, fast=ended, over=over)


def _backlog(run: sl.Run) -> float:
    return float(sum(run.progress.get("backlog", {}).values()))


def judged(found: Course, rate: float) -> list[Verdict]:
    _, took = found.tick_times()
    slow = [t for at, t in zip(found.handed_over(), took, strict=True) if found.slow <= at <= found.fast]
    during = [sample for sample in found.watch.samples if found.slow <= sample["at"] <= found.fast]
    third = len(during) // 3
    first, last = (float(np.mean([s["rss"] for s in part])) for part in (during[:third], during[-third:]))
    backlogs = _backlogs(found)
    greatest, expected = max(backlogs), rate * (found.fast - found.slow) * (1 - 1 / TIMES)
    return [
        Verdict(what="memory at the end of the slow time against its beginning", measured=last / first, at_most=1.05, notes=f"{first:,.0f} MB, {last:,.0f} MB"),
        Verdict(what="greatest backlog in the source, of what the sink could not take", measured=greatest / expected, at_least=0.8, notes=f"{greatest:,.0f} events"),
        Verdict(what="rows kept for the sink on disk, at most", measured=found.watch.peak("kept"), unit="MB"),
        Verdict(what="ticks that a sink did not have at the end of one", measured=max(s["pending"] for t in found.ticks for s in t["sinks"].values()), at_most=0),
        Verdict(what="longest tick while slow, but for the first", measured=max(slow[1:], default=np.inf) / TARGET, unit="of the target", at_most=2, notes=f"{len(slow)} ticks, median {np.median(slow):.1f} s"),
        Verdict(what="the tick in which it became slow", measured=slow[0] / TARGET, unit="of the target"),
        Verdict(what="backlog in the end", measured=backlogs[-1] / rate, unit="s of events", at_most=5),
        Verdict(what="time to catch up", measured=(found.over - found.fast) / (found.fast - found.slow), unit="of the slow time", at_most=1, notes=f"{found.over - found.fast:.0f} s"),
    ]  # fmt: skip


def _backlogs(found: Course) -> Sequence[float]:
    return [float(backlog_of(each)) for each in found.ticks]


def draw(found: Course, path: Path) -> None:
    ends, took = found.tick_times()
    at = [sample["at"] for sample in found.watch.samples]
    lines = {
        "memory of the process tree, MB": {"resident": [sample["rss"] for sample in found.watch.samples]},
        "backlog in the source, thousands of events": {"backlog": (ends, [each / 1000 for each in _backlogs(found)])},
        "length of ticks, s": {
            "tick": (ends, took),
            "target": target_line(ends),
            "twice the target": target_line(ends, 2),
        },
        "rows per tick": {
            "rows": (ends, [sum(sum(p.values()) for p in each["rows"].values()) for each in found.ticks])
        },
    }
    panels(path, "seconds (grey: the sink is slow)", at, lines, shaded=(found.slow, found.fast))


def target_line(ends: Sequence[float], times: int = 1) -> tuple[list[float], list[float]]:
    return [ends[0], ends[-1]], [TARGET * times] * 2


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slow_sink", description="Slow a sink down.")
    parser.add_argument("--minutes", type=float, default=None, help="5, or 2/3 with --quick")
    parser.add_argument("--rate", type=float, default=5_000, help="events per second")
    parser.add_argument("--quick", action="store_true", help="does it run?")
    asked = parser.parse_args()
    slow = 60 * (asked.minutes or (2 / 3 if asked.quick else 5))
    folder = Path(tempfile.mkdtemp(prefix="strandline-slow-"))
    spark = steady_session("slow")
    try:
        found = course(spark, folder, asked.rate, 10 if asked.quick else 60, slow, slow)
    finally:
        spark.stop()
    draw(found, place("slow_sink", "png", quick=asked.quick))
    shutil.rmtree(folder)
    about = f"a sink {TIMES} times slower than a source of {asked.rate:,.0f} events/s for {slow:.0f} s"
    return conclude("slow_sink", about, judged(found, asked.rate), {}, quick=asked.quick)


if __name__ == "__main__":
    sys.exit(main())
