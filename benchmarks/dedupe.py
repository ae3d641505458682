"""Deduplication against Spark's own `dropDuplicatesWithinWatermark`.

    python -m benchmarks.dedupe [--quick]

5 M rows over 24 hours, a fifth of which repeat the id of an earlier one, drawn from all of them; ticks of 250,000. Both
engines remember ids for 24 hours, so that they let each id through once. Ours must let the first row pass, in order of
arrival; the peer says nothing of which.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
from pyspark.sql import DataFrame, SparkSession

import strandline as sl
from benchmarks import native
from benchmarks.contests import SHUFFLES, Runner, race, same_rows, verdicts
from benchmarks.engine import run_flow
from benchmarks.streams import SECOND, START, Run
from benchmarks.verdicts import conclude
from strandline.spark.session import session

SCHEMA = "id string, number bigint, at timestamp"
COLUMNS = ["id", "number", "at"]
PER_FILE = 250_000
DAY = 86_400 * SECOND


def write_ids(folder: Path, files: int, per_file: int) -> None:
    """Rows with an id and their number; a fifth have the id of a row that came before, whenever that was."""
    folder.mkdir(parents=True)
    random, width = np.random.default_rng(5), DAY // files
    for file in range(files):
        numbers = np.arange(file * per_file, (file + 1) * per_file)
        repeats = random.random(per_file) < 0.2
        ids = np.where(repeats, (random.random(per_file) * numbers).astype(np.int64), numbers)
        at = np.sort(random.integers(START + file * width, START + (file + 1) * width, per_file))
        at -= random.integers(0, 5 * SECOND, per_file)
        rows = {"id": "order-" + pl.Series(ids).cast(pl.String), "number": numbers}
        frame = pl.DataFrame({**rows, "at": pl.Series(at).cast(pl.Datetime("us", "UTC"))})
        frame.write_parquet(folder / f"part-{file:05}.parquet")


def ours(spark: SparkSession, data: Path, per_file: int, out: Path) -> Run:
    flow = sl.Flow("dedupe")
    source = sl.Files(str(data)).read(format="parquet", schema=SCHEMA, max_files_per_tick=1)
    rows = flow.source("rows", source, time="at", watermark=sl.Bounded("5s"))
    once = rows.dedupe("once", on="id", within="24h")
    once.sink("out", sl.Files(str(out)).write(format="parquet"), rows="append", columns=COLUMNS)
    return run_flow(spark, flow, out.parent / "state", per_file)


def peer(spark: SparkSession, data: Path, per_file: int, shuffle: int, out: Path) -> Run:
    def once() -> DataFrame:
        rows = native.read(spark, data, SCHEMA).withWatermark("at", "24 hours")
        return rows.dropDuplicatesWithinWatermark(["id"])

    return Run(ends=native.stream(spark, once, out, shuffle), rows_per_tick=per_file)


def expected(data: Path) -> pl.DataFrame:
    """The first row of each id, as DuckDB finds it."""
    query = f"select id, min(number) as number from read_parquet('{data}/*.parquet') group by id"
    return duckdb.sql(query).pl()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dedupe", description="Measure deduplication.")
    parser.add_argument("--quick", action="store_true", help="does it run?")
    asked = parser.parse_args()
    files, per_file, shuffles = (5, 25_000, SHUFFLES[:1]) if asked.quick else (20, PER_FILE, SHUFFLES)
    folder, spark = Path(tempfile.mkdtemp(prefix="strandline-dedupe-")), session(None, name="dedupe")
    data = folder / "in"
    write_ids(data, files, per_file)
    answer = expected(data)
    mine = Runner(
        name="ours", run=partial(ours, spark, data, per_file), check=partial(same_rows, "ours", expected=answer)
    )
    theirs = [
        Runner(
            name=(name := f"native, {shuffle} partitions"), run=partial(peer, spark, data, per_file, shuffle),
            check=partial(same_rows, name, expected=answer.select("id")),
        )
        for shuffle in shuffles
    ]  # fmt: skip
    speeds = race(folder, [(mine, each) for each in theirs])
    shutil.rmtree(folder)
    found = list(verdicts("dedupe", speeds, 2, [each.name for each in theirs]))
    about = f"{files * per_file:,} rows over 24 hours, {answer.height:,} ids; ticks of {per_file:,}"
    return conclude("dedupe", about, found, {"rows_per_second": speeds}, quick=asked.quick)


if __name__ == "__main__":
    sys.exit(main())
