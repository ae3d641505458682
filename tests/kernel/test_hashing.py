"""The bucket hash in columns: equal to the plain one, and to the vectors that no version may change."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import DataError
from strandline.kernel.hashing import bucket_of, hash_columns, hash_range, hash_series
from strandline.model.hashing import HASH_VERSION, hash_value, hash_values

VECTORS = json.loads((Path(__file__).parent / "hash_vectors.json").read_text())
UTC_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

# Each type's polars dtype, and how a value is read from the text of a vector.
TYPES: dict[str, tuple[Any, Any]] = {
    "boolean": (pl.Boolean, lambda text: text == "true"),
    "tinyint": (pl.Int8, int),
    "smallint": (pl.Int16, int),
    "int": (pl.Int32, int),
    "bigint": (pl.Int64, int),
    "float": (pl.Float32, float),
    "double": (pl.Float64, float),
    "decimal(38,0)": (pl.Decimal(38, 0), Decimal),
    "decimal(38,10)": (pl.Decimal(38, 10), Decimal),
    "decimal(12,2)": (pl.Decimal(12, 2), Decimal),
    "string": (pl.String, str),
    "binary": (pl.Binary, bytes.fromhex),
    "date": (pl.Date, date.fromisoformat),
    "timestamp": (pl.Datetime("us", "UTC"), lambda text: UTC_EPOCH + timedelta(microseconds=int(text))),
    "timestamp_ntz": (
        pl.Datetime("us"),
        lambda text: (UTC_EPOCH + timedelta(microseconds=int(text))).replace(tzinfo=None),
    ),
    "interval day to second": (pl.Duration("us"), lambda text: timedelta(microseconds=int(text))),
}


def read(kind: str, text: str | None) -> object:
    return None if text is None else TYPES[kind][1](text)


def as_series(kind: str, values: list[Any]) -> pl.Series:
    return pl.Series(kind, values, dtype=TYPES[kind][0])


def test_there_are_vectors_for_every_type_and_for_this_version() -> None:
    assert VECTORS["hash_version"] == HASH_VERSION
    assert {kind for v in VECTORS["vectors"] for kind, _ in v["columns"]} == set(TYPES)
    assert len(VECTORS["vectors"]) >= 60


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda v: json.dumps(v["columns"]))
def test_the_plain_hash_and_the_columnar_one_give_the_vector(vector: dict[str, Any]) -> None:
    values = [(kind, read(kind, text)) for kind, text in vector["columns"]]
    expected = int(vector["hash"], 16)
    assert hash_values([value for _, value in values]) == expected
    assert hash_columns([as_series(kind, [value]) for kind, value in values]).tolist() == [expected]


STRATEGIES = {
    "boolean": st.booleans(),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "decimal(38,10)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}e-10")),
    "string": st.text(max_size=40),
    "binary": st.binary(max_size=40),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(timezone.utc)),
    "timestamp_ntz": st.datetimes(),
    "interval day to second": st.timedeltas(timedelta(days=-10_000), timedelta(days=10_000)),
}


def columns_of_any_type() -> st.SearchStrategy[pl.Series]:
    return st.sampled_from(sorted(STRATEGIES)).flatmap(
        lambda kind: st.lists(st.none() | STRATEGIES[kind], max_size=30).map(lambda values: as_series(kind, values))
    )


@given(columns_of_any_type(), st.integers(0, 5))
def test_a_column_hashes_as_its_values_one_by_one_also_when_cut(column: pl.Series, skip: int) -> None:
    expected = [hash_value(value) for value in column]
    assert hash_series(column).tolist() == expected
    assert hash_series(column.slice(skip)).tolist() == expected[skip:]
    assert hash_series(pl.concat([column, column], rechunk=False)).tolist() == expected * 2


@given(st.lists(st.tuples(st.none() | st.text(max_size=12), st.none() | st.integers(-9, 9)), max_size=20))
def test_rows_hash_as_their_values_in_order(rows: list[tuple[str | None, int | None]]) -> None:
    frame = pl.DataFrame(rows, schema={"user": pl.String, "shard": pl.Int32}, orient="row")
    assert hash_columns(frame).tolist() == [hash_values(row) for row in rows]


def test_rows_without_key_columns_all_hash_to_zero() -> None:
    assert hash_columns(pl.DataFrame({"a": [1, 2]}).select([])).tolist() in ([], [0, 0])
    assert hash_series(pl.Series([None, None])).tolist() == [hash_value(None)] * 2


def test_decimals_hash_by_value_whatever_their_scale() -> None:
    cents = pl.Series([Decimal("1.50"), Decimal("-3.00")], dtype=pl.Decimal(10, 2))
    assert (hash_series(cents) == hash_series(cents.cast(pl.Decimal(30, 9)))).all()


def test_an_array_cannot_be_hashed() -> None:
    with pytest.raises(DataError, match="'tags'"):
        hash_series(pl.Series("tags", [[1]]))


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1), st.integers(1, 2**20))
def test_the_bucket_is_the_hash_times_the_buckets_shifted_and_keeps_the_order(hashes: list[int], buckets: int) -> None:
    found = bucket_of(np.array(sorted(hashes), np.uint64), buckets).tolist()
    assert found == [h * buckets >> 64 for h in sorted(hashes)]
    assert found == sorted(found)


@given(st.integers(1, 5000), st.data())
def test_a_bucket_is_a_range_of_hashes_and_the_ranges_adjoin(buckets: int, data: st.DataObject) -> None:
    bucket = data.draw(st.integers(0, buckets - 1))
    least, greatest = hash_range(bucket, buckets)
    assert bucket_of(np.array([least, greatest], np.uint64), buckets).tolist() == [bucket, bucket]
    assert least == 0 if bucket == 0 else hash_range(bucket - 1, buckets)[1] == least - 1
    assert bucket < buckets - 1 or greatest == 2**64 - 1


@pytest.mark.parametrize(
    "keys", [[f"user-{i}" for i in range(64_000)], list(range(64_000)), [i / 4 for i in range(64_000)]]
)
def test_regular_keys_spread_evenly_over_the_buckets(keys: list[Any]) -> None:
    counts = np.bincount(bucket_of(hash_series(pl.Series(keys)), 64), minlength=64)
    assert counts.min() > 850
    assert counts.max() < 1150
