"""A connector reads and writes one place."""

from __future__ import annotations

from pathlib import Path

import pytest

import strandline as sl


def test_files_are_read_and_written_at_one_place(tmp_path: Path) -> None:
    files = sl.Files(tmp_path)
    assert files.read(format="csv", schema="user string", separator=";").separator == ";"
    assert files.write(format="json", layout="log").path == str(tmp_path)


def test_a_table_of_a_database_is_written() -> None:
    assert sl.Database("sqlite:///out.db").write("revenue", wait="5s").wait == sl.Span.of("5s")


@pytest.mark.parametrize(
    "make", [lambda: sl.Files(""), lambda: sl.Files(3), lambda: sl.Database("out.db"), lambda: sl.Database("mysql://x/y")]
)  # fmt: skip
def test_a_place_that_cannot_be_is_refused_where_it_is_named(make: object) -> None:
    assert callable(make)
    with pytest.raises(sl.DescriptionError):
        make()


def test_the_home_of_the_user_may_be_written_as_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    files = sl.Files("~/orders")
    assert files.read(format="json", schema="n int").path == files.write().path == str(tmp_path / "orders")
