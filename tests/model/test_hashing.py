"""The plain bucket hash."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import DataError
from strandline.model.hashing import NULL_HASH, hash_value, hash_values, mix
from strandline.model.time import Instant


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6), st.integers(0, 12))
def test_a_decimal_hashes_by_its_value_whatever_its_scale(value: Decimal, zeros: int) -> None:
    longer = Decimal(f"{value:f}" + "0" * zeros)
    assert hash_value(longer) == hash_value(value)


def test_both_zeros_are_one_value_and_all_nans_are_one_value() -> None:
    other_nan = np.array([0xFFF8000000000001], np.uint64).view(np.float64)[0]
    assert hash_value(-0.0) == hash_value(0.0)
    assert hash_value(other_nan) == hash_value(float("nan"))


def test_an_integer_hashes_alike_in_every_width() -> None:
    assert len({hash_value(width(-7)) for width in (int, np.int8, np.int16, np.int32, np.int64)}) == 1


def test_a_float_hashes_alike_in_both_widths() -> None:
    assert hash_value(np.float32(1.5)) == hash_value(1.5)


def test_a_timestamp_hashes_as_its_microseconds() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    assert hash_value(noon) == hash_value(Instant.of(noon))
    assert hash_value(noon.astimezone(timezone(timedelta(hours=5)))) == hash_value(noon)
    assert hash_value(noon.replace(tzinfo=None)) == hash_value(noon)


def test_dates_count_days_and_intervals_count_microseconds() -> None:
    assert hash_value(date(1969, 12, 31)) == hash_value(-1)
    assert hash_value(timedelta(milliseconds=-1)) == hash_value(-1000)


def test_null_differs_from_zero_from_no_text_and_from_false() -> None:
    assert len({NULL_HASH, hash_value(0), hash_value(""), hash_value(0.0), hash_value(Decimal(0))}) == 5
    assert hash_value(None) == NULL_HASH


def test_zeros_at_the_end_of_bytes_count() -> None:
    assert len({hash_value(b"\0" * length) for length in range(40)}) == 40


def test_the_order_of_columns_counts() -> None:
    assert hash_values(["a", "b"]) != hash_values(["b", "a"])
    assert hash_values(["a", None]) != hash_values([None, "a"])
    assert hash_values([]) == 0


@given(st.integers(0, 2**64 - 1), st.integers(0, 63))
def test_one_flipped_bit_changes_about_half_of_the_hash(word: int, bit: int) -> None:
    changed = (mix(word) ^ mix(word ^ 1 << bit)).bit_count()
    assert 10 <= changed <= 54


@pytest.mark.parametrize("value", [[1], {"a": 1}, Decimal("NaN"), object()])
def test_what_is_no_scalar_cannot_be_hashed(value: object) -> None:
    with pytest.raises(DataError, match="cannot be hashed"):
        hash_value(value)
