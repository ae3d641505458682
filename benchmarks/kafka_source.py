"""The Kafka source with JSON in two tasks, against a plain consumer and Polars over the same offsets.

    python -m benchmarks.kafka_source [--servers HOST:PORT] [--rows 2000000] [--quick]

Two processes each, which take turns; all keep their consumers, and the best of several rounds counts on both sides. The
peer consumes batches of 10,000, joins their values, and lets Polars read them, the time as text that it converts: it looks
at no error but those of the client, does not know where a message stood, and would lose a batch with a bad one. Both must
come to the same sums.
"""

from __future__ import annotations

import argparse
import random
import sys
import uuid
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing import get_context
from time import perf_counter
from typing import Any

import polars as pl
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.verdicts import Verdict, conclude
from strandline.clients.kafka import Cluster
from strandline.sources.contract import Limit
from strandline.sources.kafka.description import KafkaSource
from tests.servers import own_kafka

TASKS = 2
PARTITIONS = 4
BATCH = 10_000
PEER = {"user": pl.String(), "n": pl.Int64(), "amount": pl.Float64(), "at": pl.String()}
Sums = tuple[int, int, float, int]  # rows, and the sums of n, of amounts in hundredths, and of seconds


def fill(servers: str, rows: int) -> str:
    """A topic with events, evenly over its partitions."""
    topic = f"bench-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    settings = {"bootstrap.servers": servers, "linger.ms": 50, "batch.size": 1_000_000, "compression.type": "lz4"}
    producer = Producer({**settings, "queue.buffering.max.messages": 1_000_000})
    chance = random.Random(1)
    for n in range(rows):
        at = f"2026-01-01T{n // 3600 % 24:02d}:{n // 60 % 60:02d}:{n % 60:02d}Z"
        event = f'{{"user": "user-{chance.randrange(100_000)}", "n": {n}, "amount": {chance.randrange(10_000) / 100}, "at": "{at}"}}'
        while True:
            try:
                producer.produce(topic, event, partition=n % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()
    return topic


def sums(table: pl.DataFrame) -> Sums:
    return (
        table.height, int(table["n"].sum()), round(table["amount"].sum() * 100), int(table["at"].dt.epoch("s").sum()),
    )  # fmt: skip


def added(found: list[Sums]) -> Sums:
    return tuple(sum(each) for each in zip(*found, strict=True))  # type: ignore[return-value]


def ours(source: KafkaSource, part: Any) -> Sums:
    return added([sums(piece.rows) for piece in source.reader().read(part)])


@dataclass(slots=True)
class _Kept:
    """What a process of the peer keeps."""

    consumers: dict[str, Consumer] = field(default_factory=dict)


_kept = _Kept()


def peer(source: KafkaSource, part: Any) -> Sums:
    servers = source.cluster.servers
    settings = {
        "bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False, "auto.offset.reset": "error",
        "fetch.wait.max.ms": 5,
    }  # fmt: skip
    if servers not in _kept.consumers:
        _kept.consumers[servers] = Consumer(settings)
    consumer = _kept.consumers[servers]
    found = []
    for topic, partition, low, high in part:
        consumer.assign([TopicPartition(topic, partition, low)])
        left = high - low
        while left:
            messages = consumer.consume(min(BATCH, left), 5)
            left -= len(messages)
            assert all(message.error() is None for message in messages)
            table = pl.read_ndjson(b"\n".join([message.value() for message in messages]), schema=PEER)
            found.append(sums(table.with_columns(pl.col("at").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_unit="us"))))
    consumer.unassign()
    return added(found)


def begin(barrier: Any) -> None:
    """Every process has one task, so that each keeps its own consumer."""
    globals()["_barrier"] = barrier


def at_once(work: Callable[[KafkaSource, Any], Sums], source: KafkaSource, part: Any) -> Sums:
    globals()["_barrier"].wait(60)
    return work(source, part)


def race(source: KafkaSource, parts: list[Any], rounds: int) -> dict[str, list[float]]:
    """Seconds of each round, the first of which, where all is made, does not count."""
    context = get_context("spawn")
    workers = {"ours": ours, "peer": peer}
    pools = {
        name: ProcessPoolExecutor(TASKS, context, begin, (context.Barrier(TASKS),)) for name in workers
    }  # fmt: skip
    seconds: dict[str, list[float]] = {name: [] for name in workers}
    answers: dict[str, Sums] = {}
    for turn in range(rounds + 1):
        for name, work in workers.items():
            started = perf_counter()
            tasks = [pools[name].submit(at_once, work, source, part) for part in parts]
            answers[name] = added([task.result() for task in tasks])
            if turn:
                seconds[name].append(perf_counter() - started)
    assert answers["ours"] == answers["peer"], answers
    for pool in pools.values():
        pool.shutdown()
    return seconds


def measured(servers: str, rows: int, turns: int) -> dict[str, list[float]]:
    """The times of both, over a topic of its own."""
    topic = fill(servers, rows)
    source = KafkaSource(
        Cluster(servers), topic, format="json", schema="user string, n bigint, amount double, at timestamp"
    )
    reader = source.reader()
    parts = reader.parts(reader.first(), reader.latest(reader.first(), Limit()), TASKS)
    assert len(parts) == TASKS
    seconds = race(source, parts, turns)
    AdminClient({"bootstrap.servers": servers}).delete_topics([topic])[topic].result(30)
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka_source", description="Measure the Kafka source.")
    parser.add_argument("--servers", help="a broker, host:port; one of its own if none is named")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--quick", action="store_true", help="does it run?")
    asked = parser.parse_args()
    rows = 200_000 if asked.quick else asked.rows
    with ExitStack() as stack:
        seconds = measured(asked.servers or stack.enter_context(own_kafka()).address, rows, 3 if asked.quick else 7)
    best = {name: min(each) for name, each in seconds.items()}
    verdicts = [
        Verdict(what="our speed against the plain consumer's", measured=best["peer"] / best["ours"], at_least=0.6),
        *(
            Verdict(what=f"messages a second, {name}", measured=rows / each, unit="1/s", notes=f"best {each:.2f} s")
            for name, each in best.items()
        ),
    ]
    about = f"{rows:,} messages of JSON in {PARTITIONS} partitions, {TASKS} tasks, Kafka on the same machine"
    return conclude("kafka_source", about, verdicts, {"seconds": seconds}, quick=asked.quick)


if __name__ == "__main__":
    sys.exit(main())
