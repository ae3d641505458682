"""Rows as messages of a Kafka topic, exactly once."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Any, Final, Literal, get_args

from strandline.clients.kafka import Cluster, require_confluent
from strandline.clients.registry import Registry, registry_client
from strandline.errors import DescriptionError, SinkError, did_you_mean, told
from strandline.model.time import Span
from strandline.sinks.contract import ALL_ROWS, OP, Rows, Target, require_rows
from strandline.sinks.kafka.avro import avro_encoder
from strandline.sinks.kafka.markers import name_of_sink
from strandline.sinks.kafka.messages import ONE_COLUMN, Encoding, encoding, value_schema
from strandline.sinks.kafka.publisher import KafkaPublisher
from strandline.sinks.kafka.topic import Create, Found, Topic, notes_on, require_timeout
from strandline.sinks.kafka.transactions import Transactions

MessageFormat = Literal["json", "avro", "debezium", "csv", "text", "bytes"]

_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_CREATE: Final = ("partitions", "replication", "config")


@dataclass(frozen=True, slots=True)
class KafkaSink:
    """Write rows as messages of a topic.

    * rows="append": a message for each row.
    * rows="changelog": the same, with `op`.
    * rows="upsert": for a compacted topic: the message's key is the row's, a row that is gone is a tombstone.

    `key` names the columns of the message's key, where rows are not upserted: messages of one key are in one partition,
    in order. `headers` names a column for each header. How values, keys and headers are written stands in
    `strandline.sinks.kafka.messages`. A topic that is not there is made if `create` says how.

    **One transaction for each tick.** The driver's one producer publishes the rows of a tick for all partitions together
    with the marker, so that readers with isolation.level=read_committed see a tick whole or not at all; there are no shards.
    A tick of more than `chunk_rows` rows, or that takes more than half of `transaction_timeout`, is cut into several, in the
    order of its rows, and after a crash goes on behind the last that was committed. The marker is the metadata of an offset of
    the group `strandline/<flow>/<sink>/<topic>`, which is the transactional id too: a second run of the flow, of any
    incarnation, fences the first. See docs/design/2026-11-17-kafka-and-databases.md.

    format="avro" needs `registry`, where the schema of the values is registered, under `<topic>-value`.

    `transaction_timeout`: if the driver stands still inside a tick, the broker ends its transaction after that time, and
    readers wait no longer, or 5 s at most. `wait`: how long brokers may be away before the flow stops.

    >>> sink = KafkaSink(Cluster("broker:9092"), "paid", key="user")
    >>> sink.key, sink.format, sink.chunk_rows
    (('user',), 'json', 200000)
    >>> KafkaSink(Cluster("broker:9092"), "paid orders")
    Traceback (most recent call last):
        ...
    strandline.errors.DescriptionError: 'paid orders' is no name of a topic.
      fix: Use letters, digits, '.', '_' and '-', 249 at most.
    """

    cluster: Cluster
    topic: str
    _: KW_ONLY
    key: tuple[str, ...]
    format: MessageFormat
    headers: tuple[tuple[str, str], ...]
    registry: Registry | None
    create: Create | None
    transaction_timeout: Span
    chunk_rows: int
    wait: Span

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        *,
        key: str | Sequence[str] = (),
        format: MessageFormat = "json",
        headers: Mapping[str, str] | None = None,
        registry: Registry | None = None,
        create: Mapping[str, Any] | None = None,
        transaction_timeout: str | timedelta | Span = Span(60_000_000),
        chunk_rows: int = 200_000,
        wait: str | timedelta | Span = Span(60_000_000),
    ) -> None:
        _require_topic(topic)
        if format not in get_args(MessageFormat):
            raise DescriptionError(
                f"format={format!r} is not known.", fix=did_you_mean(str(format), get_args(MessageFormat))
            )
        if not isinstance(chunk_rows, int) or isinstance(chunk_rows, bool) or chunk_rows < 1:
            raise DescriptionError(f"chunk_rows={told(chunk_rows)} is no number of rows.", fix="Give 1 or more.")
        if (format == "avro") != isinstance(registry, Registry):
            raise DescriptionError(
                f"format={format!r} with registry={told(registry)} does not fit.",
                fix="Give format='avro' and sl.Kafka(servers, registry='http://registry:8081') together, or neither.",
            )
        for name, value in (
            ("registry", registry), ("cluster", cluster), ("topic", topic), ("key", _columns(key)), ("format", format),
            ("headers", _headers(headers)), ("create", _created(create)), ("chunk_rows", chunk_rows),
            ("transaction_timeout", _span("transaction_timeout", transaction_timeout)), ("wait", _span("wait", wait)),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    @property
    def guarantee(self) -> str:
        """What is promised, and on which conditions."""
        return (
            "exactly once, for readers with isolation.level=read_committed: rows and marker are one transaction, if the "
            "brokers keep what they acknowledged"
        )

    @property
    def takes(self) -> frozenset[str]:
        """Every kind of rows; but a text alone has no place for `op`."""
        return ALL_ROWS - {"changelog"} if self.format in ONE_COLUMN else ALL_ROWS

    @property
    def example(self) -> str:
        """Where a message of its goes."""
        return f"kafka://{self.cluster.servers}/{self.topic}"

    def own_target(self, rows: Rows) -> Hashable | None:
        """A topic whose keys are overwritten. To others each sink adds, with a marker of its own."""
        return (self.cluster.servers, self.topic) if rows == "upsert" else None

    def prepare(self, target: Target) -> KafkaPublisher:
        """Check the topic, or make it; fence whoever publishes there for this sink, and find out how far it is."""
        require_confluent()
        require_rows(target, self.takes)
        messages = self._encoding(target)
        wait = self.wait / 1_000_000
        topic = Topic(self.cluster, self.topic, wait=wait)
        try:
            found = topic.found(self.create)
            require_timeout(found, self.transaction_timeout)
        except BaseException:
            topic.close()
            raise
        name = name_of_sink(target.flow, target.sink, self.topic)
        retention = found.number("offsets.retention.minutes")
        return KafkaPublisher(
            topic, target, messages, lambda: self._transactions(name, found), name=name, chunk_rows=self.chunk_rows,
            wait=wait, retention=None if retention is None else Span(retention * 60_000_000),
            notes=notes_on(found, target.rows, self.transaction_timeout),
        )  # fmt: skip

    def _transactions(self, name: str, found: Found) -> Transactions:
        return Transactions(
            self.cluster, self.topic, name, timeout=found.told(self.transaction_timeout) / 1_000_000, wait=self.wait / 1_000_000,
            largest=found.largest,
        )  # fmt: skip

    def _encoding(self, target: Target) -> Encoding:
        key = self.key
        if target.rows == "upsert":
            if key and set(key) != set(target.key):
                raise SinkError(
                    f"{target} upserts by {', '.join(target.key)}, and its messages are to have another key: "
                    f"{', '.join(key)}.".replace("the", "The", 1),
                    fix="Leave key= of the topic out: the row's key is the message's.",
                )
            key = key or target.key
        for option, names in (("key", key), ("headers", tuple(column for _, column in self.headers))):
            for name in names:
                _require_column(target, option, name)
        avro = None
        if self.registry is not None:
            registers = registry_client(self.registry)
            avro = avro_encoder(value_schema(target, self.format), self.topic, target, registers)
        return encoding(target, format=self.format, key=key, headers=dict(self.headers), avro=avro)


def _require_column(target: Target, option: str, name: str) -> None:
    if name not in target.delivered or (option == "key" and name == OP and target.rows != "append"):
        raise SinkError(
            f"{option}= of the topic of {target} names {name!r}, which is not delivered.",
            fix=did_you_mean(name, [column for column in target.delivered if column != OP]),
        )


def _require_topic(topic: object) -> None:
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise DescriptionError(
            f"{told(topic)} is no name of a topic.", fix="Use letters, digits, '.', '_' and '-', 249 at most."
        )


def _columns(key: object) -> tuple[str, ...]:
    names = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, Sequence) else (None,)
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise DescriptionError(
            f"key={told(key)} names no columns.", fix="Write key='user', or key=['user', 'country']."
        )
    return tuple(str(name) for name in names)


def _headers(headers: object) -> tuple[tuple[str, str], ...]:
    if headers is None:
        return ()
    if not isinstance(headers, Mapping) or not all(
        isinstance(each, str) and each for pair in headers.items() for each in pair
    ):
        raise DescriptionError(
            f"headers={told(headers)} does not name a column for each header.", fix="Write headers={'reason': 'why'}."
        )
    return tuple(headers.items())


def _created(create: object) -> Create | None:
    if create is None:
        return None
    fix = "Write create={'partitions': 8, 'replication': 3, 'config': {'cleanup.policy': 'compact'}}."
    if not isinstance(create, Mapping):
        raise DescriptionError(f"create={told(create)} does not say how to make a topic.", fix=fix)
    for name in create:
        if name not in _CREATE:
            raise DescriptionError(f"create= has no {name!r}.", fix=did_you_mean(str(name), _CREATE))
    numbers = [create.get("partitions", 1), create.get("replication", -1)]
    config = create.get("config", {})
    if not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers) or not isinstance(config, Mapping):
        raise DescriptionError(f"create={dict(create)!r} does not say how to make a topic.", fix=fix)
    if numbers[0] < 1 or (numbers[1] < 1 and numbers[1] != -1):
        raise DescriptionError(f"create={dict(create)!r} makes no topic.", fix=fix)
    settings = tuple(sorted((str(name), _setting(value)) for name, value in config.items()))
    return Create(partitions=numbers[0], replication=numbers[1], config=settings)


def _setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _span(option: str, value: str | timedelta | Span) -> Span:
    span = Span.of(value)
    if span < 1_000_000:
        raise DescriptionError(f"{option}={span.text!r} is too short for a server.", fix="Give '1s' or more.")
    return span
