"""Watermarks of real topics: a partition that is slow is told from one that is idle, whatever admission does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import strandline as sl
from strandline.model.time import Instant
from strandline.store.journal import records
from strandline.store.storage import storage_at
from tests.servers import PATIENCE
from tests.sources.kafka.broker import Broker

pytestmark = pytest.mark.slow
NOON = Instant.of("2026-01-01T12:00:00Z")


@dataclass
class Counting:
    """A flow that counts the events of each partition by the minute, and keeps those that are late."""

    broker: Broker
    state: Path
    topic: str
    idle_after: str
    panes: sl.Memory = field(default_factory=lambda: sl.Memory("panes"))
    late: sl.Memory = field(default_factory=lambda: sl.Memory("late"))

    def run(self, **options: Any) -> sl.Run:
        flow = sl.Flow("counting")
        source = self.broker.source(self.topic, schema="n int, at timestamp")
        events = flow.source("events", source, time="at", watermark=sl.Bounded("20s", idle_after=self.idle_after))
        counted = events.key_by("kafka_partition").window(sl.Tumbling("1m")).aggregate("counted", n=sl.Count())
        counted.sink("panes", self.panes, rows="append")
        counted.late.sink("late", self.late, rows="append")
        return flow.run(state=self.state, **options)

    def counts(self, partition: int) -> dict[str, int]:
        """Events of each minute, in panes."""
        found = [row for row in self.panes.rows if row["kafka_partition"] == partition]
        return {Instant.of(row["window_start"]).text[11:16]: row["n"] for row in found}

    def partitions(self) -> list[dict[str, Any]]:
        """What the journal says of the partitions, tick by tick."""
        return [each["partitions"]["events"] for each in records(storage_at(self.state))]


def put(broker: Broker, topic: str, partition: int, seconds: Iterable[float]) -> None:
    """Events that lie so many seconds behind noon."""
    texts = [Instant(NOON + int(each * 1_000_000)).text for each in seconds]
    broker.put(topic, [f'{{"n": {n}, "at": "{at}"}}'.encode() for n, at in enumerate(texts)], partition=partition)


def eventually(holds: Callable[[], Any]) -> None:
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.05)


def test_a_partition_with_a_backlog_of_six_hours_makes_nothing_late(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    counting = Counting(broker, tmp_path, broker.topic(2), idle_after="100ms")
    put(broker, counting.topic, 0, range(-6 * 3600, 0, 30))
    put(broker, counting.topic, 1, range(-60, 0))
    counting.run(spark=spark, until="caught_up", max_rows_per_tick=120, batch_interval="0s")
    ticks = counting.partitions()
    assert len(ticks) >= 5
    assert any(tick[f"{counting.topic}/1"]["idle"] for tick in ticks)  # so it did not hold the other one
    assert not any(tick[f"{counting.topic}/0"]["idle"] for tick in ticks[:-1])
    counting.run(spark=spark, until="end")
    assert counting.late.rows == []
    assert list(counting.counts(0).values()) == [2] * 360
    assert counting.counts(1) == {"11:59": 60}


def test_a_partition_that_was_idle_comes_back_and_its_old_rows_are_counted_or_late(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    counting = Counting(broker, tmp_path, broker.topic(2), idle_after="500ms")
    put(broker, counting.topic, 0, [1, 70])
    put(broker, counting.topic, 1, [2])
    run = counting.run(spark=spark, batch_interval="100ms", wait=False)
    eventually(lambda: run.head and run.head.sources["events"].partitions[f"{counting.topic}/1"].idle)
    put(broker, counting.topic, 0, [300])  # to which time goes, without the one that is idle
    eventually(lambda: run.progress["watermarks"]["events"] == NOON + 280_000_000)
    put(broker, counting.topic, 1, [30, 250, 290, 310])
    eventually(lambda: len(counting.late.rows) == 1)
    run.drain()
    run.wait(PATIENCE)
    ((late, partition),) = [(row["at"], row["kafka_partition"]) for row in counting.late.rows]
    assert (Instant.of(late), partition) == (Instant(NOON + 30_000_000), 1)
    assert counting.counts(0) == {"12:00": 1, "12:01": 1, "12:05": 1}
    assert counting.counts(1) == {"12:00": 1, "12:04": 2, "12:05": 1}


def test_a_partition_that_admission_leaves_out_for_long_is_not_idle(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    counting = Counting(broker, tmp_path, broker.topic(4), idle_after="500ms")
    for partition in range(3):
        put(broker, counting.topic, partition, range(600, 604))
    put(broker, counting.topic, 3, range(0, 240, 60))
    counting.run(spark=spark, until="caught_up", max_rows_per_tick=1, batch_interval="300ms")
    ticks = counting.partitions()
    waiting = [tick[f"{counting.topic}/3"] for tick in ticks if tick[f"{counting.topic}/3"]["position"] < 4]
    assert len(waiting) >= 12  # three others have a turn between two of its own: more than twice idle_after
    assert not any(each["idle"] for each in waiting)
    counting.run(spark=spark, until="end")
    assert counting.late.rows == []
    assert list(counting.counts(3).values()) == [1] * 4
