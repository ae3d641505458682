"""Ticks of 1,000 events: the median of ours may take no longer than the median batch of Spark's own streaming.

    python -m benchmarks.thousand_events [--quick]

The same files, one for each tick, in one session; batches follow each other without a pause, and a tick takes from the
end of the one before it to its own end, planning included. The peer's best of 2, 4 and 8 shuffle partitions counts, and
all take turns.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

from benchmarks import native
from benchmarks.engine import check, ours
from benchmarks.streams import Run, Workload, write_events
from benchmarks.verdicts import Verdict, conclude
from strandline.spark.session import session

EVENTS = 1_000
SHUFFLES = (2, 4, 8)
WARM_UP = 5


def workload(folder: Path, ticks: int) -> Workload:
    write_events(folder / "in", format="parquet", rows=EVENTS * ticks, files=ticks, keys=10_000, hours=ticks / 60)
    return Workload(
        name="thousand", folder=folder / "in", format="parquet", kind="tumbling", size="1 minute", every=None,
        bound="5 seconds", rows=EVENTS * ticks, files=ticks, files_per_tick=1,
    )  # fmt: skip


def durations(run: Run) -> list[float]:
    """How long ticks took, in seconds, without those in which things are still being warmed up."""
    return [float(each) for each in np.diff(run.ends)[WARM_UP:]]


def rounds(spark: SparkSession, load: Workload, folder: Path, count: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for number in range(count):
        out = folder / f"ours-{number}"
        found.setdefault("ours", []).extend(durations(ours(spark, load, out)))
        check(load, out)
        for shuffle in SHUFFLES:
            run = native.run(spark, load, folder / f"native-{shuffle}-{number}", shuffle)
            found.setdefault(f"native, {shuffle} partitions", []).extend(durations(run))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.thousand_events", description="Measure short ticks.")
    parser.add_argument("--quick", action="store_true", help="does it run?")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="strandline-thousand-"))
    load = workload(folder, 15 if asked.quick else 60)
    found = rounds(session(None, name="thousand"), load, folder, 1 if asked.quick else 3)
    shutil.rmtree(folder)
    medians = {name: float(np.median(each)) for name, each in found.items()}
    best = min(value for name, value in medians.items() if name != "ours")
    verdicts = [
        Verdict(what="our median tick against native's", measured=medians["ours"] / best, at_most=1),
        *(
            Verdict(
                what=f"median, {name}", measured=value, unit="s",
                notes=f"p95 {np.quantile(found[name], 0.95):.3f} s, {len(found[name])} ticks",
            )
            for name, value in medians.items()
        ),
    ]  # fmt: skip
    about = f"ticks of {EVENTS:,} events, tumbling windows of a minute, parquet"
    return conclude("thousand_events", about, verdicts, {"seconds": found}, quick=asked.quick)


if __name__ == "__main__":
    sys.exit(main())
