"""What retention removed before it was read: a named error, or counted; never nothing."""

from __future__ import annotations

import pytest

from strandline.errors import DataError
from strandline.sources.contract import Limit
from tests.sources.kafka.broker import Broker
from tests.sources.reading import NO_LIMIT, everything, pieces, table_of


def full(broker: Broker, count: int = 100) -> str:
    topic = broker.topic()
    broker.put(topic, [b'{"n": %d}' % n for n in range(count)])
    return topic


def test_lost_data_stops_the_flow_by_name_when_it_is_planned(broker: Broker) -> None:
    topic = full(broker)
    reader = broker.source(topic).reader()
    start = reader.latest(reader.first(), Limit(rows=10))
    broker.delete_before(topic, 0, 50)
    with pytest.raises(DataError) as caught:
        reader.latest(start, NO_LIMIT)
    assert f"the offsets 10 to 49 (40 of them) of the topic '{topic}', partition 0" in caught.value.what
    assert "on_lost='skip'" in caught.value.fix


def test_lost_data_stops_the_flow_by_name_when_it_is_read(broker: Broker) -> None:
    topic = full(broker)
    reader = broker.source(topic).reader()
    end = reader.latest(reader.first(), NO_LIMIT)
    broker.delete_before(topic, 0, 50)
    with pytest.raises(DataError, match=r"the offsets 0 to 49 \(50 of them\)"):
        pieces(reader, reader.first(), end)


def test_lost_data_is_skipped_and_counted_with_the_range_that_is_gone(broker: Broker) -> None:
    topic = full(broker)
    reader = broker.source(topic, on_lost="skip").reader()
    start = reader.latest(reader.first(), Limit(rows=10))
    broker.delete_before(topic, 0, 50)
    end = reader.latest(start, Limit(rows=20))  # what is gone takes no room
    assert reader.places(end)[f"{topic}/0"].position == 70
    found = pieces(reader, start, end)
    assert table_of(found)["n"].to_list() == [*range(50, 70)]
    (malformed,) = [piece.malformed for piece in found if piece.malformed is not None]
    (row,) = malformed.to_dicts()
    assert row["reason"].startswith("the offsets 10 to 49 (40 of them)")
    assert (row["raw"], row["kafka_topic"], row["kafka_partition"], row["kafka_offset"]) == (None, topic, 0, 10)


def test_a_range_that_is_wholly_gone_is_counted_and_ends(broker: Broker) -> None:
    topic = full(broker)
    reader = broker.source(topic, on_lost="skip").reader()
    end = reader.latest(reader.first(), NO_LIMIT)
    broker.delete_before(topic, 0, 100)
    found = pieces(reader, reader.first(), end)
    assert sum(piece.rows.height for piece in found) == 0
    assert [piece.malformed["reason"].to_list() for piece in found if piece.malformed is not None] == [
        [f"the offsets 0 to 99 (100 of them) of the topic '{topic}', partition 0, were removed before they were read"]
    ]
    assert reader.latest(end, NO_LIMIT) == end


def test_a_first_run_begins_where_the_topic_does_and_has_lost_nothing(broker: Broker) -> None:
    topic = full(broker)
    broker.delete_before(topic, 0, 60)
    assert [row[0] for row in everything(broker.source(topic).reader())] == [*range(60, 100)]


def test_one_partition_that_lost_data_does_not_hold_the_others(broker: Broker) -> None:
    topic = broker.topic(2)
    for partition in range(2):
        broker.put(topic, [b'{"n": %d}' % (100 * partition + n) for n in range(20)], partition=partition)
    reader = broker.source(topic, on_lost="skip").reader()
    end = reader.latest(reader.first(), NO_LIMIT)
    broker.delete_before(topic, 0, 5)
    found = pieces(reader, reader.first(), end)
    assert table_of(found)["n"].to_list() == [*range(5, 20), *range(100, 120)]
    assert [piece.malformed["kafka_offset"].to_list() for piece in found if piece.malformed is not None] == [[0]]


@pytest.mark.slow
def test_a_topic_that_is_gone_is_lost_too(broker: Broker) -> None:
    topic, stays = full(broker), broker.topic()
    pattern = f"{topic}|{stays}"
    skipping = broker.source(pattern=pattern, on_lost="skip", wait="3s").reader()
    start = skipping.latest(skipping.first(), Limit(rows=10))
    broker.delete(topic)
    while topic in broker.admin.list_topics(timeout=10).topics:
        pass
    with pytest.raises(DataError, match="the offsets 10 to 99"):
        broker.source(pattern=pattern).reader().latest(start, NO_LIMIT)
    end = skipping.latest(start, NO_LIMIT)
    found = pieces(skipping, start, end)
    assert [piece.malformed["reason"][0][:20] for piece in found if piece.malformed is not None] == [
        "the offsets 10 to 99"
    ]


@pytest.mark.slow
def test_a_topic_of_a_pattern_that_is_deleted_does_not_stop_the_others(broker: Broker) -> None:
    topic, stays = full(broker), broker.topic()
    reader = broker.source(pattern=f"{topic}|{stays}", look_again="1h").reader()
    start = reader.latest(reader.first(), NO_LIMIT, now=1)
    broker.delete(topic)
    while topic in broker.admin.list_topics(timeout=10).topics:
        pass
    broker.put(stays, [b'{"n": 5}'])
    end = reader.latest(start, NO_LIMIT, now=2)
    assert table_of(pieces(reader, start, end))["n"].to_list() == [5]
    assert list(reader.places(end)) == [f"{stays}/0"]  # what is gone has no watermark that others wait for
    assert reader.latest(end, NO_LIMIT, now=3) == end
