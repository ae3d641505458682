"""The examples run against real servers, and do what they say: every order once, also when they are run again."""

from __future__ import annotations

import json
import runpy
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

import strandline as sl
from tests.servers import own_kafka

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.slow


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """One of the test's own: the examples name their topics, and another test may run beside this one."""
    with own_kafka() as own:
        monkeypatch.setenv("KAFKA", own.address)
        yield own.address


def produce(servers: str, orders: list[dict[str, Any] | bytes]) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    if "orders" not in admin.list_topics(timeout=30).topics:
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(30)
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for order in orders:
        value = order if isinstance(order, bytes) else json.dumps(order).encode()
        producer.produce("orders", value, key=None if isinstance(order, bytes) else order["user"])
    assert producer.flush(30) == 0


def messages(servers: str, topic: str) -> list[dict[str, Any]]:
    """All that a reader sees who waits for transactions to be committed."""
    reader = Consumer(
        {"bootstrap.servers": servers, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"}
        | {"isolation.level": "read_committed", "enable.partition.eof": True}
    )
    with closing(reader):
        partitions = len(reader.list_topics(topic, 30).topics[topic].partitions)
        reader.subscribe([topic])
        found, ended = [], set()
        while len(ended) < partitions:
            message = reader.poll(30)
            assert message is not None, f"{topic} does not answer"
            if message.error():
                ended.add(message.partition())
            else:
                found.append(json.loads(message.value() or b"null"))
        return found


def run(name: str, spark: SparkSession, tmp_path: Path) -> sl.Run:
    flow: sl.Flow = runpy.run_path(str(EXAMPLES / name))["flow"]
    return flow.run(state=tmp_path / "state", spark=spark, until="caught_up")


def order(user: str, amount: float, second: int, **more: Any) -> dict[str, Any]:
    return {"user": user, "amount": amount, "at": f"2026-01-01T12:{second // 60:02}:{second % 60:02}Z", **more}


def test_orders_in_and_revenue_per_minute_out(spark: SparkSession, broker: str, tmp_path: Path) -> None:
    produce(broker, [order("ann", 5.0, 3), order("kim", 2.0, 7), b"no order"])
    run("kafka_revenue.py", spark, tmp_path)
    assert messages(broker, "revenue") == []
    rejected = messages(broker, "orders-rejected")
    assert [(row["kafka_topic"], row["kafka_offset"] >= 0) for row in rejected] == [("orders", True)]
    # Both partitions go on to the next minutes: the first one is complete.
    produce(broker, [order(user, 1.0, 150) for user in ("ann", "kim", "joe", "eve", "bob")])
    run("kafka_revenue.py", spark, tmp_path)
    produce(broker, [order("ann", 1.5, 30)])  # late, and allowed
    told = run("kafka_revenue.py", spark, tmp_path).notes
    shown = sorted((row["user"], row["op"], row["revenue"]) for row in messages(broker, "revenue"))
    assert shown == [("ann", "insert", 5.0), ("ann", "insert", 6.5), ("ann", "retract", 5.0), ("kim", "insert", 2.0)]
    assert any("read_committed" in note for note in told)


def test_the_orders_that_were_paid(spark: SparkSession, broker: str, tmp_path: Path) -> None:
    states = ["paid", "open", "paid", "gone"]
    produce(broker, [order("ann", n, n, status=status) for n, status in enumerate(states)])
    for _ in range(2):  # nothing is sent again
        run("kafka_filter.py", spark, tmp_path)
        assert messages(broker, "paid") == [{"user": "ann", "status": "paid"}] * 2


def test_orders_become_rows_of_a_table_that_are_corrected(
    spark: SparkSession, broker: str, postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE", postgres)
    with psycopg.connect(postgres, autocommit=True) as database:
        produce(broker, [order("ann", 5.0, 3), order("kim", 2.0, 7)])
        run("kafka_to_postgres.py", spark, tmp_path)
        produce(broker, [order(user, 1.0, 150) for user in ("ann", "kim", "joe", "eve", "bob")])
        run("kafka_to_postgres.py", spark, tmp_path)
        produce(broker, [order("ann", 1.5, 30)])
        run("kafka_to_postgres.py", spark, tmp_path)
        asked = "SELECT \"user\", revenue FROM revenue WHERE window_start = '2026-01-01T12:00:00Z' ORDER BY 1"
        found = database.execute(asked).fetchall()
        for table in ("revenue", "late_orders", "strandline_markers"):
            database.execute(f"DROP TABLE IF EXISTS {table}")  # type: ignore[arg-type]
    assert found == [("ann", 6.5), ("kim", 2.0)]


def test_each_line_of_each_file_becomes_a_message_once(
    spark: SparkSession, broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "orders"
    folder.mkdir()
    monkeypatch.setenv("ORDERS", str(folder))
    sent = []
    for file in range(3):
        lines = [order(f"user {n % 7}", float(n), file) for n in range(file * 100, file * 100 + 100)]
        (folder / f"{file}.json").write_text("\n".join(map(json.dumps, lines)) + "\nno order\n")
        sent += [line["amount"] for line in lines]
        run("files_to_kafka.py", spark, tmp_path)
    assert sorted(row["amount"] for row in messages(broker, "orders")) == sent
    assert len(messages(broker, "orders-rejected")) == 3
