"""What entries are called, and what they hold."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_series_equal

from strandline.errors import SinkError
from strandline.kernel.schema import polars_type
from strandline.model.types import Schema, Type
from strandline.sinks.plain import column_of, plain_type
from strandline.sinks.redis.description import RedisSink
from strandline.sinks.redis.entries import entry_name, key_texts, require_fitting, sent_values
from tests.lanes import examples
from tests.sinks.delivering import CHANGES, EVERYTHING, values

SCALARS = Schema(tuple((name, kind) for name, kind in EVERYTHING.columns if kind.is_scalar))
AWKWARD = st.one_of(st.none(), st.text("a%:,n~\0é null", max_size=4), st.sampled_from(["", "%null", "null", "%25"]))


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(AWKWARD, AWKWARD), min_size=2, max_size=2))
def test_two_keys_have_the_same_text_only_if_they_are_equal(keys: list[tuple[str | None, str | None]]) -> None:
    columns = Schema.of("a string, b string").columns
    first, second = key_texts(
        pl.DataFrame(keys, schema=["a", "b"], orient="row", schema_overrides={"a": pl.String, "b": pl.String}), columns
    )
    assert (first == second) == (keys[0] == keys[1])
    assert ":" not in first


@settings(max_examples=examples(200))
@given(st.data())
def test_two_values_of_any_type_have_the_same_text_only_if_they_are_equal(data: st.DataObject) -> None:
    name, kind = data.draw(st.sampled_from(SCALARS.columns))
    drawn = st.one_of(values(kind), st.sampled_from([0.0, -0.0])) if kind.is_float else values(kind)
    column = pl.Series(name, data.draw(st.lists(drawn, min_size=2, max_size=2)), polars_type(kind))
    first, second = key_texts(pl.DataFrame([column]), [(name, kind)])
    assert (first == second) == bool(column[0:1].eq_missing(column[1:2])[0])


@settings(max_examples=examples(100))
@given(st.data())
def test_every_value_reads_back(data: st.DataObject) -> None:
    name, kind = data.draw(st.sampled_from(EVERYTHING.columns))
    column = pl.Series(name, data.draw(st.lists(values(kind), min_size=1, max_size=3)), polars_type(kind))
    sent = sent_values(column, kind)
    texts = [None if not each else each[1:] for each in sent]
    if kind.name == "binary":
        assert texts == column.to_list()
        return
    plain = pl.Series(name, texts, pl.String)
    if kind.name == "boolean":
        plain = plain == "true"
    elif kind.is_float:
        plain = plain.replace({"Infinity": "inf", "-Infinity": "-inf"})
    assert_series_equal(column_of(plain.cast(plain_type(kind)), kind), column, check_exact=True)


def test_zero_is_one_key_and_so_is_nan() -> None:
    assert entry_name("x:", "f double", -0.0) == entry_name("x:", "f double", 0.0) == "x:0.0"
    assert entry_name("x:", "f double", float("nan")) == "x:NaN"


def test_a_reader_finds_an_entry_by_its_key() -> None:
    at = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    found = entry_name("features:", "user string, window_start timestamp", "a:b", at)
    assert found == "features:a%3Ab,2026-01-01T12%3A00%3A00.000000Z"


@pytest.mark.parametrize(
    ("schema", "key", "said"),
    [("k string, _version bigint", ("k",), "'_version'"), ("k array<string>, n bigint", ("k",), "makes no name")],
)
def test_columns_that_an_entry_cannot_hold_are_refused(schema: str, key: tuple[str, ...], said: str) -> None:
    with pytest.raises(SinkError, match=said):
        require_fitting(replace(CHANGES, schema=Schema.of(schema), key=key))
    with pytest.raises(SinkError, match=said):
        RedisSink("redis://127.0.0.1:9", "x:").prepare(replace(CHANGES, schema=Schema.of(schema), key=key))


def test_rows_that_are_only_added_are_refused() -> None:
    with pytest.raises(SinkError, match="cannot do"):
        RedisSink("redis://127.0.0.1:9", "x:").prepare(replace(CHANGES, rows="append"))


def test_types_are_told_apart_by_the_schema_alone() -> None:
    assert entry_name("x:", Schema((("n", Type.of("bigint")),)), 7) == entry_name("x:", "s string", "7")
