"""Spark sessions to measure memory in: a heap of one size from the beginning, so that what grows is no idle heap."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from strandline.spark.session import SETTINGS, session

MASTER = "local[2,4]"


def steady_session(name: str, heap: str = "1g", **settings: str) -> SparkSession:
    """A session whose JVM has its whole heap in memory from the start."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    java = f"{SETTINGS['spark.driver.extraJavaOptions']} -Xms{heap} -XX:+AlwaysPreTouch"
    chosen = {**SETTINGS, "spark.driver.memory": heap, "spark.driver.extraJavaOptions": java, **settings}
    builder = SparkSession.builder.appName(name).master(MASTER)
    for setting, value in chosen.items():
        builder = builder.config(setting, value)
    return session(builder.getOrCreate(), name=name)


def live_heap(spark: SparkSession) -> int:
    """The bytes of the JVM's heap that are in use after everything that is not was collected."""
    jvm = spark._jvm
    assert jvm is not None
    jvm.java.lang.System.gc()
    beans = jvm.java.lang.management.ManagementFactory
    return int(beans.getMemoryMXBean().getHeapMemoryUsage().getUsed())
