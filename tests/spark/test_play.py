"""What only Spark can play: users' PySpark code, and expressions that the model does not know."""

from __future__ import annotations

from random import randrange
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import strandline as sl
from strandline.errors import DataError, TranscriptError
from strandline.testing import Crash, Events, Tick, Watermark, play

pytestmark = pytest.mark.slow

ROWS: list[dict[str, Any]] = [
    {"user": "ann", "amount": 3, "at": "2026-01-01T12:00:03Z"},
    {"user": "bob", "amount": 5, "at": "2026-01-01T12:00:04Z"},
]
END = Watermark("2026-01-01T12:01:00Z")


def orders() -> sl.Stream:
    return sl.Flow("orders").source("orders", sl.Rows(schema="user string, amount long, at timestamp"), time="at")


def doubled(frame: DataFrame) -> DataFrame:
    return frame.withColumn("amount", f.col("amount") * 2)


def test_a_transform_is_run(spark: SparkSession) -> None:
    per_minute = orders().transform(doubled).key_by("user").window(sl.Tumbling("1m")).aggregate("m", s=sl.Sum("amount"))
    shown = play(per_minute, [Events(ROWS), Crash(), END], runner="spark", spark=spark)
    assert [{pane["user"]: pane["s"] for pane in panes} for panes in shown] == [{}, {}, {"ann": 6, "bob": 10}]


def test_a_transform_behind_a_stage_is_run_and_another_may_be_skipped(spark: SparkSession) -> None:
    per_minute = orders().transform(doubled).key_by().window(sl.Tumbling("1m")).aggregate("m", amount=sl.Sum("amount"))
    again = per_minute.transform(doubled, name="again")
    assert play(again, [Events(ROWS), END], runner="spark", spark=spark)[1][0]["amount"] == 32
    assert play(again, [Events(ROWS), END], runner="spark", spark=spark, skip=["doubled"])[1][0]["amount"] == 16


def test_an_expression_that_only_spark_knows_is_run(spark: SparkSession) -> None:
    shown = play(orders().where("soundex(user) = 'B100'"), [Events(ROWS)], runner="spark", spark=spark)
    assert [row["user"] for row in shown[0]] == ["bob"]


def test_many_tasks_show_the_same(spark: SparkSession) -> None:
    stage = orders().key_by("user").window(sl.Tumbling("1m")).aggregate("m", s=sl.Sum("amount"))
    steps = [Tick([*ROWS, *ROWS]), Crash(), END]
    assert sorted(map(repr, play(stage, steps, runner="spark", spark=spark, tasks=3)[2])) == sorted(
        map(repr, play(stage, steps, runner="kernel")[2])
    )


class Wandering(sl.CustomWindow):
    """Impure on purpose: an event's window is another one each time that it is asked for."""

    longest = sl.Span.of("1h")

    def assign(self, time: sl.Instant, row: Any) -> list[tuple[int, int]]:
        return [(time, time + 1_000_000 + randrange(1_000_000_000))]


def test_a_tick_that_leaves_something_else_when_it_is_made_again_is_told(spark: SparkSession) -> None:
    stage = orders().key_by("user").window(Wandering()).aggregate("m", n=sl.Count())
    with pytest.raises(DataError, match="Tick 1: after the crash the tick, made again, leaves"):
        play(stage, [Events(ROWS), Crash(), END], runner="spark", spark=spark)


def test_an_error_of_a_play_comes_through_the_engine(spark: SparkSession) -> None:
    stage = orders().key_by("user").window(sl.Tumbling("1m")).aggregate("m", n=sl.Count())
    with pytest.raises(TranscriptError, match="Tick 2: the watermark goes back"):
        play(stage, [END, Watermark("2026-01-01T12:00:00Z")], runner="spark", spark=spark)
