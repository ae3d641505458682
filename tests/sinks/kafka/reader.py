"""A reader with isolation.level=read_committed, beside those who write: what it saw is what counts."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

Seen = tuple[int, int, bytes | None, bytes | None]  # partition, offset, key, value


def consumer(servers: str, topic: str, isolation: str = "read_committed") -> Consumer:
    found = Consumer(
        {
            "bootstrap.servers": servers, "group.id": f"reader-{uuid.uuid4().hex}", "isolation.level": isolation,
            "enable.auto.commit": False, "auto.offset.reset": "earliest", "log_level": 0, "fetch.wait.max.ms": 50,
            "reconnect.backoff.max.ms": 500,
        }
    )  # fmt: skip
    about = AdminClient({"bootstrap.servers": servers}).list_topics(topic, timeout=20).topics[topic]
    found.assign([TopicPartition(topic, number, 0) for number in about.partitions])
    return found


def read(servers: str, topic: str, *, at_least: int = 0, patience: float = 20.0, quiet: float = 1.0) -> list[Seen]:
    """All that is committed: reads until there are so many, and then nothing for a while."""
    with reading(servers, topic) as seen:
        deadline = time.monotonic() + patience
        while len(seen) < at_least and time.monotonic() < deadline:
            time.sleep(0.02)
        count = -1
        while len(seen) != count:
            count = len(seen)
            time.sleep(quiet)
        return list(seen)


@contextmanager
def reading(servers: str, topic: str) -> Iterator[list[Seen]]:
    """What a reader sees from now on, as it comes."""
    seen: list[Seen] = []
    done = threading.Event()
    found = consumer(servers, topic)

    def work() -> None:
        while not done.is_set():
            seen.extend(as_seen(each) for each in found.consume(1000, 0.05) if each.error() is None)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()
        found.close()


def as_seen(message: Any) -> Seen:
    return message.partition(), message.offset(), message.key(), message.value()
