"""Overflow, the edges of the float grid, and groups."""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import DataError
from strandline.kernel.folds import compile_fold
from strandline.kernel.folds.rounding import nearest
from strandline.kernel.groups import Groups
from strandline.model.aggregates import Ewma, Mean, Quantile, Sum
from strandline.model.types import Schema
from tests.kernel.folds.playing import fold_rows, merge_parts, show
from tests.kernel.folds.reference import Row


def total(aggregate, type, values, *, taking_back=False):
    schema = Schema.of(f"v {type}")
    fold = compile_fold(aggregate, schema, taking_back=taking_back, mask=None)
    return show(fold, fold_rows(fold, [Row(0, 0, v) for v in values], schema)[1])[0]


def test_a_sum_outside_of_bigint_is_an_error_only_when_shown():
    schema = Schema.of("v bigint")
    fold = compile_fold(Sum("v"), schema, taking_back=False, mask=None)
    large = fold.fold(pl.DataFrame({"v": [2**63 - 1] * 4}), np.zeros(4, np.int64), None, Groups.of_lengths([4]))
    with pytest.raises(DataError, match="outside of bigint"):
        fold.show(large)
    small = fold.fold(pl.DataFrame({"v": [-(2**63)] * 4}), np.zeros(4, np.int64), None, Groups.of_lengths([4]))
    assert show(fold, merge_parts(fold, [([0], large), ([0], small)])[1]) == [-4]


@pytest.mark.parametrize("value", [1e308, -1e308, sys.float_info.max, 5e-324])
def test_an_ewma_of_one_value_over_and_over_is_that_value(value):
    schema = Schema.of("v double")
    fold = compile_fold(Ewma("v", half_life="1h"), schema, taking_back=False, mask=None)
    _, parts = fold_rows(fold, [Row(0, time, value) for time in range(9, 30, 7)], schema)
    assert show(fold, parts) == [pytest.approx(value, rel=1e-15)]


def test_a_sum_outside_of_its_decimal_is_an_error():
    greatest = Decimal("9" * 38)
    schema = Schema.of("v decimal(38,0)")
    fold = compile_fold(Sum("v"), schema, taking_back=False, mask=None)
    parts = fold.fold(
        pl.DataFrame({"v": pl.Series([greatest, Decimal(1)], dtype=pl.Decimal(38, 0))}),
        np.zeros(2, np.int64), None, Groups.of_lengths([2]),
    )  # fmt: skip
    with pytest.raises(DataError, match=r"outside of decimal\(38,0\)"):
        fold.show(parts)
    assert total(Sum("v"), "decimal(38,0)", [greatest, greatest.copy_negate(), Decimal(-7)]) == -7


def test_the_mean_of_bigints_cannot_overflow():
    assert total(Mean("v"), "bigint", [2**63 - 1] * 5) == float(5 * (2**63 - 1)) / 5


def test_a_float_sum_cuts_what_lies_three_cells_below_the_greatest_unless_exact():
    values = [2.0**64, 1.0 + 2.0**-40, -(2.0**64)]
    assert total(Sum("v"), "double", values) == 1.0
    assert total(Sum("v", exact=True), "double", values) == 1.0 + 2.0**-40 == math.fsum(values)


def test_a_float_sum_beyond_the_greatest_double_is_infinite_and_comes_back():
    assert total(Sum("v"), "double", [1.7e308, 1.7e308]) == math.inf
    assert total(Sum("v"), "double", [1.7e308, 1.7e308, -1.7e308]) == 1.7e308
    assert total(Sum("v"), "double", [1.7e308, 1.7e308], taking_back=True) == math.inf


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, max_value=1e300, min_value=-1e300), min_size=1))
def test_an_exact_sum_is_that_of_fsum(values):
    assert total(Sum("v", exact=True), "double", values) == math.fsum(values)


@given(st.integers(-(2**127), 2**127 - 1) | st.integers(-(2**70), 2**70) | st.integers(-(2**54) - 3, 2**54 + 3))
def test_whole_numbers_round_to_the_nearest_double_with_ties_to_even(number):
    high, low = divmod(number, 2**64)
    mantissa, exponent = nearest(np.array([high]), np.array([low], dtype=np.uint64))
    assert math.ldexp(mantissa[0], int(exponent[0])) == float(number)


@given(st.lists(st.floats(1e-300, 1e300), min_size=1), st.floats(0, 1), st.sampled_from([0.25, 0.01, 1e-4]))
def test_a_quantile_errs_by_no_more_than_it_says(values, q, error):
    true = Fraction(sorted(values)[math.floor(q * (len(values) - 1))])
    answer = total(Quantile("v", q, error=error), "double", values)
    assert abs(Fraction(answer) - true) <= Fraction(error) * true


@given(st.lists(st.integers(1, 5)), st.data())
def test_groups_join_as_a_loop_does(lengths, data):
    groups = Groups.of_lengths(lengths)
    values = np.array(
        data.draw(st.lists(st.integers(-9, 9), min_size=groups.length, max_size=groups.length)), dtype=np.int64
    )
    pieces = np.split(values, groups.starts[1:]) if lengths else []
    assert groups.add(values).tolist() == [p.sum() for p in pieces]
    assert groups.least(values).tolist() == [p.min() for p in pieces]
    assert groups.greatest(values).tolist() == [p.max() for p in pieces]
    assert groups.lengths.tolist() == lengths
    some, present = groups.keep(values > 0)
    assert present.tolist() == [i for i, p in enumerate(pieces) if (p > 0).any()]
    assert some.lengths.tolist() == [(p > 0).sum() for p in pieces if (p > 0).any()]
