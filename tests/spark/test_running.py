"""A run can be stopped, drained and tried again; time passes without data; a slow sink may fall behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

import strandline as sl
from strandline.errors import SinkError
from strandline.store.journal import backlog_of, records
from strandline.store.manifests import Manifests
from strandline.store.opened import OPENED
from strandline.store.savepoints import take
from strandline.store.storage import storage_at

pytestmark = pytest.mark.slow
PATIENCE = 120.0  # seconds; a wait ends as soon as what is waited for is there


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        threading.Event().wait(0.05)


@pytest.fixture
def orders(tmp_path: Path) -> sl.Stream:
    (tmp_path / "in").mkdir()
    at = pl.datetime_range(
        pl.datetime(2026, 1, 1, 12), pl.datetime(2026, 1, 1, 12, 5), "1s", eager=True, time_zone="UTC", time_unit="us"
    )
    pl.DataFrame({"user": ["ann"] * len(at), "at": at}).write_parquet(tmp_path / "in" / "1.parquet")
    source = sl.Files(str(tmp_path / "in")).read(format="parquet", schema="user string, at timestamp")
    return sl.Flow("orders").source("orders", source, time="at", watermark=sl.Bounded("10s"))


def per_minute(orders: sl.Stream, **options: Any) -> sl.Stage:
    return orders.key_by("user").window(sl.Tumbling("1m"), **options).aggregate("per_minute", n=sl.Count())


def running(stream: sl.Stream) -> sl.Flow:
    assert isinstance(stream.flow, sl.Flow)
    return stream.flow


def test_a_run_between_two_ticks_stops_at_once_and_leaves_windows_open(
    orders: sl.Stream, spark: SparkSession, tmp_path: Path
) -> None:
    shown = sl.Memory("shown")
    per_minute(orders).sink("shown", shown, rows="append")
    run = running(orders).run(state=tmp_path / "state", spark=spark, batch_interval="1h", wait=False)
    eventually(lambda: run.progress["tick"] == 0)
    eventually(lambda: "<b>orders</b> · running · tick 0 at" in run._repr_html_())
    run.stop()
    assert not run.wait(PATIENCE).running
    assert [row["n"] for row in shown.rows] == [60, 60, 60, 60]
    assert run.progress["state_rows"] == {"per_minute": 2}


def test_a_tick_takes_no_more_bytes_than_it_may_and_the_journal_says_what_is_left_of_each_partition(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = sl.Flow("made_up")
    events = flow.source("events", sl.Generator(rows=300, partitions=2), time="at", watermark=sl.Bounded("10s"))
    events.sink("shown", sl.Memory("shown"))
    flow.run(state=tmp_path / "state", spark=spark, until="caught_up", max_bytes_per_tick=48 * 100)
    found = list(records(storage_at(tmp_path / "state")))
    assert found[0]["backlog"] == {"events": {"0": 100, "1": 100}}
    assert [backlog_of(record) for record in found] == [200, 100, 0]


def test_a_run_that_is_over_keeps_no_file_of_its_state_open(
    orders: sl.Stream, spark: SparkSession, tmp_path: Path
) -> None:
    per_minute(orders).sink("shown", sl.Memory("shown"), rows="append")
    running(orders).run(state=tmp_path / "state", spark=spark, until="caught_up", max_rows_per_tick=100)
    assert storage_at(tmp_path / "state").url not in {url for url, _ in OPENED._files}


def test_a_drain_shows_what_is_open_and_finishes_the_flow(
    orders: sl.Stream, spark: SparkSession, tmp_path: Path
) -> None:
    shown = sl.Memory("shown")
    per_minute(orders).sink("shown", shown, rows="append")
    run = running(orders).run(state=tmp_path / "state", spark=spark, batch_interval="100ms", wait=False)
    eventually(lambda: (run.progress["tick"] or 0) >= 1)
    run.drain()
    assert run.wait(PATIENCE).progress["finished"]
    assert [row["n"] for row in shown.rows] == [60, 60, 60, 60, 60, 1]


def test_a_processing_time_trigger_fires_although_no_data_comes(
    orders: sl.Stream, spark: SparkSession, tmp_path: Path
) -> None:
    shown = sl.Memory("shown")
    trigger = sl.AfterWatermark(early=sl.AfterProcessingTime("1s"))
    per_minute(orders, trigger=trigger, mode="retracting").sink("shown", shown, rows="changelog")
    run = running(orders).run(state=tmp_path / "state", spark=spark, batch_interval="100ms", wait=False)
    eventually(lambda: any(row["pane_timing"] == "early" for row in shown.rows))
    run.stop()
    run.wait(PATIENCE)
    assert sum(each["rows"] != {} for each in records(storage_at(tmp_path / "state"))) == 1


def test_a_failed_run_is_tried_again_and_the_count_is_kept(
    orders: sl.Stream, spark: SparkSession, tmp_path: Path
) -> None:
    seen: list[int] = []

    def fail_once(frame: Any, tick: Any) -> None:
        seen.append(frame.count())
        if len(seen) == 1:
            raise ValueError("not now")

    per_minute(orders).sink("out", sl.ForeachTick(fail_once), rows="append")
    run = running(orders).run(state=tmp_path / "state", spark=spark, until="caught_up", restarts=2)
    assert seen == [4, 4]
    assert run.progress["restarts"] == 1


def test_the_journal_says_how_often_a_flow_was_started_again_and_how_long_each_start_took(
    orders: sl.Stream, spark: SparkSession, tmp_path: Path
) -> None:
    per_minute(orders).sink("shown", sl.Memory("shown"), rows="append")
    for _ in range(2):
        running(orders).run(state=tmp_path / "state", spark=spark, until="caught_up")
    first, second = records(storage_at(tmp_path / "state"))
    assert (first["restarts"], second["restarts"]) == (0, 1)
    assert "resumed" not in first["took"]
    assert 0 < second["took"]["resumed"] < second["took"]["recovery"]
    assert first["took"]["recovery"] >= first["took"]["make"]


def test_after_a_clean_end_no_tick_is_given_to_a_function_again(
    orders: sl.Stream, spark: SparkSession, tmp_path: Path
) -> None:
    seen: list[tuple[int, int]] = []
    given = sl.ForeachTick(lambda frame, tick: seen.append((tick.tick, frame.count())))
    orders.sink("all", given, rows="append")
    orders.where("user = 'ann'").sink("lagging", given, rows="append", max_lag=3)
    for _ in range(2):
        running(orders).run(state=tmp_path / "state", spark=spark, until="caught_up")
    assert sorted(each for each in seen if each[1]) == [(0, 301), (0, 301)]


def test_the_active_session_stays_that_of_the_user(orders: sl.Stream, spark: SparkSession, tmp_path: Path) -> None:
    def looked_up(frame: Any) -> Any:
        return frame.join(frame.sparkSession.createDataFrame([("ann",)], "user string"), "user", "leftsemi")

    seen: list[int] = []
    active = spark.newSession()
    active.createDataFrame([(1,)], "n int")
    for lag in (None, 3):
        given = sl.ForeachTick(lambda frame, tick: seen.append(frame.count()))
        orders.transform(looked_up).sink(f"lag-{lag}", given, rows="append", max_lag=lag)
    running(orders).run(state=tmp_path / "state", spark=spark, until="caught_up")
    assert seen == [301, 301]
    assert SparkSession.getActiveSession() is active
    spark.createDataFrame([(1,)], "n int")  # as it was, for other tests


def test_a_default_file_system_elsewhere_changes_nothing(
    orders: sl.Stream, spark: SparkSession, tmp_path: Path
) -> None:
    given, shown = spark.newSession(), sl.Memory("shown")
    given.conf.set("fs.defaultFS", "hdfs://127.0.0.1:1/")
    orders.sink("shown", shown, rows="append")
    for _ in range(2):
        running(orders).run(state=tmp_path / "a state%20", spark=given, until="caught_up")
    assert len(shown.rows) == 301


def test_a_start_that_a_sink_refuses_does_not_go_back_to_a_savepoint(
    orders: sl.Stream, spark: SparkSession, tmp_path: Path
) -> None:
    storage = storage_at(tmp_path / "state")
    orders.sink("shown", sl.Memory("shown"), rows="append")
    flow = running(orders)
    flow.run(state=tmp_path / "state", spark=spark, until="caught_up")
    take(storage, "before")
    head = Manifests(storage).head()
    with pytest.raises(SinkError, match="of another incarnation"):
        flow.run(state=tmp_path / "state", spark=spark, until="caught_up", from_savepoint="before")
    assert Manifests(storage).head() == head
    options: dict[str, Any] = {"from_savepoint": "before", "acknowledged": True}
    run = flow.run(state=tmp_path / "state", spark=spark, until="caught_up", **options)
    assert run.head is not None
    assert head is not None
    assert (run.head.number, run.head.incarnation != head.incarnation) == (head.number + 2, True)


def test_a_finished_flow_says_that_it_reads_nothing_more(
    orders: sl.Stream, spark: SparkSession, tmp_path: Path
) -> None:
    per_minute(orders).sink("shown", sl.Memory("shown"), rows="append")
    flow = running(orders)
    assert flow.run(state=tmp_path / "state", spark=spark, until="end").notes == []
    again = flow.run(state=tmp_path / "state", spark=spark, until="end", drop=["old"])
    assert again.notes == [
        "There is no 'old' in the state to drop.",
        "The flow came to its end in tick 0: nothing is read any more.",
    ]


FIVE_TICKS: dict[str, Any] = {"until": "caught_up", "max_rows_per_tick": 100}


def lagging(flow: sl.Flow, function: Callable[[Any, Any], None]) -> sl.Flow:
    """The flow with 500 rows on their way to a function that may be ten ticks behind."""
    events = flow.source("events", sl.Generator(seed=1, rows=500, rate=10), time="at")
    events.sink("lagging", sl.ForeachTick(function), rows="append", max_lag=10)
    return flow


def test_a_sink_that_may_lag_gets_every_tick_in_order(spark: SparkSession, tmp_path: Path) -> None:
    flow, ticks, gate = sl.Flow("lagging"), [], threading.Event()

    def slow(frame: Any, tick: Any) -> None:
        assert gate.wait(PATIENCE)
        ticks.append((tick.tick, frame.count()))

    run = lagging(flow, slow).run(**FIVE_TICKS, state=tmp_path, spark=spark, wait=False)
    eventually(lambda: run.progress["tick"] == 4)
    gate.set()
    run.wait(PATIENCE)
    assert [tick for tick, _ in ticks] == sorted(tick for tick, _ in ticks)
    assert sum(rows for _, rows in ticks) == 500


def test_what_a_lagging_sink_did_not_get_it_gets_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    flow, ticks, behind, mended = sl.Flow("behind"), [], threading.Event(), threading.Event()

    def broken(frame: Any, tick: Any) -> None:
        if tick.tick == 1 and not mended.is_set():
            assert behind.wait(PATIENCE)
            raise ValueError("not now")
        ticks.append((tick.tick, frame.count()))

    run = lagging(flow, broken).run(**FIVE_TICKS, state=tmp_path, spark=spark, wait=False)
    eventually(lambda: run.progress["tick"] == 3)
    behind.set()
    with pytest.raises(SinkError, match="not now"):
        run.wait(PATIENCE)
    assert [tick for tick, _ in ticks] == [0]
    mended.set()
    flow.run(**FIVE_TICKS, state=tmp_path, spark=spark)
    # At least once: nobody may have noted yet that it had tick 0.
    assert [tick for tick, rows in ticks if rows and tick] == [1, 2, 3, 4]
    assert sum(dict(ticks).values()) == 500
