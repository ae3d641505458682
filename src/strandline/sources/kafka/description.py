"""Topics of Kafka: which of them, from where, and how their messages are decoded. What reads them is `reader`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast, get_args

from strandline.clients.kafka import Cluster
from strandline.clients.registry import Registry
from strandline.errors import DescriptionError, did_you_mean, told
from strandline.model.time import Instant, Span
from strandline.model.types import Schema, Type

if TYPE_CHECKING:
    from strandline.sources.kafka.reader import KafkaReader
    from strandline.store.storage import Storage

Format = Literal["json", "avro", "csv", "text", "bytes", "debezium"]
Isolation = Literal["read_committed", "read_uncommitted"]
OnLost = Literal["fail", "skip"]
OnBad = Literal["reject", "fail"]
Included = Literal["key", "headers"]
Assigned: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
Offsets: TypeAlias = tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
Start: TypeAlias = Literal["earliest", "latest"] | Instant | Offsets

TOPIC: Final = "kafka_topic"
PARTITION: Final = "kafka_partition"
OFFSET: Final = "kafka_offset"
TIMESTAMP: Final = "kafka_timestamp"
KEY: Final = "kafka_key"
HEADERS: Final = "kafka_headers"
OP: Final = "op"
CHANGED_AT: Final = "debezium_ts"

PLACE: Final = Schema.of(f"{TOPIC} string, {PARTITION} int, {OFFSET} bigint, {TIMESTAMP} timestamp")
"""Where a message stood: columns that every row has."""
CHANGE: Final = Schema.of(f"{OP} string, {CHANGED_AT} timestamp")
"""What a Debezium envelope says of its row."""

_INCLUDED: Final = {
    "key": (KEY, Type.of("binary")),
    "headers": (HEADERS, Type.of("array<struct<name:string,value:binary>>")),
}
_FIXED: Final = {"text": Schema.of("value string"), "bytes": Schema.of("value binary")}
_TOPIC_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """Messages of topics, each once, with a watermark for each partition.

    `topics` is a name, several, or partitions that are assigned, as {"orders": [0, 1]}; or `pattern` is a regular
    expression that the whole name of a topic must match. Partitions and topics that come later are found, and read from
    their beginning. `start` says where the very first run begins: "earliest", "latest", an instant (the first message of
    that timestamp or later), or offsets, as {"orders": {0: 100}}, where partitions that are not named begin at their
    beginning.

    Rows have the columns of the decoded value, then `kafka_topic`, `kafka_partition`, `kafka_offset`, `kafka_timestamp`,
    and with `include` `kafka_key` and `kafka_headers`. Formats: "json" and "csv" (one record in a message, with the
    columns in the order of the schema) as in files; "avro" with the schema that a registry knows by the id in the message,
    whose fields go to columns by name; "text" and "bytes" as one column `value`; "debezium" the row of a change, with `op`
    (insert, update, delete, snapshot) and `debezium_ts`.

    What cannot be decoded is rejected with its bytes, its place and the reason; `on_bad="fail"` stops the flow instead. A
    null value is null for "text" and "bytes", nothing for "debezium", whose tombstones only follow a delete, and rejected
    otherwise. What retention removed before it was read stops the flow, or with `on_lost="skip"` is one rejected row for
    each range of offsets. `wait` is how long brokers (and the registry) may be away, `look_again` how often new
    partitions are looked for.

    With `isolation="read_committed"` a partition ends where its first open transaction begins, and what was aborted is
    never seen.

    >>> KafkaSource(Cluster("broker:9092"), "orders", format="json", schema="user string, n int").schema.text
    'user string, n int, kafka_topic string, kafka_partition int, kafka_offset bigint, kafka_timestamp timestamp'
    """

    cluster: Cluster
    topics: tuple[str, ...]
    _: KW_ONLY
    pattern: str | None
    assigned: Assigned
    format: Format
    columns: Schema
    start: Start
    include: tuple[Included, ...]
    isolation: Isolation
    on_lost: OnLost
    on_bad: OnBad
    registry: Registry | None
    separator: str
    wait: Span
    look_again: Span

    def __init__(
        self,
        cluster: Cluster,
        topics: str | Sequence[str] | Mapping[str, Iterable[int]] | None = None,
        *,
        pattern: str | None = None,
        format: Format,
        schema: str | Schema | None = None,
        start: str | datetime | int | Mapping[str, Mapping[int, int]] = "earliest",
        include: Iterable[Included] = (),
        isolation: Isolation = "read_committed",
        on_lost: OnLost = "fail",
        on_bad: OnBad = "reject",
        registry: Registry | str | None = None,
        separator: str = ",",
        wait: str | timedelta | Span = Span(60_000_000),
        look_again: str | timedelta | Span = Span(30_000_000),
    ) -> None:
        names, assigned = _topics(topics, pattern)
        kind = cast("Format", _one_of("format", format, get_args(Format)))
        chosen: dict[str, Any] = {
            "cluster": _cluster(cluster), "topics": names, "pattern": pattern, "assigned": assigned, "format": kind,
            "columns": _columns(kind, schema), "start": _start(start, names),
            "include": _included(include), "isolation": _one_of("isolation", isolation, get_args(Isolation)),
            "on_lost": _one_of("on_lost", on_lost, get_args(OnLost)), "on_bad": _one_of("on_bad", on_bad, get_args(OnBad)),
            "registry": _registry(kind, registry), "separator": _separator(separator),
            "wait": _positive("wait", wait), "look_again": _positive("look_again", look_again),
        }  # fmt: skip
        for name, value in chosen.items():
            object.__setattr__(self, name, value)
        _require_no_collision(self.columns, self.added)

    @property
    def added(self) -> Schema:
        """The columns that do not come from the decoded value."""
        change = CHANGE.columns if self.format == "debezium" else ()
        return Schema((*change, *PLACE.columns, *(_INCLUDED[each] for each in self.include)))

    @property
    def schema(self) -> Schema:
        """The columns of the rows."""
        return Schema((*self.columns.columns, *self.added.columns))

    @property
    def raw_type(self) -> Type:
        """What cannot be decoded is kept as the bytes that came."""
        return Type.of("binary")

    def wants(self, topic: str, partition: int | None = None) -> bool:
        """Whether a topic of this name is read; or, of one that is, this partition."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        assigned = dict(self.assigned).get(topic)
        return topic in self.topics and (partition is None or assigned is None or partition in assigned)

    def reads(self, address: str) -> bool:
        """Whether it would read a message that is put there, in a topic of these brokers.

        >>> KafkaSource(Cluster("one:9092,two:9092"), "orders", format="text").reads("kafka://two:9092/orders")
        True
        """
        scheme, _, rest = address.partition("://")
        servers, _, topic = rest.partition("/")
        return scheme == "kafka" and self.cluster.shares_brokers(servers) and self.wants(topic)

    def reader(self, storage: Storage | None = None) -> KafkaReader:
        """What reads the topics; offsets say everything, so it needs no storage."""
        from strandline.sources.kafka.reader import KafkaReader

        return KafkaReader(self)


def _cluster(given: object) -> Cluster:
    if not isinstance(given, Cluster):
        raise DescriptionError(f"{told(given)} is no cluster.", fix="Write sl.Kafka('host:9092').read(...).")
    return given


def _topics(
    topics: str | Sequence[str] | Mapping[str, Iterable[int]] | None, pattern: str | None
) -> tuple[tuple[str, ...], Assigned]:
    if (topics is None) == (pattern is None):
        raise DescriptionError(
            "A source of Kafka reads topics, or those of a pattern.",
            fix="Give either topics, such as 'orders', or pattern='orders-.*'.",
        )
    if pattern is not None:
        _require_pattern(pattern)
        return (), ()
    names = (topics,) if isinstance(topics, str) else tuple(topics or ())
    if not names:
        raise DescriptionError("topics names no topic.", fix="Give one, such as 'orders', or several.")
    for name in names:
        if not isinstance(name, str) or not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
            raise DescriptionError(
                f"{told(name)} is no name of a topic.",
                fix="A name has letters, digits, '.', '_' and '-'; for several topics by their names write pattern=.",
            )
    if len(set(names)) < len(names):
        raise DescriptionError("A topic is named twice.", fix="Name each topic once.")
    assigned = topics.items() if isinstance(topics, Mapping) else ()
    return names, tuple((name, _numbers(name, given)) for name, given in assigned)


def _numbers(topic: str, given: object) -> tuple[int, ...]:
    numbers = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else ()
    if not numbers or len(set(numbers)) < len(numbers) or not all(_is_count(each) for each in numbers):
        raise DescriptionError(
            f"{told(given)} names no partitions of {topic!r}.", fix=f"Give whole numbers from 0: {{{topic!r}: [0, 1]}}."
        )
    return tuple(sorted(numbers))


def _require_pattern(pattern: object) -> None:
    try:
        if not isinstance(pattern, str) or not pattern:
            raise ValueError("it is no text")
        re.compile(pattern)
    except (re.error, ValueError) as error:
        raise DescriptionError(
            f"pattern={told(pattern)} cannot be matched: {error}.",
            fix="Write a regular expression for whole names, such as 'orders-.*'.",
        ) from None


def _columns(format: Format, schema: str | Schema | None) -> Schema:
    if format in _FIXED:
        if schema is not None:
            raise DescriptionError(
                f"schema= is not for format={format!r}, whose one column is value.", fix="Leave schema= out."
            )
        return _FIXED[format]
    if schema is None:
        raise DescriptionError(
            f"format={format!r} needs a schema.", fix="Give it: schema='user string, amount double, at timestamp'."
        )
    return Schema.of(schema)


def _require_no_collision(columns: Schema, added: Schema) -> None:
    for name in columns:
        if name in added or name in PLACE or name in (KEY, HEADERS):
            raise DescriptionError(
                f"The schema has a column {name!r}, which the source adds by itself.",
                fix="Leave it out of the schema; a field of this name in the messages is not read.",
            )


def _start(given: object, topics: tuple[str, ...]) -> Start:
    if given == "earliest" or given == "latest":  # noqa: PLR1714 - so that its type is known
        return given
    if isinstance(given, Mapping):
        return tuple((topic, _offsets(topic, each, topics)) for topic, each in sorted(given.items()))
    if isinstance(given, str) and not given[:1].isdigit():
        raise DescriptionError(
            f"start={given!r} is not known.",
            fix=f"Give an instant, offsets {{topic: {{partition: offset}}}}, or a word. {did_you_mean(given, ('earliest', 'latest'))}",
        )
    return Instant.of(cast("str | datetime | int", given))


def _offsets(topic: object, given: object, topics: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    if topics and topic not in topics:
        raise DescriptionError(
            f"start names the topic {told(topic)}, which is not read.", fix=did_you_mean(str(topic), topics)
        )
    pairs = tuple(given.items()) if isinstance(given, Mapping) else ()
    if not pairs or not all(_is_count(partition) and _is_count(offset) for partition, offset in pairs):
        raise DescriptionError(
            f"start has {told(given)} for {topic!r}, which are no offsets.",
            fix=f"Write start={{{topic!r}: {{0: 100, 1: 250}}}}: an offset from 0 for each partition.",
        )
    return tuple(sorted(pairs))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _included(given: object) -> tuple[Included, ...]:
    words = {given} if isinstance(given, str) else set(given) if isinstance(given, Iterable) else {given}
    for word in words - set(_INCLUDED):
        raise DescriptionError(f"include={told(word)} is not known.", fix=did_you_mean(str(word), _INCLUDED))
    return tuple(cast("Included", each) for each in _INCLUDED if each in words)


def _registry(format: Format, given: Registry | str | None) -> Registry | None:
    if (format == "avro") != (given is not None):
        raise DescriptionError(
            "Avro needs a registry of schemas." if given is None else f"format={format!r} has no use for a registry.",
            fix="Say where it is: sl.Kafka(servers, registry='http://host:8081')."
            if given is None
            else "Leave registry= out.",
        )
    return Registry(given) if isinstance(given, str) else given


def _separator(given: object) -> str:
    if not (isinstance(given, str) and len(given) == 1 and given.isascii()) or given in '"\r\n':
        raise DescriptionError(
            f"separator={told(given)} cannot separate fields.",
            fix="Give one ASCII character that is neither a quote nor a line's end, such as ';' or a tab.",
        )
    return given


def _positive(option: str, given: str | timedelta | Span) -> Span:
    span = Span.of(given)
    if span <= 0:
        raise DescriptionError(f"{option}={span.text!r} is no time to wait.", fix=f"Give {option}='30s', say.")
    return span


def _one_of(option: str, value: object, known: tuple[str, ...]) -> str:
    if value not in known:
        raise DescriptionError(
            f"{option}={told(value)} is not known.", fix="Write one of " + ", ".join(map(repr, known)) + "."
        )
    return str(value)
