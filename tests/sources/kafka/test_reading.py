"""Topics of a real broker, read as the engine does: each message once, however it is planned, cut and read again."""

from __future__ import annotations

import json
import os
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strandline.errors import DataError, RunError
from strandline.sources.contract import Limit
from strandline.sources.kafka import clients, fetching
from strandline.sources.kafka.description import KafkaSource
from strandline.sources.kafka.fetching import Messages, fetched
from strandline.sources.kafka.ranges import OffsetRange
from strandline.sources.kafka.reader import KafkaReader
from tests.sources.kafka.broker import Broker
from tests.sources.reading import NO_LIMIT, everything, malformed_of, offsets, pieces, table_of


def numbers(low: int, high: int) -> list[bytes]:
    return [b'{"n": %d}' % n for n in range(low, high)]


def ns(reader: KafkaReader, limit: Limit = NO_LIMIT, wanted: int = 1) -> list[int]:
    return sorted(row[0] for row in everything(reader, limit, wanted))


def test_rows_say_where_their_messages_stood(broker: Broker) -> None:
    topic = broker.topic(2)
    broker.put(
        topic, [b'{"n": 7}'], partition=1, key=b"k\xff", headers=[("a", b"1"), ("a", None)], timestamp=1_767_225_600_000
    )
    reader = broker.source(topic, include=["key", "headers"]).reader()
    (piece,) = pieces(reader, reader.first(), reader.latest(reader.first(), NO_LIMIT))
    assert piece.partition == f"{topic}/1"
    assert piece.rows.schema == pl.DataFrame(schema=piece.rows.schema).schema
    (row,) = piece.rows.to_dicts()
    assert (row["n"], row["kafka_topic"], row["kafka_partition"], row["kafka_offset"]) == (7, topic, 1, 0)
    assert row["kafka_timestamp"].isoformat() == "2026-01-01T00:00:00+00:00"
    assert row["kafka_key"] == b"k\xff"
    assert row["kafka_headers"] == [{"name": "a", "value": b"1"}, {"name": "a", "value": None}]


def test_every_message_comes_once_however_little_a_tick_takes(broker: Broker) -> None:
    topic = broker.topic(3)
    for partition in range(3):
        broker.put(topic, numbers(1000 * partition, 1000 * partition + 100 * (partition + 1)), partition=partition)
    wanted = [*range(100), *range(1000, 1200), *range(2000, 2300)]
    for limit in (NO_LIMIT, Limit(rows=70), Limit(rows=1_000), Limit(bytes=900)):
        assert ns(broker.source(topic).reader(), limit, 2) == wanted


def test_a_tick_takes_no_more_rows_or_bytes_than_it_may(broker: Broker) -> None:
    topic = broker.topic(2)
    broker.put(topic, [b'{"n": 1, "x": "%s"}' % (b"x" * 200)] * 50)
    broker.put(topic, [b'{"n": 2}'] * 50, partition=1)
    source = broker.source(topic)
    for limit in (Limit(rows=20), Limit(bytes=3_000)):
        for start, end in offsets(source.reader(), limit):
            rows = table_of(pieces(source.reader(), start, end))
            assert rows.height <= (limit.rows or 100)
            assert limit.bytes is None or 222 * (rows["n"] == 1).sum() + 9 * (rows["n"] == 2).sum() <= limit.bytes


def test_a_tick_takes_no_more_bytes_than_it_may_behind_a_wide_gap(broker: Broker) -> None:
    topic = broker.topic()
    broker.transactions().put(topic, numbers(0, 300), end="abort")
    broker.put(topic, [b'{"n": 1, "x": "%s"}' % (b"x" * 200)] * 50)
    source, limit = broker.source(topic), Limit(bytes=2_300)
    found = [pieces(source.reader(), start, end) for start, end in offsets(source.reader(), limit)]
    heights = [sum(piece.rows.height for piece in each) for each in found]
    assert (sum(heights), max(heights)) == (50, 10)


def test_a_partition_far_behind_takes_what_the_others_leave(broker: Broker) -> None:
    topic = broker.topic(2)
    broker.put(topic, numbers(0, 500))
    broker.put(topic, numbers(0, 5), partition=1)
    reader = broker.source(topic).reader()
    end = reader.latest(reader.first(), Limit(rows=100))
    assert [place.position for place in reader.places(end).values()] == [95, 5]
    assert [place.end for place in reader.places(end).values()] == [500, 5]


def test_places_tell_of_partitions_without_rows_too(broker: Broker) -> None:
    topic = broker.topic(3)
    broker.put(topic, numbers(0, 5), partition=1)
    reader = broker.source(topic).reader()
    places = reader.places(reader.latest(reader.first(), Limit(rows=2)))
    assert {name: (each.position, each.end) for name, each in places.items()} == {
        f"{topic}/0": (0, 0), f"{topic}/1": (2, 5), f"{topic}/2": (0, 0),
    }  # fmt: skip


def test_nothing_new_is_the_same_offset(broker: Broker) -> None:
    topic = broker.topic(2)
    broker.put(topic, numbers(0, 5))
    reader = broker.source(topic).reader()
    end = reader.latest(reader.first(), NO_LIMIT)
    assert json.loads(json.dumps(end)) == end
    assert reader.latest(end, NO_LIMIT) == end
    assert reader.parts(end, end, 4) == []


@pytest.fixture(scope="module")
def mixed(broker: Broker) -> tuple[KafkaSource, list[tuple[Any, ...]]]:
    """Two partitions of 2,000 offsets, with gaps of transactions, bad messages, and what must come of them."""
    topic = broker.topic(2)
    made = broker.transactions()
    for turn in range(10):
        for partition in range(2):
            low = 100 * (2 * turn + partition)
            made.put(topic, numbers(low, low + 60), partition, end="abort" if turn % 3 == 1 else "commit")
            broker.put(topic, [*numbers(low + 60, low + 99), b"{"], partition=partition)
    source = broker.source(topic)
    reader = source.reader()
    return source, sorted(rows(pieces(reader, reader.first(), reader.latest(reader.first(), NO_LIMIT))), key=repr)


def rows(found: list[Any]) -> list[tuple[Any, ...]]:
    """Rows and bad messages, by the partition and the offset of each."""
    kept = [row for piece in found for row in piece.rows.rows()]
    names = ["raw", "reason", "kafka_partition", "kafka_offset"]
    bad = [row for piece in found if piece.malformed is not None for row in piece.malformed.select(names).rows()]
    return kept + bad


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(cuts=st.lists(st.integers(1, 700), max_size=6), wanted=st.integers(1, 5), data=st.data())
def test_two_offsets_mean_the_same_rows_however_they_are_cut_and_whenever_read(
    mixed: tuple[KafkaSource, list[tuple[Any, ...]]], cuts: list[int], wanted: int, data: st.DataObject
) -> None:
    source, everything_there = mixed
    reader = source.reader()
    start, found = reader.first(), []
    for most in [*cuts, 1_000_000]:
        end = reader.latest(start, Limit(rows=most))
        parts = reader.parts(start, end, wanted)
        for part in data.draw(st.permutations(parts)):
            once = rows(list(reader.read(part)))
            found += once
            if data.draw(st.booleans()):
                assert rows(list(source.reader().read(part))) == once
        start = end
    assert sorted(found, key=repr) == everything_there


def test_what_is_aborted_is_never_seen_and_every_range_ends(
    mixed: tuple[KafkaSource, list[tuple[Any, ...]]],
) -> None:
    _, everything_there = mixed
    aborted = {100 * (2 * turn + partition) + n for turn in (1, 4, 7) for partition in range(2) for n in range(60)}
    there = {100 * place + n for place in range(20) for n in range(99)} - aborted
    assert sorted(row[0] for row in everything_there if isinstance(row[0], int)) == sorted(there)
    assert sum(isinstance(row[0], bytes) for row in everything_there) == 20


def test_an_open_transaction_ends_the_partition_until_it_is_over(broker: Broker) -> None:
    topic = broker.topic()
    made = broker.transactions()
    made.put(topic, numbers(0, 3))
    made.put(topic, numbers(3, 6), end="open")
    broker.put(topic, numbers(6, 9))
    reader = broker.source(topic).reader()
    before = reader.latest(reader.first(), NO_LIMIT)
    assert table_of(pieces(reader, reader.first(), before))["n"].to_list() == [0, 1, 2]
    assert reader.places(before)[f"{topic}/0"].end == 4
    made.finish("commit")
    assert _until_read(reader, before) == [3, 4, 5, 6, 7, 8]


def _until_read(reader: KafkaReader, start: Any) -> list[int]:
    """The broker ends a transaction some time after the client was told so."""
    for _ in range(10_000):
        end = reader.latest(start, NO_LIMIT)
        if end != start:
            return table_of(pieces(reader, start, end))["n"].to_list()
    raise AssertionError("the transaction did not end")


@pytest.mark.parametrize("tail", ["abort", "commit"])
def test_a_range_that_ends_with_nothing_to_see_is_read_to_its_end(broker: Broker, tail: str) -> None:
    topic = broker.topic()
    made = broker.transactions()
    made.put(topic, numbers(0, 5))
    made.put(topic, numbers(5, 500), end=tail)
    reader = broker.source(topic).reader()
    end = reader.first()
    while not reader.places(end) or reader.places(end)[f"{topic}/0"].end < 502:
        end = reader.latest(reader.first(), NO_LIMIT)
    for low, high in ((0, 502), (3, 501), (6, 502), (5, 6), (400, 450), (501, 502)):
        found = list(reader.read([(topic, 0, low, high)]))
        seen = [n for piece in found for n in piece.rows["n"].to_list()]
        there = [*range(5)] if tail == "abort" else [*range(5), None, *range(5, 500)]
        assert seen == [n for n in [*there, *[None] * 600][low:high] if n is not None]


def test_uncommitted_reading_sees_everything(broker: Broker) -> None:
    topic = broker.topic()
    made = broker.transactions()
    made.put(topic, numbers(0, 3), end="abort")
    made.put(topic, numbers(3, 6), end="open")
    assert ns(broker.source(topic, isolation="read_uncommitted").reader()) == [0, 1, 2, 3, 4, 5]
    made.finish("abort")


def test_partitions_added_while_running_are_found_and_read_from_their_beginning(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, numbers(0, 3))
    reader = broker.source(topic, start="latest", look_again="10s").reader()
    start = reader.latest(reader.first(), NO_LIMIT, now=1_000_000)
    broker.grow(topic, 2)
    broker.put(topic, numbers(10, 13), partition=1)
    assert list(reader.places(reader.latest(start, NO_LIMIT, now=2_000_000))) == [f"{topic}/0"]
    end = reader.latest(start, NO_LIMIT, now=12_000_000)
    assert table_of(pieces(reader, start, end))["n"].to_list() == [10, 11, 12]


def test_a_pattern_finds_topics_that_come_later(broker: Broker) -> None:
    first = broker.topic()
    broker.put(first, numbers(0, 3))
    reader = broker.source(pattern=f"{first}(-.*)?").reader()
    start = reader.latest(reader.first(), NO_LIMIT)
    second = broker.topic(name=f"{first}-more")
    broker.topic(name=f"not-{first}")
    broker.put(second, numbers(3, 6))
    end = reader.latest(start, NO_LIMIT)
    assert sorted(reader.places(end)) == [f"{first}-more/0", f"{first}/0"]
    assert table_of(pieces(reader, start, end))["n"].to_list() == [3, 4, 5]


def test_a_pattern_that_matches_nothing_yet_begins_with_what_comes(broker: Broker) -> None:
    name = broker.topic() + "-late"
    reader = broker.source(pattern=name, start="latest").reader()
    start = reader.latest(reader.first(), NO_LIMIT)
    assert reader.places(start) == {}
    broker.put(broker.topic(name=name), numbers(0, 3))
    assert table_of(pieces(reader, start, reader.latest(start, NO_LIMIT)))["n"].to_list() == [0, 1, 2]


def test_several_topics_and_assigned_partitions(broker: Broker) -> None:
    one, other = broker.topic(2), broker.topic(2)
    for number, topic in enumerate((one, other)):
        for partition in range(2):
            broker.put(topic, numbers(10 * number + partition, 10 * number + partition + 1), partition=partition)
    assert ns(broker.source([one, other]).reader()) == [0, 1, 10, 11]
    assert ns(broker.source({one: [1], other: [0, 1]}).reader()) == [1, 10, 11]
    with pytest.raises(RunError, match="has no partition 7"):
        ns(broker.source({one: [7]}).reader())


def test_partitions_that_are_not_assigned_any_more_are_left_where_they_were(broker: Broker) -> None:
    topic = broker.topic(2)
    for partition in range(2):
        broker.put(topic, numbers(10 * partition, 10 * partition + 10), partition=partition)
    start = broker.source({topic: [0, 1]}).reader().latest(broker.source(topic).reader().first(), Limit(rows=10))
    fewer = broker.source({topic: [1]}).reader()
    end = fewer.latest(start, NO_LIMIT)
    assert list(fewer.places(end)) == [f"{topic}/1"]
    assert table_of(pieces(fewer, start, end))["n"].to_list() == [15, 16, 17, 18, 19]
    again = broker.source(topic).reader()
    last = again.latest(end, NO_LIMIT)
    assert list(again.places(last)) == [f"{topic}/0", f"{topic}/1"]
    assert table_of(pieces(again, end, last))["n"].to_list() == [5, 6, 7, 8, 9]


def test_a_pattern_for_everything_does_not_find_what_the_brokers_keep_for_themselves(broker: Broker) -> None:
    topic = broker.topic()
    broker.transactions().put(topic, numbers(0, 3))
    assert "__transaction_state" in broker.admin.list_topics(timeout=10).topics
    reader = broker.source(pattern=".*").reader()
    found = {name.rpartition("/")[0] for name in reader.places(reader.latest(reader.first(), NO_LIMIT))}
    assert topic in found
    assert not {name for name in found if name.startswith("__")}


def test_a_start_at_the_end_an_instant_or_offsets(broker: Broker) -> None:
    topic = broker.topic(2)
    for n in range(10):
        broker.put(topic, numbers(n, n + 1), timestamp=1_767_225_600_000 + 1000 * n)
    reader = broker.source(topic, start="latest").reader()
    start = reader.latest(reader.first(), NO_LIMIT)
    broker.put(topic, numbers(10, 11), timestamp=1_767_225_610_000)
    assert table_of(pieces(reader, start, reader.latest(start, NO_LIMIT)))["n"].to_list() == [10]
    assert ns(broker.source(topic, start="2026-01-01T00:00:04.000001Z").reader()) == [5, 6, 7, 8, 9, 10]
    assert ns(broker.source(topic, start="2027-01-01T00:00:00Z").reader()) == []
    assert ns(broker.source(topic, start="1960-01-01T00:00:00Z").reader()) == [*range(11)]
    assert ns(broker.source(topic, start={topic: {0: 8}}).reader()) == [8, 9, 10]


def test_a_start_that_is_not_there_is_said(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, numbers(0, 3))
    with pytest.raises(DataError, match="ends at offset 3 in partition 0, before 8"):
        ns(broker.source(topic, start={topic: {0: 8}}).reader())
    with pytest.raises(RunError, match="names the partition 5"):
        ns(broker.source(topic, start={topic: {5: 8}}).reader())


def test_a_start_at_the_end_stays_where_it_was_first_found(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, numbers(0, 3))
    source = broker.source(topic, start="latest")
    end = source.reader().latest(source.reader().first(), NO_LIMIT)
    broker.put(topic, numbers(3, 6))
    later = source.reader().latest(end, NO_LIMIT)  # as after a restart
    assert table_of(pieces(source.reader(), source.reader().first(), later))["n"].to_list() == [3, 4, 5]


def test_a_topic_that_is_not_there_is_said_by_name(broker: Broker) -> None:
    with pytest.raises(RunError, match="There is no topic 'source-nowhere'"):
        ns(broker.source("source-nowhere").reader())


def test_consumers_are_kept_between_ticks_and_left_alone_after_a_fork(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, numbers(0, 5))
    source = broker.source(topic)
    assert ns(source.reader()) == [*range(5)]
    kept = [each.client for key, each in clients._pool.waiting if key[:2] == ("consumer", source.cluster)]
    assert ns(source.reader()) == [*range(5)]
    assert [each.client for key, each in clients._pool.waiting if key[:2] == ("consumer", source.cluster)] == kept
    child = os.fork()
    if not child:  # reads with consumers of its own, without Polars, which has its own threads
        found = fetched(source.cluster, source.isolation, [OffsetRange(topic, 0, 0, 5)], source.wait)
        os._exit(0 if [len(each.messages) for each in found if isinstance(each, Messages)] == [5] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert ns(source.reader()) == [*range(5)]


def test_ranges_that_are_too_large_to_be_held_together_are_read_one_by_one(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.topic(3)
    for partition in range(3):
        broker.put(topic, numbers(100 * partition, 100 * partition + 40), partition=partition)
    wanted = [*range(40), *range(100, 140), *range(200, 240)]
    reader = broker.source(topic).reader()
    end = reader.latest(reader.first(), NO_LIMIT)
    assert table_of(pieces(reader, reader.first(), end))["n"].to_list() == wanted
    for most in (1, 100):
        monkeypatch.setattr(fetching, "BYTES", most)
        found = pieces(reader, reader.first(), end)
        assert table_of(found)["n"].to_list() == wanted
        assert len(found) > 3


def test_two_parts_may_be_read_at_once_in_one_process(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, numbers(0, 1000))
    reader = broker.source(topic).reader()
    parts = reader.parts(reader.first(), reader.latest(reader.first(), NO_LIMIT), 2)
    both = [piece for pair in zip(*(reader.read(part) for part in parts), strict=True) for piece in pair]
    assert table_of(both)["n"].to_list() == [*range(1000)]


def test_a_topic_made_anew_is_not_taken_for_the_old_one(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, numbers(0, 3))
    reader = broker.source(topic).reader()
    end = reader.latest(reader.first(), NO_LIMIT)
    broker.delete(topic)
    for _ in range(100):
        try:
            broker.topic(name=topic)
            break
        except Exception:
            continue
    broker.put(topic, numbers(0, 9))
    with pytest.raises(DataError, match="made anew"):
        reader.latest(end, NO_LIMIT)


def test_malformed_messages_keep_their_bytes_and_their_place(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, [b'{"n": 1}', b"\xff\xfe", None, b'{"n": "x"}', b'{"n": 2}'], timestamp=1_767_225_600_000)
    reader = broker.source(topic).reader()
    (piece,) = pieces(reader, reader.first(), reader.latest(reader.first(), NO_LIMIT))
    assert piece.rows["kafka_offset"].to_list() == [0, 4]
    assert piece.malformed is not None
    assert piece.malformed.schema["raw"] == pl.Binary()
    assert piece.malformed["raw"].to_list() == [b"\xff\xfe", None, b'{"n": "x"}']
    assert piece.malformed["kafka_offset"].to_list() == [1, 2, 3]
    assert piece.malformed["reason"].to_list()[1:] == ["the value is null", "column 'n': 'x' is no int"]


def test_a_bad_message_stops_the_flow_where_that_is_wanted(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, [b'{"n": 1}', b"nonsense"])
    with pytest.raises(DataError, match=f"offset 1 of the topic '{topic}', partition 0, cannot be decoded: no JSON"):
        ns(broker.source(topic, on_bad="fail").reader())


def test_text_and_bytes_come_as_they_are(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, [b"a\nb", None, b"", b"\xff", "\u00e9".encode()])
    reader = broker.source(topic, format="text").reader()
    found = pieces(reader, reader.first(), reader.latest(reader.first(), NO_LIMIT))
    assert table_of(found)["value"].to_list() == ["a\nb", None, "", "é"]
    assert malformed_of(found)[0][:2] == (b"\xff", "no UTF-8 text: byte 1 is 0xff")
    assert [row[0] for row in everything(broker.source(topic, format="bytes").reader())] == [
        b"a\nb", None, b"", b"\xff", b"\xc3\xa9",
    ]  # fmt: skip


def test_csv_and_changes_of_debezium_from_a_topic(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, [b'7,"a\nb"', b"x,y", b"8,"])
    reader = broker.source(topic, format="csv", schema="n int, s string").reader()
    found = pieces(reader, reader.first(), reader.latest(reader.first(), NO_LIMIT))
    assert [row[:2] for row in table_of(found).rows()] == [(7, "a\nb"), (8, None)]
    assert [row[0] for row in malformed_of(found)] == [b"x,y"]
    changes = broker.topic()
    broker.put(changes, [b'{"op": "c", "after": {"n": 1}}', b'{"op": "d", "before": {"n": 1}}', None, b"{}"])
    reader = broker.source(changes, format="debezium").reader()
    found = pieces(reader, reader.first(), reader.latest(reader.first(), NO_LIMIT))
    assert table_of(found).select("n", "op", "kafka_offset").rows() == [(1, "insert", 0), (1, "delete", 1)]
    assert [row[0] for row in malformed_of(found)] == [b"{}"]
