"""Values of messages to rows: each by itself, whatever stands beside it."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.model.types import Schema
from strandline.sources.kafka.debezium import decode_debezium
from strandline.sources.kafka.decoding import Decoded, Value, decode_bytes, decode_csv, decode_json, decode_text

SCHEMA = Schema.of("n int, s string")
JSON_BITS = [
    b'{"n": 1}', b'{"n": 2, "s": "x"}', b'{\n"n": 3\n}', b'{"s": "a\nb"}', b'{"n": 1}\n{"n": 2}', b'{"n": 1} {"n": 2}', b"",
    b"  ", b"\n", None, b"null", b"[]", b"1", b'"x"', b"{", b'{"n": "x"}', b'{"n": 1.5}', b'{"n": 99999999999}', b"\xff",
    b'{"s": "\xff"}', b'{"s": "\\xff"}', b'{"s": "\\\\xff"}', b'\xef\xbb\xbf{"n": 4}', b"\xef\xbb\xbf", b'{"s": "\\ud800"}',
    b'{"n": 5}\r', b'{"n": 6}\r\n', b"\x00", b"\x0b", b'{"n": NaN}', b'{"n": true}', b"[" * 3000,
]  # fmt: skip
CSV_BITS = [
    b"1,a", b"2,", b'3,"x\ny"', b'4,"x""y"', b'"5', b'6,"open', b'x"y,"z', b'7,5" pipe', b"", b"\n", None, b"1", b"1,2,3",
    b"8,b\n", b"9,b\r\n", b"1,a\n2,b", b"x,y", b"\xff,a", b"1,\xff", b"1,\\xff", b'"a",b"', b",", b'10,""', b"11,a\r",
]  # fmt: skip


def alone(decode: Any, value: Value) -> tuple[list[Any], list[str]]:
    found = decode([value])
    return found.rows.rows(), list(found.refused.values())


def together(found: Decoded, count: int) -> list[tuple[list[Any], list[str]]]:
    rows = dict(zip(found.good.tolist(), found.rows.rows(), strict=True))
    return [
        ([rows[at]] if at in rows else [], [found.refused[at]] if at in found.refused else []) for at in range(count)
    ]


@given(st.lists(st.sampled_from(JSON_BITS), max_size=12))
def test_what_a_message_of_json_means_does_not_depend_on_those_beside_it(values: list[Value]) -> None:
    def decode(given: list[Value]) -> Decoded:
        return decode_json(given, SCHEMA)

    assert together(decode(values), len(values)) == [alone(decode, each) for each in values]


@given(st.lists(st.sampled_from(CSV_BITS), max_size=12))
def test_what_a_message_of_csv_means_does_not_depend_on_those_beside_it(values: list[Value]) -> None:
    def decode(given: list[Value]) -> Decoded:
        return decode_csv(given, SCHEMA)

    assert together(decode(values), len(values)) == [alone(decode, each) for each in values]


@given(st.lists(st.none() | st.binary(max_size=20), max_size=12))
def test_bytes_of_any_kind_are_a_row_or_have_a_reason(values: list[Value]) -> None:
    for found in (
        decode_json(values, SCHEMA), decode_csv(values, SCHEMA), decode_text(values), decode_bytes(values),
        decode_debezium([each for each in values if each is not None], SCHEMA),
    ):  # fmt: skip
        count = found.rows.height + len(found.refused)
        assert count in (len(values), sum(each is not None for each in values))
        assert sorted([*found.good.tolist(), *found.refused]) == [*range(count)]


def test_json_means_what_it_means_in_files() -> None:
    found = decode_json(JSON_BITS, SCHEMA)
    assert found.rows.rows()[:3] == [(1, None), (2, "x"), (3, None)]
    reasons = {JSON_BITS[place]: reason for place, reason in found.refused.items()}
    assert reasons[None] == "the value is null"
    assert reasons[b""] == reasons[b"  "] == reasons[b"\xef\xbb\xbf"] == "an empty message"
    assert reasons[b"[]"] == "no JSON object"
    assert "Extra data" in reasons[b'{"n": 1}\n{"n": 2}']
    assert reasons[b'{"s": "\xff"}'] == "no UTF-8 text: byte 8 is 0xff"
    assert "control character" in reasons[b'{"s": "a\nb"}']
    assert reasons[b'{"n": "x"}'] == "column 'n': 'x' is no int"


def test_csv_has_one_record_in_a_message() -> None:
    found = decode_csv(CSV_BITS, SCHEMA)
    assert (3, "x\ny") in found.rows.rows()
    assert (8, "b") in found.rows.rows()
    assert (9, "b") in found.rows.rows()
    reasons = {CSV_BITS[place]: reason for place, reason in found.refused.items()}
    assert reasons[b"1,a\n2,b"] == "more than one record in a message"
    assert reasons[b'6,"open'] == reasons[b'x"y,"z'] == "a quote that is not closed"
    assert reasons[b"1"] == "1 field where the schema has 2 columns"


def envelope(op: str, before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "source": {"ts_ms": 1_767_225_600_000}, "ts_ms": 5, **more}


def test_an_envelope_is_the_row_of_its_change_and_what_happened() -> None:
    changes = [
        envelope("r", after={"n": 0}), envelope("c", after={"n": 1, "s": "a"}),
        envelope("u", before={"n": 1}, after={"n": 1, "s": "b"}), envelope("d", before={"n": 1, "s": "b"}),
    ]  # fmt: skip
    for wrap in (lambda each: each, lambda each: {"schema": {"type": "struct"}, "payload": each}):
        found = decode_debezium([json.dumps(wrap(each)).encode() for each in changes], SCHEMA)
        assert found.refused == {}
        assert [row[:3] for row in found.rows.rows()] == [
            (0, None, "snapshot"), (1, "a", "insert"), (1, "b", "update"), (1, "b", "delete"),
        ]  # fmt: skip
        assert found.rows["debezium_ts"][0] == datetime(2026, 1, 1, tzinfo=timezone.utc)


def test_the_tombstone_behind_a_delete_is_passed_over() -> None:
    found = decode_debezium([json.dumps(envelope("d", before={"n": 1})).encode(), None], SCHEMA)
    assert (found.good.tolist(), found.refused) == ([0], {})


def test_a_row_keeps_all_its_digits() -> None:
    text = b'{"op": "c", "after": {"price": 12345678901234567890.123456789}, "ts_ms": 0}'
    (row,) = decode_debezium([text], Schema.of("price decimal(38,9)")).rows.rows()
    assert row[0] == Decimal("12345678901234567890.123456789")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"{", "no JSON"),
        (b"[]", "no JSON object"),
        (b'{"op": "c", "after": {"n": 1}} x', "Extra data"),
        (b"{}", "it has no op"),
        (b'{"payload": null}', "it has no op"),
        (b'{"op": "t", "before": null, "after": null}', "op 't' has no row"),
        (b'{"op": "c", "after": null}', "no row in 'after'"),
        (b'{"op": "d"}', "no row in 'before'"),
        (b'{"op": "c", "after": {"n": "x"}}', "column 'n': 'x' is no int"),
        (b'{"op": "c", "after": {"n": 1}, "ts_ms": "soon"}', "is no timestamp"),
        (b'{"op": "c", "after": {"n": 1}, "ts_ms": 99999999999999999}', "is no timestamp"),
        (b'{"op": "c", "after": {"n": 1}, "source": {"ts_ms": 1e3}}', "is no timestamp"),
    ],
)
def test_an_envelope_that_is_none_has_a_reason(value: bytes, said: str) -> None:
    good = json.dumps(envelope("c", after={"n": 1})).encode()
    found = decode_debezium([good, value, good], SCHEMA)
    assert found.good.tolist() == [0, 2]
    assert said in found.refused[1]
