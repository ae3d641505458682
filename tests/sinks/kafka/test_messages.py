"""What stands in the messages: values, keys, headers."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import given

from strandline.errors import SinkError
from strandline.kernel.schema import polars_schema
from strandline.model.types import Schema
from strandline.sinks.contract import Target
from strandline.sinks.formats import FORMATS
from strandline.sinks.kafka.messages import Messages, csv_lines, encoding, keys_of
from tests.sinks.delivering import CHANGES, EVERYTHING, LOG, TARGET, delivery, tables


def messages(target: Target, *rows: Any, format: str = "json", key: Any = (), headers: Any = None) -> Messages:
    given = delivery(target, 1, *rows)
    (table,) = given.tables()
    return encoding(target, format=format, key=key, headers=headers or {}).messages(table, given)


@pytest.mark.slow
@given(tables())
def test_a_value_is_the_line_that_a_file_of_json_has(table: pl.DataFrame) -> None:
    target = replace(TARGET, schema=EVERYTHING)
    given = delivery(target, 1)
    (data,) = FORMATS["json"].encode([table], EVERYTHING)
    values = encoding(target, format="json", key=(), headers={}).messages(table, given).values
    assert b"".join((value or b"") + b"\n" for value in values) == bytes(data)


@pytest.mark.slow
@given(tables())
def test_lines_of_csv_are_read_back(table: pl.DataFrame) -> None:
    header = FORMATS["csv"].encode([], EVERYTHING)[0]
    lines = csv_lines(table, EVERYTHING)
    assert len(lines) == table.height
    back = FORMATS["csv"].decode(header + b"".join(line + b"\n" for line in lines), EVERYTHING)
    assert back.equals(
        FORMATS["csv"].decode(b"".join(map(bytes, FORMATS["csv"].encode([table], EVERYTHING))), EVERYTHING)
    )


def test_a_changelog_says_op_and_an_upsert_does_not() -> None:
    assert json.loads(messages(LOG, ("a", 1, "retract")).values[0] or "") == {"k": "a", "n": 1, "op": "retract"}
    assert json.loads(messages(CHANGES, ("a", 1, "upsert"), key=("k",)).values[0] or "") == {"k": "a", "n": 1}


def test_a_row_that_is_gone_is_a_tombstone_in_its_place() -> None:
    found = messages(CHANGES, ("a", 1, "upsert"), ("b", None, "delete"), ("c", 3, "upsert"), key=("k",))
    assert list(found.keys) == [b"a", b"b", b"c"]
    assert [value and json.loads(value)["n"] for value in found.values] == [1, None, 3]


def test_a_null_is_no_key_where_none_is_needed_and_an_object_where_one_is() -> None:
    assert list(messages(TARGET, (None, 1), ("null", 2), key=("k",)).keys) == [None, b"null"]
    rows = [(None, 1, "upsert"), ("null", 2, "upsert"), ('{"k":null}', 3, "upsert"), ("", 4, "upsert")]
    found = messages(CHANGES, *rows, key=("k",)).keys
    assert list(found) == [b'{"k":null}', b"null", b'{"k":"{\\"k\\":null}"}', b""]
    assert len(set(found)) == 4


@pytest.mark.parametrize(
    ("type", "values", "texts"),
    [
        ("double", [0.0, -0.0, math.nan, 1.5, math.inf, None], [b"0.0", b"0.0", b"NaN", b"1.5", b"Infinity", None]),
        ("bigint", [-5, None], [b"-5", None]),
        ("decimal(10,2)", [Decimal("1.50")], [b"1.50"]),
        ("timestamp", [datetime(2026, 1, 31, 12, tzinfo=timezone.utc)], [b"2026-01-31T12:00:00.000000Z"]),
        ("boolean", [True], [b"true"]),
        ("binary", [b"\x00\xff", None], [b"\x00\xff", None]),
        ("string", ["zoë ☃ \n", ""], ["zoë ☃ \n".encode(), b""]),
    ],
)  # fmt: skip
def test_a_key_of_one_column_is_its_text(type: str, values: list[Any], texts: list[bytes | None]) -> None:
    schema = Schema.of(f"k {type}")
    table = pl.DataFrame({"k": values}, schema=polars_schema(schema))
    assert list(keys_of(table, schema, ["k"], required=False)) == texts


def test_a_key_of_several_columns_is_an_object_in_which_zeros_are_one() -> None:
    schema = Schema.of("k string, x double")
    table = pl.DataFrame({"k": ["a", None], "x": [-0.0, math.nan]}, schema=polars_schema(schema))
    found = keys_of(table, schema, ["x", "k"], required=True)
    assert list(found) == [b'{"x":0.0,"k":"a"}', b'{"x":"NaN","k":null}']


def test_envelopes_say_what_happened_to_a_row() -> None:
    changed = messages(LOG, ("a", 1, "insert"), ("a", 1, "retract"), format="debezium")
    one, two = (json.loads(value or b"") for value in changed.values)
    assert (one["op"], one["before"], one["after"]) == ("c", None, {"k": "a", "n": 1})
    assert (two["op"], two["before"], two["after"]) == ("d", {"k": "a", "n": 1}, None)
    assert one["ts_ms"] == 1767268800000
    assert one["source"] == {"connector": "strandline", "name": "f", "table": "s"}
    upserted = messages(CHANGES, ("a", 1, "upsert"), ("b", None, "delete"), format="debezium", key=("k",))
    told = [json.loads(value or b"") for value in upserted.values]
    assert [(each["op"], each["before"], each["after"]) for each in told] == [
        ("u", None, {"k": "a", "n": 1}),
        ("d", {"k": "b", "n": None}, None),
    ]
    assert json.loads(messages(TARGET, ("100%b", 1), format="debezium").values[0] or b"")["after"]["k"] == "100%b"


def test_bytes_go_as_they_are_with_other_columns_as_headers() -> None:
    target = replace(TARGET, schema=Schema.of("raw binary, reason string, place bigint"))
    found = messages(
        target, (b"\xff", "no JSON", 7), (None, None, None), format="bytes", headers={"why": "reason", "at": "place"}
    )
    assert list(found.values) == [b"\xff", None]
    assert list(found.headers) == [[("why", b"no JSON"), ("at", b"7")], [("why", None), ("at", None)]]


def test_a_text_needs_one_column_of_text() -> None:
    with pytest.raises(
        SinkError, match="takes one string column that is neither key nor header; there is k string, n bigint"
    ):
        messages(TARGET, ("a", 1), format="text")
    assert list(messages(TARGET, ("a", 1), format="text", key=("n",)).values) == [b"a"]
