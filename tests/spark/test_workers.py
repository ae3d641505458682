"""Workers are few: the same ones read and step."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import strandline as sl
from strandline.spark import engine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="only Linux shows processes as files"),
]


def daemons_of(spark: SparkSession) -> list[str]:
    """The processes from which this session's JVM has workers for tasks forked."""
    jvm = spark._jvm
    assert jvm is not None
    parent = jvm.java.lang.ProcessHandle.current().pid()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile
            words = (process / "cmdline").read_text().split("\0")
            if words[-3:-1] == ["pyspark.daemon", "pyspark.worker"]:
                found += [process.name] * (f"PPid:\t{parent}\n" in (process / "status").read_text())
    return found


def test_reading_and_stepping_share_their_workers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "SMALL", 0)
    flow, shown = sl.Flow("shared"), sl.Memory("shown")
    events = flow.source("events", sl.Generator(seed=1, rows=1_000, keys=10), time="at")
    counts = events.key_by("key").window(sl.Tumbling("1m")).aggregate("counts", n=sl.Count())
    counts.sink("shown", shown, rows="append")
    flow.run(state=tmp_path, spark=spark, until="end")
    assert sum(row["n"] for row in shown.rows) == 1_000
    assert len(daemons_of(spark)) == 1
