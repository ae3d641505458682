"""The transactional Kafka sink beside the same sink without transactions: 20,000 rows for each tick of a second.

    python -m benchmarks.kafka_sink --servers 127.0.0.1:9092 [--quick]

Both make the same messages of the same deliveries for a topic of their own with 8 partitions, and take turns tick by tick;
a tick takes from its delivery until it is acknowledged. Without transactions there is no marker and no fence: idempotent
messages, flushed. The producers are kept, and each tick has its second. A reader counts what arrived.
"""

from __future__ import annotations

import argparse
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import polars as pl
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks.verdicts import Verdict, conclude
from strandline.clients.kafka import Cluster
from strandline.kernel.schema import polars_schema
from strandline.model.time import Instant
from strandline.model.types import Schema
from strandline.sinks.contract import Delivery, Target
from strandline.sinks.kafka.description import KafkaSink
from strandline.sinks.kafka.publisher import KafkaPublisher
from strandline.sinks.kafka.transactions import Transactions
from tests.servers import own_kafka

PARTITIONS = 8
WARM_UP = 3
SCHEMA = Schema.of("user string, orders bigint, revenue double, window_start timestamp, window_end timestamp")
TARGET = Target(flow="benchmark", sink="kafka", incarnation="one", schema=SCHEMA)


class Untransacted(Transactions):
    """The same producer and settings, but that what is sent is visible at once, with no marker."""

    def begin(self) -> None:
        self.began = time.monotonic()

    def mark(self, progress: object) -> None:
        """There is no marker."""

    def commit(self) -> None:
        assert self.producer.flush(60) == 0, "not all was acknowledged"


def untransacted(sink: KafkaSink) -> KafkaPublisher:
    """A publisher that was prepared as usual, with a producer without transactions in place of its own."""
    publisher = sink.prepare(TARGET)
    made = publisher.transactions
    assert made is not None
    ours = {"linger.ms": 5, "compression.type": "lz4", "partitioner": "murmur2_random", "enable.idempotence": True}
    other = Untransacted.__new__(Untransacted)
    other.__dict__.update(made.__dict__)
    made.drop()
    more = {"bootstrap.servers": sink.cluster.servers, "queue.buffering.max.messages": 100_000}
    other.producer = Producer({**ours, **more, "delivery.report.only.error": True})
    publisher.transactions = other
    return publisher


def deliveries(rows: int, count: int) -> list[Delivery]:
    chance = np.random.default_rng(7)
    found = []
    for tick in range(1, count + 1):
        start = pl.Series(np.full(rows, 1_767_268_800_000_000 + tick * 60_000_000)).cast(pl.Datetime("us", "UTC"))
        table = pl.DataFrame(
            {
                "user": [f"user-{each}" for each in chance.integers(0, 100_000, rows)],
                "orders": chance.integers(1, 50, rows), "revenue": chance.random(rows).round(4) * 1000,
                "window_start": start, "window_end": start.dt.offset_by("1m"),
            }
        ).cast(pl.Schema(polars_schema(SCHEMA)))  # fmt: skip
        found.append(
            Delivery(
                tick=tick, incarnation="one", digest=f"{tick:064}", now=Instant(int(time.time() * 1e6)), rows=rows,
                tables=lambda table=table: iter([table]),
            )
        )  # fmt: skip
    return found


def timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def counted(servers: str, topic: str) -> int:
    """How many messages a reader with read_committed finds."""
    reader = Consumer(
        {"bootstrap.servers": servers, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest", "enable.partition.eof": True}
    )  # fmt: skip
    reader.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found, ended = 0, set()
    while len(ended) < PARTITIONS:
        for message in reader.consume(10_000, 1.0):
            if message.error() is None:
                found += 1
            else:
                ended.add(message.partition())
    reader.close()
    return found


def race(servers: str, rows: int, ticks: int) -> dict[str, list[float]]:
    """How long each tick took, in seconds."""
    names = [f"benchmark-{kind}-{uuid.uuid4().hex[:8]}" for kind in ("with", "without")]
    create = {"partitions": PARTITIONS, "replication": 1}
    sinks = [KafkaSink(Cluster(servers), name, key="user", create=create) for name in names]
    publishers = {"with": sinks[0].prepare(TARGET), "without": untransacted(sinks[1])}
    found: dict[str, list[float]] = {name: [] for name in publishers}
    for delivery in deliveries(rows, ticks + WARM_UP):
        for name, publisher in publishers.items():
            # So that each begins at its half second: the broker ends the last transaction beside what follows.
            time.sleep(-time.monotonic() % 0.5)
            found[name].append(timed(lambda publisher=publisher: publisher.publish(delivery)))  # noqa: B023 - called at once
    for publisher in publishers.values():
        publisher.close()
    for name in names:
        assert counted(servers, name) == rows * (ticks + WARM_UP), f"{name} lacks rows, or has too many"
    admin = AdminClient({"bootstrap.servers": servers})
    for each in admin.delete_topics(names).values():
        each.result()
    return {name: times[WARM_UP:] for name, times in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka_sink", description="Measure the Kafka sink.")
    parser.add_argument("--servers", help="a broker, host:port; one of its own if none is named")
    parser.add_argument("--quick", action="store_true", help="does it run?")
    asked = parser.parse_args()
    ticks = 10 if asked.quick else 60
    with ExitStack() as stack:
        servers = asked.servers or stack.enter_context(own_kafka()).address
        many, few = race(servers, 20_000, ticks), race(servers, 1_000, ticks)
    medians = {f"{kind} transactions": float(np.median(times)) for kind, times in many.items()}
    ratio = medians["without transactions"] / medians["with transactions"]
    verdicts = [
        Verdict(what="rows/s with transactions over without, 20,000 rows a tick", measured=ratio, at_least=0.7),
        Verdict(what="a tick of 20,000 rows against its second", measured=medians["with transactions"], unit="s", at_most=1),
        *(
            Verdict(what=f"median of 20,000 rows, {kind}", measured=value, unit="s", notes=f"{20_000 / value:,.0f} rows/s")
            for kind, value in medians.items()
        ),
        *(
            Verdict(
                what=f"median of 1,000 rows, {kind} transactions", measured=float(np.median(times)), unit="s",
                notes=f"p95 {np.quantile(times, 0.95):.3f} s",
            )
            for kind, times in few.items()
        ),
    ]  # fmt: skip
    about = f"the Kafka sink with and without transactions, JSON with a key, {PARTITIONS} partitions, {ticks} ticks, one broker"
    return conclude("kafka_sink", about, verdicts, {"20,000 rows": many, "1,000 rows": few}, quick=asked.quick)


if __name__ == "__main__":
    sys.exit(main())
