"""A tick's panes as changes of a table: at most one for each key, and no ghost rows."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strandline as sl
from strandline.errors import DataError
from strandline.kernel.changes import applied, changes, standing
from strandline.kernel.plan import plan_stage
from strandline.kernel.stage import StageKernel
from strandline.model.ticks import Edge
from strandline.model.time import Instant

NAN = float("nan")


def panes(*rows: tuple[Any, int, str], key: pl.DataType | None = None) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema={"k": key or pl.String(), "n": pl.Int64(), "op": pl.String()}, orient="row")


def test_an_insert_is_an_upsert() -> None:
    assert changes(panes(("a", 1, "insert")), None, ["k"]).rows() == [("a", 1, "upsert")]


def test_a_retraction_and_its_insert_are_one_upsert() -> None:
    assert changes(panes(("a", 1, "retract"), ("a", 2, "insert")), None, ["k"]).rows() == [("a", 2, "upsert")]


def test_a_key_that_was_only_retracted_is_deleted() -> None:
    assert changes(panes(("a", 1, "retract")), None, ["k"]).rows() == [("a", None, "delete")]


def test_an_insert_that_is_withdrawn_in_the_same_tick_leaves_nothing() -> None:
    assert changes(panes(("a", 1, "insert"), ("a", 1, "retract")), None, ["k"]).rows() == [("a", None, "delete")]


def test_the_last_of_several_inserts_wins() -> None:
    assert changes(panes(("a", 1, "insert"), ("a", 2, "insert")), None, ["k"]).rows() == [("a", 2, "upsert")]


def test_rows_without_op_are_upserts_and_the_last_wins() -> None:
    rows = panes(("a", 1, ""), ("b", 2, ""), ("a", 3, "")).drop("op")
    assert changes(rows, None, ["k"]).rows() == [("b", 2, "upsert"), ("a", 3, "upsert")]


def test_another_window_of_the_key_survives_the_retraction_of_one() -> None:
    rows = pl.DataFrame({"k": ["a", "a"], "w": [1, 2], "op": ["insert", "retract"]})
    assert changes(rows, None, ["k"]).rows() == [("a", 1, "upsert")]
    assert changes(rows, None, ["k", "w"]).rows() == [("a", 1, "upsert"), ("a", 2, "delete")]


def test_null_and_nan_are_keys_and_zeros_are_one() -> None:
    rows = panes((NAN, 1, "insert"), (None, 2, "insert"), (NAN, 3, "insert"), (0.0, 4, "insert"), (-0.0, 5, "insert"),
                 (None, 2, "retract"), key=pl.Float64())  # fmt: skip
    found = {repr(k): (n, op) for k, n, op in changes(rows, None, ["k"]).rows()}
    assert found == {"nan": (3, "upsert"), "-0.0": (5, "upsert"), "None": (None, "delete")}


def test_a_window_that_a_merge_replaced_is_deleted() -> None:
    rows = pl.DataFrame({"k": ["a"], "w": [9], "op": ["insert"]})
    gone = pl.DataFrame({"k": ["a", None, "a"], "w": [1, 2, 1]})
    assert changes(rows, gone, ["k", "w"]).rows() == [("a", 9, "upsert"), (None, 2, "delete"), ("a", 1, "delete")]


def test_a_window_that_was_shown_and_replaced_in_one_tick_is_deleted() -> None:
    rows = pl.DataFrame({"k": ["a", "a"], "w": [1, 9], "op": ["insert", "insert"]})
    gone = pl.DataFrame({"k": ["a"], "w": [1]})
    assert changes(rows, gone, ["k", "w"]).rows() == [("a", 9, "upsert"), ("a", 1, "delete")]


def test_a_key_coarser_than_the_window_keeps_the_merged_one() -> None:
    rows = pl.DataFrame({"k": ["a"], "w": [9], "op": ["insert"]})
    assert changes(rows, pl.DataFrame({"k": ["a"], "w": [1]}), ["k"]).rows() == [("a", 9, "upsert")]


def test_replaced_windows_alone_are_deletes() -> None:
    rows = pl.DataFrame(schema={"k": pl.String, "n": pl.Int64, "op": pl.String})
    assert changes(rows, pl.DataFrame({"k": ["b", "a"]}), ["k"]).rows() == [
        ("a", None, "delete"),
        ("b", None, "delete"),
    ]


def test_nested_values_travel_along() -> None:
    rows = pl.DataFrame({"k": ["a", "a"], "x": [[1], [2]], "s": [{"f": NAN}, {"f": None}], "op": ["retract", "insert"]})
    assert changes(rows, None, ["k"]).rows() == [("a", [2], {"f": None}, "upsert")]
    assert standing(rows).rows() == [("a", [2], {"f": None}, "insert")]


@pytest.mark.parametrize("key", [[], ["op"], ["nobody"]])
def test_a_key_that_is_none_is_refused(key: list[str]) -> None:
    with pytest.raises(DataError):
        changes(panes(("a", 1, "insert")), None, key)


def test_a_key_that_replaced_windows_do_not_have_is_refused_by_name() -> None:
    with pytest.raises(DataError, match="'n', which the windows that a merge replaced"):
        changes(panes(("a", 1, "insert")), pl.DataFrame({"k": ["a"]}), ["k", "n"])


KEYS = st.one_of(st.none(), st.sampled_from([0.0, 1.0, NAN]))
TICKS = st.lists(st.lists(st.tuples(KEYS, st.one_of(st.none(), st.integers(0, 3))), max_size=8), max_size=6)


@pytest.mark.slow
@given(TICKS)
def test_applying_the_changes_of_each_tick_leaves_what_is_shown(
    ticks: list[list[tuple[float | None, int | None]]],
) -> None:
    """A retracting stage, played by hand: (key, value) shows a value in place of the one before; None empties it."""
    schema = {"k": pl.Float64(), "n": pl.Int64()}
    table, shown = pl.DataFrame(schema=schema), dict[str, tuple[float | None, int]]()
    for tick in ticks:
        rows: list[tuple[Any, int, str]] = []
        for key, value in tick:
            if repr(key) in shown:
                rows.append((*shown.pop(repr(key)), "retract"))
            if value is not None:
                shown[repr(key)] = (key, value)
                rows.append((key, value, "insert"))
        changed = changes(panes(*rows, key=pl.Float64()), None, ["k"])
        assert changed.height == len({repr(k) for k, _, _ in changed.rows()})
        table = applied(table, changed, ["k"])
    assert sorted(map(repr, table.rows())) == sorted(map(repr, shown.values()))


@pytest.mark.parametrize("mode", ["accumulating", "retracting"])
def test_sessions_that_merge_leave_no_ghost_row(mode: Any) -> None:
    source = sl.Flow("f").source("events", sl.Rows(schema="user string, at timestamp"), time="at")
    trigger = sl.AfterWatermark(early=sl.AfterCount(1))
    stage = source.key_by("user").window(sl.Session("10s"), trigger=trigger, mode=mode).aggregate("s", n=sl.Count())
    kernel = StageKernel(plan_stage(stage.node))
    key = ["user", "window_start", "window_end"]
    quiet = Edge(before=Instant.BEFORE_ALL_TIME, after=Instant.BEFORE_ALL_TIME)
    table: pl.DataFrame | None = None
    for second in (0, 15, 8):  # the third event joins the first two
        rows = pl.DataFrame({"user": [None], "at": [second * 1_000_000]}, schema={"user": pl.String, "at": pl.Int64})
        rows = rows.with_columns(
            pl.col("at").cast(pl.Datetime("us", "UTC")), __time=pl.col("at"), __weight=pl.lit(1, pl.Int64)
        )
        outcome = kernel.tick(rows, quiet, Instant(0))
        changed = changes(outcome.panes, outcome.replaced, key)
        table = applied(outcome.panes.drop("op").clear() if table is None else table, changed, key)
    assert table is not None
    assert table["n"].to_list() == [3]
