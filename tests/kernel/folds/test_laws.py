"""Laws of every aggregate over every type that it takes."""

from __future__ import annotations

from itertools import product
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.kernel.folds import compile_fold
from strandline.kernel.schema import polars_type
from strandline.model.aggregates import (
    ApproxDistinct,
    Collect,
    Count,
    Distinct,
    Ewma,
    First,
    Last,
    Max,
    Mean,
    Min,
    Quantile,
    StdDev,
    Sum,
    TopK,
    Variance,
)
from strandline.model.result_types import result_type
from strandline.model.types import Schema
from tests.kernel.folds.playing import bits, fold_rows, merge_parts, show
from tests.kernel.folds.reference import Row, shown
from tests.kernel.folds.values import NUMBERS, POOLS, rows
from tests.lanes import examples

EVERY = [Count(), Count("v"), Min("v"), Max("v"), First("v"), Last("v"), Distinct("v"), TopK("v", 2), Collect("v")]
ONLY_NUMBERS = [Sum("v"), Mean("v"), Variance("v"), StdDev("v", population=True), Quantile("v", (0.0, 0.5, 1.0))]
ONLY_DOUBLES = [Sum("v", exact=True), Quantile("v", 0.9, error=0.25), Quantile("v", 0.3, error=1e-5)]
HASHED = [ApproxDistinct("v", precision=4), ApproxDistinct("v")]
CASES = [
    *((a, tuple(POOLS)) for a in [*EVERY, *HASHED]),
    *((a, NUMBERS) for a in ONLY_NUMBERS),
    *((a, ("double",)) for a in ONLY_DOUBLES),
]
TAKING_BACK = [(a, types) for a, types in CASES if not isinstance(a, Quantile | ApproxDistinct)]


def expected(aggregate: Any, schema: Schema, there: list[Row], groups: list[int], taking_back: bool = False) -> str:
    answers = [shown(aggregate, schema, [r for r in there if r.group == g], taking_back) for g in groups]
    # Through a column of the declared type, so that 1 and 1.00 are written alike.
    return repr(pl.Series(answers, dtype=polars_type(result_type(aggregate, schema))).to_list())


@pytest.mark.parametrize(("aggregate", "types"), CASES, ids=str)
@settings(max_examples=examples(8))
@given(data=st.data())
def test_any_order_and_any_cut_give_the_same_bits_and_what_plain_python_says(aggregate, types, data):
    type = data.draw(st.sampled_from(types))
    schema = Schema.of(f"v {type}")
    fold = compile_fold(aggregate, schema, taking_back=False, mask="keep")
    events = data.draw(rows(type))
    groups, whole = fold_rows(fold, events, schema)
    assert repr(show(fold, whole)) == expected(aggregate, schema, events, groups)
    shuffled = data.draw(st.permutations(events))
    at = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=3)))
    cuts = [shuffled[i:j] for i, j in zip([0, *at], [*at, len(events)], strict=True)]
    again, merged = merge_parts(fold, [fold_rows(fold, cut, schema) for cut in cuts])
    assert (again, bits(merged)) == (groups, bits(whole))


@pytest.mark.parametrize(("aggregate", "types"), TAKING_BACK, ids=str)
@settings(max_examples=examples(8))
@given(data=st.data())
def test_what_was_added_and_taken_back_was_never_there(aggregate, types, data):
    type = data.draw(st.sampled_from(types))
    schema = Schema.of(f"v {type}")
    fold = compile_fold(aggregate, schema, taking_back=True, mask="keep")
    events = data.draw(rows(type, most=8))
    passing = data.draw(rows(type, most=5))
    back = [Row(r.group, r.time, r.v, r.by, r.keep, -1) for r in passing]
    mixed = data.draw(st.permutations([*events, *passing, *back]))
    at = data.draw(st.integers(0, len(mixed)))
    pieces = [fold_rows(fold, piece, schema, weighted=True) for piece in (mixed[:at], mixed[at:])]
    groups, merged = merge_parts(fold, pieces)
    assert repr(show(fold, merged)) == expected(aggregate, schema, events, groups, taking_back=True)
    for group, *accumulator in zip(groups, *merged, strict=True):
        mine = [r for r in events if r.group == group]
        alone = fold_rows(fold, mine, schema)[1] if mine else fold.empty(1)
        assert repr([a.to_list() if hasattr(a, "to_list") else a for a in accumulator]) == repr(
            [p.to_list()[0] for p in alone]
        )


@pytest.mark.parametrize(("type", "by"), [("string", "double"), ("double", "decimal(38,10)"), ("bigint", "string")])
@pytest.mark.parametrize("taking_back", [False, True])
@settings(max_examples=examples(10))
@given(data=st.data())
def test_the_top_by_a_column_breaks_ties_by_time_and_then_value(type, by, taking_back, data):
    schema = Schema.of(f"v {type}, by {by}")
    aggregate = TopK("v", 2, by="by")
    fold = compile_fold(aggregate, schema, taking_back=taking_back, mask="keep")
    events = data.draw(rows(type, by=by))
    at = data.draw(st.integers(0, len(events)))
    groups, whole = fold_rows(fold, events, schema)
    assert repr(show(fold, whole)) == expected(aggregate, schema, events, groups)
    again, merged = merge_parts(fold, [fold_rows(fold, piece, schema) for piece in (events[at:], events[:at])])
    assert (again, bits(merged)) == (groups, bits(whole))


@pytest.mark.parametrize("half_life", ["1us", "7us", "10m", "365d"])
@settings(max_examples=examples(10))
@given(data=st.data())
def test_an_ewma_weighs_by_event_time_whatever_the_order_and_cut(half_life, data):
    schema = Schema.of("v double")
    aggregate = Ewma("v", half_life=half_life)
    fold = compile_fold(aggregate, schema, taking_back=False, mask=None)
    events = [
        Row(r.group, r.time, r.v if r.v is None or abs(r.v) > 1e-200 or r.v == 0 else 1.0)
        for r in data.draw(rows("double"))
    ]
    groups, whole = fold_rows(fold, events, schema)
    assert repr(show(fold, whole)) == expected(aggregate, schema, events, groups)
    shuffled = data.draw(st.permutations(events))
    at = data.draw(st.integers(0, len(events)))
    again, merged = merge_parts(fold, [fold_rows(fold, piece, schema) for piece in (shuffled[:at], shuffled[at:])])
    assert (again, bits(merged)) == (groups, bits(whole))


@pytest.mark.parametrize(("aggregate", "types"), CASES, ids=str)
def test_accumulators_of_no_rows_change_nothing_and_show_what_sql_shows_of_nothing(aggregate, types):
    for type, taking_back in product(types, (False, True)):
        schema = Schema.of(f"v {type}")
        fold = compile_fold(aggregate, schema, taking_back=taking_back, mask=None)
        empty = fold.empty(2)
        assert show(fold, empty) == [shown(aggregate, schema, [])] * 2
        some = fold_rows(fold, [Row(0, 5, v) for v in POOLS[type]], schema)
        _, merged = merge_parts(fold, [([0, 0], empty), some, ([0], fold.empty(1))])
        assert bits(merged) == bits(some[1])
        assert [len(p) for p in fold.empty(0)] == [0] * len(fold.fields)
        assert len(fold.show(fold.empty(0))) == 0
