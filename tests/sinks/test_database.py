"""Rows in tables of databases: one meaning, whatever the database."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from strandline.errors import DescriptionError, SinkError
from strandline.kernel.changes import applied
from strandline.model.types import Schema
from strandline.sinks.contract import Target
from strandline.sinks.database import DatabaseSink
from tests.lanes import examples
from tests.sinks.databases import KINDS, Base, opened
from tests.sinks.delivering import CHANGES, EVERYTHING, LOG, TARGET, delivery, delivery_of, publish, tables

NAN = float("nan")


@pytest.fixture(params=KINDS)
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Base]:
    with opened(request.param, tmp_path) as base:
        yield base


@pytest.fixture
def sink(base: Base) -> DatabaseSink:
    return base.sink()


def test_rows_are_added_with_their_marker(base: Base, sink: DatabaseSink) -> None:
    publish(sink, TARGET, [("a", 1)], [("a", 2), (None, 3)])
    assert base.ask("SELECT k, n FROM totals") == [("a", 1), ("a", 2), (None, 3)]
    assert base.ask("SELECT * FROM strandline_markers") == [("f", "s", "totals", "one", 2, "digest-of-2")]


def test_a_changelog_is_added_with_op(base: Base, sink: DatabaseSink) -> None:
    publish(sink, LOG, [("a", 1, "retract"), ("a", 2, "insert")])
    assert base.ask("SELECT * FROM totals") == [("a", 1, "retract"), ("a", 2, "insert")]


def test_an_upsert_takes_the_place_of_the_row_with_its_key(base: Base, sink: DatabaseSink) -> None:
    publish(sink, CHANGES, [("a", 1, "upsert"), ("b", 2, "upsert")], [("a", 9, "upsert"), ("b", None, "delete")])
    assert base.ask("SELECT k, n, _tick FROM totals") == [("a", 9, 2)]


@pytest.mark.parametrize("value", [None, NAN, 0.0, 1.5, float("inf")])
def test_null_and_nan_are_keys(base: Base, sink: DatabaseSink, value: float | None) -> None:
    target = replace(CHANGES, schema=Schema.of("k double, j string, n bigint"), key=("k", "j"))
    everyone = [None, NAN, 0.0, 1.5, float("inf")]
    publish(
        sink, target,
        [(each, None, 1, "upsert") for each in everyone],
        [(each, None, 2, "upsert") for each in everyone],
        [(value, None, None, "delete")],
    )  # fmt: skip
    kept = [each for each in everyone if repr(each) != repr(value)]
    found = base.ask("SELECT k, n FROM totals")
    assert sorted((str(k).lower(), n) for k, n in found) == sorted((str(k).lower(), 2) for k in kept)


def test_a_key_of_all_columns_is_upserted_and_deleted(base: Base, sink: DatabaseSink) -> None:
    target = replace(CHANGES, key=("k", "n"))
    publish(sink, target, [("a", 1, "upsert")], [("a", 1, "upsert"), (None, None, "upsert")], [(None, None, "delete")])
    assert base.ask("SELECT k, n, _tick FROM totals") == [("a", 1, 2)]


KEYS = st.one_of(st.none(), st.sampled_from(["a", "b", "", "0"]))
TICKS = st.lists(st.dictionaries(KEYS, st.one_of(st.none(), st.integers(0, 9)), max_size=4), max_size=5)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(30))
@given(ticks=TICKS)
def test_the_table_is_what_the_changes_amount_to(
    kind: str, ticks: list[dict[str | None, int | None]], tmp_path_factory: Any
) -> None:
    table = pl.DataFrame(schema={"k": pl.String, "n": pl.Int64})
    changed = [[(k, n, "delete" if n is None else "upsert") for k, n in tick.items()] for tick in ticks]
    for rows in changed:
        table = applied(table, pl.DataFrame(rows, schema={**table.schema, "op": pl.String}, orient="row"), ["k"])
    with opened(kind, tmp_path_factory.mktemp("law")) as base:
        publish(base.sink(), CHANGES, *changed)
        found = base.ask("SELECT k, n FROM totals")
    assert sorted(map(repr, found)) == sorted(map(repr, table.rows()))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(20))
@given(table=tables())
def test_every_value_reads_back(kind: str, table: pl.DataFrame, tmp_path_factory: Any) -> None:
    if kind == "postgres":  # it cannot keep a NUL, and says so: test_postgres.py
        table = table.with_columns(pl.col("s").str.replace_all("\0", "0", literal=True))
    target = replace(TARGET, schema=EVERYTHING)
    with opened(kind, tmp_path_factory.mktemp("types")) as base:
        publisher = base.sink().prepare(target)
        publisher.publish(delivery_of(target, 1, table))
        publisher.close()
        assert_frame_equal(base.read("totals", EVERYTHING), table)


def test_names_are_quoted(base: Base) -> None:
    names = ('a "b"', "select", "x; drop table y --", "%", "%s%%(n)s")
    schema = Schema(tuple((name, Schema.of("x bigint")["x"]) for name in names))
    target = replace(CHANGES, schema=schema, key=names[:1])
    sink = base.sink('to"tals%s')
    publish(sink, target, [(1, 2, 3, 4, 5, "upsert")], [(1, 5, 6, 7, 8, "upsert")])
    publish(
        sink,
        target,
        [(1, None, None, None, None, "delete"), (2, 2, 2, 2, 2, "upsert"), (None, 1, 1, 1, 1, "upsert")],
        first=3,
    )
    assert base.ask('SELECT * FROM "to""tals%s" ORDER BY 2 DESC') == [(2, 2, 2, 2, 2, 3), (None, 1, 1, 1, 1, 3)]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("k TEXT", "'n' is missing"),
        ("k TEXT, n BIGINT, more TEXT", "'more' is there, but not delivered"),
        ("k TEXT, n TEXT", "'n' is {text}, not {number}"),
        ("k INTEGER, other TEXT", "'n' is missing; 'other' is there, but not delivered; 'k' is {integer}, not {text}"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_by_name(base: Base, sink: DatabaseSink, made: str, said: str) -> None:
    base.tell(f"CREATE TABLE totals ({made})")
    words = {"text": base.text, "number": base.number, "integer": base.integer}
    with pytest.raises(SinkError, match=said.format(**words)):
        sink.prepare(TARGET)


def test_a_view_is_refused(base: Base, sink: DatabaseSink) -> None:
    base.tell("CREATE VIEW totals AS SELECT 1 AS k")
    with pytest.raises(SinkError, match="is a view"):
        sink.prepare(TARGET)


def test_rows_with_one_key_are_refused_before_the_start(base: Base, sink: DatabaseSink) -> None:
    base.tell(
        "CREATE TABLE totals (k TEXT, n BIGINT, _tick BIGINT)",
        "INSERT INTO totals VALUES (NULL,1,0), (NULL,2,0)",
    )
    with pytest.raises(SinkError, match="several rows for one key"):
        sink.prepare(CHANGES)
    assert base.names() == ["totals"]


def test_another_key_is_refused(sink: DatabaseSink) -> None:
    publish(sink, CHANGES, [("a", 1, "upsert")])
    with pytest.raises(SinkError, match="made for another key"):
        sink.prepare(replace(CHANGES, key=("n",)))


def test_a_column_that_the_table_needs_is_refused(sink: DatabaseSink) -> None:
    with pytest.raises(SinkError, match="_tick"):
        sink.prepare(replace(CHANGES, schema=Schema.of("k string, _tick bigint")))


def test_two_sinks_do_not_upsert_one_table(sink: DatabaseSink) -> None:
    sink.prepare(CHANGES).close()
    with pytest.raises(SinkError, match="is upserted by the sink 's' of the flow 'f'"):
        sink.prepare(replace(CHANGES, sink="other"))
    sink.prepare(replace(CHANGES, sink="other", acknowledged=True)).close()


def test_two_sinks_may_add_to_one_table(base: Base, sink: DatabaseSink) -> None:
    publish(sink, TARGET, [("a", 1)])
    publish(sink, replace(TARGET, sink="other"), [("b", 2)])
    assert base.ask("SELECT k FROM totals") == [("a",), ("b",)]


def test_a_table_that_was_dropped_is_refused_and_nothing_is_changed(base: Base, sink: DatabaseSink) -> None:
    publish(sink, TARGET, [("a", 1)], [("a", 2)])
    base.tell("DROP TABLE totals")
    with pytest.raises(SinkError, match=r"table 'totals' of the sink 's' .* is gone; rows up to tick 2"):
        sink.prepare(TARGET)
    base.tell("CREATE TABLE totals (k TEXT, n BIGINT)", "INSERT INTO totals VALUES ('a', 1), ('a', 2)")
    publish(sink, TARGET, [("a", 3)], first=3)
    assert base.ask("SELECT n FROM totals") == [(1,), (2,), (3,)]


@pytest.mark.parametrize("target", [TARGET, CHANGES])
def test_a_table_that_was_dropped_is_made_anew_if_that_is_acknowledged(
    base: Base, sink: DatabaseSink, target: Target
) -> None:
    rows = [("a", 1, "upsert"), ("b", 2, "upsert")] if target is CHANGES else [("a", 1), ("b", 2)]
    publish(sink, target, rows[:1])
    base.tell("DROP TABLE totals")
    going_on = sink.prepare(replace(target, acknowledged=True))
    assert going_on.publish(replace(delivery(target, 2, *rows[1:]), after=1)).rows == 1
    going_on.close()
    sink.prepare(target).close()
    assert base.ask("SELECT k, n FROM totals") == [("b", 2)]


def test_each_sink_that_added_to_a_table_that_was_dropped_is_told(base: Base, sink: DatabaseSink) -> None:
    other = replace(TARGET, sink="other")
    publish(sink, TARGET, [("a", 1)])
    publish(sink, other, [("b", 1)])
    base.tell("DROP TABLE totals")
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


def test_the_key_of_a_table_stays_with_it_whatever_it_is_called(base: Base, sink: DatabaseSink) -> None:
    publish(sink, CHANGES, [("a", 1, "upsert")], [("a", 2, "upsert")])
    base.tell("ALTER TABLE totals RENAME TO renamed")
    acknowledged = replace(CHANGES, acknowledged=True)
    publish(replace(sink, table="renamed"), acknowledged, [("a", 3, "upsert")], first=3)
    publish(sink, acknowledged, [("a", 4, "upsert")], first=4)
    publish(sink, CHANGES, [("a", 5, "upsert")], first=5)
    assert base.ask("SELECT k, n FROM renamed") == [("a", 3)]
    assert base.ask("SELECT k, n FROM totals") == [("a", 5)]
    with pytest.raises(SinkError, match="'renamed' was made for another key"):
        replace(sink, table="renamed").prepare(replace(CHANGES, key=("n",)))


@pytest.mark.parametrize("target", [TARGET, CHANGES])
def test_a_new_incarnation_takes_a_new_table_without_being_asked(
    base: Base, sink: DatabaseSink, target: Target
) -> None:
    row = ("a", 1, "upsert") if target is CHANGES else ("a", 1)
    publish(sink, target, [row], first=150)
    anew = replace(target, incarnation="two")
    publish(replace(sink, table="fresh"), anew, [row])
    assert base.ask("SELECT k, n FROM fresh") == [("a", 1)]
    base.tell("DROP TABLE totals")
    publish(sink, anew, [row])
    assert base.ask("SELECT k, n FROM totals") == [("a", 1)]


def test_a_table_that_was_dropped_is_no_longer_that_of_who_upserted_it(base: Base, sink: DatabaseSink) -> None:
    publish(sink, CHANGES, [("a", 1, "upsert")])
    base.tell("DROP TABLE totals")
    publish(sink, replace(CHANGES, sink="other"), [("b", 1, "upsert")])
    with pytest.raises(SinkError, match="is upserted by the sink 'other'"):
        sink.prepare(CHANGES)


def test_markers_of_another_shape_are_refused(base: Base, sink: DatabaseSink) -> None:
    base.tell("CREATE TABLE strandline_markers (flow TEXT, sink TEXT, incarnation TEXT, tick INTEGER, digest TEXT)")
    with pytest.raises(SinkError, match=r"'strandline_markers', .* has other columns than this release knows"):
        sink.prepare(TARGET)
    assert base.names() == ["strandline_markers"]


def test_an_incarnation_that_takes_over_may_change_younger_rows(base: Base, sink: DatabaseSink) -> None:
    publish(sink, CHANGES, [("a", 1, "upsert"), ("b", 1, "upsert")], first=150)
    restored = replace(CHANGES, incarnation="two", acknowledged=True)
    publish(sink, restored, [("a", 2, "upsert"), ("b", None, "delete")], first=101)
    assert base.ask("SELECT k, n, _tick FROM totals") == [("a", 2, 101)]


def test_a_locked_database_is_waited_for_and_then_an_error(base: Base, sink: DatabaseSink) -> None:
    publisher = sink.prepare(TARGET)
    with base.locked() as let_go:
        with pytest.raises(SinkError, match="lock") as refused:
            publisher.publish(delivery(TARGET, 1, ("a", 1)))
        assert "wait=" in refused.value.fix
        let_go()
    assert publisher.publish(delivery(TARGET, 1, ("a", 1))).rows == 1
    publisher.close()


def test_a_lock_that_is_let_go_in_time_is_no_error(base: Base) -> None:
    publisher = base.sink(wait="1m").prepare(TARGET)
    with base.locked() as let_go:
        release = threading.Timer(0.05, let_go)
        release.start()
        assert publisher.publish(delivery(TARGET, 1, ("a", 1))).rows == 1
        release.join()
    publisher.close()


def test_it_publishes_from_another_thread_than_prepared_it(base: Base, sink: DatabaseSink) -> None:
    publisher = sink.prepare(TARGET)
    thread = threading.Thread(target=publisher.publish, args=[delivery(TARGET, 1, ("a", 1))])
    thread.start()
    thread.join()
    publisher.close()
    assert base.ask("SELECT n FROM totals") == [(1,)]


def test_a_delivery_that_fails_leaves_nothing(base: Base, sink: DatabaseSink) -> None:
    publisher = sink.prepare(TARGET)

    def broken() -> Any:
        yield pl.DataFrame({"k": ["a"], "n": [1]})
        raise OSError("the file is gone")

    with pytest.raises(OSError, match="gone"):
        publisher.publish(replace(delivery(TARGET, 1), tables=broken))
    assert base.ask("SELECT * FROM totals") == []
    assert publisher.publish(delivery(TARGET, 1, ("a", 1))).rows == 1
    publisher.close()


@pytest.mark.parametrize(
    "url", ["mysql://host/db", "totals.db", "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite://host/db", 3]
)
def test_a_url_that_names_no_database_is_refused_when_said(url: Any) -> None:
    with pytest.raises(DescriptionError):
        DatabaseSink(url, "totals")


@pytest.mark.parametrize("given", [{"table": ""}, {"table": 3}, {"wait": "-1s"}, {"wait": "soon"}, {"nul": "x"}])
def test_what_makes_no_sense_is_refused_when_said(given: dict[str, Any]) -> None:
    with pytest.raises(DescriptionError):
        DatabaseSink(**{"url": "sqlite:///x.db", "table": "t", **given})
