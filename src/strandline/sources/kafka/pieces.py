"""Messages to pieces: decoded in columns, each row with where its message stood."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from strandline.errors import DataError
from strandline.kernel.schema import polars_schema
from strandline.model.time import Instant
from strandline.sources.contract import Piece
from strandline.sources.kafka.decoding import Decoded, decode
from strandline.sources.kafka.description import HEADERS, KEY, OFFSET, PARTITION, TIMESTAMP, TOPIC
from strandline.sources.kafka.fetching import Lost, Message, Messages, fetched
from strandline.sources.kafka.losses import lost, told_lost
from strandline.sources.kafka.ranges import OffsetRange

if TYPE_CHECKING:
    from strandline.sources.kafka.description import KafkaSource

RAW: Final = "raw"
REASON: Final = "reason"
_FIRST_MS: Final = int(Instant.FIRST_IN_CALENDAR) // 1000 + 1
_LAST_MS: Final = int(Instant.LAST_IN_CALENDAR) // 1000


def pieces(source: KafkaSource, ranges: Sequence[OffsetRange]) -> Iterator[Piece]:
    """The messages of some ranges: rows, and what could not be decoded or was lost."""
    for found in fetched(source.cluster, source.isolation, ranges, source.wait):
        if isinstance(found, Lost):
            yield _skipped(source, found)
        else:
            yield from _decoded(source, found)


def _skipped(source: KafkaSource, found: Lost) -> Piece:
    """One rejected row for offsets that are gone."""
    topic, partition = found.range.topic, found.range.partition
    if source.on_lost == "fail":
        raise lost(topic, partition, found.low, found.high)
    told = {RAW: None, REASON: told_lost(topic, partition, found.low, found.high)}
    place = {TOPIC: topic, PARTITION: partition, OFFSET: found.low}
    malformed = pl.DataFrame([{**told, **place}], schema={**_refused_schema(), **_place_types(source)})
    return Piece(
        partition=found.range.name, rows=pl.DataFrame(schema=polars_schema(source.schema)), malformed=malformed
    )


def _decoded(source: KafkaSource, batch: Messages) -> Iterator[Piece]:
    messages = batch.messages
    values = [each.value() for each in messages]
    found = decode(source, values)
    places = _places(source, batch)
    _refuse_far_times(found, places, messages)
    at = 0
    for each, count in batch.ranges:
        yield _piece(source, each, batch.messages, values, found, places, at, at + count)
        at += count


def _piece(
    source: KafkaSource, range_: OffsetRange, messages: list[Message], values: list[Any], found: Decoded,
    places: pl.DataFrame, low: int, high: int,
) -> Piece:  # fmt: skip
    """The rows of the messages [low, high), which are of one range."""
    first, last = np.searchsorted(found.good, [low, high]).tolist()
    good = found.good[first:last]
    there = places[low:high] if len(good) == high - low else places[good]
    rows = found.rows[first:last].hstack(there).select(list(source.schema))
    bad = [each for each in range(low, high) if each in found.refused] if found.refused else []
    if bad and source.on_bad == "fail":
        raise _bad(range_, messages[bad[0]], found.refused[bad[0]])
    return Piece(partition=range_.name, rows=rows, malformed=_malformed(values, found.refused, places, bad))


def _malformed(values: list[Any], refused: dict[int, str], places: pl.DataFrame, bad: list[int]) -> pl.DataFrame | None:
    if not bad:
        return None
    told = pl.DataFrame(
        {RAW: [values[each] for each in bad], REASON: [refused[each] for each in bad]}, schema=_refused_schema()
    )
    return told.hstack(places[bad])


def _refused_schema() -> dict[str, pl.DataType]:
    return {RAW: pl.Binary(), REASON: pl.String()}


def _place_types(source: KafkaSource) -> dict[str, pl.DataType]:
    return {name: kind for name, kind in polars_schema(source.added).items() if name.startswith("kafka_")}


def _places(source: KafkaSource, batch: Messages) -> pl.DataFrame:
    """Where the messages stood, in columns."""
    messages, types = batch.messages, _place_types(source)
    which = np.repeat(np.arange(len(batch.ranges)), [count for _, count in batch.ranges])
    columns: dict[str, Any] = {
        TOPIC: pl.Series([each.topic for each, _ in batch.ranges], dtype=pl.String()).gather(which),
        PARTITION: np.array([each.partition for each, _ in batch.ranges], np.int32)[which],
        OFFSET: np.array([each.offset() for each in messages], np.int64),
        TIMESTAMP: _times(messages),
    }
    if KEY in types:
        columns[KEY] = [each.key() for each in messages]
    if HEADERS in types:
        columns[HEADERS] = [
            [{"name": name, "value": value} for name, value in each.headers() or ()] for each in messages
        ]
    return pl.DataFrame(columns, schema=types)


def _times(messages: list[Message]) -> pl.Series:
    """The messages' timestamps; null where there is none, or none in the calendar."""
    told = np.array([each.timestamp()[1] for each in messages], np.int64)
    known = (told >= _FIRST_MS) & (told <= _LAST_MS)
    if (told < 0).any():  # the client has nothing but -1 to say that there is none
        known &= np.array([each.timestamp()[0] != 0 for each in messages], np.bool_)
    micros = pl.Series(np.where(known, told, 0) * 1000)
    if not known.all():
        micros = micros.set(pl.Series(~known), None)
    return micros.cast(pl.Datetime("us", "UTC"))


def _refuse_far_times(found: Decoded, places: pl.DataFrame, messages: list[Message]) -> None:
    """A timestamp outside of the calendar does not become null in silence."""
    told = {each: messages[each].timestamp() for each in places[TIMESTAMP].is_null().arg_true().to_list()}
    far = {each: at for each, (kind, at) in told.items() if kind != 0}
    if far:
        found.refuse({each: f"column {TIMESTAMP!r}: {at} ms since 1970 is no timestamp" for each, at in far.items()})


def _bad(range_: OffsetRange, message: Message, reason: str) -> DataError:
    return DataError(
        f"The message at offset {message.offset()} of the topic {range_.topic!r}, partition {range_.partition}, "
        f"cannot be decoded: {reason}.",
        fix="Mend who writes it; or let such messages be rejected, with on_bad='reject', and start again.",
    )
