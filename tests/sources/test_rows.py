from __future__ import annotations

from typing import Any

import pytest

from strandline import DescriptionError, Rows
from strandline.kernel.schema import polars_schema
from strandline.model.types import Schema
from strandline.sources.contract import Limit, Place
from tests.sources.reading import everything, pieces, table_of


def test_an_unknown_column_gets_the_nearest_name() -> None:
    with pytest.raises(DescriptionError, match="Row 2 has a column 'amuont'") as caught:
        Rows([{"amount": 1}, {"amuont": 2}], schema="amount int")
    assert "Did you mean 'amount'?" in caught.value.fix


def test_a_row_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(DescriptionError, match="no mapping"):
        Rows([["ann"]], schema="user string")  # type: ignore[list-item]


def test_rows_are_equal_when_what_they_hold_is() -> None:
    assert Rows([{"n": 1}], schema="n int") == Rows([{"n": 1}], schema="n integer")


def test_however_the_ticks_and_parts_are_cut_the_rows_are_the_same() -> None:
    reader = Rows([{"n": n, "name": str(n)} for n in range(10)], schema="n int, name string").reader()
    whole = everything(reader)
    assert whole == [(n, str(n)) for n in range(10)]
    assert all(everything(reader, Limit(rows=rows), wanted) == whole for rows in (1, 3, 100) for wanted in (1, 2, 7))


def test_a_limit_of_bytes_lets_at_least_one_row_through() -> None:
    reader = Rows([{"n": 1}, {"n": 2}], schema="n int").reader()
    assert reader.latest(reader.first(), Limit(bytes=1)) == {"rows": 1}


def test_the_end_is_final_and_known_from_the_offset_alone() -> None:
    reader = Rows([{"n": 1}, {"n": 2}], schema="n int").reader()
    assert reader.places({"rows": 1}) == {"0": Place(position=1, end=2, finished=True)}


def test_no_rows_have_no_parts_and_the_columns_of_the_schema() -> None:
    reader = Rows(schema="n int").reader()
    assert reader.latest(reader.first(), Limit()) == reader.first()
    assert reader.parts(reader.first(), reader.first(), 4) == []


def test_every_type_keeps_its_value_and_its_column() -> None:
    schema = Schema.of("d decimal(5,2), b binary, t timestamp, z timestamp_ntz, i interval, a array<struct<x:int>>")
    row = {"d": "1.5", "b": b"\x00", "t": "2026-01-01T00:00:00Z", "z": "2026-01-01T00:00:00", "i": "-1s",
           "a": [{"x": 1}, None]}  # fmt: skip
    source = Rows([row], schema=schema)
    table = table_of(pieces(source.reader(), {"rows": 0}, {"rows": 1}))
    assert dict(table.schema) == polars_schema(schema)
    assert table.row(0, named=True) == source.rows[0]


@pytest.mark.parametrize("bad", [0, -1, True, 1.5])
def test_a_limit_that_lets_nothing_through_is_refused(bad: Any) -> None:
    with pytest.raises(DescriptionError, match="is no limit"):
        Limit(rows=bad)
