"""Deliveries to a real topic, as a reader with read_committed finds them."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from strandline.clients.kafka import Cluster
from strandline.errors import SinkError
from strandline.model.time import Instant
from strandline.model.types import Schema
from strandline.sinks.contract import Marker, Publisher, Telling
from strandline.sinks.kafka.description import KafkaSink
from strandline.sinks.kafka.markers import name_of_sink
from strandline.sinks.kafka.transactions import Transactions
from tests.servers import kafka
from tests.sinks.delivering import CHANGES, TARGET, delivery
from tests.sinks.kafka.broker import new_topic
from tests.sinks.kafka.reader import consumer, read

pytestmark = pytest.mark.slow


def sink_to(topic: str, **options: Any) -> KafkaSink:
    return KafkaSink(Cluster(kafka()), topic, **{"wait": "20s", **options})


def test_a_tick_is_there_once_with_its_marker() -> None:
    topic = new_topic(kafka())
    publisher = sink_to(topic, key="k").prepare(TARGET)
    assert isinstance(publisher, Telling)
    assert publisher.marker is None
    assert publisher.publish(delivery(TARGET, 1, ("a", 1), ("b", 2))).rows == 2
    assert publisher.publish(delivery(TARGET, 1, ("a", 1), ("b", 2))).skipped
    assert publisher.marker == Marker(incarnation="one", tick=1, digest="digest-of-1")
    with pytest.raises(SinkError, match="holds other rows for tick 1"):
        publisher.publish(delivery(TARGET, 1, ("c", 1), digest="other"))
    publisher.close()
    again: Publisher = sink_to(topic, key="k").prepare(TARGET)
    assert again.publish(delivery(TARGET, 1, ("a", 1), ("b", 2))).skipped
    again.close()
    assert sorted((key, json.loads(value or "")) for _, _, key, value in read(kafka(), topic, at_least=2)) == [
        (b"a", {"k": "a", "n": 1}),
        (b"b", {"k": "b", "n": 2}),
    ]


@pytest.mark.parametrize("options", [{"acks": 1}, {"session.timeout.ms": 0}])
def test_an_option_that_the_client_does_not_take_is_said(options: dict[str, Any]) -> None:
    sink = KafkaSink(Cluster(kafka(), options), new_topic(kafka()))
    with pytest.raises(SinkError, match="does not take the options given"):
        sink.prepare(TARGET)


def test_values_of_every_kind_arrive_as_a_file_of_json_has_them() -> None:
    schema = Schema.of("k string, x double, d decimal(10,2), t timestamp, l array<struct<a:bigint,b:double>>")
    target = replace(TARGET, schema=schema)
    topic = new_topic(kafka(), partitions=1)
    at = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
    publisher = sink_to(topic, key="k").prepare(target)
    rows = [("zoë\n☃", math.nan, Decimal("1.50"), at, [{"a": 1, "b": math.inf}]), (None, 0.1, None, None, None)]
    publisher.publish(delivery(target, 1, *rows))
    publisher.close()
    assert [(key, value) for _, _, key, value in read(kafka(), topic, at_least=2)] == [
        (
            "zoë\n☃".encode(),
            '{"k":"zoë\\n☃","x":"NaN","d":"1.50","t":"2026-01-31T12:00:00.000000Z","l":[{"a":1,"b":"Infinity"}]}'.encode(),
        ),
        (None, b'{"k":null,"x":0.1,"d":null,"t":null,"l":null}'),
    ]


def test_upserts_leave_the_last_row_of_each_key_and_tombstones() -> None:
    topic = new_topic(kafka(), cleanup_policy="compact")
    publisher = sink_to(topic).prepare(CHANGES)
    publisher.publish(delivery(CHANGES, 1, ("a", 1, "upsert"), (None, 5, "upsert")))
    publisher.publish(delivery(CHANGES, 2, ("a", None, "delete"), ("b", 2, "upsert")))
    publisher.close()
    table: dict[bytes | None, Any] = {}
    for _, _, key, value in read(kafka(), topic, at_least=4):
        table[key] = value and json.loads(value)["n"]
    assert table == {b"a": None, b'{"k":null}': 5, b"b": 2}
    assert not any("cleanup.policy" in note for note in publisher.notes)


def test_a_tick_of_several_chunks_is_whole_in_order_and_marked_at_its_end() -> None:
    topic = new_topic(kafka(), partitions=1)
    publisher = sink_to(topic, chunk_rows=4).prepare(TARGET)
    assert publisher.publish(delivery(TARGET, 1, *[("a", n) for n in range(11)])).rows == 11
    assert publisher.progress is not None
    assert publisher.progress.rows == 11
    publisher.close()
    assert [json.loads(value or "")["n"] for *_, value in read(kafka(), topic, at_least=11)] == list(range(11))


def test_a_tick_that_takes_too_long_is_cut_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = new_topic(kafka(), partitions=1)
    publisher = sink_to(topic).prepare(TARGET)
    monkeypatch.setattr("strandline.sinks.kafka.publisher.BLOCK", 3)
    monkeypatch.setattr(Transactions, "age", property(lambda self: self.timeout * 0.6))
    committed: list[tuple[int, bool]] = []
    commit = Transactions.commit

    def noted(self: Transactions) -> None:
        commit(self)
        committed.append((self.progress.rows, self.progress.complete))

    monkeypatch.setattr(Transactions, "commit", noted)
    assert publisher.publish(delivery(TARGET, 1, *[("a", n) for n in range(11)])).rows == 11
    assert publisher.publish(delivery(TARGET, 1, *[("a", n) for n in range(11)])).skipped
    publisher.close()
    assert committed == [(3, False), (6, False), (9, False), (11, True)]
    assert [json.loads(value or "")["n"] for *_, value in read(kafka(), topic, at_least=11)] == list(range(11))


def test_a_tick_without_rows_after_all_leaves_its_marker() -> None:
    publisher = sink_to(new_topic(kafka())).prepare(TARGET)
    assert publisher.publish(delivery(TARGET, 1)).rows == 0
    assert publisher.marker == Marker(incarnation="one", tick=1, digest="digest-of-1")
    publisher.close()


def test_keys_go_where_the_producers_of_java_put_them() -> None:
    topic = new_topic(kafka(), partitions=5)
    publisher = sink_to(topic, key="k").prepare(TARGET)
    keys = ["21", "foobar", "a-little-bit-long-string", "abc"]
    publisher.publish(delivery(TARGET, 1, *[(key, 1) for key in keys]))
    publisher.close()
    # Utils.murmur2 of these keys, from Kafka's own tests (UtilsTest).
    hashes = dict(zip(keys, (-973932308, -790332482, -985981536, 479470107), strict=True))
    for partition, _, key, _ in read(kafka(), topic, at_least=4):
        assert partition == (hashes[(key or b"").decode()] & 0x7FFFFFFF) % 5


def test_headers_stand_beside_the_value() -> None:
    target = replace(TARGET, schema=Schema.of("raw binary, reason string"))
    topic = new_topic(kafka(), partitions=1)
    publisher = sink_to(topic, format="bytes", headers={"reason": "reason"}).prepare(target)
    publisher.publish(delivery(target, 1, (b"\xff{", "no JSON")))
    publisher.close()
    reader = consumer(kafka(), topic)
    (message,) = reader.consume(1, 20)
    reader.close()
    assert (message.value(), message.headers()) == (b"\xff{", [("reason", b"no JSON")])


def test_two_sinks_add_to_one_topic_each_with_its_own_marker() -> None:
    topic = new_topic(kafka())
    other = replace(TARGET, sink="other")
    one, two = (sink_to(topic).prepare(target) for target in (TARGET, other))
    for tick in (1, 2):
        one.publish(delivery(TARGET, tick, ("one", tick)))
        two.publish(delivery(other, tick, ("two", tick)))
    assert one.publish(delivery(TARGET, 2, ("one", 2))).skipped
    one.close()
    two.close()
    assert len(read(kafka(), topic, at_least=4)) == 4


def test_a_topic_that_is_not_there_is_an_error_or_is_made() -> None:
    topic = new_topic(kafka()) + "-more"
    with pytest.raises(SinkError, match=f"The topic '{topic}' is not there"):
        sink_to(topic).prepare(TARGET)
    made = sink_to(topic, create={"partitions": 2, "replication": 1, "config": {"cleanup.policy": "compact"}})
    publisher = made.prepare(CHANGES)
    publisher.publish(delivery(CHANGES, 1, ("a", 1, "upsert")))
    publisher.close()
    made.prepare(CHANGES).close()
    assert len(read(kafka(), topic, at_least=1)) == 1
    sink_to(topic + "-2", create={"partitions": 2}).prepare(TARGET).close()  # as many copies as the broker makes
    with pytest.raises(SinkError, match="could not be made"):
        sink_to(topic + "-3", create={"replication": 3}).prepare(TARGET)


def test_a_message_that_is_too_large_is_named_and_nothing_of_its_tick_is_there() -> None:
    topic = new_topic(kafka(), partitions=1, max_message_bytes="20000")
    publisher = sink_to(topic, key="k").prepare(TARGET)
    with pytest.raises(SinkError, match=r"with the key 'x+…' has [\d,]+ bytes; the topic '[\w-]+' takes 18,976"):
        publisher.publish(delivery(TARGET, 1, ("a", 1), ("x" * 12_000, 1)))
    # The same publisher goes on: its transaction was aborted, and holds no reader back.
    publisher.publish(delivery(TARGET, 2, ("b", 2)))
    publisher.close()
    assert [key for _, _, key, _ in read(kafka(), topic, at_least=1)] == [b"b"]


def test_a_null_key_in_a_compacted_topic_is_named() -> None:
    topic = new_topic(kafka(), partitions=1, cleanup_policy="compact")
    publisher = sink_to(topic, key="k").prepare(TARGET)
    with pytest.raises(SinkError, match="A compacted topic takes messages with a key only"):
        publisher.publish(delivery(TARGET, 1, (None, 1)))
    publisher.close()


def test_a_marker_that_is_gone_is_an_error_and_no_second_publish() -> None:
    topic = new_topic(kafka(), partitions=1)
    first = sink_to(topic).prepare(TARGET)
    for tick in (1, 2):
        first.publish(delivery(TARGET, tick, ("a", tick)))
    first.close()
    forget(topic)
    second = sink_to(topic).prepare(TARGET)
    assert second.marker is None
    with pytest.raises(SinkError, match="shows no delivery, but tick 1 was published to it"):
        second.publish(replace(delivery(TARGET, 2, ("a", 2)), after=1))
    second.close()
    known = replace(TARGET, last=Marker(incarnation="one", tick=2, digest="digest-of-2"))
    forget(topic)
    with pytest.raises(SinkError, match="tick 2 was published to it: the group's offset expired"):
        sink_to(topic).prepare(known)
    third = sink_to(topic).prepare(replace(known, acknowledged=True))
    assert third.publish(replace(delivery(TARGET, 2, ("a", 2)), after=1)).skipped  # the head, as at every start
    third.publish(replace(delivery(TARGET, 3, ("a", 3)), after=2))
    third.close()
    assert [json.loads(value or "")["n"] for *_, value in read(kafka(), topic, at_least=3)] == [1, 2, 3]


def test_a_first_tick_older_than_markers_are_kept_is_refused_where_it_may_have_been_published() -> None:
    topic = new_topic(kafka(), partitions=1)
    first = sink_to(topic).prepare(TARGET)
    first.publish(delivery(TARGET, 1, ("a", 1)))
    first.close()
    forget(topic)
    second = sink_to(topic).prepare(TARGET)
    now = Instant(int(time.time() * 1_000_000))
    with pytest.raises(SinkError, match="nobody can tell whether its rows are in the topic"):
        second.publish(replace(delivery(TARGET, 1, ("a", 1)), now=Instant(now - 8 * 86_400_000_000)))
    second.close()
    third = sink_to(topic).prepare(TARGET)  # which knows it, too
    with pytest.raises(SinkError, match="nobody can tell whether its rows are in the topic"):
        third.publish(replace(delivery(TARGET, 1, ("a", 1)), now=Instant(now - 8 * 86_400_000_000)))
    third.publish(replace(delivery(TARGET, 1, ("a", 1)), now=now))  # a young one cannot have been forgotten
    third.close()


def forget(topic: str) -> None:
    """Delete the group that holds the marker, as when it expires."""
    name = name_of_sink(TARGET.flow, TARGET.sink, topic)
    admin = AdminClient({"bootstrap.servers": kafka()})
    admin.delete_consumer_groups([name])[name].result()


def test_another_incarnation_is_refused_before_anybody_is_fenced() -> None:
    topic = new_topic(kafka(), partitions=1)
    running = sink_to(topic).prepare(TARGET)
    running.publish(delivery(TARGET, 5, ("a", 5)))
    assert running.marker is not None
    other = replace(TARGET, incarnation="two")
    with pytest.raises(SinkError, match="holds rows up to tick 5 of another incarnation"):
        sink_to(topic).prepare(other)
    running.publish(delivery(TARGET, 6, ("a", 6)))
    agreed = replace(other, acknowledged=True)
    taken = sink_to(topic).prepare(agreed)
    taken.publish(delivery(agreed, 1, ("b", 1)))
    assert taken.marker == Marker(incarnation="two", tick=1, digest="digest-of-1")
    taken.close()
    running.close()
    assert [json.loads(value or "")["n"] for *_, value in read(kafka(), topic, at_least=3)] == [5, 6, 1]


def test_a_marker_is_renewed_as_it_is() -> None:
    topic = new_topic(kafka())
    publisher = sink_to(topic).prepare(TARGET)
    publisher.renew()
    publisher.publish(delivery(TARGET, 1, ("a", 1)))
    publisher.renew()
    assert publisher.marker == Marker(incarnation="one", tick=1, digest="digest-of-1")
    other = sink_to(topic).prepare(TARGET)
    publisher.renew()  # it is fenced, and says so at the next delivery
    with pytest.raises(Exception, match="Another run publishes"):
        publisher.publish(delivery(TARGET, 2, ("a", 2)))
    other.publish(delivery(TARGET, 2, ("a", 2)))
    other.close()
    publisher.close()


def test_others_may_write_to_the_topic_too() -> None:
    topic = new_topic(kafka(), partitions=1)
    other = Producer({"bootstrap.servers": kafka()})
    other.produce(topic, b"theirs")
    other.flush(20)
    publisher = sink_to(topic).prepare(TARGET)
    publisher.publish(replace(delivery(TARGET, 1, ("a", 1)), now=Instant(int(time.time() * 1_000_000))))
    publisher.close()
    assert len(read(kafka(), topic, at_least=2)) == 2
