"""The topics of a cluster: which there are, made and deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from strandline.clients.kafka import Cluster, require_confluent
from strandline.errors import RunError, did_you_mean
from strandline.operations.processes import until

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

WITHIN: Final = 5.0  # seconds: a broker that is there answers at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic, the number of its partitions, and at most how many messages are in it.

    It is the distance from the first offset to the end: those of transactions' markers, of what was aborted and of what
    compaction removed are counted, though nobody reads a message there.
    """

    name: str
    partitions: int
    messages: int


def topics(cluster: Cluster) -> list[Topic]:
    """All topics but Kafka's own, by name."""
    found = names(cluster)
    with consumer(cluster) as asked:
        return [
            Topic(
                name=name, partitions=count, messages=sum(_length(cluster, asked, name, each) for each in range(count))
            )
            for name, count in sorted(found.items())
        ]


def names(cluster: Cluster) -> dict[str, int]:
    """The number of partitions of each topic that is not Kafka's own."""
    client = admin(cluster)
    from confluent_kafka import KafkaException

    try:
        found = client.list_topics(timeout=WITHIN).topics
    except KafkaException as error:
        raise RunError(
            f"No broker answers at {cluster.servers}: {cluster.said(_text(error))}",
            fix="Start one: strandline kafka start; or name another with --servers.",
        ) from None
    return {name: len(topic.partitions) for name, topic in found.items() if not name.startswith("__")}


def partitions_of(cluster: Cluster, topic: str) -> int:
    """The number of partitions of a topic; RunError if there is no such topic."""
    known = names(cluster)
    if topic not in known:
        make = f"strandline kafka topics --create {topic}"
        raise RunError(
            f"There is no topic {topic!r} at {cluster.servers}.",
            fix=f"{did_you_mean(topic, known)} Or make it: {make}" if known else f"Make it: {make}",
        )
    return known[topic]


def create(cluster: Cluster, name: str, *, partitions: int = 1) -> None:
    """Make a topic, and wait until it can be used."""
    if name in names(cluster):
        raise RunError(
            f"There is a topic {name!r} at {cluster.servers} already.",
            fix=f"Choose another name, or delete it first: strandline kafka topics --delete {name}",
        )
    from confluent_kafka.cimpl import NewTopic  # which confluent_kafka.admin gives too, untyped

    client = admin(cluster)  # what it was asked for is given up when it goes
    wanted = NewTopic(name, num_partitions=partitions, replication_factor=-1)
    future = client.create_topics([wanted], operation_timeout=2 * WITHIN)[name]
    _done(cluster, future, f"The topic {name!r} cannot be made")
    until(lambda: names(cluster).get(name) == partitions, 2 * WITHIN)


def delete(cluster: Cluster, name: str) -> None:
    """Delete a topic with all that is in it."""
    partitions_of(cluster, name)
    client = admin(cluster)
    future = client.delete_topics([name], operation_timeout=2 * WITHIN)[name]
    _done(cluster, future, f"The topic {name!r} cannot be deleted")
    until(lambda: name not in names(cluster), 2 * WITHIN)


def admin(cluster: Cluster) -> AdminClient:
    """A client that asks for topics and makes them."""
    require_confluent()
    from confluent_kafka.admin import AdminClient

    return AdminClient(cluster.settings())


@contextmanager
def consumer(cluster: Cluster, on_error: Callable[[Any], None] = lambda _: None, **settings: Any) -> Iterator[Any]:
    """A consumer of no group's: nothing is committed. The settings with underscores in place of dots."""
    require_confluent()
    from confluent_kafka import Consumer

    chosen = cluster.settings(group_id="strandline-kafka", enable_auto_commit=False, **settings)
    made = Consumer({**chosen, "error_cb": on_error})
    try:
        yield made
    finally:
        made.close()


def _length(cluster: Cluster, asked: Any, topic: str, partition: int) -> int:
    from confluent_kafka import KafkaException, TopicPartition

    try:
        first, end = asked.get_watermark_offsets(TopicPartition(topic, partition), timeout=WITHIN)
    except KafkaException as error:
        raise RunError(
            f"The partition {partition} of {topic!r} cannot be read: {cluster.said(_text(error))}",
            fix="See to the broker that leads it.",
        ) from None
    return int(end - first)


def _done(cluster: Cluster, future: Any, what: str) -> None:
    from confluent_kafka import KafkaException

    try:
        future.result(timeout=4 * WITHIN)
    except KafkaException as error:
        raise RunError(f"{what}: {cluster.said(_text(error))}", fix="Mend what the broker says.") from None


def _text(error: Any) -> str:
    """What the client said, as a sentence."""
    said = error.args[0].str() if error.args and hasattr(error.args[0], "str") else str(error)
    return f"{said.rstrip('.')}."
