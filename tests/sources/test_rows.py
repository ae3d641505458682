from __future__ import annotations

import pytest

from strandline import DescriptionError, Rows


def test_an_unknown_column_gets_the_nearest_name() -> None:
    with pytest.raises(DescriptionError, match="Row 2 has a column 'amuont'") as caught:
        Rows([{"amount": 1}, {"amuont": 2}], schema="amount int")
    assert "Did you mean 'amount'?" in caught.value.fix


def test_a_row_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(DescriptionError, match="no mapping"):
        Rows([["ann"]], schema="user string")  # type: ignore[list-item]


def test_rows_are_equal_when_what_they_hold_is() -> None:
    assert Rows([{"n": 1}], schema="n int") == Rows([{"n": 1}], schema="n integer")
