"""Rows in tables of SQLite."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_series_equal

from strandline.errors import DescriptionError, SinkError
from strandline.kernel.changes import applied
from strandline.kernel.schema import polars_type
from strandline.model.types import Schema, Type
from strandline.sinks.contract import Target
from strandline.sinks.database import DatabaseSink
from strandline.sinks.plain import column_of, plain_column, plain_type
from tests.lanes import examples
from tests.sinks.delivering import CHANGES, EVERYTHING, LOG, TARGET, delivery, delivery_of, tables

NAN = float("nan")


@pytest.fixture
def sink(tmp_path: Path) -> DatabaseSink:
    return DatabaseSink(f"sqlite:///{tmp_path}/out.db", "totals", wait="0s")


def ask(sink: DatabaseSink, question: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(sink.url.removeprefix("sqlite:///"))) as connection:
        return connection.execute(question).fetchall()


def tell(sink: DatabaseSink, *statements: str) -> None:
    with closing(sqlite3.connect(sink.url.removeprefix("sqlite:///"))) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def publish(sink: DatabaseSink, target: Target, *ticks: list[tuple[Any, ...]], first: int = 1) -> None:
    publisher = sink.prepare(target)
    try:
        for number, rows in enumerate(ticks, first):
            publisher.publish(delivery(target, number, *rows))
    finally:
        publisher.close()


def test_rows_are_added_with_their_marker(sink: DatabaseSink) -> None:
    publish(sink, TARGET, [("a", 1)], [("a", 2), (None, 3)])
    assert ask(sink, "SELECT k, n FROM totals") == [("a", 1), ("a", 2), (None, 3)]
    assert ask(sink, "SELECT * FROM strandline_markers") == [("f", "s", "totals", "one", 2, "digest-of-2")]


def test_a_changelog_is_added_with_op(sink: DatabaseSink) -> None:
    publish(sink, LOG, [("a", 1, "retract"), ("a", 2, "insert")])
    assert ask(sink, "SELECT * FROM totals") == [("a", 1, "retract"), ("a", 2, "insert")]


def test_an_upsert_takes_the_place_of_the_row_with_its_key(sink: DatabaseSink) -> None:
    publish(sink, CHANGES, [("a", 1, "upsert"), ("b", 2, "upsert")], [("a", 9, "upsert"), ("b", None, "delete")])
    assert ask(sink, "SELECT k, n, _tick FROM totals") == [("a", 9, 2)]


@pytest.mark.parametrize("value", [None, NAN, 0.0, 1.5, float("inf")])
def test_null_and_nan_are_keys(sink: DatabaseSink, value: float | None) -> None:
    target = replace(CHANGES, schema=Schema.of("k double, j string, n bigint"), key=("k", "j"))
    everyone = [None, NAN, 0.0, 1.5, float("inf")]
    publish(
        sink, target,
        [(each, None, 1, "upsert") for each in everyone],
        [(each, None, 2, "upsert") for each in everyone],
        [(value, None, None, "delete")],
    )  # fmt: skip
    kept = [each for each in everyone if repr(each) != repr(value)]
    found = ask(sink, "SELECT k, n FROM totals ORDER BY rowid")
    assert [(str(k).lower(), n) for k, n in found] == [(str(k).lower(), 2) for k in kept]


def test_a_key_of_all_columns_is_upserted_and_deleted(sink: DatabaseSink) -> None:
    target = replace(CHANGES, key=("k", "n"))
    publish(sink, target, [("a", 1, "upsert")], [("a", 1, "upsert"), (None, None, "upsert")], [(None, None, "delete")])
    assert ask(sink, "SELECT k, n, _tick FROM totals") == [("a", 1, 2)]


KEYS = st.one_of(st.none(), st.sampled_from(["a", "b", "", "0"]))
TICKS = st.lists(st.dictionaries(KEYS, st.one_of(st.none(), st.integers(0, 9)), max_size=4), max_size=5)


@settings(max_examples=examples(30))
@given(ticks=TICKS)
def test_the_table_is_what_the_changes_amount_to(
    ticks: list[dict[str | None, int | None]], tmp_path_factory: Any
) -> None:
    sink = DatabaseSink(f"sqlite:///{tmp_path_factory.mktemp('law')}/out.db", "totals")
    table = pl.DataFrame(schema={"k": pl.String, "n": pl.Int64})
    changed = [[(k, n, "delete" if n is None else "upsert") for k, n in tick.items()] for tick in ticks]
    publish(sink, CHANGES, *changed)
    for rows in changed:
        table = applied(table, pl.DataFrame(rows, schema={**table.schema, "op": pl.String}, orient="row"), ["k"])
    assert sorted(map(repr, ask(sink, "SELECT k, n FROM totals"))) == sorted(map(repr, table.rows()))


@settings(max_examples=examples(20))
@given(table=tables())
def test_every_value_reads_back(table: pl.DataFrame, tmp_path_factory: Any) -> None:
    sink = DatabaseSink(f"sqlite:///{tmp_path_factory.mktemp('types')}/out.db", "totals")
    target = replace(TARGET, schema=EVERYTHING)
    publisher = sink.prepare(target)
    publisher.publish(delivery_of(target, 1, table))
    publisher.close()
    found = ask(sink, "SELECT * FROM totals")
    for at, (name, kind) in enumerate(EVERYTHING.columns):
        values = [row[at] for row in found]
        assert_series_equal(_read(values, kind), table[name], check_names=False)


def _read(values: list[Any], kind: Type) -> pl.Series:
    if kind.is_float:
        return pl.Series([None if v is None else float(v) for v in values], dtype=polars_type(kind))
    if kind.name == "boolean":
        return pl.Series([None if v is None else bool(v) for v in values], dtype=pl.Boolean)
    if kind.name == "interval day to second":
        return pl.Series(values, dtype=pl.Int64).cast(pl.Duration("us"))
    if kind.name == "binary":
        return pl.Series(values, dtype=pl.Binary)
    return column_of(pl.Series(values, dtype=plain_type(kind)), kind)


def test_timestamps_sort_as_text(sink: DatabaseSink) -> None:
    target = replace(TARGET, schema=Schema.of("t timestamp"))
    moments = pl.DataFrame({"t": [1, 0, 1_000_000, -1, 10**15]}).cast({"t": pl.Datetime("us", "UTC")})
    publisher = sink.prepare(target)
    publisher.publish(delivery_of(target, 1, moments))
    publisher.close()
    in_order = [row[0] for row in ask(sink, "SELECT t FROM totals ORDER BY t")]
    assert in_order[:2] == ["1969-12-31T23:59:59.999999Z", "1970-01-01T00:00:00.000000Z"]
    assert in_order == plain_column(moments["t"].sort(), target.schema["t"]).to_list()


def test_names_are_quoted(tmp_path: Path) -> None:
    names = ('a "b"', "select", "x; drop table y --")
    schema = Schema(tuple((name, Schema.of("x bigint")["x"]) for name in names))
    target = replace(CHANGES, schema=schema, key=names[:1])
    sink = DatabaseSink(f"sqlite:///{tmp_path}/out.db", 'to"tals')
    publish(sink, target, [(1, 2, 3, "upsert")], [(1, 5, 6, "upsert")])
    publish(sink, target, [(1, None, None, "delete"), (2, 2, 2, "upsert")], first=3)
    assert ask(sink, 'SELECT * FROM "to""tals"') == [(2, 2, 2, 3)]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("k TEXT", "'n' is missing"),
        ("k TEXT, n INTEGER, more TEXT", "'more' is there, but not delivered"),
        ("k TEXT, n TEXT", "'n' is TEXT, not INTEGER"),
        ("k INTEGER, other TEXT", "'n' is missing; 'other' is there, but not delivered; 'k' is INTEGER, not TEXT"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_by_name(sink: DatabaseSink, made: str, said: str) -> None:
    tell(sink, f"CREATE TABLE totals ({made})")
    with pytest.raises(SinkError, match=said):
        sink.prepare(TARGET)


def test_a_table_that_fits_is_taken(sink: DatabaseSink) -> None:
    tell(sink, "CREATE TABLE Totals (N bigint, K varchar(20))")
    publish(sink, TARGET, [("a", 1)])
    assert ask(sink, "SELECT k, n FROM totals") == [("a", 1)]


def test_a_view_is_refused(sink: DatabaseSink) -> None:
    tell(sink, "CREATE VIEW totals AS SELECT 1 AS k")
    with pytest.raises(SinkError, match="is a view"):
        sink.prepare(TARGET)


def test_rows_with_one_key_are_refused_before_the_start(sink: DatabaseSink) -> None:
    tell(
        sink,
        "CREATE TABLE totals (k TEXT, n INTEGER, _tick INTEGER)",
        "INSERT INTO totals VALUES (NULL,1,0), (NULL,2,0)",
    )
    with pytest.raises(SinkError, match="several rows for one key"):
        sink.prepare(CHANGES)
    assert ask(sink, "SELECT name FROM sqlite_master") == [("totals",)]


def test_another_key_is_refused(sink: DatabaseSink) -> None:
    publish(sink, CHANGES, [("a", 1, "upsert")])
    with pytest.raises(SinkError, match="made for another key"):
        sink.prepare(replace(CHANGES, key=("n",)))


def test_columns_that_are_one_to_sqlite_are_refused(sink: DatabaseSink) -> None:
    with pytest.raises(SinkError, match="'k' and 'K'"):
        sink.prepare(replace(TARGET, schema=Schema.of("k string, K string")))


def test_a_column_that_the_table_needs_is_refused(sink: DatabaseSink) -> None:
    with pytest.raises(SinkError, match="_tick"):
        sink.prepare(replace(CHANGES, schema=Schema.of("k string, _tick bigint")))


def test_two_sinks_do_not_upsert_one_table(sink: DatabaseSink) -> None:
    sink.prepare(CHANGES).close()
    with pytest.raises(SinkError, match="is upserted by the sink 's' of the flow 'f'"):
        sink.prepare(replace(CHANGES, sink="other"))
    sink.prepare(replace(CHANGES, sink="other", acknowledged=True)).close()


def test_two_sinks_may_add_to_one_table(sink: DatabaseSink) -> None:
    publish(sink, TARGET, [("a", 1)])
    publish(sink, replace(TARGET, sink="other"), [("b", 2)])
    assert ask(sink, "SELECT k FROM totals") == [("a",), ("b",)]


def test_a_table_that_was_dropped_is_refused_and_nothing_is_changed(sink: DatabaseSink) -> None:
    publish(sink, TARGET, [("a", 1)], [("a", 2)])
    tell(sink, "DROP TABLE totals")
    with pytest.raises(SinkError, match=r"table 'totals' of the sink 's' .* is gone; rows up to tick 2"):
        sink.prepare(TARGET)
    tell(sink, "CREATE TABLE totals (k TEXT, n INTEGER)", "INSERT INTO totals VALUES ('a', 1), ('a', 2)")
    publish(sink, TARGET, [("a", 3)], first=3)
    assert ask(sink, "SELECT n FROM totals") == [(1,), (2,), (3,)]


@pytest.mark.parametrize("target", [TARGET, CHANGES])
def test_a_table_that_was_dropped_is_made_anew_if_that_is_acknowledged(sink: DatabaseSink, target: Target) -> None:
    rows = [("a", 1, "upsert"), ("b", 2, "upsert")] if target is CHANGES else [("a", 1), ("b", 2)]
    publish(sink, target, rows[:1])
    tell(sink, "DROP TABLE totals")
    going_on = sink.prepare(replace(target, acknowledged=True))
    assert going_on.publish(replace(delivery(target, 2, *rows[1:]), after=1)).rows == 1
    going_on.close()
    sink.prepare(target).close()
    assert ask(sink, "SELECT k, n FROM totals") == [("b", 2)]


def test_each_sink_that_added_to_a_table_that_was_dropped_is_told(sink: DatabaseSink) -> None:
    other = replace(TARGET, sink="other")
    publish(sink, TARGET, [("a", 1)])
    publish(sink, other, [("b", 1)])
    tell(sink, "DROP TABLE totals")
    publish(sink, replace(TARGET, acknowledged=True), [("a", 2)], first=2)
    publisher = sink.prepare(other)
    with pytest.raises(SinkError, match="shows no delivery, but tick 1 was published"):
        publisher.publish(replace(delivery(other, 2, ("b", 2)), after=1))
    publisher.close()


def test_another_table_is_another_target(sink: DatabaseSink) -> None:
    publish(sink, TARGET, [("a", 1)])
    elsewhere = replace(sink, table="elsewhere")
    second = replace(delivery(TARGET, 2, ("a", 2)), after=1)
    refusing = elsewhere.prepare(TARGET)
    with pytest.raises(SinkError, match="shows no delivery, but tick 1 was published"):
        refusing.publish(second)
    refusing.close()
    going_on = elsewhere.prepare(replace(TARGET, acknowledged=True))
    assert going_on.publish(second).rows == 1
    going_on.close()
    back = sink.prepare(TARGET)
    with pytest.raises(SinkError, match="is at tick 1, but tick 2 was published"):
        back.publish(replace(delivery(TARGET, 3, ("a", 3)), after=2))
    back.close()


def test_a_name_in_capitals_is_the_same_table(sink: DatabaseSink) -> None:
    publish(sink, TARGET, [("a", 1)])
    capitals = replace(sink, table="TOTALS").prepare(TARGET)
    assert capitals.publish(delivery(TARGET, 1, ("a", 1))).skipped
    capitals.close()


def test_the_key_of_a_table_stays_with_it_whatever_it_is_called(sink: DatabaseSink) -> None:
    publish(sink, CHANGES, [("a", 1, "upsert")])
    publish(replace(sink, table="TOTALS"), CHANGES, [("a", 2, "upsert")], first=2)
    tell(sink, "ALTER TABLE totals RENAME TO renamed")
    acknowledged = replace(CHANGES, acknowledged=True)
    publish(replace(sink, table="renamed"), acknowledged, [("a", 3, "upsert")], first=3)
    publish(sink, acknowledged, [("a", 4, "upsert")], first=4)
    publish(sink, CHANGES, [("a", 5, "upsert")], first=5)
    assert ask(sink, "SELECT k, n FROM renamed") == [("a", 3)]
    assert ask(sink, "SELECT k, n FROM totals") == [("a", 5)]
    with pytest.raises(SinkError, match="'renamed' was made for another key"):
        replace(sink, table="renamed").prepare(replace(CHANGES, key=("n",)))


@pytest.mark.parametrize("target", [TARGET, CHANGES])
def test_a_new_incarnation_takes_a_new_table_without_being_asked(sink: DatabaseSink, target: Target) -> None:
    row = ("a", 1, "upsert") if target is CHANGES else ("a", 1)
    publish(sink, target, [row], first=150)
    anew = replace(target, incarnation="two")
    publish(replace(sink, table="fresh"), anew, [row])
    assert ask(sink, "SELECT k, n FROM fresh") == [("a", 1)]
    tell(sink, "DROP TABLE totals")
    publish(sink, anew, [row])
    assert ask(sink, "SELECT k, n FROM totals") == [("a", 1)]


def test_a_table_that_was_dropped_is_no_longer_that_of_who_upserted_it(sink: DatabaseSink) -> None:
    publish(sink, CHANGES, [("a", 1, "upsert")])
    tell(sink, "DROP TABLE totals")
    publish(sink, replace(CHANGES, sink="other"), [("b", 1, "upsert")])
    with pytest.raises(SinkError, match="is upserted by the sink 'other'"):
        sink.prepare(CHANGES)


def test_markers_of_another_shape_are_refused(sink: DatabaseSink) -> None:
    tell(sink, "CREATE TABLE strandline_markers (flow TEXT, sink TEXT, incarnation TEXT, tick INTEGER, digest TEXT)")
    with pytest.raises(SinkError, match=r"'strandline_markers', .* has other columns than this release knows"):
        sink.prepare(TARGET)
    assert ask(sink, "SELECT name FROM sqlite_master") == [("strandline_markers",)]


def test_an_incarnation_that_takes_over_may_change_younger_rows(sink: DatabaseSink) -> None:
    publish(sink, CHANGES, [("a", 1, "upsert"), ("b", 1, "upsert")], first=150)
    restored = replace(CHANGES, incarnation="two", acknowledged=True)
    publish(sink, restored, [("a", 2, "upsert"), ("b", None, "delete")], first=101)
    assert ask(sink, "SELECT k, n, _tick FROM totals") == [("a", 2, 101)]


def test_a_locked_database_is_waited_for_and_then_an_error(sink: DatabaseSink) -> None:
    publisher = sink.prepare(TARGET)
    path = sink.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(SinkError, match="locked") as refused:
            publisher.publish(delivery(TARGET, 1, ("a", 1)))
        assert "wait=" in refused.value.fix
        other.execute("ROLLBACK")
    assert publisher.publish(delivery(TARGET, 1, ("a", 1))).rows == 1
    publisher.close()


def test_a_lock_that_is_let_go_in_time_is_no_error(tmp_path: Path) -> None:
    sink = DatabaseSink(f"sqlite:///{tmp_path}/out.db", "totals", wait="1m")
    publisher = sink.prepare(TARGET)
    other = sqlite3.connect(tmp_path / "out.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.05, other.execute, ["ROLLBACK"])
    release.start()
    assert publisher.publish(delivery(TARGET, 1, ("a", 1))).rows == 1
    release.join()
    other.close()
    publisher.close()


def test_it_publishes_from_another_thread_than_prepared_it(sink: DatabaseSink) -> None:
    publisher = sink.prepare(TARGET)
    thread = threading.Thread(target=publisher.publish, args=[delivery(TARGET, 1, ("a", 1))])
    thread.start()
    thread.join()
    publisher.close()
    assert ask(sink, "SELECT n FROM totals") == [(1,)]


def test_a_delivery_that_fails_leaves_nothing(sink: DatabaseSink) -> None:
    publisher = sink.prepare(TARGET)

    def broken() -> Any:
        yield pl.DataFrame({"k": ["a"], "n": [1]})
        raise OSError("the file is gone")

    with pytest.raises(OSError, match="gone"):
        publisher.publish(replace(delivery(TARGET, 1), tables=broken))
    assert ask(sink, "SELECT * FROM totals") == []
    assert publisher.publish(delivery(TARGET, 1, ("a", 1))).rows == 1
    publisher.close()


@pytest.mark.parametrize(
    "url", ["postgres://host/db", "totals.db", "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite://host/db", 3]
)
def test_a_url_that_names_no_database_is_refused_when_said(url: Any) -> None:
    with pytest.raises(DescriptionError):
        DatabaseSink(url, "totals")


@pytest.mark.parametrize("given", [{"table": ""}, {"table": 3}, {"wait": "-1s"}, {"wait": "soon"}])
def test_what_makes_no_sense_is_refused_when_said(given: dict[str, Any]) -> None:
    with pytest.raises(DescriptionError):
        DatabaseSink(**{"url": "sqlite:///x.db", "table": "t", **given})


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="is not there"):
        DatabaseSink(f"sqlite:///{tmp_path}/nowhere/out.db", "totals").prepare(TARGET)


def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    (tmp_path / "out.db").write_text("no database, but long enough to be looked at " * 10)
    with pytest.raises(SinkError, match="could not be opened: file is not a database"):
        DatabaseSink(f"sqlite:///{tmp_path}/out.db", "totals").prepare(TARGET)
