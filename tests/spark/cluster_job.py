"""A flow on a cluster, in a process of its own: `python -m tests.spark.cluster_job MASTER STATE OUT ROWS`."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import strandline as sl

PER_TICK = 50_000  # so many that stages are stepped by tasks, and not by the driver


def flow(out: str, rows: int) -> sl.Flow:
    """Sums of events with disorder; what is late goes elsewhere."""
    made = sl.Flow("clustered")
    drawn = sl.Generator(seed=5, rows=rows, rate=5_000, keys=20_000, disorder="5s", late_share=0.01, late_by="1m")
    events = made.source("events", drawn, time="at", watermark=sl.Bounded("5s"))
    shown = events.key_by("key").window(sl.Tumbling("10s")).aggregate("sums", n=sl.Count(), total=sl.Sum("value"))
    shown.sink("out", sl.Files(out).write(format="parquet"), rows="append")
    shown.late.sink("late", sl.Files(out + "-late").write(format="parquet"), rows="append")
    return made


def run(spark: SparkSession, state: str, out: str, rows: int) -> None:
    flow(out, rows).run(state=state, spark=spark, until="caught_up", max_rows_per_tick=PER_TICK)


def main(master: str, state: str, out: str, rows: str) -> None:
    builder = (
        SparkSession.builder.master(master).config("spark.ui.enabled", "false").config("spark.executor.cores", "1")
    )
    spark = builder.config("spark.executor.memory", "512m").getOrCreate()
    try:
        run(spark, state, out, int(rows))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
