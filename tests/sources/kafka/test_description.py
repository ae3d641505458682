"""What a source of Kafka may be, and what is refused before anything starts."""

from __future__ import annotations

import pickle
from datetime import datetime, timezone
from typing import Any

import pytest

from strandline.clients.kafka import Cluster
from strandline.clients.registry import Registry
from strandline.errors import DescriptionError
from strandline.model.secrets import Secret
from strandline.model.time import Instant
from strandline.sources.kafka.description import KafkaSource

CLUSTER = Cluster("broker:9092")


def source(topics: Any = "orders", **options: Any) -> KafkaSource:
    return KafkaSource(CLUSTER, topics, **{"format": "json", "schema": "n int", **options})


def test_the_columns_are_those_of_the_value_then_the_place_then_what_is_included() -> None:
    found = source(include=["headers", "key"]).schema.text
    assert found == (
        "n int, kafka_topic string, kafka_partition int, kafka_offset bigint, kafka_timestamp timestamp, "
        "kafka_key binary, kafka_headers array<struct<name:string,value:binary>>"
    )


def test_text_and_bytes_have_one_column_and_debezium_says_what_happened() -> None:
    assert source(format="text", schema=None).schema.text.startswith("value string, kafka_topic")
    assert source(format="bytes", schema=None).schema.text.startswith("value binary, kafka_topic")
    assert source(format="debezium").schema.text.startswith("n int, op string, debezium_ts timestamp, kafka_topic")


def test_what_cannot_be_decoded_is_kept_as_bytes() -> None:
    assert source().raw_type.text == "binary"


def test_a_start_is_a_word_an_instant_or_offsets() -> None:
    assert source(start="latest").start == "latest"
    assert source(start="2026-01-01T00:00:00Z").start == Instant.of("2026-01-01T00:00:00Z")
    assert source(start=datetime(2026, 1, 1, tzinfo=timezone.utc)).start == Instant.of("2026-01-01T00:00:00Z")
    assert source(start={"orders": {1: 5, 0: 3}}).start == (("orders", ((0, 3), (1, 5))),)


def test_topics_are_told_by_name_or_by_the_whole_of_a_pattern() -> None:
    assert source(["a", "b"]).wants("a")
    assert not source(["a", "b"]).wants("c")
    several = source(None, pattern="orders-[0-9]+")
    assert several.wants("orders-12")
    assert not several.wants("old-orders-12")


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("reads topics, or those of a pattern", {"topics": None}),
    ("reads topics, or those of a pattern", {"pattern": "a"}),
    ("cannot be matched", {"topics": None, "pattern": "("}),
    ("no name of a topic", {"topics": "a/b"}),
    ("no name of a topic", {"topics": ["orders.*"]}),
    ("named twice", {"topics": ["a", "a"]}),
    ("names no topic", {"topics": []}),
    ("names no partitions", {"topics": {"a": [-1]}}),
    ("names no partitions", {"topics": {"a": []}}),
    ("format='xml' is not known", {"format": "xml"}),
    ("needs a schema", {"schema": None}),
    ("schema= is not for format='text'", {"format": "text"}),
    ("'kafka_offset', which the source adds", {"schema": "kafka_offset int"}),
    ("'kafka_key', which the source adds", {"schema": "kafka_key int"}),
    ("'op', which the source adds", {"format": "debezium", "schema": "op string"}),
    ("start='begin' is not known", {"start": "begin"}),
    ("which is not read", {"start": {"other": {0: 1}}}),
    ("which are no offsets", {"start": {"orders": {0: -1}}}),
    ("has no time zone", {"start": "2026-01-01T00:00:00"}),
    ("include='value' is not known", {"include": ["value"]}),
    ("isolation='dirty' is not known", {"isolation": "dirty"}),
    ("on_lost='no' is not known", {"on_lost": "no"}),
    ("on_bad='skip' is not known", {"on_bad": "skip"}),
    ("needs a registry", {"format": "avro"}),
    ("has no use for a registry", {"registry": "http://localhost:1"}),
    ("cannot separate fields", {"format": "csv", "separator": ";;"}),
    ("is no time to wait", {"wait": "0s"}),
]


@pytest.mark.parametrize(("said", "options"), REFUSED)
def test_what_makes_no_sense_is_refused_with_a_fix(said: str, options: dict[str, Any]) -> None:
    with pytest.raises(DescriptionError) as caught:
        source(**options)
    assert said in caught.value.what
    assert caught.value.fix


def test_a_source_travels_without_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "canary-7391")
    secret = Secret.env("CANARY")
    made = KafkaSource(
        Cluster("broker:9092", {"sasl.password": secret}), "orders", format="avro", schema="n int",
        registry=Registry("http://localhost:8081", {"username": "ann", "password": secret}),
    )  # fmt: skip
    assert pickle.loads(pickle.dumps(made.reader())).source == made
    assert b"canary-7391" not in pickle.dumps(made)
    assert "canary-7391" not in repr(made)


def test_a_registry_takes_no_password_in_its_url_and_no_option_it_does_not_know() -> None:
    with pytest.raises(DescriptionError, match="holds a user or a password"):
        Registry("http://ann:canary@localhost:8081")
    with pytest.raises(DescriptionError, match="no option 'user'"):
        Registry("http://localhost:8081", {"user": "ann"})
    with pytest.raises(DescriptionError, match="by its url"):
        Registry("localhost:8081")
    for url in ("http://h:8081?token=canary", "http://h:port/", "http://h:8081/#canary"):
        with pytest.raises(DescriptionError, match="named by its url") as caught:
            Registry(url)
        assert "canary" not in str(caught.value)
