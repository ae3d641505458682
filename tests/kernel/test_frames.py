"""Frames without the query engine say what the query engine would."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.kernel.frames import changed, constant, framed, kept, no_rows, only, stacked, without

ROWS = pl.DataFrame({"n": [1, 2, 3], "text": ["a", None, "c"], "lists": [[1], None, [2, 3]]})


def test_columns_take_the_order_and_the_types_of_a_schema() -> None:
    found = framed({"b": np.array([1, 2]), "a": pl.Series(["x", "y"])}, {"a": pl.String(), "b": pl.UInt8()})
    assert found.schema == {"a": pl.String(), "b": pl.UInt8()}
    assert found.rows() == [("x", 1), ("y", 2)]


def test_columns_of_different_lengths_make_no_frame() -> None:
    with pytest.raises(pl.exceptions.ShapeError):
        framed({"a": np.array([1, 2]), "b": np.array([1])})


def test_no_columns_are_a_frame_without_columns() -> None:
    assert framed({}).width == 0
    assert only(ROWS, []).width == 0


@pytest.mark.parametrize(("value", "dtype"), [(None, pl.List(pl.Int64())), ("late", pl.String()), (True, pl.Boolean())])
def test_a_constant_has_its_type_even_where_it_is_nowhere(value: object, dtype: pl.DataType) -> None:
    assert constant(value, dtype, 0).dtype == dtype
    assert constant(value, dtype, 2).to_list() == [value, value]


def test_what_is_changed_leaves_the_frame_itself_as_it_was() -> None:
    before = ROWS.clone()
    assert changed(ROWS, {"n": np.array([7, 8, 9])})["n"].to_list() == [7, 8, 9]
    assert without(ROWS, ["n"]).columns == ["text", "lists"]
    assert stacked([ROWS, ROWS]).height == 6
    assert ROWS.equals(before)


def test_no_rows_have_columns() -> None:
    assert no_rows(ROWS.schema).equals(ROWS.clear())
    assert no_rows(ROWS.schema).schema == ROWS.schema


@given(st.lists(st.booleans(), min_size=3, max_size=3))
def test_the_rows_that_are_kept_are_those_of_a_filter(chosen: list[bool]) -> None:
    assert kept(ROWS, np.array(chosen)).equals(ROWS.filter(pl.Series(chosen)))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_stacked_frames_are_those_of_a_concat_with_numbers_in_one_piece(heights: list[int]) -> None:
    frames = [ROWS.head(height) for height in heights]
    found = stacked(frames)
    assert found.equals(pl.concat(frames))
    assert found["n"].n_chunks() == 1
