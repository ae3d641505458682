"""Messages of Avro, with a registry over HTTP that knows their schemas."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from strandline.clients.registry import Registry, RegistryClient, registry_client
from strandline.errors import RunError
from strandline.model.secrets import Secret
from strandline.model.types import Schema
from strandline.sources.kafka.avro import decode_avro
from tests.sources.kafka.broker import Broker
from tests.sources.kafka.registry import Server, serving, wire
from tests.sources.reading import NO_LIMIT, pieces, table_of


def record(*fields: tuple[str, Any], name: str = "Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": kind} for n, kind in fields]}


OLD = record(("user", "string"), ("n", "int"), ("gone", "string"))
NEW = record(("n", "long"), ("user", ["null", "string"]), ("price", "float"))


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as found:
        yield found


OPEN: list[RegistryClient] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


def client(server: Server, *, wait: str = "2s", **options: Any) -> RegistryClient:
    OPEN.append(RegistryClient(Registry(server.url, options, wait=wait)))
    return OPEN[-1]


def test_old_and_new_schemas_stand_side_by_side(server: Server) -> None:
    old, new = server.add(OLD), server.add(NEW)
    values: list[bytes | None] = []
    for n in range(5):
        values.append(wire(old, OLD, {"user": f"u{n}", "n": n, "gone": "x"}))
        values.append(wire(new, NEW, {"user": None, "n": 1 << (30 + n), "price": 0.5}))
    found = decode_avro(values, Schema.of("user string, n bigint, price double"), client(server))
    assert found.rows.rows()[:4] == [("u0", 0, None), (None, 1 << 30, 0.5), ("u1", 1, None), (None, 1 << 31, 0.5)]
    assert found.refused == {}
    assert sorted(server.asked) == [f"GET /schemas/ids/{old}", f"GET /schemas/ids/{new}"]


def test_a_schema_is_asked_for_once(server: Server) -> None:
    number, asking = server.add(OLD), client(server)
    for _ in range(3):
        decode_avro([wire(number, OLD, {"user": "a", "n": 1, "gone": ""})] * 3, Schema.of("n int"), asking)
    assert len(server.asked) == 1


LOCAL = datetime(2026, 1, 1, 5)  # noqa: DTZ001 - without a zone is what is meant
TYPES: list[tuple[Any, Any, str, Any]] = [
    ("int", 7, "bigint", 7),
    ("int", 7, "double", 7.0),
    ("long", 7, "int", 7),
    ("long", 1 << 40, "int", None),
    ("float", 0.5, "double", 0.5),
    ("int", 7, "decimal(5,2)", Decimal("7.00")),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}, Decimal("1.250"), "decimal(5,2)", Decimal("1.25")),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}, Decimal("1.255"), "decimal(5,2)", None),
    ("string", "x", "string", "x"),
    ("string", "x", "int", None),
    ("string", "x", "binary", b"x"),
    ("bytes", b"x", "string", "x"),
    ("bytes", b"\xff", "string", None),
    ("bytes", b"\xff", "binary", b"\xff"),
    ("boolean", True, "boolean", True),
    ("boolean", True, "int", None),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "string", "B"),
    ({"type": "string", "logicalType": "uuid"}, uuid.UUID(int=5), "string", str(uuid.UUID(int=5))),
    ({"type": "int", "logicalType": "date"}, date(2026, 1, 2), "date", date(2026, 1, 2)),
    ({"type": "long", "logicalType": "timestamp-millis"}, datetime(2026, 1, 1, tzinfo=timezone.utc), "timestamp", datetime(2026, 1, 1, tzinfo=timezone.utc)),
    ({"type": "long", "logicalType": "timestamp-micros"}, datetime(2026, 1, 1, 0, 0, 0, 5, tzinfo=timezone.utc), "timestamp", datetime(2026, 1, 1, 0, 0, 0, 5, tzinfo=timezone.utc)),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, LOCAL, "timestamp_ntz", LOCAL),
    ("long", 1_767_225_600_000_000, "timestamp", datetime(2026, 1, 1, tzinfo=timezone.utc)),
    ("long", 1 << 62, "timestamp", None),
    ("long", 90_000_000, "interval", timedelta(seconds=90)),
    ({"type": "array", "items": ["null", "int"]}, [1, None], "array<bigint>", [1, None]),
    (record(("a", "int"), ("b", "int"), name="Part"), {"a": 1, "b": 2}, "struct<b:bigint,c:string>", {"b": 2, "c": None}),
    (["null", "int", "string"], "x", "string", "x"),
    (["null", "int", "string"], 5, "string", None),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "column", "wanted"), TYPES)
def test_a_value_becomes_one_of_its_column_or_has_a_reason(
    server: Server, kind: Any, value: Any, column: str, wanted: Any
) -> None:
    schema = record(("x", kind))
    number = server.add(schema)
    found = decode_avro([wire(number, schema, {"x": value})], Schema.of(f"x {column}"), client(server))
    if wanted is None:
        assert "column 'x'" in found.refused[0]
    else:
        assert (found.rows["x"].to_list(), found.refused) == ([wanted], {})


def test_what_is_no_avro_has_a_reason_and_the_rest_stays(server: Server) -> None:
    number = server.add(OLD)
    single = server.add("long")
    good = wire(number, OLD, {"user": "ann", "n": 1, "gone": ""})
    values = [
        good,
        None,
        b"",
        b"\1" + good[1:],
        good[:-1],
        good + b"x",
        b"\0\0\0\0\x63abc",
        wire(single, "long", 5),
        good,
    ]
    found = decode_avro(values, Schema.of("user string"), client(server))
    assert found.good.tolist() == [0, 8]
    assert list(found.refused) == [1, 2, 3, 4, 5, 6, 7]
    assert found.refused[1] == "the value is null"
    assert "does not begin with a zero" in found.refused[2]
    assert "no value of its schema" in found.refused[4]
    assert found.refused[5] == "1 bytes more than its schema says"
    assert found.refused[6] == "the registry does not know the id 99"
    assert "single value" in found.refused[7]


def test_an_id_that_is_unknown_now_may_be_known_later(server: Server) -> None:
    asking = client(server)
    message = wire(1, OLD, {"user": "ann", "n": 1, "gone": ""})
    assert decode_avro([message], Schema.of("n int"), asking).refused
    server.add(OLD)
    assert decode_avro([message], Schema.of("n int"), asking).refused == {}


def test_an_answer_that_is_not_the_registrys_says_nothing_of_the_message(server: Server) -> None:
    astray = client(replace(server, url=f"{server.url}/wrong"))
    with pytest.raises(RunError, match="does not tell the id 1"):
        decode_avro([wire(1, OLD, {"user": "ann", "n": 1, "gone": ""})], Schema.of("n int"), astray)


def test_a_schema_may_refer_to_others(server: Server) -> None:
    part = record(("cents", "long"), name="Money")
    server.add(part, "money")
    whole = record(("price", "Money"))
    number = server.add(whole, references=[{"name": "Money", "subject": "money", "version": 1}])
    message = wire(number, record(("price", part)), {"price": {"cents": 5}})
    found = decode_avro([message], Schema.of("price struct<cents:int>"), client(server))
    assert found.rows.rows() == [({"cents": 5},)]


def test_a_schema_of_another_kind_is_no_avro(server: Server) -> None:
    server.add({}, schemaType="PROTOBUF")
    assert "PROTOBUF" in decode_avro([b"\0\0\0\0\1abc"], Schema.of("n int"), client(server)).refused[0]


def test_a_registry_that_is_not_well_is_asked_again(server: Server) -> None:
    number, server.down = server.add(OLD), 2
    assert client(server).schema(number)["name"] == "Order"
    assert len(server.asked) == 3


def test_a_registry_that_stays_away_is_an_error_and_no_message_is_rejected(server: Server) -> None:
    number, server.down = server.add(OLD), 1_000
    message = wire(number, OLD, {"user": "ann", "n": 1, "gone": ""})
    asking = client(server, wait="300ms")
    with pytest.raises(RunError, match=r"did not answer for 300ms: 503"):
        decode_avro([message], Schema.of("n int"), asking)
    with pytest.raises(RunError, match="did not answer for 100ms: ConnectError"):
        client(Server(url="http://127.0.0.1:9"), wait="100ms").schema(1)


def test_a_password_is_used_and_not_told(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.login = "ann:canary-7391"
    number = server.add(OLD)
    monkeypatch.setenv("CANARY", "canary-7391")
    assert client(server, username="ann", password=Secret.env("CANARY")).schema(number)["name"] == "Order"
    with pytest.raises(RunError, match="refuses us: 401") as caught:
        client(server).schema(number)
    assert "canary" not in str(caught.value)


def test_a_password_that_was_changed_is_read_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    number, server.login = server.add(OLD), "ann:first"
    monkeypatch.setenv("CANARY", "first")
    asking = client(server, username="ann", password=Secret.env("CANARY"))
    server.login = "ann:second"
    monkeypatch.setenv("CANARY", "second")
    assert asking.schema(number)["name"] == "Order"
    server.login = "ann:third"
    with pytest.raises(RunError, match="refuses us: 401"):
        asking.schema(number + 1)


def test_registering_gives_the_id_that_others_read_by(server: Server) -> None:
    asking = client(server)
    number = asking.register("orders-value", NEW)
    assert asking.register("orders-value", NEW) == number
    assert len(server.asked) == 1
    assert client(server).register("orders-value", NEW) == number
    assert client(server).schema(number)["name"] == "Order"
    with pytest.raises(RunError, match="takes no schema for 'orders-value': 422"):
        asking.register("orders-value", {"type": "nonsense"})


def test_avro_from_a_topic(broker: Broker, server: Server) -> None:
    old, new = server.add(OLD), server.add(NEW)
    topic = broker.topic()
    broker.put(
        topic,
        [
            wire(old, OLD, {"user": "ann", "n": 1, "gone": ""}),
            b"junk",
            wire(new, NEW, {"user": "bob", "n": 2, "price": 1.5}),
        ],
    )
    reader = broker.source(
        topic, format="avro", schema="user string, n bigint, price double", registry=server.url
    ).reader()
    found = pieces(reader, reader.first(), reader.latest(reader.first(), NO_LIMIT))
    OPEN.append(registry_client(Registry(server.url)))
    assert [row[:3] for row in table_of(found).rows()] == [("ann", 1, None), ("bob", 2, 1.5)]
    assert [piece.malformed["kafka_offset"].to_list() for piece in found if piece.malformed is not None] == [[1]]
