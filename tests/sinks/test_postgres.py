"""What is special about tables of PostgreSQL; test_database.py judges what all have in common."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from polars.testing import assert_frame_equal

from strandline.clients import postgres as client
from strandline.errors import SinkError
from strandline.kernel.schema import polars_schema
from strandline.model.secrets import Secret
from strandline.model.types import Schema, Type
from strandline.sinks.contract import Telling
from strandline.sinks.database import DatabaseSink
from strandline.sinks.postgres_copy import own_format
from tests.lanes import examples
from tests.sinks.cluster import Cluster, own_cluster
from tests.sinks.databases import PostgresBase, opened
from tests.sinks.delivering import CHANGES, EVERYTHING, TARGET, delivery, delivery_of, publish, tables

CANARY = "hunter2-canary"


pytestmark = pytest.mark.slow  # a server of PostgreSQL


@pytest.fixture
def base(tmp_path: Path) -> Iterator[PostgresBase]:
    with opened("postgres", tmp_path) as base:
        assert isinstance(base, PostgresBase)
        yield base


def kinds(base: PostgresBase, table: str = "totals") -> dict[str, str]:
    found = base.ask(
        f"SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = '{table}'::regclass "
        "AND attnum > 0 ORDER BY attnum"
    )
    return dict(found)


def test_each_type_has_one_of_its_own(base: PostgresBase) -> None:
    base.sink().prepare(replace(TARGET, schema=EVERYTHING)).close()
    assert kinds(base) == {
        "z": "boolean", "i8": "smallint", "i16": "smallint", "i32": "integer", "i64": "bigint", "f32": "real",
        "f64": "double precision", "x": "numeric(38,3)", "s": "text", "b": "bytea", "d": "date",
        "t": "timestamp with time zone", "tn": "timestamp without time zone", "iv": "interval", "l": "jsonb",
        "st": "jsonb",
    }  # fmt: skip
    base.sink().prepare(replace(TARGET, schema=EVERYTHING)).close()


def test_values_mean_to_postgres_what_they_meant_before(base: PostgresBase) -> None:
    schema = Schema.of("t timestamp, iv interval, f double, x decimal(5,2), l array<string>, b binary")
    target = replace(TARGET, schema=schema)
    rows = pl.DataFrame(
        {"t": [1_767_225_600_000_000], "iv": [5_400_000_000], "f": [float("-inf")], "x": ["-1.50"], "l": [["a", None]],
         "b": [b"\x00\xff"]},
    ).cast(polars_schema(schema))  # fmt: skip
    with closing(base.sink().prepare(target)) as publisher:
        publisher.publish(delivery_of(target, 1, rows))
    question = "SELECT t = '2026-01-01T01:00:00+01', iv = '90 minutes', f < 0, x = -1.5, l->>0, l->1 = 'null', b = '\\x00ff' FROM totals"
    assert base.ask(question) == [(True, True, True, True, "a", True, True)]


def test_a_row_of_nothing_but_nulls_is_a_row(base: PostgresBase) -> None:
    target = replace(TARGET, schema=Schema.of("k string"))
    publish(base.sink(), target, [(None,), ("",), ("\\.",), ("\\N",), ("a\n\\.\nb",), (None,)])
    assert [k for (k,) in base.ask("SELECT k FROM totals")] == [None, "", "\\.", "\\N", "a\n\\.\nb", None]


def test_rows_beyond_one_slice_all_come(base: PostgresBase) -> None:
    rows = pl.DataFrame({"k": ["x"] * 150_000, "n": range(150_000)})
    with closing(base.sink().prepare(TARGET)) as publisher:
        assert publisher.publish(delivery_of(TARGET, 1, rows, rows)).rows == 300_000
    assert base.ask("SELECT count(*), count(DISTINCT n), sum(n) FROM totals") == [(300_000, 150_000, 150_000 * 149_999)]


SENT_AS_BYTES = Schema.of(
    EVERYTHING.text.replace("x decimal(38,3), ", "").replace("x:decimal(5,2)", "x:bigint") + ", l2 array<string>"
)


@settings(max_examples=examples(20))
@given(table=tables(SENT_AS_BYTES))
def test_every_value_that_is_upserted_reads_back(table: pl.DataFrame, tmp_path_factory: Any) -> None:
    schema = Schema((("id", Type.of("bigint")), *SENT_AS_BYTES.columns))
    target = replace(CHANGES, schema=schema, key=("id",))
    rows = table.with_columns(
        pl.int_range(table.height).alias("id"), pl.col("s").str.replace_all("\0", "0", literal=True),
        pl.col("l2").list.eval(pl.element().str.replace_all("\0", "0", literal=True)), op=pl.lit("upsert"),
    )  # fmt: skip
    assert own_format(target.delivered).name == "binary"
    with opened("postgres", tmp_path_factory.mktemp("types")) as base:
        with closing(base.sink().prepare(target)) as publisher:
            publisher.publish(delivery_of(target, 1, rows))
        assert_frame_equal(base.read("totals", schema).sort("id"), rows.select(list(schema)))


def test_a_decimal_is_upserted(base: PostgresBase) -> None:
    target = replace(CHANGES, schema=Schema.of("k decimal(38,3), n bigint"))
    big = Decimal("-" + "9" * 35 + ".125")
    publish(base.sink(), target, [(big, 1, "upsert"), (None, 2, "upsert")], [(big, 3, "upsert")])
    assert sorted(base.ask("SELECT k, n FROM totals"), key=repr) == [(big, 3), (None, 2)]


NESTED = Schema.of("k string, l array<string>, st struct<s:string>")


def test_a_nul_is_refused_by_the_name_of_its_column(base: PostgresBase) -> None:
    target = replace(TARGET, schema=NESTED)
    for rows, column in (
        (("a\0", None, None), "'k'"),
        (("a", ["\0"], None), "'l'"),
        (("a", None, {"s": "\0"}), "'st'"),
    ):
        with closing(base.sink().prepare(target)) as publisher:
            with pytest.raises(SinkError, match=f"column {column} holds the character NUL") as refused:
                publisher.publish(delivery(target, 1, ("fine", None, None), rows))
            assert "nul=" in refused.value.fix
    assert base.ask("SELECT * FROM totals") == []
    assert base.ask("SELECT * FROM strandline_markers") == []


def test_what_stands_for_a_nul_is_written_in_its_place(base: PostgresBase) -> None:
    target = replace(TARGET, schema=NESTED)
    row = ("a\0b", ["\0", "\\u0000", "\\\0", None], {"s": "x\0"})
    publish(replace(base.sink(), nul='"'), target, [row, (None, None, None)])
    assert base.ask("SELECT k, l::text, st::text FROM totals WHERE k IS NOT NULL") == [
        ('a"b', json.dumps(['"', "\\u0000", '\\"', None]), json.dumps({"s": 'x"'}))
    ]


def test_a_backslash_before_a_u_is_no_nul(base: PostgresBase) -> None:
    target = replace(TARGET, schema=NESTED)
    publish(base.sink(), target, [("\\u0000", ["\\u0000"], None)])
    assert base.ask("SELECT k, l->>0 FROM totals") == [("\\u0000", "\\u0000")]


@pytest.mark.parametrize("kind", ["varchar", "text"])
def test_a_table_that_fits_is_taken(base: PostgresBase, kind: str) -> None:
    schema = Schema.of("k string, n int, x decimal(5,2)")
    base.tell(f"CREATE TABLE totals (x numeric(9,4), n bigint, k {kind} PRIMARY KEY)")
    publish(base.sink(), replace(TARGET, schema=schema), [("a", 1, Decimal("1.50"))])
    assert base.ask("SELECT k, n, x::text FROM totals") == [("a", 1, "1.5000")]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("k varchar(20), n bigint", r"'k' is character varying\(20\), not text"),
        ("k text, n numeric", "'n' is numeric, not bigint"),
        ("k text, n bigint GENERATED ALWAYS AS (1) STORED", "'n' is computed by the database"),
        ('"K" text, n bigint', "'k' is missing; 'K' is there, but not delivered"),
    ],
)
def test_a_table_that_would_change_values_is_refused(base: PostgresBase, made: str, said: str) -> None:
    base.tell(f"CREATE TABLE totals ({made})")
    with pytest.raises(SinkError, match=said):
        base.sink().prepare(TARGET)


@pytest.mark.parametrize(("found", "delivered"), [("timestamptz(3)", "timestamp"), ("numeric(5,1)", "decimal(5,2)")])
def test_a_type_that_would_round_is_refused(base: PostgresBase, found: str, delivered: str) -> None:
    base.tell(f"CREATE TABLE totals (v {found})")
    with pytest.raises(SinkError, match="'v' is "):
        base.sink().prepare(replace(TARGET, schema=Schema.of(f"v {delivered}")))


def test_a_table_that_a_crash_would_empty_is_refused(base: PostgresBase) -> None:
    base.tell("CREATE UNLOGGED TABLE totals (k text, n bigint)")
    with pytest.raises(SinkError, match="UNLOGGED"):
        base.sink().prepare(TARGET)


def test_a_schema_may_be_named(base: PostgresBase) -> None:
    other = DatabaseSink(base.server, f"{base.schema}.Totals")
    publish(other, CHANGES, [("a", 1, "upsert")], [("a", None, "delete"), ("b", 2, "upsert")])
    assert base.ask('SELECT k, n FROM "Totals"') == [("b", 2)]
    assert base.ask("SELECT table_name FROM strandline_markers") == [("Totals",)]
    with pytest.raises(SinkError, match="'Totals' is upserted by the sink 's'"):
        base.sink("Totals").prepare(replace(CHANGES, sink="other"))


def test_a_schema_that_is_not_there_is_said(base: PostgresBase) -> None:
    with pytest.raises(SinkError, match="schema 'nowhere_at_all'"):
        base.sink("nowhere_at_all.totals").prepare(TARGET)


def test_a_name_in_capitals_is_another_table(base: PostgresBase) -> None:
    publish(base.sink(), TARGET, [("a", 1)])
    publish(base.sink("TOTALS"), TARGET, [("a", 1)])
    assert base.names() == ["TOTALS", "strandline_markers", "totals"]


def test_a_name_that_would_be_cut_off_is_refused(base: PostgresBase) -> None:
    schema = Schema.of(f"{'x' * 63}a string, {'x' * 63}b string")
    with pytest.raises(SinkError, match="more than 63 bytes"):
        base.sink().prepare(replace(TARGET, schema=schema))


@pytest.mark.parametrize(
    ("made", "own"), [("PRIMARY KEY (k)", 0), ("UNIQUE (k)", 1), ("UNIQUE NULLS NOT DISTINCT (k)", 0)]
)
def test_a_key_that_is_there_already_is_used_if_null_is_one(base: PostgresBase, made: str, own: int) -> None:
    base.tell(f"CREATE TABLE totals (k text, n bigint, _tick bigint, {made})")
    publish(base.sink(), CHANGES, [("a", 1, "upsert")], [("a", 2, "upsert")])
    assert base.ask("SELECT k, n FROM totals") == [("a", 2)]
    ours = f"SELECT count(*) FROM pg_indexes WHERE schemaname = '{base.schema}' AND indexname ~ '^strandline_key_'"
    assert base.ask(ours) == [(own,)]


def test_keys_of_many_types_with_nulls_anywhere_are_deleted(base: PostgresBase) -> None:
    target = replace(CHANGES, schema=Schema.of("a bigint, b string, c array<bigint>, n bigint"), key=("a", "b", "c"))
    keys = [(a, b, c) for a in (1, None) for b in ("x", None) for c in ([1], None)]
    publish(
        base.sink(), target, [(*key, 1, "upsert") for key in keys], [(*key, None, "delete") for key in keys[1:]],
        [(*keys[0], 3, "upsert")],
    )  # fmt: skip
    assert base.ask("SELECT a, b, c, n, _tick FROM totals") == [(1, "x", [1], 3, 3)]


def test_an_upsert_leaves_younger_rows_alone(base: PostgresBase) -> None:
    publish(base.sink(), CHANGES, [("a", 1, "upsert"), ("b", 1, "upsert")])
    base.tell("UPDATE totals SET _tick = 9")
    publish(base.sink(), CHANGES, [("a", 2, "upsert"), ("b", None, "delete")], first=2)
    assert base.ask("SELECT k, n FROM totals ORDER BY k") == [("a", 1), ("b", 1)]


def test_many_deletes_find_their_rows_by_the_index(base: PostgresBase) -> None:
    target = replace(CHANGES, schema=Schema.of("k bigint, n bigint"))
    rows = pl.DataFrame({"k": range(20_000), "n": range(20_000)}).with_columns(op=pl.lit("upsert"))
    gone = rows.filter(pl.col("k") % 2 == 0).with_columns(op=pl.lit("delete"), n=pl.lit(None, pl.Int64))
    with closing(base.sink().prepare(target)) as publisher:
        publisher.publish(delivery_of(target, 1, rows))
        publisher.publish(delivery_of(target, 2, gone))
    assert base.ask("SELECT count(*), min(k), sum(k % 2) FROM totals") == [(10_000, 1, 10_000)]


def notes_of(sink: DatabaseSink) -> list[str]:
    with closing(sink.prepare(TARGET)) as publisher:
        assert isinstance(publisher, Telling)
        return list(publisher.notes)


def test_a_server_that_keeps_what_it_says_needs_no_note(base: PostgresBase) -> None:
    assert notes_of(base.sink()) == []


def test_synchronous_commit_off_is_told(base: PostgresBase) -> None:
    url = base.url + "%20-csynchronous_commit%3Doff"
    (note,) = notes_of(replace(base.sink(), url=url))
    assert note.startswith("exactly once only while the server does not crash: synchronous_commit is off")


def test_a_statement_timeout_is_an_error_that_says_so(base: PostgresBase) -> None:
    publish(base.sink(), TARGET, [("a", 1)])
    base.tell(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(10); RETURN NEW; END'",
        "CREATE TRIGGER slow BEFORE INSERT ON totals FOR EACH ROW EXECUTE FUNCTION slow()",
    )
    sink = replace(base.sink(), url=base.url + "%20-cstatement_timeout%3D200")
    with closing(sink.prepare(TARGET)) as publisher:
        with pytest.raises(SinkError, match="statement timeout") as refused:
            publisher.publish(delivery(TARGET, 2, ("a", 2)))
        assert "statement_timeout" in refused.value.fix
        base.tell("DROP TRIGGER slow ON totals")
        assert publisher.publish(delivery(TARGET, 2, ("a", 2))).rows == 1
    assert base.ask("SELECT n FROM totals ORDER BY n") == [(1,), (2,)]


def test_a_condition_of_the_tables_own_is_said_and_nothing_is_written(base: PostgresBase) -> None:
    base.tell("CREATE TABLE totals (k text, n bigint CHECK (n < 5))")
    with closing(base.sink().prepare(TARGET)) as publisher:
        with pytest.raises(SinkError, match="totals_n_check") as refused:
            publisher.publish(delivery(TARGET, 1, ("a", 1), ("b", 7)))
        assert "condition" in refused.value.fix
    assert base.ask("SELECT * FROM totals") == []


def test_a_table_that_is_dropped_under_a_run_is_said(base: PostgresBase) -> None:
    with closing(base.sink().prepare(TARGET)) as publisher:
        publisher.publish(delivery(TARGET, 1, ("a", 1)))
        base.tell("DROP TABLE totals")
        with pytest.raises(SinkError, match=r"could not be written: relation .* does not exist"):
            publisher.publish(delivery(TARGET, 2, ("a", 2)))


def test_a_server_that_cannot_be_reached_is_said() -> None:
    sink = DatabaseSink("postgresql://ann@127.0.0.1:1/shop", "totals")
    with pytest.raises(SinkError, match=r"'127.0.0.1:1/shop' could not be opened: .*refused"):
        sink.prepare(TARGET)


def test_an_option_that_libpq_does_not_know_is_said(base: PostgresBase) -> None:
    with pytest.raises(SinkError, match="sslmoode"):
        replace(base.sink(), options={"sslmoode": "require"}).prepare(TARGET)  # type: ignore[arg-type]


def test_an_older_server_is_refused(base: PostgresBase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strandline.sinks.postgres.LEAST_VERSION", 99)
    with pytest.raises(SinkError, match="is PostgreSQL 1"):
        base.sink().prepare(TARGET)
    assert base.names() == []
    assert client.LEAST_VERSION == 15


def test_the_client_is_loaded_when_it_is_used() -> None:
    described = "import sys, strandline as sl; sl.Database('postgresql://db/shop').write('t'); "
    subprocess.run([sys.executable, "-c", described + "assert 'psycopg' not in sys.modules"], check=True)


def test_a_client_that_is_not_installed_is_said(base: PostgresBase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Exception, match=r"pip install 'strandline\[postgres\]'"):
        base.sink().prepare(TARGET)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Cluster]:
    """A server that asks ann for her password, and does not write to its disk before it answers."""
    with own_cluster(fsync="off") as cluster:
        rules = cluster.server.folder / "data" / "pg_hba.conf"
        rules.write_text("host all ann 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
        cluster.tell(f"CREATE ROLE ann LOGIN PASSWORD '{CANARY}'")
        cluster.tell("CREATE SCHEMA shop")
        cluster.tell("SELECT pg_reload_conf()")
        yield cluster


def guarded_sink(cluster: Cluster, **given: Any) -> DatabaseSink:
    url = cluster.url.replace("strandline@", "ann@")
    return DatabaseSink(url, "shop.totals", password=Secret.env("DB_PASSWORD"), **given)


def test_fsync_off_is_told(guarded: Cluster) -> None:
    (note,) = notes_of(DatabaseSink(guarded.url, "noted"))
    assert "fsync is off" in note


def test_a_wrong_password_is_said_and_not_told(guarded: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "wrong-" + CANARY)
    with pytest.raises(SinkError, match="password authentication failed") as refused:
        guarded_sink(guarded).prepare(TARGET)
    assert CANARY not in "".join(map(str, refused.getrepr(showlocals=False).chain))
    assert refused.value.__cause__ is None


def test_a_user_needs_no_right_to_make_tables_where_they_are_there(
    guarded: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", CANARY)
    with pytest.raises(SinkError, match="permission denied for schema shop") as refused:
        guarded_sink(guarded).prepare(CHANGES)
    assert "Grant" in refused.value.fix
    publish(DatabaseSink(guarded.url, "shop.totals"), CHANGES, [("a", 1, "upsert")])
    guarded.tell("GRANT USAGE ON SCHEMA shop TO ann")
    guarded.tell("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA shop TO ann")
    publish(guarded_sink(guarded), CHANGES, [("a", None, "delete"), ("b", 2, "upsert")], first=2)
    assert guarded.ask("SELECT k, n FROM shop.totals") == [("b", 2)]
