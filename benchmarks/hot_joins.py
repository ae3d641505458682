"""Half of all events on one key, in joins: what is left of our speed on even keys, and what spreading that key gains.

    python -m benchmarks.hot_joins [--quick]

A stream of events meets one row of its key for each minute: as another stream, within a minute, or as a table. Even keys,
a hot key, and a hot key that is spread (`salt=8`, `broadcast=True`) take turns, and the best of each counts. Every pair is
counted before a speed counts. What can be gained grows with the number of tasks: with two, the one that has the hot key has
three quarters of the rows, so spreading them can be worth 1.5 at most.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
from pyspark.sql import SparkSession

import strandline as sl
from benchmarks.hot_keys import SCHEMA, shown, waiting
from benchmarks.streams import SECOND, START, Run, write_events
from benchmarks.verdicts import Verdict, conclude
from strandline.spark.session import session
from strandline.store.journal import records
from strandline.store.storage import storage_at

KEYS, HOURS, MINUTE = 1_000, 0.5, 60 * SECOND
Join = Callable[[sl.Stream, sl.Stream, bool], sl.Stage]


def streams(events: sl.Stream, others: sl.Stream, spread: bool) -> sl.Stage:
    within, salt = sl.Before("1m"), 8 if spread else None
    return events.key_by("key").join("met", others.key_by("key"), within=within, salt=salt)


def table(events: sl.Stream, others: sl.Stream, spread: bool) -> sl.Stage:
    known = events.flow.table("known", others, key="key", broadcast=spread)
    return events.join_table("met", known, how="inner")


CASES: dict[str, Join] = {"streams": streams, "table": table}


def write_others(folder: Path, files: int) -> None:
    """A row of each key for each minute, and for the one before the first; in as many files as the events."""
    folder.mkdir(parents=True)
    minutes = pl.DataFrame({"at": [START + n * MINUTE for n in range(-1, int(HOURS * 60))]})
    rows = minutes.join(pl.DataFrame({"key": [f"k{n}" for n in range(KEYS)]}), how="cross")
    rows = rows.with_columns(factor=pl.col("at") // MINUTE % 7)
    span = int(HOURS * 3600 * SECOND)
    for number in range(files):
        first, last = (START + span * n // files for n in (number, number + 1))
        since = START - MINUTE if number == 0 else first
        mine = rows.filter(pl.col("at").is_between(since, last, closed="left"))
        stamped = mine.with_columns(pl.col("at").cast(pl.Datetime("us", "UTC")))
        stamped.select("key", "factor", "at").write_parquet(folder / f"part-{number:05}.parquet")


def expected(case: str, data: Path) -> int:
    """Each event meets the row of the last minute; in a stream, exactly a minute apart, that of the one before too."""
    at = pl.read_parquet(data / "*.parquet")["at"].to_physical()
    return at.len() + (int((at % MINUTE == 0).sum()) if case == "streams" else 0)


def speed(spark: SparkSession, case: str, data: Path, folder: Path, rows: int, files: int, *, spread: bool) -> float:
    """Events per second, without the first ticks; every pair must be counted in the end."""
    flow = sl.Flow("hot")

    def read(name: str, path: Path, schema: str) -> sl.Stream:
        source = sl.Files(str(path)).read(format="parquet", schema=schema, max_files_per_tick=1)
        return flow.source(name, source, time="at", watermark=sl.Bounded("5s"))

    events = read("events", data, SCHEMA)
    others = read("others", data.parent / "others", "key string, factor bigint, at timestamp")
    met = CASES[case](events, others, spread)
    counted = met.key_by().window(sl.Tumbling("1m")).aggregate("counted", n=sl.Count(), sum=sl.Sum("factor"))
    counted.sink("out", sl.Files(str(folder / "out")).write(format="parquet"), rows="append", columns=["n", "sum"])
    flow.run(state=folder / "state", spark=spark, max_rows_per_tick=1_000_000_000, until="caught_up")
    found = [each for each in records(storage_at(folder / "state")) if each["rows"]]
    ends = [(each["now"] + sum(each["took"][k] for k in ("make", "commit", "publish"))) / 1e6 for each in found]
    pairs = shown(folder) + waiting(folder, flow, spark)
    shutil.rmtree(folder)
    if pairs != (wanted := expected(case, data)):
        raise SystemExit(f"{case}: {pairs:,} of {wanted:,} pairs were counted")
    return Run(ends=ends, rows_per_tick=rows // files).rows_per_second


def measure(spark: SparkSession, case: str, folder: Path, rows: int, files: int, rounds: int) -> list[Verdict]:
    best: dict[str, float] = {}
    for _ in range(rounds):
        for which, data, spread in (("even", "even", False), ("hot", "hot", False), ("spread", "hot", True)):
            found = speed(spark, case, folder / data, folder / "run", rows, files, spread=spread)
            best[which] = max(best.get(which, 0.0), found)
    print(case, best, flush=True)
    notes = ", ".join(f"{which} {found:,.0f}/s" for which, found in best.items())
    return [
        Verdict(what=f"{case}: hot against even", measured=best["hot"] / best["even"], notes=notes),
        Verdict(what=f"{case}: hot and spread against hot", measured=best["spread"] / best["hot"]),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hot_joins", description="Measure skewed keys in joins.")
    parser.add_argument("--quick", action="store_true", help="does it run?")
    asked = parser.parse_args()
    rows, files, rounds = (60_000, 6, 1) if asked.quick else (4_000_000, 16, 3)
    folder = Path(tempfile.mkdtemp(prefix="strandline-hot-"))
    for which in ("even", "hot"):
        write_events(
            folder / which, format="parquet", rows=rows, files=files, keys=KEYS, hours=HOURS, hot=which == "hot"
        )
    write_others(folder / "others", files)
    spark = session(None, name="hot")
    verdicts = [verdict for case in CASES for verdict in measure(spark, case, folder, rows, files, rounds)]
    shutil.rmtree(folder)
    about = (
        f"half of {rows:,} events on one key, in joins, against even keys and against the same spread; {files} ticks"
    )
    return conclude("hot_joins", about, verdicts, {}, quick=asked.quick)


if __name__ == "__main__":
    sys.exit(main())
