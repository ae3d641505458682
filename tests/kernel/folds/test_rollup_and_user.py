"""Merge, and a user's own aggregates."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from strandline.errors import DataError, DescriptionError
from strandline.kernel.folds import compile_fold
from strandline.kernel.groups import Groups
from strandline.model.aggregates import Aggregate, Count, Distinct, Max, Mean, Merge, Quantile, Sum, Variance
from strandline.model.panes import accumulator
from strandline.model.types import Schema
from tests.kernel.folds.playing import bits, fold_rows, merge_parts, show
from tests.kernel.folds.reference import Row

SCHEMA = Schema.of("v double")
ROWS = [Row(i % 4, i, float(i) + 0.1) for i in range(20)]


def panes(fold, rows):
    _, parts = fold_rows(fold, rows, SCHEMA)
    return pl.DataFrame([p.alias(accumulator("a", name)) for p, (name, _) in zip(parts, fold.fields, strict=True)])


@pytest.mark.parametrize(
    "aggregate", [Count("v"), Sum("v"), Mean("v"), Max("v"), Quantile("v", 0.5), Variance("v"), Distinct("v")]
)
def test_rolling_up_accumulators_is_the_aggregate_of_all_their_rows(aggregate):
    earlier = compile_fold(aggregate, SCHEMA, taking_back=False, mask=None)
    rollup = compile_fold(Merge("a"), SCHEMA, taking_back=False, mask=None, earlier=earlier)
    parts = rollup.fold(panes(earlier, ROWS), np.zeros(4, np.int64), None, Groups.of_lengths([4]))
    assert bits(parts) == bits(fold_rows(earlier, [Row(0, r.time, r.v) for r in ROWS], SCHEMA)[1])


@pytest.mark.parametrize("aggregate", [Count("v"), Sum("v"), Mean("v"), Max("v"), Variance("v"), Distinct("v")])
def test_an_accumulator_that_is_taken_back_leaves_nothing(aggregate):
    earlier = compile_fold(aggregate, SCHEMA, taking_back=True, mask=None)
    rollup = compile_fold(Merge("a"), SCHEMA, taking_back=True, mask=None, earlier=earlier)
    twice = pl.concat([panes(earlier, ROWS)] * 2)
    weights = np.array([1, 1, 1, 1, -1, -1, -1, 1], dtype=np.int64)
    parts = rollup.fold(twice, np.zeros(8, np.int64), weights, Groups.of_lengths([8]))
    left = [Row(0, r.time, r.v, weight=1) for r in ROWS if r.group == 3]
    assert bits(parts) == bits(fold_rows(earlier, left + left, SCHEMA)[1])


def test_a_sketch_cannot_be_taken_back():
    earlier = compile_fold(Quantile("v", 0.5), SCHEMA, taking_back=False, mask=None)
    rollup = compile_fold(Merge("a"), SCHEMA, taking_back=True, mask=None, earlier=earlier)
    with pytest.raises(DataError, match="cannot take back"):
        rollup.fold(panes(earlier, ROWS), np.zeros(4, np.int64), np.full(4, -1), Groups.of_lengths([4]))


def test_a_merge_of_nothing_is_refused():
    with pytest.raises(DescriptionError, match="no earlier aggregate"):
        compile_fold(Merge("a"), SCHEMA, taking_back=False, mask=None)


class Spread(Aggregate):
    columns = ("v",)
    result = "bigint"

    def start(self):
        return {}

    def add(self, accumulator, v):
        return {**accumulator, str(v): accumulator.get(str(v), 0) + 1}

    def remove(self, accumulator, v):
        return {k: n for k, n in {**accumulator, str(v): accumulator.get(str(v), 0) - 1}.items() if n}

    def merge(self, left, right):
        both = {k: left.get(k, 0) + right.get(k, 0) for k in {*left, *right}}
        return {k: n for k, n in both.items() if n}

    def output(self, accumulator):
        return len(accumulator)


class Latest(Aggregate):
    columns = ("v", "by")
    result = "date"

    def start(self):
        return None

    def add(self, accumulator, v, by):
        assert isinstance(v, Decimal)
        return max(accumulator or "", by.isoformat())

    def merge(self, left, right):
        return max(left or "", right or "") or None

    def output(self, accumulator):
        return accumulator and date.fromisoformat(accumulator)


def test_a_users_aggregate_merges_and_takes_back():
    fold = compile_fold(Spread(), Schema.of("v int"), taking_back=True, mask="keep")
    schema = Schema.of("v int")
    whole = fold_rows(fold, [Row(0, 0, 1), Row(0, 0, 2), Row(1, 0, None), Row(1, 0, 5, keep=None)], schema)
    assert show(fold, whole[1]) == [2, 0]
    back = fold_rows(fold, [Row(0, 0, 1, weight=-1)], schema, weighted=True)
    groups, merged = merge_parts(fold, [whole, back])
    assert (groups, show(fold, merged), merged[0].to_list()) == ([0, 1], [1, 0], ['{"2":1}', "{}"])


def test_a_users_aggregate_gets_python_values_and_may_take_several_columns():
    schema = Schema.of("v decimal(10,2), by date")
    fold = compile_fold(Latest(), schema, taking_back=False, mask=None)
    rows = [
        Row(0, 0, Decimal("1.25"), date(2026, 1, 2)),
        Row(0, 0, Decimal(1), date(2025, 1, 2)),
        Row(1, 0, Decimal(1), None),
    ]
    assert show(fold, fold_rows(fold, rows, schema)[1]) == [date(2026, 1, 2), None]


def test_a_users_aggregate_that_keeps_what_json_cannot_say_is_named():
    class Hoard(Spread):
        def add(self, accumulator, v):
            return {1, 2}

    fold = compile_fold(Hoard(), Schema.of("v int"), taking_back=False, mask=None)
    with pytest.raises(DataError, match="accumulator of Hoard"):
        fold_rows(fold, [Row(0, 0, 1)], Schema.of("v int"))


def test_a_users_aggregate_that_shows_another_type_is_named():
    class Liar(Spread):
        def output(self, accumulator):
            return "many"

    fold = compile_fold(Liar(), Schema.of("v int"), taking_back=False, mask=None)
    with pytest.raises(DataError, match="Liar"):
        fold_rows(fold, [Row(0, 0, 1)], Schema.of("v int"))


def test_a_users_aggregate_without_remove_cannot_take_back():
    schema = Schema.of("v decimal(10,2), by date")
    fold = compile_fold(Latest(), schema, taking_back=True, mask=None)
    with pytest.raises(DataError, match="cannot take rows back"):
        fold_rows(fold, [Row(0, 0, Decimal(1), date(2026, 1, 1), weight=-1)], schema, weighted=True)
