"""The peer: Spark's own Structured Streaming, as its users would set it up. RocksDB, changelog, no row tracking."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks.streams import Run, Workload

SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
}


def run(spark: SparkSession, load: Workload, out: Path, shuffle: int) -> Run:
    """Run the workload once."""

    def windows() -> DataFrame:
        frame = read(spark, load.folder, load.schema, format=load.format, files=load.files_per_tick)
        frame = frame.withWatermark("at", load.bound)
        if load.transformed:
            frame = frame.withColumn("value", sf.col("value") * 1.0)
        return _grouped(frame, load)

    return Run(ends=stream(spark, windows, out, shuffle), rows_per_tick=load.rows_per_tick)


def read(spark: SparkSession, folder: Path, schema: str, *, format: str = "parquet", files: int = 1) -> DataFrame:
    """The files of a folder as a stream, so many in a batch."""
    rows = spark.readStream.schema(schema).format(format).option("maxFilesPerTrigger", files)
    return rows.load(str(folder))


def stream(spark: SparkSession, make: Callable[[], DataFrame], out: Path, shuffle: int) -> list[float]:
    """Run a query over what is there, into a folder; batches end when their rows are in it."""
    for setting, value in SETTINGS.items():
        spark.conf.set(setting, value)
    spark.conf.set("spark.sql.shuffle.partitions", str(shuffle))
    ends: list[float] = []

    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("append").parquet(str(out))
        ends.append(monotonic())

    query = (
        make().writeStream.outputMode("append").foreachBatch(write)
        .option("checkpointLocation", str(out) + "-checkpoint").trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    return ends


def _grouped(frame: DataFrame, load: Workload) -> DataFrame:
    window: Any = {
        "tumbling": lambda: sf.window("at", load.size),
        "hopping": lambda: sf.window("at", load.size, load.every),
        "session": lambda: sf.session_window("at", load.size),
    }[load.kind]()
    grouped = frame.groupBy(window.alias("w"), "key").agg(
        sf.count(sf.lit(1)).alias("n"), sf.sum("value").alias("total")
    )
    return grouped.select(
        "key", sf.col("w.start").alias("window_start"), sf.col("w.end").alias("window_end"), "n", "total"
    )
