"""An interval join of two streams against Spark's own stream-stream join.

    python -m benchmarks.joins [--quick]

2 M rows on either side, 100,000 keys, each row with those of the other side up to five minutes later: about one match for
each. Ticks of 100,000 rows, half of them from either side. The pairs of both engines are compared with DuckDB's.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

import duckdb
import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import strandline as sl
from benchmarks import native
from benchmarks.contests import SHUFFLES, Runner, race, same_rows, verdicts
from benchmarks.engine import run_flow
from benchmarks.streams import Run, write_events
from benchmarks.verdicts import conclude
from strandline.spark.session import session

SCHEMA = "key string, value double, at timestamp"
COLUMNS = ["key", "value", "at", "value_right", "at_right"]
SIDES = ("left", "right")
KEYS, PER_FILE = 100_000, 50_000


def write_sides(folder: Path, files: int) -> None:
    """Files of two and a half minutes each: of 100,000 keys one row in five minutes, on either side."""
    for seed, side in enumerate(SIDES):
        write_events(
            folder / side, format="parquet", rows=PER_FILE * files, files=files, keys=KEYS, hours=files / 24,
            seed=seed,
        )  # fmt: skip


def ours(spark: SparkSession, data: Path, out: Path) -> Run:
    flow = sl.Flow("join")
    left, right = (
        flow.source(
            side, sl.Files(str(data / side)).read(format="parquet", schema=SCHEMA, max_files_per_tick=1),
            time="at", watermark=sl.Bounded("5s"),
        ).key_by("key")
        for side in SIDES
    )  # fmt: skip
    pairs = left.join("pairs", right, within=sl.After("5m"))
    pairs.sink("out", sl.Files(str(out)).write(format="parquet"), rows="append", columns=COLUMNS)
    return run_flow(spark, flow, out.parent / "state", 2 * PER_FILE)


def peer(spark: SparkSession, data: Path, shuffle: int, out: Path) -> Run:
    def pairs() -> DataFrame:
        left, right = (native.read(spark, data / side, SCHEMA).withWatermark("at", "5 seconds") for side in SIDES)
        left, right = left.alias("l"), right.alias("r")
        near = sf.expr("l.key = r.key and r.at >= l.at and r.at <= l.at + interval 5 minutes")
        theirs = (sf.col("r.value").alias("value_right"), sf.col("r.at").alias("at_right"))
        return left.join(right, near).select("l.key", "l.value", "l.at", *theirs)

    return Run(ends=native.stream(spark, pairs, out, shuffle), rows_per_tick=2 * PER_FILE)


def expected(data: Path) -> pl.DataFrame:
    """All pairs, as DuckDB finds them."""
    left, right = (f"read_parquet('{data / side}/*.parquet')" for side in SIDES)
    query = f"""
        select l.key, l.value, make_timestamp(epoch_us(l."at")) as at,
               r.value as value_right, make_timestamp(epoch_us(r."at")) as at_right
        from {left} l join {right} r
          on l.key = r.key and r."at" >= l."at" and r."at" <= l."at" + interval 5 minutes"""
    return duckdb.sql(query).pl()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.joins", description="Measure an interval join.")
    parser.add_argument("--quick", action="store_true", help="does it run?")
    asked = parser.parse_args()
    files, shuffles = (5, SHUFFLES[:1]) if asked.quick else (40, SHUFFLES)
    folder, spark = Path(tempfile.mkdtemp(prefix="strandline-joins-")), session(None, name="joins")
    data = folder / "in"
    write_sides(data, files)
    answer = expected(data)
    mine = Runner(name="ours", run=partial(ours, spark, data), check=partial(same_rows, "ours", expected=answer))
    theirs = [
        Runner(
            name=(name := f"native, {shuffle} partitions"), run=partial(peer, spark, data, shuffle),
            check=partial(same_rows, name, expected=answer),
        )
        for shuffle in shuffles
    ]  # fmt: skip
    speeds = race(folder, [(mine, each) for each in theirs])
    shutil.rmtree(folder)
    found = list(verdicts("interval join", speeds, 2, [each.name for each in theirs]))
    rows = PER_FILE * files
    about = (
        f"{rows:,} rows of either side, {KEYS:,} keys, up to 5 minutes apart: {answer.height:,} pairs; ticks of 100,000"
    )
    return conclude("joins", about, found, {"rows_per_second": speeds}, quick=asked.quick)


if __name__ == "__main__":
    sys.exit(main())
