"""What is written in a format reads back as it was."""

from __future__ import annotations

import json

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from strandline.model.types import Schema
from strandline.sinks.formats import FORMATS
from strandline.sinks.plain import span_of, span_text
from tests.lanes import examples
from tests.sinks.delivering import EVERYTHING, tables

SCALARS = Schema(tuple((name, kind) for name, kind in EVERYTHING.columns if kind.is_scalar))
FINITE = Schema(tuple((name, kind) for name, kind in SCALARS.columns if not kind.is_float))


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("schema", [EVERYTHING, SCALARS, FINITE, Schema.of("s string")], ids=len)
@settings(max_examples=examples(20))
@given(data=st.data())
def test_every_value_reads_back_and_files_can_be_joined(name: str, schema: Schema, data: st.DataObject) -> None:
    format = FORMATS[name]
    first, second, third = (data.draw(tables(schema, max_size=3)) for _ in range(3))
    one = b"".join(map(bytes, format.encode([first, second], schema)))
    other = b"".join(map(bytes, format.encode([third], schema)))
    assert_frame_equal(format.decode(one, schema), pl.concat([first, second]))
    joined = b"".join(map(bytes, format.join([one, other], schema)))
    assert_frame_equal(format.decode(joined, schema), pl.concat([first, second, third]))


@pytest.mark.parametrize("name", FORMATS)
def test_no_rows_read_back_as_no_rows(name: str) -> None:
    data = b"".join(map(bytes, FORMATS[name].encode([], EVERYTHING)))
    assert FORMATS[name].decode(data, EVERYTHING).height == 0


@pytest.mark.parametrize("name", FORMATS)
def test_a_first_text_that_begins_like_a_byte_order_mark_reads_back(name: str) -> None:
    schema, table = Schema.of("s string, n int"), pl.DataFrame({"s": ["\ufeffa", "\ufeff"], "n": [1, 2]})
    data = b"".join(map(bytes, FORMATS[name].encode([table.cast({"n": pl.Int32})], schema)))
    assert FORMATS[name].decode(data, schema).rows() == table.rows()


def test_json_is_written_as_said() -> None:
    schema = Schema.of("t timestamp, x decimal(5,2), b binary, iv interval, f double")
    row = pl.DataFrame({"t": [0], "x": ["1.5"], "b": [b"\xff"], "iv": [90_000_000], "f": [float("nan")]})
    table = row.cast({"t": pl.Datetime("us", "UTC"), "x": pl.Decimal(5, 2), "iv": pl.Duration("us")})
    (line,) = FORMATS["json"].encode([table], schema)
    assert json.loads(line) == {
        "t": "1970-01-01T00:00:00.000000Z", "x": "1.50", "b": "/w==", "iv": "PT1M30S", "f": "NaN",
    }  # fmt: skip


def test_csv_writes_nested_values_as_json() -> None:
    table = pl.DataFrame({"s": [""], "l": [[1, None]]}, schema={"s": pl.String, "l": pl.List(pl.Int64)})
    assert b"".join(FORMATS["csv"].encode([table], Schema.of("s string, l array<bigint>"))) == b's,l\n"","[1,null]"\n'


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_span_reads_back(micros: int) -> None:
    assert span_of(span_text(micros)) == micros
