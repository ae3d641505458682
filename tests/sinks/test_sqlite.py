"""What is special about tables of SQLite; test_database.py judges the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from strandline.errors import SinkError
from strandline.model.types import Schema
from strandline.sinks.database import DatabaseSink
from strandline.sinks.plain import plain_column
from tests.sinks.databases import SqliteBase
from tests.sinks.delivering import TARGET, delivery, delivery_of, publish


@pytest.fixture
def sqlite(tmp_path: Path) -> SqliteBase:
    return SqliteBase(tmp_path)


def test_timestamps_sort_as_text(sqlite: SqliteBase) -> None:
    target = replace(TARGET, schema=Schema.of("t timestamp"))
    moments = pl.DataFrame({"t": [1, 0, 1_000_000, -1, 10**15]}).cast({"t": pl.Datetime("us", "UTC")})
    publisher = sqlite.sink().prepare(target)
    publisher.publish(delivery_of(target, 1, moments))
    publisher.close()
    in_order = [row[0] for row in sqlite.ask("SELECT t FROM totals ORDER BY t")]
    assert in_order[:2] == ["1969-12-31T23:59:59.999999Z", "1970-01-01T00:00:00.000000Z"]
    assert in_order == plain_column(moments["t"].sort(), target.schema["t"]).to_list()


def test_a_table_that_fits_is_taken(sqlite: SqliteBase) -> None:
    sqlite.tell("CREATE TABLE Totals (N bigint, K varchar(20))")
    publish(sqlite.sink(), TARGET, [("a", 1)])
    assert sqlite.ask("SELECT k, n FROM totals") == [("a", 1)]


def test_columns_that_are_one_to_sqlite_are_refused(sqlite: SqliteBase) -> None:
    with pytest.raises(SinkError, match="'k' and 'K'"):
        sqlite.sink().prepare(replace(TARGET, schema=Schema.of("k string, K string")))


def test_a_name_in_capitals_is_the_same_table(sqlite: SqliteBase) -> None:
    publish(sqlite.sink(), TARGET, [("a", 1)])
    capitals = replace(sqlite.sink(), table="TOTALS").prepare(TARGET)
    assert capitals.publish(delivery(TARGET, 1, ("a", 1))).skipped
    capitals.close()


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="is not there"):
        DatabaseSink(f"sqlite:///{tmp_path}/nowhere/out.db", "totals").prepare(TARGET)


def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    (tmp_path / "out.db").write_text("no database, but long enough to be looked at " * 10)
    with pytest.raises(SinkError, match="could not be opened: file is not a database"):
        DatabaseSink(f"sqlite:///{tmp_path}/out.db", "totals").prepare(TARGET)
