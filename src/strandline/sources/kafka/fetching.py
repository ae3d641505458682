"""Messages of ranges of offsets, and what of them is lost.

A range ends with a message at its end or behind it, or with the end of the partition: what was aborted, the marks of
transactions and what was compacted away is never handed out, so the last offsets of a range may bring nothing at all.

Law: every message of a range that readers may see is fetched once, or its offset is told to be lost; and fetching ends.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from strandline.clients.kafka import Cluster
from strandline.model.time import Span
from strandline.sources.kafka.clients import Said, consumer, is_one_of, is_transient, refused, unanswered
from strandline.sources.kafka.losses import made_anew
from strandline.sources.kafka.ranges import OffsetRange

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError

Message: TypeAlias = Any
"""A message of the client's. Its own types say that a place may be missing, which is so of errors only."""

AT_ONCE: Final = 20_000
"""Messages that are handed on together, at most."""
BYTES: Final = 32 << 20
"""And bytes of their values, but for the last message."""
_GRAB: Final = 10_000
_POLL: Final = 0.2
_ANSWER: Final = 5.0
_MISSING: Final = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION")
_NOT_OURS: Final = ("GROUP_AUTHORIZATION_FAILED", "_MAX_POLL_EXCEEDED")  # no group is used


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """Messages, one range after the other, and how many there are of each."""

    messages: list[Message]
    ranges: list[tuple[OffsetRange, int]]


@dataclass(frozen=True, slots=True)
class Lost:
    """The offsets [low, high) of a partition that were removed before they were read."""

    range: OffsetRange
    low: int
    high: int


class _TooMuch(Exception):
    """More bytes than are held until the last of several ranges is read."""


def fetched(cluster: Cluster, isolation: str, ranges: Sequence[OffsetRange], wait: Span) -> Iterator[Messages | Lost]:
    """All messages of some ranges, of which no two are of one partition; range after range.

    Law: what comes, and where it is cut into batches, depends on the ranges alone, and not on which broker is quick.
    """
    with consumer(cluster, isolation) as (client, said):
        for group in _groups(ranges):
            try:
                yield from _Fetching(cluster, client, said, wait, group).batches()
            except _TooMuch:  # noqa: PERF203 - of each group by itself
                for each in group:
                    yield from _Fetching(cluster, client, said, wait, [each]).batches()


def _groups(ranges: Sequence[OffsetRange]) -> Iterator[list[OffsetRange]]:
    """Ranges that are fetched together: small ones, because each fetch has its own cost."""
    group: list[OffsetRange] = []
    for each in ranges:
        if group and sum(other.high - other.low for other in (*group, each)) > AT_ONCE:
            yield group
            group = []
        group.append(each)
    if group:
        yield group


@dataclass(slots=True)
class _Fetching:
    """Ranges on their way."""

    cluster: Cluster
    client: Consumer
    said: Said
    wait: Span
    ranges: Sequence[OffsetRange]
    open: dict[tuple[str, int], OffsetRange] = field(init=False)
    next: dict[tuple[str, int], int] = field(init=False)
    lost: list[Lost] = field(default_factory=list)
    heard: float = 0.0

    def __post_init__(self) -> None:
        self.open = {(each.topic, each.partition): each for each in self.ranges}
        self.next = {key: each.low for key, each in self.open.items()}

    def batches(self) -> Iterator[Messages | Lost]:
        """Batches of a size that is worth decoding."""
        self.client.assign([_place(*each, low) for each, low in self.next.items()])
        self.heard = time.monotonic()
        yield from self._one() if len(self.ranges) == 1 else self._several()
        yield from sorted(self.lost, key=lambda each: self.ranges.index(each.range))

    def _one(self) -> Iterator[Messages]:
        """One range, of any length."""
        waiting: list[Message] = []
        nbytes = 0
        while self.open:
            more = self._grab()
            waiting += more
            nbytes += sum(map(len, more))
            while len(waiting) >= AT_ONCE or nbytes >= BYTES:
                count = _worth_decoding(waiting)
                yield Messages(waiting[:count], [(self.ranges[0], count)])
                self.heard = time.monotonic()  # whoever took the batch may have been slow
                waiting = waiting[count:]
                nbytes = sum(map(len, waiting))
        if waiting:
            yield Messages(waiting, [(self.ranges[0], len(waiting))])

    def _several(self) -> Iterator[Messages]:
        """Several short ranges, held until all are read."""
        held: dict[tuple[str, int], list[Message]] = {key: [] for key in self.open}
        nbytes = 0
        while self.open:
            more = self._grab()
            nbytes += sum(map(len, more))
            if nbytes > BYTES:
                raise _TooMuch
            for each in more:
                held[each.topic(), each.partition()].append(each)
        messages = [each for several in held.values() for each in several]
        if messages:
            counts = [len(several) for several in held.values()]
            yield Messages(messages, [pair for pair in zip(self.ranges, counts, strict=True) if pair[1]])

    def _grab(self) -> list[Message]:
        """What is there by now; if nothing is, what comes next. Only messages of ranges that are open."""
        got = self._consumed()
        failed = [each for each in got if each.error() is not None]
        good = [each for each in got if each.error() is None] if failed else got
        found = self._of_one(good) if len(self.ranges) == 1 else self._of_several(good)
        for each in failed:
            self._event(each, each.error())
        if good:
            self.heard = time.monotonic()
        elif time.monotonic() > self.heard + self.wait / 1_000_000:
            self._silence()
        return found

    def _consumed(self) -> list[Message]:
        """Messages and events. To look through so many new objects for garbage would take longer than to make them."""
        collects = gc.isenabled()
        gc.disable()
        try:
            got: list[Message] = self.client.consume(_GRAB, 0)
            if not got:
                first = self.client.poll(_POLL)
                got = [] if first is None else [first, *self.client.consume(_GRAB - 1, 0)]
            return got
        finally:
            if collects:
                gc.enable()

    def _of_one(self, good: list[Message]) -> list[Message]:
        """The same as of several, quickly: all messages are of one partition, in order."""
        if good:
            ((key, range_),) = self.open.items()
            if good[0].offset() < self.next[key] or any((m.topic(), m.partition()) != key for m in (good[0], good[-1])):
                return self._of_several(good)  # not of this assignment; the client should not let it through
            last = good[-1].offset()
            self.next[key] = max(self.next[key], last + 1)
            if last >= range_.high - 1:
                self._close(key)
                while good and good[-1].offset() >= range_.high:
                    good.pop()
        return good

    def _of_several(self, good: list[Message]) -> list[Message]:
        found = []
        for each in good:
            key, at = (each.topic(), each.partition()), each.offset()
            range_ = self.open.get(key)
            if range_ is None:
                continue
            if self.next[key] <= at < range_.high:
                found.append(each)
                self.next[key] = at + 1
            if at >= range_.high - 1:
                self._close(key)
        return found

    def _close(self, key: tuple[str, int]) -> None:
        """A range is read; no more of its partition is fetched."""
        del self.open[key]
        if self.open:
            self.client.incremental_unassign([_place(*key)])  # to pause it would outlive the assignment

    def _event(self, event: Message, error: KafkaError) -> None:
        key = (event.topic(), event.partition())
        if is_one_of(error, ("_PARTITION_EOF",)):
            self.heard = time.monotonic()
            if key in self.open and (event.offset() or 0) >= self.open[key].high:
                self._close(key)
        elif is_one_of(error, ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE")):
            if key in self.open:
                self._out_of_range(key, max(self.next[key], event.offset() or 0))
        elif not is_transient(error) and not is_one_of(error, (*_MISSING, *_NOT_OURS)):
            raise refused(self.cluster, "messages", error)

    def _out_of_range(self, key: tuple[str, int], at: int) -> None:
        """The partition does not have the offset that was asked for: it begins behind it, or ends before it."""
        low, end = self._watermarks(key)
        range_ = self.open[key]
        if at > end:
            raise made_anew(*key, at=at, end=end)
        if low > at:
            self.lost.append(Lost(range_, at, min(low, range_.high)))
            self.next[key] = at = low
        if at >= range_.high:
            self._close(key)
        else:
            self.client.incremental_unassign([_place(*key)])
            self.client.incremental_assign([_place(*key, at)])

    def _watermarks(self, key: tuple[str, int]) -> tuple[int, int]:
        from confluent_kafka import KafkaException

        until = time.monotonic() + self.wait / 1_000_000
        while True:
            try:
                return self.client.get_watermark_offsets(_place(*key), timeout=_ANSWER, cached=False)
            except KafkaException as error:  # noqa: PERF203 - asked again on purpose
                if not is_transient(error.args[0]):
                    raise refused(self.cluster, "offsets", error.args[0]) from None
                if time.monotonic() > until:
                    raise unanswered(self.cluster, "offsets", self.wait, self.said.last or error.args[0]) from None

    def _silence(self) -> None:
        """Nothing was heard for as long as brokers may be away: a topic that is gone is lost, all else is an error."""
        from confluent_kafka import KafkaException

        try:
            topics = self.client.list_topics(timeout=min(_ANSWER, max(1.0, self.wait / 1_000_000))).topics
        except KafkaException as error:
            raise unanswered(self.cluster, "messages", self.wait, self.said.last or error.args[0]) from None
        gone = [each for each in self.open if each[0] not in topics or each[1] not in topics[each[0]].partitions]
        if not gone:
            raise unanswered(self.cluster, "messages", self.wait, self.said.last)
        for key in gone:
            self.lost.append(Lost(self.open[key], self.next[key], self.open[key].high))
            self._close(key)
        self.heard = time.monotonic()


def _worth_decoding(messages: list[Message]) -> int:
    """How many of the first messages make a batch."""
    sizes = np.cumsum(np.fromiter(map(len, messages), np.int64, len(messages)))
    return min(AT_ONCE, len(messages), int(np.searchsorted(sizes, BYTES)) + 1)


def _place(topic: str, partition: int, offset: int | None = None) -> Any:
    from confluent_kafka import TopicPartition

    return TopicPartition(topic, partition) if offset is None else TopicPartition(topic, partition, offset)
