"""Half of all events on one key: how much of our own speed on even keys is left?

    python -m benchmarks.hot_keys [--quick]

The same number of events, files and ticks, the same flow; only the keys differ. Even and hot take turns, and the best
of each counts. What was counted is compared with the number of events before a speed counts.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from pyspark.sql import SparkSession

import strandline as sl
from benchmarks.streams import Run, write_events
from benchmarks.verdicts import Verdict, conclude
from strandline.spark.session import session
from strandline.store.journal import records
from strandline.store.storage import storage_at

SCHEMA = "key string, value double, at timestamp"
COLUMNS = ["key", "window_start", "window_end", "n"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A stage, the keys of its events, and the least part of the speed that must be left."""

    stage: Callable[[sl.Keyed], sl.Stage]
    keys: int
    at_least: float


def sums(events: sl.Keyed) -> sl.Stage:
    return events.window(sl.Tumbling("1m")).aggregate("windows", n=sl.Count(), total=sl.Sum("value"))


def distinct(events: sl.Keyed) -> sl.Stage:
    """Of values that are nearly all different: the set of the hot key grows with its events."""
    return events.window(sl.Tumbling("1m")).aggregate("windows", n=sl.Count(), times=sl.Distinct("at"))


def sessions(events: sl.Keyed) -> sl.Stage:
    return events.window(sl.Session(gap="10s")).aggregate("windows", n=sl.Count(), total=sl.Sum("value"))


CASES = {
    "sums": Case(stage=sums, keys=100_000, at_least=0.9),
    "distinct": Case(stage=distinct, keys=100_000, at_least=0.5),
    "sessions": Case(stage=sessions, keys=1_000, at_least=0.5),
}


def speed(spark: SparkSession, case: Case, data: Path, folder: Path, rows: int, files: int) -> float:
    """Events per second, without the first ticks; every event must be counted in the end."""
    flow = sl.Flow("hot")
    source = sl.Files(str(data)).read(format="parquet", schema=SCHEMA, max_files_per_tick=1)
    events = flow.source("events", source, time="at", watermark=sl.Bounded("5s"))
    panes = case.stage(events.key_by("key"))
    panes.sink("out", sl.Files(str(folder / "out")).write(format="parquet"), rows="append", columns=COLUMNS)
    run = {"state": folder / "state", "spark": spark, "max_rows_per_tick": 1_000_000_000}
    flow.run(**run, until="caught_up")
    found = [each for each in records(storage_at(folder / "state")) if each["rows"]]
    ends = [(each["now"] + sum(each["took"][k] for k in ("make", "commit", "publish"))) / 1e6 for each in found]
    counted = shown(folder) + waiting(folder, flow, spark)
    shutil.rmtree(folder)
    if counted != rows:
        raise SystemExit(f"{counted:,} of {rows:,} events were counted")
    return Run(ends=ends, rows_per_tick=rows // files).rows_per_second


def shown(folder: Path) -> int:
    """The events in panes so far."""
    return int(pl.read_parquet(folder / "out" / "tick-*.parquet")["n"].sum())


def waiting(folder: Path, flow: sl.Flow, spark: SparkSession) -> int:
    """The events in windows that are still open: they are shown when time goes to its end."""
    before = shown(folder)
    run = flow.run(state=folder / "state", spark=spark, wait=False)
    run.drain()
    run.wait()
    return shown(folder) - before


def measure(spark: SparkSession, name: str, folder: Path, rows: int, files: int, rounds: int) -> Verdict:
    case, best = CASES[name], {}
    for which in ("even", "hot"):
        write_events(
            folder / f"{which}-{case.keys}", format="parquet", rows=rows, files=files, keys=case.keys, hours=0.5,
            hot=which == "hot",
        )  # fmt: skip
    for _ in range(rounds):
        for which in ("even", "hot"):
            found = speed(spark, case, folder / f"{which}-{case.keys}", folder / "run", rows, files)
            best[which] = max(best.get(which, 0.0), found)
    print(name, best, flush=True)
    return Verdict(
        what=f"{name}: hot against even", measured=best["hot"] / best["even"], at_least=case.at_least,
        notes=f"hot {best['hot']:,.0f}/s, even {best['even']:,.0f}/s, {case.keys:,} keys",
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hot_keys", description="Measure skewed keys.")
    parser.add_argument("--quick", action="store_true", help="does it run?")
    asked = parser.parse_args()
    rows, files, rounds = (600_000, 6, 1) if asked.quick else (4_000_000, 16, 3)
    folder = Path(tempfile.mkdtemp(prefix="strandline-hot-"))
    spark = session(None, name="hot")
    verdicts = [measure(spark, name, folder, rows, files, rounds) for name in CASES]
    shutil.rmtree(folder)
    about = f"half of {rows:,} events on one key, against even keys; {files} files, one per tick"
    return conclude("hot_keys", about, verdicts, {}, quick=asked.quick)


if __name__ == "__main__":
    sys.exit(main())
