"""Reads topics of Kafka: plans from what the brokers tell, and reads from offsets alone.

An offset is `{"topics": {name: id}, "places": {"orders/0": [begin, position, end]}, "gone": ["old/0"]}`: where the partition
began to be read, how far it is read, and how far there was to read when that was planned; and which of them are not there, or
not read, any more. Their places are kept for the case that they come back. Before the first planning `places` is null.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from strandline.errors import DataError, RunError, StateError
from strandline.model.time import Instant
from strandline.sources.contract import Limit, Offset, Piece, Place
from strandline.sources.kafka.admission import admitted
from strandline.sources.kafka.clients import unanswered
from strandline.sources.kafka.losses import lost, made_anew
from strandline.sources.kafka.ranges import OffsetRange, cut

if TYPE_CHECKING:
    from strandline.sources.kafka.brokers import Bounds, Topics
    from strandline.sources.kafka.description import KafkaSource

Partition: TypeAlias = tuple[str, int]

_ALWAYS: Final = -1 << 62
_PAUSE: Final = 0.1


class KafkaReader:
    """Reads the topics of a source. Who plans remembers what topics there are for a while; that does not travel."""

    def __init__(self, source: KafkaSource) -> None:
        self.source = source
        self._remember_nothing()

    def _remember_nothing(self) -> None:
        self._topics: Topics | None = None
        self._listed = _ALWAYS
        self._sizes: dict[Partition, tuple[int, float]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"source": self.source}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._remember_nothing()

    def first(self) -> Offset:
        """Before everything: where `start` will find the partitions."""
        return {"topics": {}, "places": None, "gone": []}

    def latest(self, start: Offset, limit: Limit, *, now: int | None = None) -> Offset:
        """Ask how far partitions go, and take as much as the limit lets through, spread over them."""
        known = _places(start)
        topics, bounds = self._found(start, now)
        begins = self._begins([each for each in bounds if each not in known], bounds, is_first=start["places"] is None)
        places = {**known, **{each: [begins[each], begins[each], bounds[each][1]] for each in begins}}
        for each in bounds:
            self._require_there(each, places[each], bounds[each])
        gone = sorted(set(known) - set(bounds))
        for each in gone:
            places[each] = self._gone(each, known[each])
        self._admit(places, bounds, limit)
        ids = {**start["topics"], **{name: topic_id for name, (topic_id, _) in topics.items() if topic_id}}
        return {
            "topics": ids,
            "places": {_name(each): places[each] for each in sorted(places)},
            "gone": [_name(each) for each in gone],
        }

    def parts(self, start: Offset, end: Offset, wanted: int) -> list[Any]:
        """Ranges of offsets, put together or cut so that the parts have about as many."""
        before, ranges = _places(start), []
        for (topic, number), (begin, position, _) in _places(end).items():
            low = before[topic, number][1] if (topic, number) in before else begin
            if low > position:
                raise StateError(
                    f"The partition {number} of the topic {topic!r} cannot be read from {low} back to {position}.",
                    fix="Restore the state and its Spark checkpoint together.",
                )
            if low < position:
                ranges.append(OffsetRange(topic, number, low, position))
        return cut(ranges, wanted)

    def read(self, part: Any) -> Iterator[Piece]:
        """The messages of some ranges, decoded."""
        from strandline.sources.kafka.pieces import pieces

        return pieces(self.source, [OffsetRange(*each) for each in part])

    def places(self, offset: Offset) -> dict[str, Place]:
        """How far each partition that is read has come, and how far there was to read."""
        return {
            name: Place(position=position, end=end)
            for name, (_, position, end) in (offset["places"] or {}).items()
            if name not in offset["gone"]
        }

    def _listing(self, start: Offset, now: int | None) -> Topics:
        """The topics and their partitions, looked at again now and then."""
        from strandline.sources.kafka.brokers import listing

        if self._topics is None or now is None or not 0 <= now - self._listed < self.source.look_again:
            self._topics, self._listed = listing(self.source), now if now is not None else _ALWAYS
            for name, (topic_id, _) in self._topics.items():
                if topic_id and start["topics"].get(name, topic_id) != topic_id:
                    raise made_anew(name)
        return self._topics

    def _found(self, start: Offset, now: int | None) -> tuple[Topics, dict[Partition, Bounds]]:
        """The topics, and where each of their partitions begins and ends now."""
        from strandline.sources.kafka.brokers import Gone, bounds_of

        until = time.monotonic() + self.source.wait / 1_000_000
        while True:
            topics = self._listing(start, now)
            try:
                return topics, bounds_of(self.source, _partitions(topics))
            except Gone as error:
                self._topics = None
                if time.monotonic() > until:
                    raise unanswered(self.source.cluster, "offsets", self.source.wait, error) from None
                time.sleep(_PAUSE)

    def _begins(
        self, new: list[Partition], bounds: Mapping[Partition, Bounds], *, is_first: bool
    ) -> dict[Partition, int]:
        """Where partitions that were not known are begun to be read."""
        from strandline.sources.kafka.brokers import of_time

        start = self.source.start
        begins = {each: bounds[each][0] for each in new}
        if isinstance(start, tuple):
            given = {(topic, number): at for topic, offsets in start for number, at in offsets}
            for each in given.keys() - bounds.keys() if is_first else ():
                raise RunError(
                    f"start names the partition {each[1]} of the topic {each[0]!r}, which is not there.",
                    fix="Name partitions that there are; those that are not named begin at their beginning.",
                )
            begins |= {each: given[each] for each in new if each in given}
        elif is_first and start == "latest":
            begins = {each: bounds[each][1] for each in new}
        elif is_first and isinstance(start, Instant):
            found = of_time(self.source, new, start)
            begins = {each: min(bounds[each][1], found.get(each, bounds[each][1])) for each in new}
        return begins

    def _require_there(self, partition: Partition, place: list[int], bounds: Bounds) -> None:
        """What is to be read next must lie within what the partition has."""
        (low, end), position = bounds, place[1]
        if position > end and place[2] < position:
            raise DataError(
                f"The topic {partition[0]!r} ends at offset {end} in partition {partition[1]}, before {position}, "
                "where it is to be read from.",
                fix="Give start= offsets that are there.",
            )
        if position > max(end, low):
            raise made_anew(*partition, at=position, end=end)
        if low > position and self.source.on_lost == "fail":
            raise lost(*partition, position, low)

    def _gone(self, partition: Partition, place: list[int]) -> list[int]:
        """The place of a partition that is not there any more, or not read any more: what was not read is lost."""
        begin, position, end = place
        if self.source.wants(*partition) and position < end:
            if self.source.on_lost == "fail":
                raise lost(*partition, position, end)
            return [begin, end, end]
        return place

    def _admit(self, places: dict[Partition, list[int]], bounds: Mapping[Partition, Bounds], limit: Limit) -> None:
        """Move positions as far as the limit lets them. What retention removed takes no room."""
        order = [each for each in sorted(places) if each in bounds]
        at = [max(places[each][1], bounds[each][0]) for each in order]
        waiting = [max(0, bounds[each][1] - low) for each, low in zip(order, at, strict=True)]
        sizes = self._about(order, at, waiting) if limit.bytes is not None else [1.0] * len(order)
        turn = sum(place[1] for place in places.values())
        for each, low, more in zip(order, at, admitted(limit, waiting, sizes, turn), strict=True):
            begin, position, _ = places[each]
            places[each] = [begin, max(position, low + more), max(low, bounds[each][1])]

    def _about(self, order: list[Partition], at: list[int], waiting: list[int]) -> list[float]:
        """About how many bytes a message has in each partition, from some that wait."""
        from strandline.sources.kafka.brokers import sample

        stale = [
            OffsetRange(*each, low, low + count)
            for each, low, count in zip(order, at, waiting, strict=True)
            if count and not low - 10_000 <= self._sizes.get(each, (_ALWAYS, 0.0))[0] <= low
        ]
        if stale:
            found = sample(self.source, stale)
            self._sizes |= {(each.topic, each.partition): (each.low, found.get(each, 1.0)) for each in stale}
        return [self._sizes.get(each, (0, 1.0))[1] for each in order]


def _partitions(topics: Topics) -> list[Partition]:
    return sorted((name, number) for name, (_, numbers) in topics.items() for number in numbers)


def _name(partition: Partition) -> str:
    return f"{partition[0]}/{partition[1]}"


def _places(offset: Offset) -> dict[Partition, list[int]]:
    found = {}
    for name, place in (offset["places"] or {}).items():
        topic, _, number = name.rpartition("/")
        found[topic, int(number)] = list(place)
    return found
