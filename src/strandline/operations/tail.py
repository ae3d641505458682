"""Read a topic as it grows."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final, Literal

from strandline.clients.kafka import Cluster, require_confluent
from strandline.errors import RunError
from strandline.operations.topics import consumer, partitions_of

LOOK_EVERY: Final = 0.2  # seconds
ASK_AFTER: Final = 10  # looks in vain
NULL: Final = "(null)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message, and where it stands. A key or a value may be null."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None

    @property
    def line(self) -> str:
        r"""Partition, offset, key and value with tabs between; what would break the line, or is no text, is escaped.

        >>> Message(partition=0, offset=7, key=None, value=b'two\nlines \xff').line
        '0\t7\t(null)\ttwo\\nlines \\xff'
        """
        return f"{self.partition}\t{self.offset}\t{_shown(self.key)}\t{_shown(self.value)}"


def tail(
    cluster: Cluster,
    topic: str,
    *,
    start: Literal["earliest", "latest"] = "earliest",
    committed: bool = True,
    until_end: bool = False,
    warn: Callable[[str], None] = lambda _: None,
) -> Generator[Message]:
    """The messages of a topic from its start or its end on: for ever, or until all that is there now was read.

    Only of transactions that were committed, unless `committed` is false. In each partition in order.
    """
    partitions = partitions_of(cluster, topic)
    require_confluent()
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, TopicPartition

    first = OFFSET_BEGINNING if start == "earliest" else OFFSET_END
    left = set(range(partitions))
    with consumer(
        cluster,
        _warning(cluster, warn),
        isolation_level="read_committed" if committed else "read_uncommitted",
        enable_partition_eof=True,
    ) as reader:
        reader.assign([TopicPartition(topic, each, first) for each in range(partitions)])
        quiet = 0
        while left or not until_end:
            message: Any = reader.poll(LOOK_EVERY)
            quiet = quiet + 1 if message is None else 0
            if message is None:
                if quiet % ASK_AFTER == 0 and _is_gone(reader, topic):
                    raise RunError(
                        f"The topic {topic!r} was deleted.", fix="Name one that is there: strandline kafka topics."
                    )
                continue
            error = message.error()
            if error is None:
                yield Message(
                    partition=message.partition(), offset=message.offset(), key=message.key(), value=message.value()
                )
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            elif not error.retriable():
                raise RunError(
                    f"The topic {topic!r} can be read no further: {cluster.said(error.str())}",
                    fix="See whether it is still there: strandline kafka topics.",
                )


def _is_gone(reader: Any, topic: str) -> bool:
    """Whether there is no such topic any more: the client waits for it in silence."""
    from confluent_kafka import KafkaError, KafkaException

    try:
        error = reader.list_topics(topic, timeout=1.0).topics[topic].error
    except KafkaException:  # nobody answers just now
        return False
    return error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def _warning(cluster: Cluster, warn: Callable[[str], None]) -> Callable[[Any], None]:
    """Say that nobody answers; the client says it once each time, and goes on trying by itself."""

    def told(error: Any) -> None:
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            warn(f"No broker answers at {cluster.servers} just now; trying again.")

    return told


def _shown(value: bytes | None) -> str:
    if value is None:
        return NULL
    text = value.decode("utf-8", errors="backslashreplace")
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
