"""A flow from a real topic on Spark: each message once, over restarts, with rejected ones beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import strandline as sl
from strandline.errors import DataError
from strandline.store.journal import records
from strandline.store.storage import storage_at
from tests.sources.kafka.broker import Broker

pytestmark = pytest.mark.slow


def event(n: int) -> bytes:
    return b'{"n": %d, "at": "2026-01-01T00:00:%02dZ"}' % (n, n % 60)


def flow_of(source: Any, out: Path) -> sl.Flow:
    flow = sl.Flow("from_kafka")
    events = flow.source("events", source, time="at", watermark=sl.Bounded("1m"))
    events.sink("rows", sl.Files(out / "rows").write(format="json"), rows="append")
    events.rejected.sink("rejected", sl.Files(out / "rejected").write(format="json"), rows="append")
    events.key_by("kafka_partition").window(sl.Tumbling("1m")).aggregate("counted", n=sl.Count()).sink(
        "counted", sl.Memory("counted"), rows="append"
    )
    return flow


def written(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in sorted(folder.glob("*.json*")) for line in file.read_text().splitlines()]


def test_each_message_once_over_restarts_and_bad_ones_with_their_place(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = broker.topic(3)
    source = broker.source(topic, schema="n int, at timestamp")
    made = broker.transactions()
    for run in range(3):
        for partition in range(3):
            low = 1000 * run + 300 * partition
            broker.put(topic, [event(n) for n in range(low, low + 150)], partition=partition)
            made.put(topic, [event(-1)] * 20, partition, end="abort")
            made.put(topic, [event(n) for n in range(low + 150, low + 300)], partition)
            broker.put(topic, [b"poison %d" % run], partition=partition)
        flow_of(source, tmp_path).run(
            state=tmp_path / "state", spark=spark, until="caught_up", max_rows_per_tick=400, batch_interval="0s"
        )
        rows = written(tmp_path / "rows")
        assert sorted(row["n"] for row in rows) == [
            n for turn in range(run + 1) for n in range(1000 * turn, 1000 * turn + 900)
        ]
        places = {(row["kafka_topic"], row["kafka_partition"], row["kafka_offset"]) for row in rows}
        assert len(places) == len(rows)
        rejected = written(tmp_path / "rejected")
        assert len(rejected) == 3 * (run + 1)
        assert sorted(each["kafka_partition"] for each in rejected) == sorted([0, 1, 2] * (run + 1))
        assert all(each["reason"].startswith("no JSON") and each["raw"] for each in rejected)
    journal = list(records(storage_at(tmp_path / "state")))
    assert sum(each["books"]["counted"]["rows"] for each in journal if "counted" in each["books"]) == 2_700


def test_data_lost_to_retention_stops_the_run_by_its_name(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    broker.put(topic, [event(n) for n in range(50)])
    source = broker.source(topic, schema="n int, at timestamp")
    flow_of(source, tmp_path).run(state=tmp_path / "state", spark=spark, until="caught_up")
    broker.put(topic, [event(n) for n in range(50, 100)])
    broker.delete_before(topic, 0, 80)
    with pytest.raises(DataError, match=rf"the offsets 50 to 79 \(30 of them\) of the topic '{topic}', partition 0"):
        flow_of(source, tmp_path).run(state=tmp_path / "state", spark=spark, until="caught_up")
    skipping = broker.source(topic, schema="n int, at timestamp", on_lost="skip")
    flow_of(skipping, tmp_path).run(state=tmp_path / "state", spark=spark, until="caught_up")
    assert sorted(row["n"] for row in written(tmp_path / "rows")) == [*range(50), *range(80, 100)]
    (row,) = written(tmp_path / "rejected")
    assert row["reason"].startswith("the offsets 50 to 79 (30 of them)")
