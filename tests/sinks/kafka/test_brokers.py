"""Brokers that die, forget and wait: each test has a broker of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

import strandline.sinks.kafka.description as module
from strandline.clients.kafka import Cluster
from strandline.errors import SinkError
from strandline.operations.broker import Broker
from strandline.sinks.kafka.description import KafkaSink
from strandline.sinks.kafka.markers import name_of_sink
from strandline.sinks.kafka.offsets import committed
from strandline.sinks.kafka.transactions import Transactions
from tests.servers import PATIENCE, own_kafka
from tests.sinks.delivering import TARGET
from tests.sinks.kafka.broker import new_topic
from tests.sinks.kafka.dying import ROWS, child, publish, sink, tick
from tests.sinks.kafka.reader import read, reading
from tests.sinks.kafka.test_crashes import settled

pytestmark = pytest.mark.slow


@pytest.fixture
def broker() -> Iterator[Broker]:
    properties = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
        "offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": 2000,
    }  # fmt: skip
    with own_kafka(properties) as found:
        yield found


class Cutting(Transactions):
    """Commits during which the broker is killed, and comes back a moment later."""

    broker: ClassVar[Broker]
    at: ClassVar[dict[int, float]]  # of which commits, and how long after the call
    number: ClassVar[int] = 0
    restarts: ClassVar[list[threading.Thread]]

    def commit(self) -> None:
        Cutting.number += 1
        delay = Cutting.at.pop(Cutting.number, None)
        if delay is not None:
            Cutting.restarts.append(threading.Thread(target=_cut, args=(Cutting.broker, delay)))
            Cutting.restarts[-1].start()
        super().commit()


def _cut(broker: Broker, delay: float) -> None:
    time.sleep(delay)
    broker.kill()
    broker.restart(within=PATIENCE)


def test_a_broker_that_is_killed_while_a_tick_is_committed_loses_and_doubles_nothing(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Transactions", Cutting)
    Cutting.broker, Cutting.number, Cutting.restarts = broker, 0, []
    Cutting.at = {3: 0.0, 8: 0.001, 14: 0.003, 20: 0.01}
    topic = new_topic(broker.address)
    with reading(broker.address, topic) as seen:
        publisher = sink(broker.address, topic).prepare(TARGET)
        publish(publisher, 1, 8)
        for restart in Cutting.restarts:
            restart.join()
        assert Cutting.at == {}
        publisher.close()
        settled(broker.address, topic, seen, ticks=8)


def test_readers_wait_for_a_driver_that_stands_still_no_longer_than_its_timeout_and_five_seconds(
    broker: Broker,
) -> None:
    topic = new_topic(broker.address, partitions=1)
    with reading(broker.address, topic) as seen:
        stopped = child(broker.address, topic, "sent", 2, 1, "stop")
        while stopped.poll() is None and not _is_stopped(stopped.pid):
            time.sleep(0.05)
        since = time.monotonic()
        other = Producer({"bootstrap.servers": broker.address})
        other.produce(topic, b"behind it")
        other.flush(10)
        while not seen and time.monotonic() - since < 30:
            time.sleep(0.01)
        waited = time.monotonic() - since
        stopped.kill()
        stopped.communicate()
        assert [value for *_, value in seen] == [b"behind it"]
        assert 5 < waited < 10 + 5  # its transaction_timeout is 10 s


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


def test_a_broker_that_is_away_for_too_long_is_an_error_within_a_bound(broker: Broker) -> None:
    topic = new_topic(broker.address)
    hasty = KafkaSink(Cluster(broker.address), topic, key="k", wait="3s", transaction_timeout="10s")
    publisher = hasty.prepare(TARGET)
    publish(publisher, 1, 1)
    broker.kill()
    since = time.monotonic()
    with pytest.raises(SinkError, match="could not be published at tick 2 within 3 s"):
        publisher.publish(tick(2))
    publisher.close()
    assert time.monotonic() - since < 30
    broker.restart(within=PATIENCE)
    again = sink(broker.address, topic).prepare(TARGET)
    publish(again, 2, 2)
    again.close()
    assert len(read(broker.address, topic, at_least=2 * ROWS)) == 2 * ROWS


@pytest.mark.prove  # a minute is the least that a broker keeps offsets for
def test_a_marker_that_expired_is_an_error_and_one_that_is_renewed_does_not_expire(broker: Broker) -> None:
    topic, kept = new_topic(broker.address), new_topic(broker.address)
    first, quiet = (sink(broker.address, each).prepare(TARGET) for each in (topic, kept))
    publish(first, 1, 3)
    publish(quiet, 1, 3)
    assert any("offsets.retention.minutes" in note for note in first.notes)
    first.close()
    name = name_of_sink(TARGET.flow, TARGET.sink, topic)
    deadline = time.monotonic() + 150
    while committed(Cluster(broker.address), topic, name, wait=10) is not None:
        assert time.monotonic() < deadline
        time.sleep(1)
    again = sink(broker.address, topic).prepare(TARGET)
    assert again.marker is None
    with pytest.raises(SinkError, match="shows no delivery, but tick 2 was published to it"):
        again.publish(tick(3))
    again.close()
    quiet.close()
    third = sink(broker.address, kept).prepare(TARGET)
    assert third.publish(tick(3)).skipped
    third.close()
    assert len(read(broker.address, topic)) == len(read(broker.address, kept)) == 3 * ROWS


def test_a_group_that_was_deleted_is_told_of_by_the_publisher_that_knows_it(broker: Broker) -> None:
    topic = new_topic(broker.address)
    publisher = sink(broker.address, topic).prepare(TARGET)
    publish(publisher, 1, 2)
    admin = AdminClient({"bootstrap.servers": broker.address})
    name = name_of_sink(TARGET.flow, TARGET.sink, topic)
    while publisher.marker is None:
        pass
    admin.delete_consumer_groups([name])[name].result()
    publisher._give_up()  # as after an error
    with pytest.raises(SinkError, match="is gone or went back, behind tick 2"):
        publisher.publish(tick(3))
    publisher.close()
