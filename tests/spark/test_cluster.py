"""A real cluster on this machine: a master and two workers, to whose executors the package is shipped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import pyspark
import pytest
from pyspark.sql import SparkSession

from strandline.store.storage import storage_at
from tests.spark import cluster_job

pytestmark = pytest.mark.slow
START = 1_767_225_600_000_000  # 2026-01-01
ROWS = 50_000
SPARK_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
# Executors must not find the package where the driver does: only what was shipped to them counts.
HIDING = """
import os, sys
sys.path[:] = [path for path in sys.path if not os.path.isdir(os.path.join(path, "strandline"))]
"""


@contextmanager
def daemon(log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of Spark's, and whatever it starts, gone afterwards."""
    hidden, work = str(log.parent / "hidden"), str(log.parent / "work")
    environment = {**os.environ, "SPARK_WORKER_DIR": work, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": hidden}
    with log.open("wb") as said:
        process = subprocess.Popen(
            [SPARK_CLASS, *arguments], stdout=said, stderr=said, env=environment, start_new_session=True
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def said(log: Path, pattern: str, seconds: int = 120) -> str:
    """What a log says, once it does."""
    for _ in range(10 * seconds):
        if found := re.search(pattern, log.read_text(encoding="utf-8", errors="replace")):
            return found[0]
        time.sleep(0.1)
    raise AssertionError(f"{log} did not say {pattern!r}: {log.read_text(errors='replace')[-2000:]}")


@contextmanager
def worker(folder: Path, name: str, master: str) -> Iterator[None]:
    """A worker with one core, once it is registered."""
    log = folder / f"{name}.log"
    kind = "org.apache.spark.deploy.worker.Worker"
    with daemon(log, kind, "--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0", master):
        said(log, "Successfully registered with master")
        yield


def more(folder: Path, number: int) -> None:
    """Another file of events: so many that stages are stepped by tasks, and not by the driver; some are late."""
    drawn = np.random.default_rng(number)
    at = START + drawn.integers(-15, 10, ROWS) * 1_000_000 + number * 10_000_000
    events = pl.DataFrame({"key": drawn.integers(0, 20_000, ROWS), "value": drawn.random(ROWS), "at": at})
    folder.mkdir(exist_ok=True)
    events.with_columns(
        pl.format("key {}", "key").alias("key"), pl.col("at").cast(pl.Datetime("us", "UTC"))
    ).write_parquet(folder / f"{number}.parquet")


def job(folder: Path, master: str) -> None:
    command = [sys.executable, "-m", "tests.spark.cluster_job", master, str(folder / "data"), str(folder / "cluster")]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]


def written(folder: Path) -> pl.DataFrame:
    found = pl.read_parquet(folder / "*.parquet")
    return found.select(name for name in found.columns if not isinstance(found[name].dtype, pl.List)).sort(pl.all())


def test_a_cluster_gives_what_one_machine_gives_also_when_a_worker_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sitecustomize.py").write_text(HIDING)
    data, alone, log = tmp_path / "data", tmp_path / "alone", tmp_path / "master.log"
    kind = "org.apache.spark.deploy.master.Master"
    with daemon(log, kind, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"):
        master = said(log, r"spark://127\.0\.0\.1:\d+")
        with worker(tmp_path, "first", master):
            more(data, 1)
            more(data, 2)
            with worker(tmp_path, "second", master):
                job(tmp_path, master)
            more(data, 3)
            job(tmp_path, master)
    cluster_job.run(spark, str(data), str(alone))
    for sink in ("shown", "late"):
        assert written(tmp_path / "cluster" / sink).equals(written(alone / sink))
    assert written(alone / "shown")["n"].sum() > ROWS
    assert written(alone / "late").height > 0
    files = storage_at(tmp_path / "cluster" / "state").names("state/sums/")
    shares = [sum(f"/{tick:012}-" in file for file in files) for tick in range(3)]
    assert shares == [2, 2, 2]  # stepped by tasks, of which there are two at least, however few the executors
