"""What the brokers tell who plans: topics, their partitions, and how far each goes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from strandline.errors import RunError
from strandline.model.time import Instant
from strandline.sources.kafka.clients import ask, is_one_of
from strandline.sources.kafka.fetching import Messages, fetched
from strandline.sources.kafka.ranges import OffsetRange

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from strandline.sources.kafka.description import KafkaSource

Partition: TypeAlias = tuple[str, int]
Topics: TypeAlias = dict[str, tuple[str, tuple[int, ...]]]
"""Of each topic its id, which a topic made anew under the same name does not have, and its partitions."""
Bounds: TypeAlias = tuple[int, int]
"""Where a partition begins, and where it ends for whoever reads it so."""

_ANSWER: Final = 10.0  # seconds for one answer
_NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"  # of brokers that know none
_UNKNOWN_FOR: Final = 3.0  # seconds for which a new topic may be unknown to a broker
_PAUSE: Final = 0.1
_SAMPLE: Final = 50
_GONE: Final = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION")


class Gone(Exception):
    """A partition that was there when topics were listed, and is not any more."""


def listing(source: KafkaSource) -> Topics:
    """The topics that are read, with the partitions that are read of them."""
    if source.pattern is not None:
        return ask(source.cluster, "its topics", source.wait, lambda client: _matching(source, client))
    until = time.monotonic() + _UNKNOWN_FOR
    while True:
        found = ask(source.cluster, "its topics", source.wait, lambda client: _described(source, client, source.topics))
        missing = [name for name in source.topics if name not in found]
        if not missing:
            return _assigned(source, found) if source.assigned else found
        if time.monotonic() > until:
            raise RunError(
                f"There is no topic {missing[0]!r} at {source.cluster.servers}, or this user may not see it.",
                fix="Create it, or mend its name; for topics that come and go, write pattern=.",
            )
        time.sleep(_PAUSE)


def bounds_of(source: KafkaSource, partitions: Sequence[Partition]) -> dict[Partition, Bounds]:
    """Where partitions begin and end. What an open transaction holds back lies behind the end."""
    if not partitions:
        return {}

    def question(client: AdminClient) -> dict[Partition, Bounds]:
        first = _asked(source, client, partitions, _spec("earliest"))
        last = _asked(source, client, partitions, _spec("latest"))
        lows, ends = _offsets(first), _offsets(last)
        return {each: (lows[each], max(lows[each], ends[each])) for each in partitions}

    return ask(source.cluster, "offsets", source.wait, question)


def of_time(source: KafkaSource, partitions: Sequence[Partition], instant: Instant) -> dict[Partition, int]:
    """The offset of the first message of an instant or later, of each partition that has one."""
    if not partitions:
        return {}
    spec = _spec("for_timestamp", max(0, -(-instant // 1000)))
    found = ask(
        source.cluster,
        "offsets of a time",
        source.wait,
        lambda client: _offsets(_asked(source, client, partitions, spec)),
    )
    return {each: at for each, at in found.items() if at >= 0}


def sample(source: KafkaSource, ranges: Sequence[OffsetRange]) -> dict[OffsetRange, float]:
    """About how many bytes a message has, from the first ones of each range that has any."""
    sizes: dict[Partition, float] = {}
    for batch in _batches(source, [each._replace(high=min(each.high, each.low + _SAMPLE)) for each in ranges]):
        sizes |= _sizes(batch)
    for each in ranges:
        behind = each._replace(low=min(each.high, each.low + _SAMPLE))
        if (each.topic, each.partition) not in sizes and behind.low < behind.high:  # the range begins with a gap
            sizes |= _sizes(next(_batches(source, [behind]), None))
    return {each: sizes[each.topic, each.partition] for each in ranges if (each.topic, each.partition) in sizes}


def _batches(source: KafkaSource, ranges: Sequence[OffsetRange]) -> Iterator[Messages]:
    return (b for b in fetched(source.cluster, source.isolation, ranges, source.wait) if isinstance(b, Messages))


def _sizes(batch: Messages | None) -> dict[Partition, float]:
    """Bytes of a message, of each partition in a batch."""
    if batch is None:
        return {}
    messages, sizes = iter(batch.messages), {}
    for each, count in batch.ranges:
        found = [len(m.value() or b"") + len(m.key() or b"") for m in islice(messages, count)]
        sizes[each.topic, each.partition] = max(1.0, sum(found) / count)
    return sizes


def _matching(source: KafkaSource, client: AdminClient) -> Topics:
    """What a pattern finds; the brokers' own topics, such as __consumer_offsets, are nobody's events."""
    names = [name for name in client.list_topics(timeout=_seconds(source)).topics if source.wants(name)]
    return _described(source, client, names, internal=False)


def _described(source: KafkaSource, client: AdminClient, names: Sequence[str], *, internal: bool = True) -> Topics:
    from confluent_kafka import KafkaException, TopicCollection

    if not names:
        return {}
    found: Topics = {}
    for name, answer in client.describe_topics(TopicCollection(list(names)), request_timeout=_seconds(source)).items():
        try:
            told = answer.result(_ANSWER + 1)
        except KafkaException as error:
            if is_one_of(error.args[0], _GONE):
                continue
            raise
        if told.is_internal and not internal:
            continue
        topic_id = str(told.topic_id or "")
        found[name] = ("" if topic_id == _NO_ID else topic_id, tuple(sorted(each.id for each in told.partitions)))
    return found


def _assigned(source: KafkaSource, found: Topics) -> Topics:
    """Only the partitions that were named, which must be there."""
    for topic, numbers in source.assigned:
        for number in numbers:
            if number not in found[topic][1]:
                raise RunError(
                    f"The topic {topic!r} has no partition {number}: it has {len(found[topic][1])}.",
                    fix="Name partitions that there are, counted from 0, or only the topic.",
                )
    return {topic: (found[topic][0], numbers) for topic, numbers in source.assigned}


def _asked(
    source: KafkaSource, client: AdminClient, partitions: Sequence[Partition], spec: Any
) -> Mapping[Any, Future[Any]]:
    from confluent_kafka import IsolationLevel, TopicPartition

    committed = source.isolation == "read_committed"
    return client.list_offsets(
        {TopicPartition(topic, number): spec for topic, number in partitions},
        isolation_level=IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED,
        request_timeout=_seconds(source),
    )


def _spec(kind: str, *given: int) -> Any:
    """Which offset is asked for."""
    from confluent_kafka import admin  # its types do not name the specifications

    return getattr(admin.OffsetSpec, kind)(*given)  # type: ignore[attr-defined]


def _offsets(answers: Mapping[Any, Future[Any]]) -> dict[Partition, int]:
    from confluent_kafka import KafkaException

    try:
        return {(each.topic, each.partition): int(told.result(_ANSWER + 1).offset) for each, told in answers.items()}
    except KafkaException as error:
        if is_one_of(error.args[0], _GONE):
            raise Gone(str(error.args[0])) from None
        raise


def _seconds(source: KafkaSource) -> float:
    """How long one answer may take."""
    return min(_ANSWER, max(1.0, source.wait / 1_000_000))
