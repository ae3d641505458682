"""A flow on Spark gives the same answer however it is run: in one process or in tasks, through PySpark code or not."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

import strandline as sl
from strandline.errors import RunError, StateError
from strandline.spark import engine
from strandline.spark.resolving import resolved
from strandline.store.journal import records
from strandline.store.savepoints import take
from strandline.store.storage import storage_at

pytestmark = pytest.mark.slow

ROWS = 6_000
Memories = dict[str, Any]


def doubled(frame: DataFrame) -> DataFrame:
    return frame.withColumn("value", frame["value"] * 2.0 / 2.0)


def flow_of(*, transform: bool = False, source: Any = None) -> tuple[sl.Flow, Memories]:
    flow = sl.Flow("engine")
    made = source or sl.Generator(seed=3, rows=ROWS, rate=50, keys=20, disorder="5s", late_share=0.02, late_by="2m")
    events = flow.source("events", made, time="at", watermark=sl.Bounded("5s"))
    events = events.transform(doubled) if transform else events
    per_key = events.key_by("key").window(sl.Tumbling("10s")).aggregate("per_key", n=sl.Count(), total=sl.Sum("value"))
    overall = per_key.key_by().window(sl.Tumbling("1m")).aggregate("overall", events=sl.Sum("n"), keys=sl.Count())
    memories = {name: sl.Memory(name) for name in ("panes", "overall", "late", "picked")}
    per_key.sink("panes", memories["panes"], rows="append")
    overall.sink("overall", memories["overall"], rows="append")
    per_key.late.sink("late", memories["late"], rows="append")
    events.where("n % 100 = 0").sink("picked", memories["picked"], rows="append")
    return flow, memories


def answer(memories: Memories) -> dict[str, list[str]]:
    return {name: sorted(map(repr, memory.rows)) for name, memory in memories.items()}


@pytest.fixture(scope="module")
def plain(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, list[str]], Memories, Path]:
    flow, memories = flow_of()
    state = tmp_path_factory.mktemp("plain")
    flow.run(state=state, spark=spark, until="caught_up", max_rows_per_tick=1_500)
    return answer(memories), memories, state


def test_every_event_is_in_a_pane_or_late_and_the_second_stage_counts_the_same(plain: Any) -> None:
    _, memories, _ = plain
    counted = sum(row["n"] for row in memories["panes"].rows)
    assert counted + len(memories["late"].rows) == ROWS
    assert sum(row["events"] for row in memories["overall"].rows) == counted
    assert len(memories["picked"].rows) == ROWS // 100
    assert memories["late"].rows


def test_the_journal_has_each_tick_once_and_its_books_balance(plain: Any) -> None:
    _, memories, state = plain
    found = list(records(storage_at(state)))
    assert [each["tick"] for each in found] == list(range(len(found)))
    books = [each["books"]["per_key"] for each in found if "per_key" in each["books"]]
    assert all(each["rows"] == each["kept"] + each["late"] + each["rejected"] for each in books)
    assert sum(each["late"] for each in books) == len(memories["late"].rows)


def test_the_journal_says_what_a_tick_was_busy_with(plain: Any) -> None:
    _, memories, state = plain
    found = [each for each in records(storage_at(state)) if each["rows"]]
    for each in found:
        took = each["took"]
        assert took["read"] + took["step"] + took["waited"] <= took["make"]
        assert took["make"] + took["commit"] + took["publish"] <= took["latency"] + 1_000_000
        assert min(took[part] for part in ("idle", "read", "step", "waited", "commit", "publish")) >= 0
        assert each["partitions"]["events"]["0"]["lag"] > 0
        assert sum(count for _, count in each["lags"]["events"]["0"]) == each["rows"]["events"]["0"]
        assert each["rejected"] == {"events": {}}
        assert each["behind"]["events"].get("0", 0) >= each["books"]["per_key"]["late"]
    assert sum(each["behind"]["events"].get("0", 0) for each in found) < ROWS / 10
    assert all(
        (each["interval"], each["endless"]) == (1_000_000, []) and each["bounds"]["events"] > 0 for each in found
    )
    shown = sum((Counter(each["panes"]["per_key"]) for each in found), Counter())
    assert shown == Counter(row["pane_timing"] for row in memories["panes"].rows)
    hottest = [hot for each in found for hot in each["hottest"]["per_key"]]
    assert {hot["key"] for hot in hottest} <= {row["key"] for row in memories["panes"].rows}
    assert all(0 < hot["share"] < 1 for hot in hottest)
    assert all(len(each["hottest"]["per_key"]) == 3 for each in found)


def test_steps_in_tasks_of_spark_give_the_same_answer(
    plain: Any, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "SMALL", 0)
    flow, memories = flow_of()
    flow.run(state=tmp_path, spark=spark, until="caught_up", max_rows_per_tick=1_500)
    assert answer(memories) == plain[0]
    written = [name[:27] for name in storage_at(tmp_path).names("state/per_key/")]
    assert max(map(written.count, written)) == 2  # a file for each of two tasks


def test_rows_that_pass_through_pyspark_code_give_the_same_answer(
    plain: Any, spark: SparkSession, tmp_path: Path
) -> None:
    flow, memories = flow_of(transform=True)
    flow.run(state=tmp_path, spark=spark, until="caught_up", max_rows_per_tick=1_500)
    assert answer(memories) == plain[0]


def test_conditions_that_only_spark_understands_are_asked_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    flow, shown = sl.Flow("conditions"), sl.Memory("shown")
    events = flow.source("events", sl.Generator(seed=3, rows=2_000, keys=20), time="at")
    trigger = sl.AfterWatermark(early=sl.OnEvent("regexp_like(key, '7$')"))
    counts = events.key_by("key").window(sl.Global(), trigger=trigger).aggregate(
        "counts", n=sl.Count(), sevens=sl.Count(where="regexp_like(key, '7$')"), even=sl.Count(where="n % 2 = 0"))  # fmt: skip
    counts.sink("shown", shown, rows="upsert")
    flow.run(state=tmp_path, spark=spark, until="caught_up", max_rows_per_tick=700)
    early = [row for row in shown.rows if row["pane_timing"] == "early"]
    assert {row["key"] for row in early} == {"k7", "k17"}
    last = {row["key"]: row for row in shown.rows}
    assert len(last) == 20
    assert all(row["sevens"] == (row["n"] if key.endswith("7") else 0) < 2 * row["n"] for key, row in last.items())
    assert sum(row["even"] for row in last.values()) == 1_000


def test_a_condition_that_is_none_is_refused_before_the_start(spark: SparkSession, tmp_path: Path) -> None:
    flow = sl.Flow("none")
    events = flow.source("events", sl.Generator(seed=3, rows=10), time="at")
    counts = events.key_by("key").window(sl.Tumbling("1m")).aggregate("n", n=sl.Count(where="levenshtein(key, 'k')"))
    counts.sink("shown", sl.Memory("none"), rows="append")
    with pytest.raises(RunError, match="levenshtein"):
        flow.run(state=tmp_path, spark=spark, until="caught_up")


def test_batch_has_no_late_events_and_a_finished_flow_stays_finished(spark: SparkSession, tmp_path: Path) -> None:
    flow, memories = flow_of()
    run = flow.run(state=tmp_path, spark=spark, until="end", max_rows_per_tick=2_500)
    assert sum(row["n"] for row in memories["panes"].rows) == ROWS
    assert not memories["late"].rows
    assert run.progress["finished"]
    shown, tick = answer(memories), run.progress["tick"]
    assert flow.run(state=tmp_path, spark=spark, until="end").progress["tick"] == tick
    assert answer(memories) == shown


def test_a_streaming_dataframe_is_a_source(spark: SparkSession, tmp_path: Path) -> None:
    rows = pl.DataFrame(
        {"key": ["a", "b", "a"], "at": ["2026-01-01T12:00:01Z", "2026-01-01T12:00:02Z", "2026-01-01T12:01:30Z"]}
    )
    (tmp_path / "in").mkdir()
    rows.with_columns(pl.col("at").str.to_datetime(time_unit="us", time_zone="UTC")).write_parquet(
        tmp_path / "in" / "1.parquet"
    )

    def build(session: Any) -> Any:
        return session.readStream.schema("key string, at timestamp").parquet(str(tmp_path / "in"))

    flow, shown = sl.Flow("frames"), sl.Memory("shown")
    events = flow.source("events", sl.DataFrameSource(build, schema="key string, at timestamp"), time="at")
    events.key_by("key").window(sl.Tumbling("1m")).aggregate("n", n=sl.Count()).sink("shown", shown, rows="append")
    flow.run(state=tmp_path / "state", spark=spark, until="caught_up")
    assert sorted((row["key"], row["n"]) for row in shown.rows) == [("a", 1), ("b", 1)]
    rows = rows.with_columns(at=pl.lit("2026-01-01T12:05:00Z"))
    rows.with_columns(pl.col("at").str.to_datetime(time_unit="us", time_zone="UTC")).write_parquet(
        tmp_path / "in" / "2.parquet"
    )
    flow.run(state=tmp_path / "state", spark=spark, until="caught_up")
    assert sorted((row["key"], row["n"]) for row in shown.rows) == [("a", 1), ("a", 1), ("b", 1)]


def frames_flow(folder: Path, shown: Any, change: Any = lambda frame: frame) -> sl.Flow:
    def build(session: Any) -> Any:
        reader = session.readStream.schema("key string, at timestamp").option("maxFilesPerTrigger", 1)
        return change(reader.parquet(str(folder / "in")))

    flow = sl.Flow("frames")
    events = flow.source("events", sl.DataFrameSource(build, schema="key string, at timestamp"), time="at")
    events.sink("shown", shown, rows="append")
    return flow


@pytest.fixture
def three_files(tmp_path: Path) -> Path:
    """The second of which has no rows that pass a filter."""
    (tmp_path / "in").mkdir()
    for number, key in enumerate("axb"):
        rows = pl.DataFrame({"key": [key], "at": [f"2026-01-01T12:0{number}:00Z"]})
        times = pl.col("at").str.to_datetime(time_unit="us", time_zone="UTC")
        rows.with_columns(times).write_parquet(tmp_path / "in" / f"{number}.parquet")
        os.utime(tmp_path / "in" / f"{number}.parquet", (1_700_000_000 + number, 1_700_000_000 + number))
    return tmp_path


def test_a_batch_of_a_dataframe_source_without_rows_is_not_its_end(three_files: Path, spark: SparkSession) -> None:
    shown = sl.Memory("shown")
    flow = frames_flow(three_files, shown, lambda frame: frame.where("key <> 'x'"))
    assert flow.run(state=three_files / "state", spark=spark, until="end").progress["finished"]
    assert [row["key"] for row in shown.rows] == ["a", "b"]


def test_what_a_source_of_sparks_remembers_must_be_there_at_the_next_start(
    three_files: Path, spark: SparkSession
) -> None:
    flow = frames_flow(three_files, sl.Memory("shown"))
    flow.run(state=three_files / "state", spark=spark, until="caught_up")
    shutil.rmtree(three_files / "state" / "spark")
    with pytest.raises(RunError, match="keeps a record of its own"):
        flow.run(state=three_files / "state", spark=spark, until="caught_up")


def test_a_savepoint_keeps_what_a_source_of_sparks_remembered(three_files: Path, spark: SparkSession) -> None:
    shown, state = sl.Memory("shown"), three_files / "state"
    flow = frames_flow(three_files, shown)
    flow.run(state=state, spark=spark, until="caught_up", retain=2)
    take(storage_at(state), "before")
    shutil.copy(three_files / "in" / "2.parquet", three_files / "in" / "3.parquet")
    for _ in range(2):
        flow.run(state=state, spark=spark, until="caught_up", retain=2)
        for offsets in (state / "spark").glob("*/offsets"):
            os.utime(offsets, (1_700_000_000, 1_700_000_000))
    flow.run(state=state, spark=spark, until="caught_up", from_savepoint="before", acknowledged=True)
    assert [row["key"] for row in shown.rows] == ["a", "x", "b", "b", "b"]


def test_a_dataframe_source_that_remembers_rows_is_refused(three_files: Path, spark: SparkSession) -> None:
    flow = frames_flow(three_files, sl.Memory("shown"), lambda frame: frame.dropDuplicates(["key"]))
    with pytest.raises(RunError, match="remembers rows, and would forget them"):
        flow.run(state=three_files / "state", spark=spark, until="caught_up")


def test_a_dataframe_source_may_look_into_a_table_and_not_into_another_stream(
    three_files: Path, spark: SparkSession
) -> None:
    shown = sl.Memory("shown")
    names = spark.createDataFrame([("a", 1), ("a", 2)], "key string, n int").groupBy("key").count()
    with_table = frames_flow(three_files, shown, lambda frame: frame.join(names, "key", "leftsemi"))
    with_table.run(state=three_files / "with-table", spark=spark, until="end")
    assert {row["key"] for row in shown.rows} == {"a"}
    with_itself = frames_flow(three_files, sl.Memory("shown"), lambda frame: frame.join(frame.select("key"), "key"))
    with pytest.raises(RunError, match="remembers rows, and would forget them"):
        with_itself.run(state=three_files / "with-itself", spark=spark, until="caught_up")


def test_a_source_under_the_name_of_another_kind_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    rows = sl.Rows([{"key": "x", "at": "2026-01-01T00:00:00Z"}], schema="key string, at timestamp")
    (tmp_path / "in").mkdir()
    for source in (sl.Files(tmp_path / "in").read(format="json", schema="key string, at timestamp"), rows):
        flow = sl.Flow("kinds")
        flow.source("events", source, time="at").sink("out", sl.Memory("out"), rows="append")
        if source is rows:
            with pytest.raises(StateError, match="is of another kind"):
                flow.run(state=tmp_path / "state", spark=spark, until="caught_up")
        else:
            flow.run(state=tmp_path / "state", spark=spark, until="caught_up")


def test_state_is_not_kept_where_a_source_reads_its_files(spark: SparkSession, tmp_path: Path) -> None:
    flow = sl.Flow("inside")
    events = flow.source("events", sl.Files(tmp_path).read(format="json", schema="at timestamp"), time="at")
    events.sink("out", sl.Memory("out"), rows="append")
    with pytest.raises(RunError, match="where the source 'events' reads its files"):
        flow.run(state=tmp_path / "state", spark=spark, until="caught_up")
    flow.run(state=tmp_path / "_state", spark=spark, until="caught_up")


def test_rows_of_a_dataframe_with_times_that_no_calendar_has_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    def build(session: SparkSession) -> Any:
        rate = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 4).load()
        far = "CASE WHEN value = 3 THEN timestamp_micros(-1000000000000000000) ELSE timestamp_seconds(value) END AS at"
        return rate.where("value < 4").selectExpr("cast(value % 2 AS string) AS key", far)

    flow, shown, rejected = sl.Flow("far"), sl.Memory("shown"), sl.Memory("rejected")
    source = sl.DataFrameSource(build, schema="key string, at timestamp", partition_by="key")
    events = flow.source("events", source, time="at", watermark=sl.Bounded("0s"))
    events.sink("shown", shown, rows="append")
    events.rejected.sink("rejected", rejected, rows="append")
    run = flow.run(state=tmp_path, spark=spark, wait=False, batch_interval="100ms")
    while not (shown.rows and rejected.rows) and run.running:
        run.wait(0.2)
    run.stop()
    run.wait()
    assert sorted(row["key"] for row in shown.rows) == ["0", "0", "1"]
    assert [row["reason"] for row in rejected.rows] == ["column 'at': -1000000000000000000 is no timestamp"]
    assert set(run.head.sources["events"].partitions) == {"0", "1"}


def names(frame: Any) -> Any:
    """A table of all keys but one, that is itself an aggregate."""
    return frame.sparkSession.range(1, 100).selectExpr("concat('k', id) AS key").groupBy("key").count()


@pytest.mark.parametrize(
    "transform",
    [lambda frame: frame.join(names(frame), "key", "left"),
     lambda frame: names(frame).join(frame, "key", "right"),
     lambda frame: frame.where("EXISTS (SELECT 1 FROM range(3) AS r WHERE r.id = n)"),
     lambda frame: frame.union(frame)],
)  # fmt: skip
def test_a_transform_may_look_into_any_table(transform: Any, spark: SparkSession) -> None:
    flow = sl.Flow("looks")
    events = flow.source("events", sl.Generator(seed=1, rows=10), time="at").transform(transform)
    events.sink("out", sl.Memory("out"), rows="append")
    resolved(spark, flow)


def broken(frame: Any) -> Any:
    raise KeyError("prices")


@pytest.mark.parametrize(
    ("transform", "told"),
    [(broken, r"In the transform 'broken', broken raised KeyError \(.*test_engine.py, line \d+\): 'prices'"),
     (lambda frame: frame.crossJoin(names(frame)), "several columns of one name: key"),
     (lambda frame: frame.withColumnRenamed("value", "a.b"), "gives the column 'a.b'"),
     (lambda frame: frame.withColumn("__time", frame["at"]), "makes something else of __time"),
     (lambda frame: frame.limit(1), "is not stateless"),
     (lambda frame: frame.dropDuplicates(["key"]), "is not stateless"),
     (lambda frame: frame.join(frame.select("key"), "key"), "is not stateless"),
     (lambda frame: frame.join(names(frame), "key", "right"), "is not stateless"),
     (lambda frame: names(frame).join(frame, "key", "left"), "is not stateless"),
     (lambda frame: frame.subtract(frame.where("n > 5")), "is not stateless"),
     (lambda frame: frame.sparkSession.sql("SELECT * FROM {f} WHERE n = (SELECT max(n) FROM {f})", f=frame),
      "is not stateless")],
)  # fmt: skip
def test_a_transform_that_cannot_be_asked_or_counts_rows_is_refused_before_the_start(
    transform: Any, told: str, spark: SparkSession, tmp_path: Path
) -> None:
    flow = sl.Flow("refused")
    events = flow.source("events", sl.Generator(seed=1, rows=10), time="at").transform(transform)
    events.sink("out", sl.Memory("out"), rows="append")
    with pytest.raises(RunError, match=told):
        flow.run(state=tmp_path, spark=spark, until="caught_up")


def dotted(session: SparkSession) -> Any:
    return session.readStream.format("rate").load().selectExpr("timestamp AS at", "value AS `a.b`")


@pytest.mark.parametrize(
    ("build", "told"),
    [(broken, "broken raised KeyError"), (lambda spark: None, "gave None"), (dotted, "gives the column 'a.b'")],
)
def test_a_dataframe_source_that_cannot_be_built_is_refused_before_the_start(
    build: Any, told: str, spark: SparkSession, tmp_path: Path
) -> None:
    flow = sl.Flow("unbuilt")
    events = flow.source("events", sl.DataFrameSource(build, schema="key string, at timestamp"), time="at")
    events.sink("out", sl.Memory("out"), rows="append")
    with pytest.raises(RunError, match=told):
        flow.run(state=tmp_path, spark=spark, until="caught_up")


def test_settings_of_the_given_session_do_not_change_the_answer_and_stay_as_they_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    given = spark.newSession()
    mine = {"spark.sql.session.timeZone": "America/New_York", "spark.sql.ansi.enabled": "false"}
    for name, value in mine.items():
        given.conf.set(name, value)
    given.createDataFrame([("x",)], "key string").createOrReplaceTempView("known")
    shown = sl.Memory("shown")
    flow = sl.Flow("zones")
    rows = sl.Rows([{"key": "x", "at": "2026-01-01T00:30:00Z"}], schema="key string, at timestamp")
    events = flow.source("events", rows, time="at").with_column("hour", "hour(at)")
    events = events.where("date_format(at, 'HH') = '00'")  # only Spark knows this one
    events = events.transform(lambda frame: frame.selectExpr("*", "hour(at) AS there"))
    events = events.transform(lambda frame: frame.join(frame.sparkSession.table("known"), "key", "leftsemi"))
    events.sink("shown", shown, rows="append", columns=["hour", "there"])
    flow.run(state=tmp_path, spark=given, until="end")
    assert [dict(row) for row in shown.rows] == [{"hour": 0, "there": 0}]
    assert {name: given.conf.get(name) for name in mine} == mine


def test_a_transform_that_loses_the_time_is_refused_before_the_start(spark: SparkSession, tmp_path: Path) -> None:
    flow = sl.Flow("loses")
    events = flow.source("events", sl.Generator(seed=1, rows=10), time="at").transform(
        lambda frame: frame.select("key")
    )
    events.sink("out", sl.Memory("out"), rows="append")
    with pytest.raises(RunError, match="__time"):
        flow.run(state=tmp_path, spark=spark, until="caught_up")


def test_a_transform_that_gives_other_columns_than_it_says_is_refused_before_the_start(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = sl.Flow("says")
    events = flow.source("events", sl.Generator(seed=1, rows=10), time="at")
    made = events.transform(lambda frame: frame.withColumn("size", frame["n"] + 1), schema="key string, size string")
    made.sink("out", sl.Memory("out"), rows="append")
    with pytest.raises(RunError, match=r"should give key string, size string, and gives .*size bigint"):
        flow.run(state=tmp_path, spark=spark, until="caught_up")


def test_a_changed_stage_and_a_removed_one_are_refused_by_name(plain: Any, spark: SparkSession) -> None:
    _, _, state = plain
    flow = sl.Flow("engine")
    events = flow.source("events", sl.Generator(seed=3, rows=ROWS), time="at")
    changed = events.key_by("key").window(sl.Tumbling("20s")).aggregate("per_key", n=sl.Count(), total=sl.Sum("value"))
    changed.sink("panes", sl.Memory("panes"), rows="append")
    with pytest.raises(StateError, match="window"):
        flow.run(state=state, spark=spark, until="caught_up", drop=["overall"])
    with pytest.raises(StateError, match="overall"):
        flow_without_second_stage().run(state=state, spark=spark, until="caught_up")


def flow_without_second_stage() -> sl.Flow:
    flow = sl.Flow("engine")
    made = sl.Generator(seed=3, rows=ROWS, rate=50, keys=20, disorder="5s", late_share=0.02, late_by="2m")
    events = flow.source("events", made, time="at", watermark=sl.Bounded("5s"))
    per_key = events.key_by("key").window(sl.Tumbling("10s")).aggregate("per_key", n=sl.Count(), total=sl.Sum("value"))
    per_key.sink("panes", sl.Memory("panes"), rows="append")
    return flow
