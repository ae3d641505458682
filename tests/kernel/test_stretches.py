"""Stretches of rows that overlap show what their rows come to, written out or put together."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strandline as sl
from strandline.kernel.folds import compile_fold
from strandline.kernel.groups import Groups
from strandline.kernel.operators import stretches as module
from strandline.kernel.operators.stretches import Stretches, show_stretches
from strandline.model.types import Schema
from tests.lanes import examples

SCHEMA = Schema.of("x double, n bigint, d decimal(10,2), word string")
AGGREGATES: list[Any] = [
    sl.Count(), sl.Count(where="keep"), sl.Sum("x"), sl.Mean("x"), sl.Sum("x", exact=True), sl.Sum("n"), sl.Mean("d"), sl.Min("x"),
    sl.Max("word"), sl.First("word"), sl.Last("n"), sl.StdDev("x"), sl.Variance("d"), sl.Quantile("x", 0.5),
    sl.Ewma("x", half_life="3s"), sl.Distinct("word"), sl.ApproxDistinct("x"), sl.Collect("n"), sl.TopK("word", 2),
    sl.TopK("word", 2, by="n"),
]  # fmt: skip
# Values whose highest bits lie in different cells of the grid, so that sums sink under one another; and specials.
floats = st.sampled_from([0.0, -0.0, 0.1, -1.5, 3e10, -7e25, 2.0**-90, float("inf"), float("nan"), None])
rows = st.tuples(floats, st.sampled_from([1, 2, -3, None]), st.sampled_from(["a", "b", "ä", None]), st.booleans())


@pytest.mark.slow
@pytest.mark.parametrize("aggregate", AGGREGATES, ids=repr)
@settings(max_examples=examples(10))
@given(data=st.data(), at_once=st.sampled_from((3, 40, module.AT_ONCE)))
def test_what_is_put_together_is_what_is_written_out(aggregate: Any, data: st.DataObject, at_once: int) -> None:
    drawn = data.draw(st.lists(rows, min_size=1, max_size=25))
    table = pl.DataFrame(
        {
            "x": [r[0] for r in drawn],
            "n": [r[1] for r in drawn],
            "word": [r[2] for r in drawn],
            "keep": [r[3] for r in drawn],
        },
        schema={"x": pl.Float64, "n": pl.Int64, "word": pl.String, "keep": pl.Boolean},
    ).with_columns(d=pl.col("n").cast(pl.Decimal(10, 2)))
    times = np.sort(
        np.array(data.draw(st.lists(st.integers(0, 9), min_size=len(drawn), max_size=len(drawn)))) * 1_000_000
    )
    edges = st.tuples(st.integers(0, 6), st.integers(0, len(drawn)), st.integers(0, len(drawn)))
    some = sorted(data.draw(st.lists(edges, max_size=12)))
    owner, low, high = (np.array([each[at] for each in some], np.int64) for at in range(3))
    stretches = Stretches(owner, np.minimum(low, high), np.abs(high - low), 7)
    mask = None if aggregate.where is None else "keep"
    fold = compile_fold(aggregate, SCHEMA, taking_back=False, mask=mask)
    expected = [_row_by_row(fold, table, times, stretches, each) for each in range(7)]
    for wanted in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "AT_ONCE", at_once)
            patch.setattr(module, "_is_worth_a_tower", lambda *given, wanted=wanted: wanted)
            assert repr(show_stretches(fold, table, times, stretches).to_list()) == repr(expected)


def _row_by_row(fold: Any, table: pl.DataFrame, times: Any, stretches: Stretches, owner: int) -> Any:
    mine = np.flatnonzero(stretches.owner == owner)
    spans = [np.arange(stretches.first[i], stretches.first[i] + stretches.counts[i]) for i in mine]
    which = np.concatenate([np.zeros(0, np.int64), *spans])
    if not len(which):
        return fold.show(fold.empty(1)).to_list()[0]
    return fold.show(fold.fold(table[which], times[which], None, Groups.of_lengths([len(which)]))).to_list()[0]
