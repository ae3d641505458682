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

import polars as pl
import pyspark
import pytest
from pyspark.sql import SparkSession

from strandline.store.journal import records
from strandline.store.storage import storage_at
from tests.spark import cluster_job

pytestmark = pytest.mark.slow
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


def job(folder: Path, master: str, rows: int) -> None:
    arguments = [master, str(folder / "state"), str(folder / "out"), str(rows)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "tests.spark.cluster_job", *arguments]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]


def written(folder: Path) -> pl.DataFrame:
    found = pl.read_parquet(folder / "*.parquet")
    return found.select(name for name in found.columns if not isinstance(found[name].dtype, pl.List)).sort(pl.all())


def test_a_cluster_gives_what_one_machine_gives_also_when_a_worker_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sitecustomize.py").write_text(HIDING)
    log = tmp_path / "master.log"
    kind = "org.apache.spark.deploy.master.Master"
    with daemon(log, kind, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"):
        master = said(log, r"spark://127\.0\.0\.1:\d+")
        with worker(tmp_path, "first", master):
            with worker(tmp_path, "second", master):
                job(tmp_path, master, 100_000)
            job(tmp_path, master, 200_000)
    alone = tmp_path / "alone"
    for rows in (100_000, 200_000):
        cluster_job.run(spark, str(alone / "state"), str(alone / "out"), rows)
    for sink in ("out", "out-late"):
        assert written(tmp_path / sink).equals(written(alone / sink))
    assert written(tmp_path / "out")["n"].sum() > 90_000
    assert [record["tick"] for record in records(storage_at(tmp_path / "state"))][:4] == [0, 1, 2, 3]
