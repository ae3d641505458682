"""The marker where it is kept: read back through a consumer of the group, which takes part in nothing.

A new consumer for each question: they are few, and one that knew a coordinator that died may ask for it for ever (librdkafka
#5511). Not through the client for administration: when a coordinator moves, its answer ends the process (librdkafka 2.16,
ListConsumerGroupOffsets).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from strandline.clients.kafka import Cluster
from strandline.sinks.kafka.errors import Unsettled, made, sorted_out
from strandline.sinks.kafka.markers import Progress
from strandline.sinks.kafka.waiting import within

if TYPE_CHECKING:
    from confluent_kafka import Consumer

_SLICE: Final = 5.0
_PAUSE: Final = 0.1


def committed(cluster: Cluster, topic: str, name: str, *, wait: float, settled: bool = True) -> Progress | None:
    """The marker in a group, once no transaction that may move it is under way. Unsettled where it cannot be had.

    Without `settled` it is the last that was committed: a transaction of one who stands still is not waited for.
    """
    deadline = time.monotonic() + wait
    while True:
        try:
            return _asked(cluster, topic, name, "read_committed" if settled else "read_uncommitted")
        except Unsettled:  # noqa: PERF203 - asked again is what it is
            if time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE)


def group_of(cluster: Cluster, name: str) -> Any:
    """The group, in the form that a transaction takes."""
    consumer = _consumer(cluster, name, "read_committed")
    try:
        return consumer.consumer_group_metadata()
    finally:
        within(_SLICE, lambda _: consumer.close())


def _asked(cluster: Cluster, topic: str, name: str, isolation: str) -> Progress | None:
    from confluent_kafka import KafkaException, TopicPartition

    consumer = _consumer(cluster, name, isolation)
    doing = f"The marker in the group {name!r} could not be read"
    try:
        (place,) = within(_SLICE, lambda seconds: consumer.committed([TopicPartition(topic, 0)], seconds))
        if place.error is not None:
            raise sorted_out(KafkaException(place.error), doing, cluster.said)
    except KafkaException as error:
        raise sorted_out(error, doing, cluster.said) from None
    finally:
        within(_SLICE, lambda _: consumer.close())
    return Progress.read(place.metadata or "", name) if place.offset >= 0 else None


def _consumer(cluster: Cluster, name: str, isolation: str) -> Consumer:
    from confluent_kafka import Consumer

    settings = cluster.settings(group_id=name, isolation_level=isolation, enable_auto_commit=False)
    consumer: Consumer = made(Consumer, settings, cluster)
    return consumer
