"""A flow on a cluster, in a process of its own: `python -m tests.spark.cluster_job MASTER DATA OUT`."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import strandline as sl


def flow(data: str, out: str) -> sl.Flow:
    """Sums of events with disorder, one file per tick; what is late goes elsewhere."""
    made = sl.Flow("clustered")
    files = sl.Files(f"{data}/*.parquet").read(
        format="parquet", schema="key string, value double, at timestamp", max_files_per_tick=1
    )
    events = made.source("events", files, time="at", watermark=sl.Bounded("1s"))
    shown = events.key_by("key").window(sl.Tumbling("10s")).aggregate("sums", n=sl.Count(), total=sl.Sum("value"))
    shown.sink("out", sl.Files(f"{out}/shown").write(format="parquet"), rows="append")
    shown.late.sink("late", sl.Files(f"{out}/late").write(format="parquet"), rows="append")
    return made


def run(spark: SparkSession, data: str, out: str) -> None:
    """Read what is there; the state is kept beside what is shown."""
    flow(data, out).run(state=f"{out}/state", spark=spark, until="caught_up")


def main(master: str, data: str, out: str) -> None:
    builder = (
        SparkSession.builder.master(master).config("spark.ui.enabled", "false").config("spark.executor.cores", "1")
    )
    spark = builder.config("spark.executor.memory", "512m").getOrCreate()
    try:
        run(spark, data, out)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
