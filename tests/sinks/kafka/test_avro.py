"""Rows as Avro: what another reader of Avro makes of them, by the schema that was registered."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from fastavro import parse_schema, schemaless_reader
from hypothesis import given

from strandline.errors import SinkError
from strandline.model.types import Schema
from strandline.sinks.kafka.avro import avro_encoder
from strandline.sinks.kafka.messages import encoding
from tests.sinks.delivering import CHANGES, EVERYTHING, TARGET, delivery, tables


class Ids:
    """Gives ids as a registry does."""

    def __init__(self) -> None:
        self.known: list[tuple[str, Any]] = []

    def register(self, subject: str, schema: str | Mapping[str, Any]) -> int:
        self.known.append((subject, json.loads(json.dumps(schema))))
        return 300


def read(message: bytes, schema: Any) -> Any:
    assert message[:5] == b"\0\x00\x00\x01\x2c"
    stream = io.BytesIO(message[5:])
    found = schemaless_reader(stream, parse_schema(schema), None)
    assert stream.read() == b""
    return found


def same(found: Any, value: Any) -> bool:
    if isinstance(value, float) and math.isnan(value):
        return isinstance(found, float) and math.isnan(found)
    if isinstance(value, timedelta):
        return bool(found == value // timedelta(microseconds=1))
    if isinstance(value, dict):
        return all(same(found[name], each) for name, each in value.items())
    if isinstance(value, list):
        return len(found) == len(value) and all(map(same, found, value))
    return bool(found == value)


@pytest.mark.slow
@given(tables())
def test_every_value_is_read_back_by_the_schema_that_was_registered(table: pl.DataFrame) -> None:
    ids = Ids()
    # The physical years of an interval go beyond what Python's timedelta has; they are compared as whole numbers.
    encode = avro_encoder(EVERYTHING, "paid.v1", TARGET, ids)
    messages = encode(table, delivery(TARGET, 1))
    ((subject, schema),) = ids.known
    assert subject == "paid.v1-value"
    for message, row in zip(messages, table.iter_rows(named=True), strict=True):
        assert same(read(message, schema), row)


def test_a_row_that_is_gone_is_a_tombstone_here_too() -> None:
    ids = Ids()
    schema = Schema.of("k string, n bigint")
    encode = avro_encoder(schema, "t", CHANGES, ids)
    given = delivery(CHANGES, 1, ("a", 1, "upsert"), ("b", None, "delete"))
    (table,) = given.tables()
    values = encoding(CHANGES, format="avro", key=("k",), headers={}, avro=encode).messages(table, given).values
    assert values[1] is None
    assert read(values[0] or b"", ids.known[0][1]) == {"k": "a", "n": 1}


def test_a_column_that_avro_cannot_name_is_refused() -> None:
    target = replace(TARGET, schema=Schema.of("s struct<`ä b`:bigint>"))
    with pytest.raises(
        SinkError, match="The column 'ä b' of the sink 's' of the flow 'f' can have no such name in Avro"
    ):
        avro_encoder(target.schema, "t", target, Ids())
