"""Throughput and end-to-end latency at five batch intervals: where is the knee?

    python -m benchmarks.latency [--quick]

*Throughput* at an interval is the number of events that a tick as long as the interval can take, per second: the number
is tried, and corrected by how long its ticks took. *Latency* of an event is the time when the file with its pane
appeared in the sink's folder minus the time when the event was made. Every tick shows what it brought (early panes,
discarding), so that no event waits for its window to end. Latency is measured at one rate for all intervals: half of the
throughput at one second.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

import strandline as sl
from benchmarks.plots import keep, plt
from benchmarks.verdicts import Verdict, conclude, place
from strandline.spark.session import session
from strandline.store.journal import backlog_of, records
from strandline.store.storage import storage_at

INTERVALS = (0.25, 0.5, 1.0, 2.0, 5.0)
REFERENCE = 1.0
LEAST_ROWS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is measured."""

    ticks: int = 12
    corrections: int = 3
    seconds: float = 30
    least_ticks: int = 10


QUICK = Effort(ticks=5, corrections=1, seconds=6, least_ticks=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What was found at one batch interval."""

    interval: float
    throughput: float
    full_tick: float
    p50: float
    p99: float
    tick: float
    backlog: float


def flow_of(out: Path, **generator: Any) -> sl.Flow:
    flow = sl.Flow("latency")
    events = flow.source("events", sl.Generator(seed=5, keys=1_000, **generator), time="at")
    trigger = sl.AfterWatermark(early=sl.AfterCount(1))
    windows = events.key_by("key").window(sl.Tumbling("10s"), trigger=trigger, mode="discarding")
    panes = windows.aggregate("panes", n=sl.Count(), total=sl.Sum("value"), first=sl.Min("at"))
    panes.sink("panes", sl.Files(str(out)).write(format="parquet"), rows="append")
    return flow


def full_tick(spark: SparkSession, folder: Path, rows: int, ticks: int) -> float:
    """How long a tick of so many rows takes, from end to end of ticks without a pause; the median."""
    flow = flow_of(folder / "out", rate=100_000, rows=rows * ticks)
    flow.run(state=folder / "state", spark=spark, until="caught_up", max_rows_per_tick=rows)
    ends = [each["now"] + sum(each["took"][k] for k in ("make", "commit", "publish")) for each in _ticks(folder)]
    shutil.rmtree(folder)
    return float(np.median(np.diff(ends)[1:])) / 1e6


def throughput(spark: SparkSession, folder: Path, interval: float, rows: int, effort: Effort) -> tuple[float, float]:
    """Events per second in ticks about as long as the interval, and how long they were: the best of those that fit.

    If none does, the last one tried; its length says that it did not.
    """
    tried = []
    for _ in range(effort.corrections):
        took = full_tick(spark, folder, rows, effort.ticks)
        tried.append((rows / took, took))
        rows = max(LEAST_ROWS, int(0.95 * rows * interval / took))
    return max((each for each in tried if each[1] <= interval), default=tried[-1])


def latencies(spark: SparkSession, folder: Path, interval: float, rate: float, effort: Effort) -> tuple[Any, ...]:
    """Of every event in the later two thirds of a live run, how long it took; ticks' lengths; the backlog at the end."""
    flow = flow_of(folder / "out", live=True, rate=rate)
    run = flow.run(state=folder / "state", spark=spark, batch_interval=f"{interval * 1000:.0f}ms", wait=False)
    until = monotonic() + max(effort.seconds, effort.least_ticks * interval)
    while run.running and monotonic() < until:
        sleep(0.1)
    run.stop()
    run.wait(60)
    found = _ticks(folder)
    shown = {int(path.name.split("-")[1]): path.stat().st_mtime * 1e6 for path in (folder / "out").glob("tick-*")}
    began, late, position = _began(found), [], 0
    for each in found:
        end = each["partitions"]["events"]["0"]["position"]
        made = began + np.arange(position, end) * 1e6 / rate
        late.append((shown[each["tick"]] - made) / 1e6 if end > position else np.array([]))
        position = end
    took = [sum(each["took"][k] for k in ("make", "commit", "publish")) / 1e6 for each in found]
    rest = slice(len(found) // 3, None)
    backlog = backlog_of(found[-1]) / rate
    shutil.rmtree(folder)
    return np.concatenate(late[rest]), float(np.median(took[rest])), backlog


def _began(found: list[dict[str, Any]]) -> int:
    """When a live generator made its first event: at its first planning."""
    return int(found[0]["now"])


def _ticks(folder: Path) -> list[dict[str, Any]]:
    return list(records(storage_at(folder / "state")))


def measure(spark: SparkSession, folder: Path, effort: Effort) -> list[Point]:
    full_tick(spark, folder / "warm-up", 10_000, 5)
    guess = 50_000.0
    able: dict[float, tuple[float, float]] = {}
    for interval in sorted(INTERVALS, key=lambda each: each != REFERENCE):
        able[interval] = throughput(spark, folder / "able", interval, int(max(LEAST_ROWS, guess * interval)), effort)
        guess = able[REFERENCE][0]
    points = []
    for interval in INTERVALS:
        late, tick, backlog = latencies(spark, folder / "late", interval, able[REFERENCE][0] / 2, effort)
        p50, p99 = (float(each) for each in np.quantile(late, (0.5, 0.99)))
        rate, full = able[interval]
        points.append(
            Point(interval=interval, throughput=rate, full_tick=full, p50=p50, p99=p99, tick=tick, backlog=backlog)
        )
        print(points[-1], flush=True)
    return points


def draw(points: list[Point], rate: float, path: Path) -> None:
    figure, left = plt.subplots(figsize=(8, 5))
    at = [point.interval for point in points]
    left.plot(at, [point.p50 for point in points], "o-", label="latency p50, s")
    left.plot(at, [point.p99 for point in points], "o-", label="latency p99, s")
    left.plot(at, at, ":", color="0.6", label="the interval itself, s")
    left.set(xscale="log", xlabel="batch interval, s", ylabel=f"latency at {rate:,.0f} events/s, s", ylim=(0, None))
    left.set_xticks(at, [f"{each:g}" for each in at])
    right = left.twinx()
    right.plot(at, [point.throughput / 1000 for point in points], "s--", color="tab:green", label="throughput")
    right.set(ylabel="events/s that fit in the interval, thousands", ylim=(0, None))
    lines = [*left.get_lines(), *right.get_lines()]
    left.legend(lines, [str(line.get_label()) for line in lines], loc="upper center", fontsize=9)
    keep(figure, path)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description="Find the knee.")
    parser.add_argument("--quick", action="store_true", help="does it run?")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="strandline-latency-"))
    points = measure(session(None, name="latency"), folder, QUICK if asked.quick else Effort())
    shutil.rmtree(folder)
    rate = next(point.throughput for point in points if point.interval == REFERENCE) / 2
    draw(points, rate, place("latency", "png", quick=asked.quick))
    verdicts = []
    for point in points:
        about = f"interval {point.interval:g} s"
        verdicts += [
            Verdict(what=f"{about}: throughput", measured=point.throughput, unit="events/s", notes=f"in ticks of {point.full_tick:.2f} s"),
            Verdict(what=f"{about}: latency p50", measured=point.p50, unit="s"),
            Verdict(what=f"{about}: latency p99", measured=point.p99, unit="s", notes=f"median tick {point.tick:.2f} s"),
            Verdict(
                what=f"{about}: backlog at the end", measured=point.backlog, unit="s of events",
                at_most=2 * max(point.interval, point.tick),
            ),
        ]  # fmt: skip
    about = f"latency at {rate:,.0f} events/s, half of the throughput at {REFERENCE:g} s"
    return conclude("latency", about, verdicts, {"points": [asdict(point) for point in points]}, quick=asked.quick)


if __name__ == "__main__":
    sys.exit(main())
