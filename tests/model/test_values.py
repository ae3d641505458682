"""A value fits its column's type, or is refused by name."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from strandline import DescriptionError
from strandline.model.types import Type
from strandline.model.values import checked_value

UTC = timezone.utc


@pytest.mark.parametrize(
    ("kind", "given", "kept"),
    [
        ("boolean", True, True),
        ("tinyint", -128, -128),
        ("bigint", 2**63 - 1, 2**63 - 1),
        ("double", 1, 1.0),
        ("float", 0.1, 0.10000000149011612),
        ("decimal(5,2)", "1.5", Decimal("1.50")),
        ("decimal(5,2)", -3, Decimal("-3.00")),
        ("decimal(38,38)", Decimal("0." + "9" * 38), Decimal("0." + "9" * 38)),
        ("string", "ann", "ann"),
        ("binary", b"x", b"x"),
        ("date", "2026-01-01", date(2026, 1, 1)),
        ("timestamp", "2026-01-01T13:00:00+01:00", datetime(2026, 1, 1, 12, tzinfo=UTC)),
        ("timestamp", 0, datetime(1970, 1, 1, tzinfo=UTC)),
        ("timestamp_ntz", "2026-01-01T12:00:00", datetime(2026, 1, 1, 12)),  # noqa: DTZ001 - it has no zone
        ("interval", "-1m30s", timedelta(seconds=-90)),
        ("array<int>", (1, None), [1, None]),
        ("struct<a:int,b:string>", {"a": 1}, {"a": 1, "b": None}),
        ("int", None, None),
    ],
)
def test_a_value_becomes_the_one_python_type_of_its_column(kind: str, given: Any, kept: Any) -> None:
    value = checked_value(Type.of(kind), given, "here")
    assert value == kept
    assert type(value) is type(kept)


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("boolean", 1, "is no boolean"),
        ("int", True, "is no int"),
        ("int", "1", "is no int"),
        ("tinyint", 128, "does not fit in 8 bits"),
        ("double", "1.0", "is no double"),
        ("decimal(5,2)", 1.5, "is no decimal"),
        ("decimal(5,2)", "1.234", "too many digits"),
        ("decimal(5,2)", "1000", "too many digits"),
        ("decimal(5,2)", "0.000001", "too many digits"),
        ("decimal(5,2)", "many", "is no decimal"),
        ("decimal(5,2)", "NaN", "is no decimal"),
        ("string", 1, "is no string"),
        ("string", "\ud800", "half a character"),
        ("array<string>", ["a", "b\udfff"], "half a character"),
        ("date", "yesterday", "is no date"),
        ("timestamp", "2026-01-01T12:00:00", "has no time zone"),
        ("timestamp", 2**62, "is no timestamp"),
        ("interval", 5, "must be text or a timedelta"),
        ("interval", timedelta.max, "do not fit in 64 bits"),
        ("interval", timedelta.min, "do not fit in 64 bits"),
        ("array<int>", 1, "is no array"),
        ("array<int>", ["x"], "is no int"),
        ("struct<a:int>", {"b": 1}, "'b'"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(kind: str, given: Any, said: str) -> None:
    with pytest.raises(DescriptionError, match="here") as caught:
        checked_value(Type.of(kind), given, "here")
    assert said in caught.value.what
    assert caught.value.fix


@pytest.mark.parametrize("text", ["interval", "interval day", "interval day to second", "INTERVAL MINUTE TO SECOND"])
def test_each_of_sparks_intervals_within_days_is_one_type(text: str) -> None:
    assert Type.of(text).text == "interval day to second"
