"""Every aggregate against values worked out by hand."""

from __future__ import annotations

import math
import sys
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import DataError
from strandline.model.aggregates import (
    Aggregate,
    AnyAggregate,
    ApproxDistinct,
    Collect,
    Count,
    Distinct,
    Ewma,
    First,
    Last,
    Max,
    Mean,
    Merge,
    Min,
    Quantile,
    StdDev,
    Sum,
    TopK,
    Variance,
)
from strandline.model.oracle.aggregates import Reading, compute
from strandline.model.oracle.sums import float_sum
from strandline.model.oracle.values import Entry, canonical
from strandline.model.time import Instant, Span
from strandline.model.types import Schema

NAN, INF = math.nan, math.inf


def entry(value: Any, time: int = 0, weight: int = 1, **columns: Any) -> Entry:
    return Entry(time, weight, {"x": canonical(value, None), **columns}, Instant(0))


def over(aggregate: AnyAggregate, *values: Any, taking_back: bool = False, schema: str | None = None) -> Any:
    """The aggregate over values at times 0, 1, 2, ...; (value, weight) takes back."""
    entries = [entry(v[0], t, v[1]) if isinstance(v, tuple) else entry(v, t) for t, v in enumerate(values)]
    return compute(aggregate, entries, Reading(None if schema is None else Schema.of(schema), taking_back))


@pytest.mark.parametrize(
    ("aggregate", "values", "expected"),
    [
        (Count(), [1, None, 3], 3),
        (Count("x"), [1, None, 3], 2),
        (Sum("x"), [1, None, 3], 4),
        (Sum("x"), [0.1, 0.2, 0.3], 0.6),
        (Sum("x"), [Decimal("0.10"), Decimal("0.25")], Decimal("0.35")),
        (Sum("x"), [INF, 1.0], INF),
        (Sum("x"), [INF, -INF], NAN),
        (Sum("x"), [NAN, 1.0], NAN),
        (Sum("x"), [-0.0], 0.0),
        (Mean("x"), [1, 2, None], 1.5),
        (Mean("x"), [1.0, 4.0], 2.5),
        (Mean("x"), [Decimal("0.01"), Decimal("0.02"), Decimal("0.02")], Decimal("0.016667")),
        (Mean("x"), [Decimal(-1), Decimal(0), Decimal(0)], Decimal("-0.3333")),
        (Min("x"), [3, None, 1], 1),
        (Max("x"), [3, None, 1], 3),
        (Min("x"), [NAN, 5.0], 5.0),
        (Max("x"), [NAN, INF], NAN),
        (Max("x"), ["a", "b"], "b"),
        (Min("x"), [True, False], False),
        (Max("x"), [date(2026, 1, 1), date(2025, 1, 1)], date(2026, 1, 1)),
        (Min("x"), [timedelta(2), timedelta(1)], timedelta(1)),
        (Last("x"), [datetime(2026, 1, 1, tzinfo=timezone.utc)], datetime(2026, 1, 1, tzinfo=timezone.utc)),
        (First("x"), [None, 5, 1], 5),
        (Last("x"), [9, 2, None], 2),
        (Variance("x"), [1, 2, 3, 4], 5 / 3),
        (Variance("x", population=True), [1, 2, 3, 4], 1.25),
        (Variance("x"), [Decimal("0.1"), Decimal("0.3")], 0.02),
        (Variance("x"), [1], None),
        (Variance("x", population=True), [1], 0.0),
        (Variance("x"), [1.0, INF], NAN),
        (StdDev("x", population=True), [2, 4, 4, 4, 5, 5, 7, 9], 2.0),
        (StdDev("x"), [7.0], None),
        (Distinct("x"), [1.0, NAN, NAN, 0.0, -0.0, None], 3),
        (ApproxDistinct("x"), ["a", "b", "a", None], 2),
        (Collect("x"), [3, None, 1], [3, 1]),
        (TopK("x", 2), ["b", "a", "c", "b"], [{"value": "b", "count": 2}, {"value": "a", "count": 1}]),
        (Quantile("x", 0.5), [0.0, 0.0, 5.0], 0.0),
        (Quantile("x", (0.0, 1.0)), [-INF, NAN], [-INF, NAN]),
        (Ewma("x", half_life=Span(1)), [0.0, 3.0], 2.0),
    ],
    ids=str,
)  # fmt: skip
def test_an_aggregate_over_a_few_values(aggregate: AnyAggregate, values: list[Any], expected: Any) -> None:
    assert repr(over(aggregate, *values)) == repr(expected)


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        (Count(), 0), (Count("x"), 0), (Distinct("x"), 0), (ApproxDistinct("x"), 0), (Collect("x"), []), (TopK("x", 3), []),
        (TopK("x", 3, by="x"), []), (Sum("x"), None), (Mean("x"), None), (Min("x"), None), (Max("x"), None), (First("x"), None),
        (Last("x"), None), (Variance("x"), None), (StdDev("x"), None), (Quantile("x", 0.5), None),
        (Quantile("x", (0.5, 0.9)), None), (Ewma("x", half_life="1s"), None),
    ],
    ids=str,
)  # fmt: skip
def test_what_nothing_comes_to(aggregate: AnyAggregate, expected: Any) -> None:
    assert over(aggregate) == expected
    if aggregate != Count():
        assert over(aggregate, None, None) == expected


def test_where_passes_over_what_is_not_true() -> None:
    assert over(Sum("x", where="x > 1"), 1, 2, None, 3) == 5
    assert over(Count(where="x > 1"), 1, 2, None, 3) == 2


def test_ties_in_time_go_by_value() -> None:
    entries = [entry(5), entry(3), entry(4)]
    assert [compute(a, entries, Reading()) for a in (First("x"), Last("x"), Collect("x"))] == [3, 5, [3, 4, 5]]


def test_top_by_a_column_is_ordered_by_it_then_by_time_then_by_value() -> None:
    rows = [
        entry("late", 9, y=5), entry("b", 1, y=5), entry("a", 1, y=5), entry("low", 0, y=1), entry("none", 0, y=None),
        entry(None, 0, y=9), entry("best", 3, y=7),
    ]  # fmt: skip
    found = compute(TopK("x", 4, by="y"), rows, Reading())
    assert found == [
        {"value": "best", "by": 7}, {"value": "a", "by": 5}, {"value": "b", "by": 5}, {"value": "late", "by": 5},
    ]  # fmt: skip


def test_a_sum_of_integers_that_no_bigint_holds_is_an_error() -> None:
    assert over(Sum("x"), 2**63 - 1, 1, -1) == 2**63 - 1
    with pytest.raises(DataError, match=r"Sum\('x'\) is outside of bigint"):
        over(Sum("x"), 2**63 - 1, 1)


def test_a_sum_of_decimals_has_ten_digits_more_than_its_column_and_38_at_most() -> None:
    nines = Decimal("9" * 36 + ".99")
    assert over(Sum("x"), Decimal(1), Decimal(2), schema="x decimal(5,2)") == Decimal("3.00")
    with pytest.raises(DataError, match=r"outside of decimal\(38,2\)"):
        over(Sum("x"), nines, nines, schema="x decimal(38,2)")


def test_a_mean_of_decimals_has_four_digits_more_behind_the_point() -> None:
    shown = over(Mean("x"), Decimal(1), Decimal(1), Decimal(0), schema="x decimal(5,2)")
    assert str(shown) == "0.666667"


def test_floats_are_cut_on_a_grid_unless_the_sum_is_exact_or_takes_back() -> None:
    values = [1e100, 1.0, -1e100]
    assert over(Sum("x"), *values) == 0.0
    assert over(Sum("x", exact=True), *values) == 1.0
    assert over(Sum("x"), *values, taking_back=True) == 1.0
    assert over(Mean("x"), *values, taking_back=True) == 1 / 3


def test_the_grid_keeps_65_bits_below_the_greatest_value() -> None:
    assert float_sum([(2.0**64, 1), (1.0, 1), (-(2.0**64), 1)], exact=False) == 1.0
    assert float_sum([(2.0**64, 1), (0.75, 1), (-(2.0**64), 1)], exact=False) == 0.0


floats = st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(st.lists(floats, max_size=8), st.randoms(use_true_random=False))
def test_a_float_sum_does_not_depend_on_order(values: list[float], chance: Any) -> None:
    shuffled = list(values)
    chance.shuffle(shuffled)
    assert over(Sum("x"), *values) == over(Sum("x"), *shuffled)


@given(
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False, max_value=1e300, min_value=-1e300), min_size=1, max_size=8
    )
)
def test_an_exact_float_sum_is_the_true_sum_rounded_once(values: list[float]) -> None:
    assert over(Sum("x", exact=True), *values) == math.fsum(values)


@given(st.lists(floats, min_size=1, max_size=8))
def test_the_grid_errs_by_less_than_2_to_the_minus_64_of_the_greatest_for_each_value(values: list[float]) -> None:
    true = sum(map(Fraction, values))
    allowed = len(values) * Fraction(max(map(abs, values))) / 2**64
    shown = over(Sum("x"), *values)
    assert abs(Fraction(shown) - true) <= allowed + abs(true) / 2**52 + Fraction(1, 2**1074)


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        (Count(), 1), (Sum("x"), 2.0), (Mean("x"), 2.0), (Min("x"), 2.0), (Max("x"), 2.0), (First("x"), 2.0), (Last("x"), 2.0),
        (Distinct("x"), 1), (Collect("x"), [2.0]), (Variance("x", population=True), 0.0),
        (TopK("x", 3), [{"value": 2.0, "count": 1}]), (TopK("x", 3, by="x"), [{"value": 2.0, "by": 2.0}]),
    ],
    ids=str,
)  # fmt: skip
def test_what_was_taken_back_leaves_nothing_behind(aggregate: AnyAggregate, expected: Any) -> None:
    entries = [entry(v, 0, w) for v, w in ((1e300, 1), (2.0, 1), (NAN, 1), (1e300, -1), (NAN, -1))]
    assert compute(aggregate, entries, Reading(taking_back=True)) == expected
    assert compute(aggregate, entries[::-1], Reading(taking_back=True)) == expected


def test_all_taken_back_is_as_nothing() -> None:
    entries = [entry(5, 0, 1), entry(5, 0, -1)]
    aggregates = (Count(), Sum("x"), Mean("x"), Max("x"), Collect("x"))
    assert [compute(a, entries, Reading(taking_back=True)) for a in aggregates] == [0, None, None, None, []]


@given(
    st.lists(st.floats(min_value=1e-3, max_value=1e6), min_size=1, max_size=30), st.sampled_from([0.0, 0.5, 0.95, 1.0])
)
def test_a_quantile_is_within_its_error_of_the_value_at_its_rank(values: list[float], q: float) -> None:
    true = sorted(values)[math.floor(q * (len(values) - 1))]
    assert over(Quantile("x", q, error=0.01), *values) == pytest.approx(true, rel=0.01)
    assert over(Quantile("x", q, error=0.01), *(-v for v in values)) <= 0


def test_about_a_thousand_values_are_counted_within_three_standard_errors() -> None:
    shown = over(ApproxDistinct("x", precision=10), *range(1000), *range(1000))
    assert abs(shown - 1000) < 3 * 1000 * 1.04 / 32


def test_ewma_halves_the_weight_of_a_value_with_each_half_life_however_far_from_1970() -> None:
    far = int(Instant.of("2026-01-01T00:00:00Z"))
    entries = [entry(0.0, far), entry(7.0, far + 20)]
    assert compute(Ewma("x", half_life=Span(10)), entries, Reading()) == pytest.approx(7 * 4 / 5)
    assert compute(Ewma("x", half_life=Span(1)), [entry(8, -(10**15)), entry(3, 10**15)], Reading()) == 3.0
    assert compute(Ewma("x", half_life=Span(1)), [entry(8.0, 0), entry(0.0, 10**15)], Reading()) == 0.0


@pytest.mark.parametrize("value", [1e308, -1e308, sys.float_info.max, 5e-324])
def test_ewma_of_one_value_over_and_over_is_that_value_however_near_to_the_end_of_doubles(value: float) -> None:
    entries = [entry(value, time) for time in range(9, 30, 7)]
    assert compute(Ewma("x", half_life="1h"), entries, Reading()) == pytest.approx(value, rel=1e-15)


class Product(Aggregate):
    columns = ("x",)
    result = "bigint"

    def start(self) -> list[int]:
        return [1]

    def add(self, accumulator: list[int], x: int) -> list[int]:  # type: ignore[override]
        return [accumulator[0] * x]

    def merge(self, left: list[int], right: list[int]) -> list[int]:
        return [left[0] * right[0]]

    def output(self, accumulator: list[int]) -> int:
        return accumulator[0]


class Undoable(Product):
    def remove(self, accumulator: list[int], x: int) -> list[int]:
        return [accumulator[0] // x]


class Unsayable(Product):
    def start(self) -> Any:
        return object()


def test_a_users_aggregate_adds_row_by_row_and_never_sees_a_null() -> None:
    assert over(Product(), 2, None, 5) == 10
    assert over(Product()) == 1


def test_a_users_aggregate_takes_back_if_it_can() -> None:
    assert over(Undoable(), 2, 5, (2, -1)) == 5
    with pytest.raises(DataError, match="Product cannot take rows back"):
        over(Product(), 2, (2, -1))


def test_an_accumulator_that_json_cannot_say_is_an_error_that_names_the_class() -> None:
    with pytest.raises(DataError, match="Unsayable"):
        over(Unsayable())


def test_merge_is_the_earlier_aggregate_over_the_union_of_what_it_saw() -> None:
    panes = [
        Entry(0, 1, {"p": 5.0, "__rows.p": [entry(v) for v in (1, 2, 3)]}, Instant(0)),
        Entry(0, 1, {"p": 100.0, "__rows.p": [entry(100)]}, Instant(0)),
        Entry(0, 1, {"p": 7.0, "__rows.p": [entry(7)]}, Instant(0)),
        Entry(0, -1, {"p": 7.0, "__rows.p": [entry(7)]}, Instant(0)),
    ]
    reading = Reading(taking_back=True, merged={"p": Mean("x", where="x < 50")})
    assert compute(Merge("p"), panes, reading) == 2.0
    assert compute(Merge("p", where="p > 50"), panes, Reading(merged={"p": Max("x")})) == 100
