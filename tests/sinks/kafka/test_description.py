"""A sink as it is described: what cannot be meant is said where it stands."""

from __future__ import annotations

import pickle
import socket
import traceback
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import strandline as sl
from strandline.clients.kafka import Cluster
from strandline.clients.registry import Registry
from strandline.errors import DescriptionError, SinkError
from strandline.model.time import Span
from strandline.sinks.kafka.description import KafkaSink
from strandline.sinks.kafka.topic import Create, Found, notes_on, require_timeout
from tests.sinks.delivering import CHANGES, TARGET

CLUSTER = Cluster("127.0.0.1:1")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": ""}, "is no name of a topic"),
        ({"topic": "a" * 250}, "is no name of a topic"),
        ({"format": "xml"}, "format='xml' is not known"),
        ({"format": "avro"}, "does not fit"),
        ({"registry": Registry("http://h:1")}, "does not fit"),
        ({"key": 3}, "names no columns"),
        ({"key": ["a", "a"]}, "names no columns"),
        ({"headers": ["a"]}, "does not name a column for each header"),
        ({"chunk_rows": 0}, "is no number of rows"),
        ({"transaction_timeout": "10ms"}, "is too short for a server"),
        ({"create": {"shards": 3}}, "create= has no 'shards'"),
        ({"create": {"partitions": 0}}, "makes no topic"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(DescriptionError, match=said):
        KafkaSink(CLUSTER, **{"topic": "t", **options})


def test_a_sink_travels_with_its_secrets_by_name() -> None:
    cluster = Cluster("h:1", {"sasl.password": sl.Secret.env("CANARY")})
    sink = KafkaSink(cluster, "t", key="k", create={"partitions": 2, "config": {"cleanup.policy": "compact"}})
    assert pickle.loads(pickle.dumps(sink)) == sink
    assert sink.create == Create(partitions=2, replication=-1, config=(("cleanup.policy", "compact"),))


def test_only_upserts_need_a_topic_for_themselves() -> None:
    sink = KafkaSink(CLUSTER, "t")
    assert sink.own_target("append") is None
    assert sink.own_target("changelog") is None
    assert sink.own_target("upsert") == ("127.0.0.1:1", "t")
    assert KafkaSink(CLUSTER, "t", format="text").takes == {"append", "upsert"}


def test_the_key_of_an_upsert_is_that_of_its_rows() -> None:
    with pytest.raises(SinkError, match="upserts by k, and its messages are to have another key: n"):
        KafkaSink(CLUSTER, "t", key="n").prepare(CHANGES)
    with pytest.raises(SinkError, match="names 'user', which is not delivered"):
        KafkaSink(CLUSTER, "t", key="user").prepare(TARGET)
    with pytest.raises(SinkError, match="names 'why', which is not delivered"):
        KafkaSink(CLUSTER, "t", headers={"reason": "why"}).prepare(TARGET)


def test_a_broker_that_is_not_there_is_told_within_a_bound() -> None:
    with pytest.raises(SinkError, match="could not be looked at"):
        KafkaSink(CLUSTER, "t", wait="1s").prepare(TARGET)


@pytest.fixture
def silent() -> Iterator[str]:
    """A port at which nobody speaks Kafka."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    "options", [{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, {"sasl.mechanism": "canary-7"}]
)
def test_a_secret_is_in_no_error(monkeypatch: pytest.MonkeyPatch, options: dict[str, str], silent: str) -> None:
    monkeypatch.setenv("CANARY", "canary-7")
    secret = {"sasl.username": "ann", "sasl.password": sl.Secret.env("CANARY")}
    sink = KafkaSink(Cluster(silent, {**options, **secret}), "t", wait="1s")
    with pytest.raises(SinkError) as raised:
        sink.prepare(TARGET)
    assert "canary-7" not in "".join(traceback.format_exception(raised.value))
    described = KafkaSink(Cluster("h:1", secret), "t")
    assert "canary-7" not in repr(described)
    assert b"canary-7" not in pickle.dumps(described)


GOOD = Found(
    replicas=3,
    topic={"min.insync.replicas": "2", "unclean.leader.election.enable": "false", "cleanup.policy": "compact"},
    broker={"offsets.retention.minutes": "10080", "transaction.max.timeout.ms": "900000"},
)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (replace(GOOD, replicas=1), "the topic has one replica"),
        (replace(GOOD, broker={"transaction.state.log.replication.factor": "1"}), "transaction.state.log.replication.factor=1"),
        (replace(GOOD, topic={"min.insync.replicas": "1"}), "min.insync.replicas=1"),
        (replace(GOOD, topic={"unclean.leader.election.enable": "true"}), "unclean.leader.election.enable=true"),
        (replace(GOOD, broker={"offsets.retention.minutes": "60"}), "a marker is kept for 1h"),
        (replace(GOOD, topic={"cleanup.policy": "delete"}), "cleanup.policy=delete"),
        (Found(replicas=3), "nobody checked"),
    ],
)  # fmt: skip
def test_settings_that_make_the_promise_weaker_are_told(found: Found, said: str) -> None:
    notes = notes_on(found, "upsert", Span.of("60s"))
    assert any(said in note for note in notes)
    assert "isolation.level=read_committed" in notes[0]
    assert len(notes_on(GOOD, "upsert", Span.of("60s"))) == 1


def test_a_timeout_that_the_broker_does_not_grant_is_refused() -> None:
    require_timeout(GOOD, Span.of("15m"))
    with pytest.raises(SinkError, match=r"is more than the broker's transaction.max.timeout.ms, 900,000 ms"):
        require_timeout(GOOD, Span.of("16m"))


def test_readers_wait_no_longer_than_the_timeout_and_five_seconds_however_seldom_a_broker_looks() -> None:
    interval = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    for seconds in (1, 5, 10, 30):
        found = replace(GOOD, broker={interval: str(seconds * 1000)})
        assert found.told(Span.of("60s")) + seconds * 1_000_000 <= Span.of("65s")
    assert "they wait for up to 1m5s (transaction_timeout='1m')" in notes_on(GOOD, "append", Span.of("60s"))[0]
