"""A process of one's own for each key, against Spark's `transformWithState` in Python, by rows and by pandas frames.

    python -m benchmarks.per_key [--quick]

100,000 keys, each with one value: how many events it has had, told with each event. Ticks of 50,000 events; the peer reads
and writes its value once for each key and batch, as its users would. The better of its forms counts; that by frames,
several times slower than the other, is tried with one number of partitions, or it would take most of the time.

Our two forms, an event at a time and in columns, are compared in ticks of a million events, by what the step of the stage
takes: to read and to write the rows costs both the same. All counts are compared with DuckDB's.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor

import strandline as sl
from benchmarks import native
from benchmarks.contests import Runner, race, same_rows, shown_in, verdicts
from benchmarks.engine import run_flow
from benchmarks.streams import SECOND, Run, write_events
from benchmarks.verdicts import Verdict, conclude
from strandline.spark.session import session
from strandline.store.journal import records
from strandline.store.storage import storage_at

SCHEMA = "key string, value double, at timestamp"
OUTPUT = "key string, count bigint"
KEYS = 100_000
SHUFFLES = (2, 4)


class Counting(sl.Process):
    """Counts the events of a key, one at a time."""

    count = sl.Value("bigint", 0)

    def on_event(self, event: Any, out: Any) -> None:
        self.count += 1
        out.emit(key=event["key"], count=self.count)


class CountingTogether(sl.TableProcess):
    """The same in columns."""

    count = sl.Value("bigint", 0)

    def on_events(self, events: pl.DataFrame, state: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        number = pl.int_range(1, pl.len() + 1).over("key")
        counted = events.join(state, on="key", maintain_order="left").select("key", pl.col("count") + number, "__time")
        return counted, counted.group_by("key", maintain_order=True).agg(pl.col("count").last())


class CountingRows(StatefulProcessor):
    """Spark's form by rows."""

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "count bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        found = self.count.get()
        count = 0 if found is None else found[0]
        for _ in rows:
            count += 1
            yield Row(key=key[0], count=count)
        self.count.update((count,))

    def close(self) -> None:
        pass


class CountingFrames(StatefulProcessor):
    """Spark's form by pandas frames."""

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "count bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        found = self.count.get()
        count = 0 if found is None else found[0]
        for frame in rows:
            yield pd.DataFrame({"key": key[0], "count": range(count + 1, count + len(frame) + 1)})
            count += len(frame)
        self.count.update((count,))

    def close(self) -> None:
        pass


def ours(spark: SparkSession, data: Path, process: Any, rows: int, out: Path) -> Run:
    flow = sl.Flow("process")
    source = sl.Files(str(data)).read(format="parquet", schema=SCHEMA, max_files_per_tick=1)
    events = flow.source("events", source, time="at", watermark=sl.Bounded("5s"))
    counted = events.key_by("key").process("counted", process, output=OUTPUT)
    counted.sink("out", sl.Files(str(out)).write(format="parquet"), rows="append", columns=["key", "count"])
    return run_flow(spark, flow, out.parent / "state", rows)


def peer(spark: SparkSession, data: Path, form: str, rows: int, shuffle: int, out: Path) -> Run:
    def counted() -> DataFrame:
        grouped = native.read(spark, data, SCHEMA).groupBy("key")
        given = {"outputStructType": OUTPUT, "outputMode": "Append", "timeMode": "None"}
        if form == "rows":
            return grouped.transformWithState(statefulProcessor=CountingRows(), **given)
        return grouped.transformWithStateInPandas(statefulProcessor=CountingFrames(), **given)

    return Run(ends=native.stream(spark, counted, out, shuffle), rows_per_tick=rows)


def write(folder: Path, files: int, per_file: int) -> pl.DataFrame:
    """Files of events, and what must be counted in them, as DuckDB finds it."""
    write_events(folder, format="parquet", rows=files * per_file, files=files, keys=KEYS, hours=files / 60)
    events = f"read_parquet('{folder}/*.parquet')"
    return duckdb.sql(f"select key, row_number() over (partition by key) as count from {events}").pl()


def against_spark(spark: SparkSession, folder: Path, files: int, per_file: int, shuffles: tuple[int, ...]) -> Any:
    answer = write(folder / "in", files, per_file)

    def runner(name: str, run: Any) -> Runner:
        return Runner(name=name, run=run, check=partial(same_rows, name, expected=answer))

    mine = runner("ours", partial(ours, spark, folder / "in", Counting, per_file))
    theirs = [
        runner(f"native, by {form}, {shuffle} partitions", partial(peer, spark, folder / "in", form, per_file, shuffle))
        for form, shuffle in (*(("rows", each) for each in shuffles), ("frames", shuffles[0]))
    ]
    columns = runner("ours, in columns", partial(ours, spark, folder / "in", CountingTogether, per_file))
    speeds = race(folder, [(mine, each, columns) for each in theirs])
    return verdicts("process", speeds, 10, [each.name for each in theirs]), speeds


def in_columns(spark: SparkSession, folder: Path, files: int, per_file: int, rounds: int) -> Any:
    """Our two forms: how long the step of the stage takes in each, and what is left of that in whole ticks."""
    answer = write(folder / "in", files, per_file)
    steps: dict[str, list[float]] = {}
    speeds: dict[str, list[float]] = {}
    for name, process in (("in columns", CountingTogether), ("an event at a time", Counting)) * rounds:
        out = folder / "run" / "out"
        speeds.setdefault(name, []).append(ours(spark, folder / "in", process, per_file, out).rows_per_second)
        same_rows(name, shown_in(out), answer)
        ticks = [each for each in records(storage_at(out.parent / "state")) if each["rows"]]
        steps.setdefault(name, []).append(float(np.median([each["took"]["step"] for each in ticks[1:]])) / SECOND)
        shutil.rmtree(out.parent)
        print(f"{name}: {steps[name][-1]:.3f} s a step, {speeds[name][-1]:,.0f} rows/s", flush=True)
    (fast, slow), (many, few) = (min(each) for each in steps.values()), (max(each) for each in speeds.values())
    found = [
        Verdict(
            what="step in columns against an event at a time", measured=slow / fast, at_least=5,
            notes=f"{fast:.3f} s, {slow:.3f} s; ticks of {per_file:,}",
        ),
        Verdict(what="the same, whole ticks", measured=many / few, notes=f"{many:,.0f}/s, {few:,.0f}/s"),
    ]  # fmt: skip
    return found, {"step_seconds": steps, "rows_per_second": speeds}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.per_key", description="Measure processes.")
    parser.add_argument("--quick", action="store_true", help="does it run?")
    asked = parser.parse_args()
    folder, spark = Path(tempfile.mkdtemp(prefix="strandline-per-key-")), session(None, name="per-key")
    small, great = (4, 2_500), (4, 25_000)
    if not asked.quick:
        small, great = (4, 50_000), (5, 1_000_000)
    first, speeds = against_spark(spark, folder / "small", *small, SHUFFLES[:1] if asked.quick else SHUFFLES)
    second, more = in_columns(spark, folder / "great", *great, 1 if asked.quick else 2)
    shutil.rmtree(folder)
    about = f"counts of {KEYS:,} keys, ticks of {small[1]:,} events"
    data = {"rows_per_second": speeds, "our_forms": more}
    return conclude("per_key", about, [*first, *second], data, quick=asked.quick)


if __name__ == "__main__":
    sys.exit(main())
