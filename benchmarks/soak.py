"""Let a flow run for half an hour, and see that nothing grows: memory, open files, bytes of state, manifests.

    python -m benchmarks.soak [--minutes 30] [--rate 20000] [--quick]

Samples are taken every second; means over a minute are fitted with a line (least squares) over the last two thirds of
the time, and its slope is given in per cent of the mean per ten minutes. The keys are few and windows are forgotten, so
the state should be stationary. The JVM has a fixed heap that is in memory from the start; what it holds is measured
apart, after a collection every half minute. The sinks' own files and tables grow, as they should; the file sink's folder
is compacted every minute. The journal keeps 10,000 ticks, which is more than half an hour, so it is told apart.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

import strandline as sl
from benchmarks.plots import panels
from benchmarks.processes import MB, Watch, bytes_below, files_below, watching
from benchmarks.sessions import live_heap, steady_session
from benchmarks.verdicts import Verdict, conclude, place
from strandline.sinks.compact import compact
from strandline.store.journal import backlog_of, records
from strandline.store.storage import storage_at

MOST = 1.0  # per cent per ten minutes
JUDGED = {
    "rss": "memory",
    "live": "memory, live heap only",
    "files": "open files",
    "state": "state",
    "manifests": "manifests",
}
UNITS = {"rss": "MB", "live": "MB", "files": "files", "state": "MB", "manifests": "files"}


def flow_of(rate: float, folder: Path) -> sl.Flow:
    """Windows of ten seconds with early and late panes that are taken back, for 1,000 keys, into files and a table."""
    flow = sl.Flow("soak")
    source = sl.Generator(
        seed=1, live=True, rate=rate, keys=1_000, partitions=2, disorder="2s", late_share=0.001, late_by="15s"
    )
    events = flow.source("events", source, time="at", watermark=sl.Bounded("2s"))
    trigger = sl.AfterWatermark(early=sl.AfterProcessingTime("5s"), late=sl.AfterCount(1))
    windows = events.key_by("key").window(sl.Tumbling("10s"), trigger=trigger, lateness="30s", mode="retracting")
    panes = windows.aggregate("panes", n=sl.Count(), total=sl.Sum("value"), most=sl.Max("value"))
    panes.sink("files", sl.Files(str(folder / "files")).write(format="parquet", layout="log"), rows="changelog")
    panes.sink("table", sl.Database(f"sqlite:///{folder}/table.db").write("panes"), rows="upsert")
    return flow


class Probe:
    """What is looked at beside the processes. The heap is collected and measured only now and then."""

    def __init__(self, spark: SparkSession, folder: Path, heap_every: float) -> None:
        self.spark, self.folder, self.heap_every = spark, folder, heap_every
        self.heap, self.collected, self.compacted = 0.0, -1e9, monotonic()

    def __call__(self) -> dict[str, float]:
        if monotonic() - self.collected >= self.heap_every:
            self.heap, self.collected = live_heap(self.spark) / MB, monotonic()
        state = self.folder / "state"
        kept = sum(bytes_below(state / each) for each in ("state", "outputs", "staging", "manifests", "sources"))
        return {
            "heap": self.heap, "state": kept / MB, "manifests": files_below(state / "manifests"),
            "journal": bytes_below(state / "journal") / MB, "checkpoint": bytes_below(state / "spark") / MB,
            "sink_files": files_below(self.folder / "files"),
        }  # fmt: skip

    def compact(self, every: float) -> None:
        """What somebody who runs a file sink with a log does from time to time."""
        if monotonic() - self.compacted >= every and (self.folder / "files" / "_log").exists():
            compact(self.folder / "files")
            self.compacted = monotonic()


def soak(spark: SparkSession, folder: Path, rate: float, minutes: float, quick: bool) -> Watch:
    probe = Probe(spark, folder, 10 if quick else 30)
    run = flow_of(rate, folder).run(state=folder / "state", spark=spark, batch_interval="1s", wait=False)
    with watching(every=1.0, more=probe) as watch:
        until = monotonic() + 60 * minutes
        while run.running and monotonic() < until:
            sleep(1)
            probe.compact(15 if quick else 60)
        run.stop()
        run.wait(60)
    heap = spark.sparkContext.getConf().get("spark.driver.memory", "1g")
    whole = int(heap.removesuffix("g")) * 1024**3 / MB
    for sample in watch.samples:
        sample["live"] = sample["rss"] - whole + sample["heap"]
    return watch


def means(samples: Sequence[Mapping[str, float]], name: str, width: float) -> tuple[np.ndarray, np.ndarray]:
    """The middle times and the means of stretches of so many seconds; a stretch that was cut short is left out."""
    at, values = (np.array([sample[key] for sample in samples]) for key in ("at", name))
    numbers = ((at - at[0]) // width).astype(int)
    whole = range(int((at[-1] - at[0] + 1) // width))
    return np.array([(n + 0.5) * width for n in whole]), np.array([values[numbers == n].mean() for n in whole])


def slope(samples: Sequence[Mapping[str, float]], name: str, width: float) -> float:
    """Per cent of the mean per ten minutes."""
    at, values = means(samples, name, width)
    return float(np.polyfit(at, values, 1)[0] * 600 / values.mean() * 100)


def judged(
    watch: Watch, ticks: Sequence[Mapping[str, Any]], rate: float, minutes: float, width: float
) -> list[Verdict]:
    last = [sample for sample in watch.samples if sample["at"] >= minutes * 20]
    found = [
        Verdict(
            what=f"slope of {what}", measured=slope(last, name, width), unit="% per 10 min", at_most=MOST,
            notes=f"mean {np.mean([s[name] for s in last]):,.1f} {UNITS[name]}",
        )
        for name, what in JUDGED.items()
    ]  # fmt: skip
    rows = sum(n for tick in ticks for each in tick["rows"].values() for n in each.values())
    took = [sum(tick["took"].get(k, 0) for k in ("make", "commit", "publish")) / 1e6 for tick in ticks]
    seconds = (ticks[-1]["now"] - ticks[0]["now"]) / 1e6
    backlog = backlog_of(ticks[-1])
    return [
        *found,
        Verdict(what="events read per second of the source", measured=rows / seconds / rate, at_least=0.99),
        Verdict(what="backlog at the end", measured=backlog / rate, unit="s of events", at_most=2),
        Verdict(what="median tick", measured=float(np.median(took)), unit="s", notes=f"{len(ticks)} ticks, {rows:,} rows"),
        Verdict(what="journal", measured=watch.samples[-1]["journal"], unit="MB", notes="keeps 10,000 ticks"),
        Verdict(what="Spark's checkpoint", measured=watch.samples[-1]["checkpoint"], unit="MB"),
        Verdict(what="files of the file sink", measured=watch.samples[-1]["sink_files"], unit="files"),
    ]  # fmt: skip


def draw(watch: Watch, path: Path) -> None:
    at = [sample["at"] / 60 for sample in watch.samples]
    columns = {key: [sample[key] for sample in watch.samples] for key in watch.samples[0]}
    lines = {
        "memory, MB (resident, whole tree)": {
            k: columns[k] for k in ("rss", "rss_jvm", "rss_driver", "rss_workers", "heap")
        },
        "open files": {"open files": columns["files"]},
        "state, MB": {"state": columns["state"], "journal": columns["journal"]},
        "manifests": {"manifests": columns["manifests"]},
    }
    panels(path, "minutes", at, lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description="See that nothing grows.")
    parser.add_argument("--minutes", type=float, default=None, help="30, or 2 with --quick")
    parser.add_argument("--rate", type=float, default=20_000, help="events per second")
    parser.add_argument("--quick", action="store_true", help="does it run?")
    asked = parser.parse_args()
    minutes = asked.minutes or (2 if asked.quick else 30)
    folder = Path(tempfile.mkdtemp(prefix="strandline-soak-"))
    spark = steady_session("soak")
    try:
        watch = soak(spark, folder, asked.rate, minutes, asked.quick)
        ticks = list(records(storage_at(folder / "state")))
    finally:
        spark.stop()
    verdicts = judged(watch, ticks, asked.rate, minutes, 10 if asked.quick else 60)
    draw(watch, place("soak", "png", quick=asked.quick))
    shutil.rmtree(folder)
    about = f"{minutes:g} minutes at {asked.rate:,.0f} events/s"
    thin = [{key: round(value, 3) for key, value in sample.items()} for sample in watch.samples[::5]]
    return conclude("soak", about, verdicts, {"samples": thin}, quick=asked.quick)


if __name__ == "__main__":
    sys.exit(main())
