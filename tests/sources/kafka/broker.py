"""A real broker for the tests of the source: topics of their own, and messages put there by the client itself."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from strandline.clients.kafka import Cluster
from strandline.sources.kafka.description import KafkaSource


@dataclass
class Broker:
    """What tests do to a broker."""

    servers: str
    made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        self.plain = Producer(
            {"bootstrap.servers": self.servers, "linger.ms": 5, "enable.idempotence": True, "log_level": 0}
        )  # in order

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.servers)

    def topic(self, partitions: int = 1, name: str = "", **config: str) -> str:
        """A new topic; settings with underscores in place of dots."""
        topic = name or f"source-{uuid.uuid4().hex[:12]}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        wait(self.admin.create_topics([NewTopic(topic, partitions, 1, config=settings)]))
        self.made = [*dict.fromkeys([*self.made, topic])]  # a name twice kills the client
        return topic

    def grow(self, topic: str, partitions: int) -> None:
        wait(self.admin.create_partitions([NewPartitions(topic, partitions)]))
        while len(self.plain.list_topics(topic, 10).topics[topic].partitions) < partitions:
            pass

    def delete(self, topic: str) -> None:
        wait(self.admin.delete_topics([topic]))

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """As retention does: the partition begins at this offset from now on."""
        wait(self.admin.delete_records([TopicPartition(topic, partition, offset)]))

    def put(self, topic: str, values: Iterable[Any], partition: int = 0, **more: Any) -> None:
        """Messages of one partition, all there when this returns."""
        for value in values:
            self.plain.produce(topic, value, partition=partition, **more)
            self.plain.poll(0)
        assert self.plain.flush(30) == 0

    def transactions(self) -> Transactions:
        return Transactions(self.servers)

    def source(self, topics: Any = None, **options: Any) -> KafkaSource:
        chosen = {"format": "json", "schema": "n int", "wait": "20s", **options}
        if chosen["format"] in ("text", "bytes"):
            chosen.pop("schema")
        return KafkaSource(self.cluster, topics, **chosen)


class Transactions:
    """A transactional producer."""

    def __init__(self, servers: str) -> None:
        self.producer = Producer({"bootstrap.servers": servers, "transactional.id": f"test-{uuid.uuid4().hex}"})
        self.producer.init_transactions(30)

    def put(self, topic: str, values: Iterable[Any], partition: int = 0, end: str = "commit") -> None:
        """One transaction, that is committed, aborted, or left "open"."""
        self.producer.begin_transaction()
        for value in values:
            self.producer.produce(topic, value, partition=partition)
        assert self.producer.flush(30) == 0
        if end != "open":
            self.finish(end)

    def finish(self, end: str) -> None:
        self.producer.commit_transaction(30) if end == "commit" else self.producer.abort_transaction(30)


def wait(answers: dict[Any, Any]) -> None:
    for answer in answers.values():
        answer.result(30)
