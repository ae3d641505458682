"""The Spark session of a run: given, or made with what Strandline needs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

from pyspark import SparkContext, cloudpickle
from pyspark.sql import SparkSession

from strandline.errors import RunError
from strandline.spark import datasource
from strandline.spark.failures import UNANSWERED
from strandline.spark.java import require_java

SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "FATAL",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.driver.extraJavaOptions": "-Xss64m",  # stopping a query has overflowed smaller stacks
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.pollingDelay": "5ms",
    "spark.python.worker.reuse": "true",
    # Spark tells workers of this in their environment, but only those that read: those that step would be others.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.executorEnv.POLARS_MAX_THREADS": "1",  # one worker per core already
    # Rows of a transform are counted into batches; to weigh the batch after each row took longer than to make it.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    # A task needs the memory that the one before gave back: to have it come and go took a third of each task's time.
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(64 * 1024 * 1024),
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 * 1024 * 1024),
}

_CHECKPOINTING: Final = "org.apache.spark.sql.execution.streaming.checkpointing"
OF_RUNS: Final = {
    **{name: value for name, value in SETTINGS.items() if name.startswith("spark.sql.")},
    # What a user's session says of these would change what an expression means wherever Spark happens to run it.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    # Spark's default starts a process (chmod) for every file it writes to a local disk: a tenth of a second a tick. What
    # it gives for that, the refusal of a second writer, is not needed: a run's checkpoint is its own, and who owns the
    # flow the manifests decide.
    "spark.sql.streaming.checkpointFileManagerClass": f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
}
"""Settings of the session that a run has for itself, whatever those of the given one are."""


def session(given: Any = None, *, name: str, master: str | None = None) -> SparkSession:
    """The session that was given, checked; or that this process has; or one that runs on this machine (or on `master`)."""
    require_startable(given)
    spark: SparkSession = given or _there() or _make(name, master)
    return spark


def require_startable(given: Any = None) -> None:
    """Say what is in the way of a session, and start none."""
    if given is not None:
        _require_classic(given)
    elif _there() is None:
        require_java()


def _there() -> SparkSession | None:
    """The session that this process has, if its Java lives."""
    _forget_a_dead_java()
    there = SparkSession._instantiatedSession
    return None if there is None or there._sc._jsc is None else there


def session_of_run(spark: SparkSession) -> SparkSession:
    """A session of a run's own beside this one: with its views and functions, and settings that touch nobody else's.

    It becomes the active one of this thread: Spark asks that one which formats are known.
    """
    own = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession(), OF_RUNS)
    _of_runs.add(own)
    _make_active(own)
    _ship(own)  # before the source is registered, which takes along what is shipped by then
    cloudpickle.register_pickle_by_value(datasource)  # type: ignore[no-untyped-call]
    if not own._jsparkSession.sessionState().dataSourceManager().dataSourceExists(datasource.FORMAT):
        own.dataSource.register(datasource.StrandlineSource)  # unless it is beside one that belongs to a run already
    return own


@contextmanager
def active_as_before() -> Iterator[None]:
    """If the session of a run becomes the active one within, in the end it is again the last that was no run's.

    Python has one for all threads, so what a run does in its own would change it where the user works; Java has one for
    each thread.
    """
    found, java = SparkSession._activeSession, None
    if found is not None and found not in _of_runs:
        _theirs[:] = [found]
    with suppress(*UNANSWERED):
        java = None if found is None else _sessions_of(found).getActiveSession()
    try:
        yield
    finally:
        if _theirs and SparkSession._activeSession in _of_runs:
            SparkSession._activeSession = _theirs[0]
        if java is not None:
            assert found is not None, "Java was asked by it"
            with suppress(*UNANSWERED):
                if java.isDefined():
                    _sessions_of(found).setActiveSession(java.get())
                else:
                    _sessions_of(found).clearActiveSession()


_of_runs: WeakSet[SparkSession] = WeakSet()
_theirs: list[SparkSession] = []  # the last active session that was no run's


def _make_active(spark: SparkSession) -> None:
    SparkSession._activeSession = spark
    _sessions_of(spark).setActiveSession(spark._jsparkSession)


def _sessions_of(spark: SparkSession) -> Any:
    """Java's class of sessions, which knows the active one of each thread."""
    assert spark._jvm is not None
    return SparkSession._get_j_spark_session_class(spark._jvm)


def _make(name: str, master: str | None) -> SparkSession:
    # The daemon that forks workers must be this Python, and hand them one thread each for Polars.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    builder = SparkSession.builder.appName(f"strandline {name}").master(master or "local[*,4]")
    for setting, value in SETTINGS.items():
        builder = builder.config(setting, value)
    return builder.getOrCreate()


def _forget_a_dead_java() -> None:
    """PySpark goes on with the Java process that it knows, though that may be gone: then it must look for a new one."""
    gateway: Any = SparkContext._gateway
    if gateway is not None and gateway.proc is not None and gateway.proc.poll() is not None:
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None


def java_ends(within: float = 5.0) -> bool:
    """Whether the Java process of this process's Spark is gone, or goes before so many seconds are over."""
    gateway: Any = SparkContext._gateway
    if gateway is None or gateway.proc is None:
        return False
    try:
        gateway.proc.wait(within)
    except subprocess.TimeoutExpired:
        return False
    return True


def _require_classic(given: Any) -> None:
    if not isinstance(given, SparkSession) or not hasattr(given, "_jsparkSession"):
        raise RunError(
            f"{type(given).__module__}.{type(given).__name__} is no session that Strandline can run on: under Spark "
            "Connect the driver's code is elsewhere.",
            fix="Give a classic session: SparkSession.builder.master(...).getOrCreate(), or give none.",
        )
    if given._sc._jsc is None:
        raise RunError(
            "The session that was given is stopped.", fix="Give one that runs: SparkSession.builder.getOrCreate()."
        )


_shipped: set[str] = set()  # the applications whose executors have this package


def _ship(spark: SparkSession) -> None:
    """Executors on other machines get this package; what it needs (polars, pyarrow) must be installed there."""
    context = spark.sparkContext
    if str(context.master).startswith("local") or context.applicationId in _shipped:
        return
    root = Path(__file__).parent.parent
    archive = Path(tempfile.mkdtemp(prefix="strandline-")) / "strandline.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in sorted(root.rglob("*.py")):
            packed.write(path, path.relative_to(root.parent))
    context.addPyFile(str(archive))
    _shipped.add(context.applicationId)
