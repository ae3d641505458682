"""A broker that is killed or stands still: the reader waits as long as it may, says so by name, and loses no row."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from time import monotonic

import pytest

from strandline.clients.kafka import Cluster
from strandline.errors import RunError
from strandline.model.secrets import Secret
from strandline.operations import broker
from strandline.sources.contract import Limit, Piece
from strandline.sources.kafka import clients
from strandline.sources.kafka.description import KafkaSource
from tests.servers import own_kafka
from tests.sources.kafka.broker import Broker
from tests.sources.reading import NO_LIMIT, pieces, table_of

pytestmark = pytest.mark.slow
MESSAGES = 60_000


@pytest.fixture(scope="module")
def own() -> Iterator[broker.Broker]:
    with own_kafka() as found:
        yield found
        clients.close_all()


@pytest.fixture(scope="module")
def topic(own: broker.Broker) -> str:
    messages = Broker(own.address)
    made = messages.topic(2)
    messages.put(made, [b'{"n": %d, "more": "%s"}' % (n, b"x" * 200) for n in range(MESSAGES)])
    messages.put(made, [b'{"n": %d}' % n for n in range(10)], partition=1)
    return made


def restart(own: broker.Broker) -> None:
    own.restart(owner=os.getpid())


def require_all(found: list[Piece]) -> None:
    """Each message once, in order, of one partition after the other."""
    rows = table_of(found)
    assert rows["kafka_offset"].to_list() == [*range(MESSAGES), *range(10)]
    assert rows["n"].to_list() == [*range(MESSAGES), *range(10)]


def source(own: broker.Broker, topic: str, wait: str) -> KafkaSource:
    return KafkaSource(Cluster(own.address), topic, format="json", schema="n int", wait=wait)


def test_planning_waits_for_a_broker_that_was_killed_and_comes_back(own: broker.Broker, topic: str) -> None:
    reader = source(own, topic, "90s").reader()
    before = reader.latest(reader.first(), Limit(rows=100))
    own.kill()
    back = threading.Timer(2, restart, [own])
    back.start()
    after = reader.latest(before, NO_LIMIT)
    back.join()
    assert [place.end for place in reader.places(after).values()] == [MESSAGES, 10]


def test_planning_gives_up_by_name_when_the_broker_stays_away(own: broker.Broker, topic: str) -> None:
    reader = source(own, topic, "2s").reader()
    start = reader.latest(reader.first(), Limit(rows=100))
    own.pause()
    try:
        begun = monotonic()
        with pytest.raises(RunError, match=f"Kafka at {own.address} did not answer for 2s when asked for"):
            reader.latest(start, NO_LIMIT)
        assert monotonic() - begun < 30
    finally:
        own.resume()
    assert reader.latest(start, NO_LIMIT) != start


def test_reading_gives_up_by_name_and_reads_the_same_rows_the_next_time(own: broker.Broker, topic: str) -> None:
    reader = source(own, topic, "2s").reader()
    end = reader.latest(reader.first(), NO_LIMIT)
    (part,) = reader.parts(reader.first(), end, 1)
    own.pause()
    try:
        with pytest.raises(RunError, match="did not answer for 2s when asked for messages"):
            list(reader.read(part))
    finally:
        own.resume()
    patient = source(own, topic, "60s").reader()
    require_all(list(patient.read(part)))


def test_a_broker_killed_while_a_part_is_read_costs_no_row_and_doubles_none(own: broker.Broker, topic: str) -> None:
    reader = source(own, topic, "90s").reader()
    end = reader.latest(reader.first(), NO_LIMIT)
    (part,) = reader.parts(reader.first(), end, 1)
    reading = reader.read(part)
    found = [next(reading)]
    own.kill()
    back = threading.Timer(2, restart, [own])
    back.start()
    found += reading
    back.join()
    require_all(found)


def test_a_broker_that_refuses_us_is_said_without_the_secret(
    own: broker.Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", "canary-7391")
    options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "ann"}
    cluster = Cluster(own.address, {**options, "sasl.password": Secret.env("CANARY")})
    reader = KafkaSource(cluster, topic, format="json", schema="n int", wait="2s").reader()
    with pytest.raises(RunError) as caught:
        reader.latest(reader.first(), NO_LIMIT)
    assert "canary" not in str(caught.value)
    assert own.address in caught.value.what


def test_a_cluster_that_is_nowhere_is_said_by_name() -> None:
    reader = KafkaSource(Cluster("127.0.0.1:9"), "orders", format="text", wait="1s").reader()
    with pytest.raises(RunError, match="did not answer for 1s"):
        reader.latest(reader.first(), NO_LIMIT)
    with pytest.raises(RunError, match="did not answer for 1s"):
        list(reader.read([("orders", 0, 0, 5)]))


def test_a_setting_that_the_client_does_not_know_is_said() -> None:
    reader = KafkaSource(Cluster("127.0.0.1:9", {"nonsense": "1"}), "orders", format="text").reader()
    with pytest.raises(RunError, match="cannot be made"):
        reader.latest(reader.first(), NO_LIMIT)


def test_pieces_are_cut_the_same_way_each_time(own: broker.Broker, topic: str) -> None:
    reader = source(own, topic, "60s").reader()
    end = reader.latest(reader.first(), NO_LIMIT)
    cuts = [[piece.rows.height for piece in pieces(reader, reader.first(), end)] for _ in range(3)]
    assert cuts[0] == cuts[1] == cuts[2]
    assert len(cuts[0]) > 2
