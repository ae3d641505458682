"""SASL and TLS against a real broker, with secrets from the environment and from a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.clients.kafka import Cluster
from strandline.errors import RunError, SinkError
from strandline.model.secrets import Secret
from strandline.sinks.kafka.description import KafkaSink
from strandline.sources.kafka.description import KafkaSource
from strandline.sources.kafka.reader import KafkaReader
from tests.guarded import Guarded, certified, guarded_kafka
from tests.sinks.delivering import TARGET, delivery
from tests.sources.kafka.broker import Broker
from tests.sources.reading import NO_LIMIT, everything

pytestmark = pytest.mark.slow
CANARY = "canary-5118"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_kafka(tmp_path_factory.mktemp("guarded"), CANARY) as found:
        yield found


@pytest.fixture
def topic(guarded: Guarded) -> str:
    return Broker(guarded.open).topic()


def reader_of(cluster: Cluster, topic: str) -> KafkaReader:
    return KafkaSource(cluster, topic, format="json", schema="k string, n int", wait="5s").reader()


def test_what_is_written_with_a_password_over_tls_is_read_with_it(
    guarded: Guarded, topic: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", CANARY)
    (tmp_path / "password").write_text(CANARY + "\n")
    publisher = KafkaSink(guarded.cluster(Secret.env("KAFKA_PASSWORD")), topic, wait="20s").prepare(TARGET)
    publisher.publish(delivery(TARGET, 1, ("a", 1), ("b", 2)))
    publisher.close()
    found = everything(reader_of(guarded.cluster(Secret.file(str(tmp_path / "password"))), topic), NO_LIMIT, 1)
    assert sorted(row[:2] for row in found) == [("a", 1), ("b", 2)]


def test_a_wrong_password_is_said_and_not_told(guarded: Guarded, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", f"wrong-{CANARY}")
    cluster = guarded.cluster(Secret.env("KAFKA_PASSWORD"))
    reader = reader_of(cluster, topic)
    with pytest.raises(RunError, match="Authentication failed") as reading:
        reader.latest(reader.first(), NO_LIMIT)
    with pytest.raises(SinkError, match="Authentication failed") as writing:
        KafkaSink(cluster, topic, wait="5s").prepare(TARGET)
    assert CANARY not in str(reading.value) + str(writing.value)


def test_a_broker_of_another_authority_is_not_trusted(
    guarded: Guarded, topic: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", CANARY)
    other, _ = certified(tmp_path)
    reader = reader_of(guarded.cluster(Secret.env("KAFKA_PASSWORD"), ssl_ca_location=str(other)), topic)
    with pytest.raises(RunError, match="certificate verify failed") as reading:
        reader.latest(reader.first(), NO_LIMIT)
    assert CANARY not in str(reading.value)
