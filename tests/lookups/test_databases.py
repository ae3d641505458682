"""Tables as lookups: PostgreSQL and SQLite are asked alike."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

import strandline as sl
from strandline.lookups.asking import Asking
from strandline.model.nodes import LookupNode
from strandline.model.time import Instant
from strandline.model.types import Schema
from strandline.testing import Events, play
from tests import servers
from tests.lookups.playing import looked_up
from tests.sinks.delivering import TARGET, delivery

CUSTOMERS = (("ann", 1, "gold", 1.5, True), ("bob", 2, "silver", None, False), ("bob", 3, "bronze", 2.0, None))
COLUMNS = "name text, shop bigint, tier text, score double precision, active boolean"


@pytest.fixture(params=["sqlite", "postgres"])
def customers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[sl.Database, str]]:
    """A database with customers, and the name of their table."""
    table = f"customers_{uuid.uuid4().hex[:8]}"
    if request.param == "sqlite":
        with closing(sqlite3.connect(tmp_path / "crm.db")) as database, database:
            database.execute(f"create table {table} ({COLUMNS})")
            database.executemany(f"insert into {table} values (?, ?, ?, ?, ?)", CUSTOMERS)
        yield sl.Database(f"sqlite:///{tmp_path / 'crm.db'}"), table
        return
    url = servers.postgres()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"create table {table} ({COLUMNS})")
        connection.cursor().executemany(f"insert into {table} values (%s, %s, %s, %s, %s)", CUSTOMERS)
    yield sl.Database(url), table
    _drop(url, table)


def _drop(url: str, table: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"drop table {table}")


def test_rows_have_the_columns_of_the_row_of_their_key(customers: Any) -> None:
    database, table = customers
    rows = [{"user": "ann", "n": 1}, {"user": "bob", "n": 2}, {"user": "cid", "n": 3}, {"user": "bob", "n": None}]
    found, reasons = looked_up(
        database.lookup(table, key=["name", "shop"]), "user string, n bigint", rows,
        on=["user", "n"], output="tier string, score double, active boolean",
    )  # fmt: skip
    assert found == [
        {"user": "ann", "n": 1, "tier": "gold", "score": 1.5, "active": True},
        {"user": "bob", "n": 2, "tier": "silver", "score": None, "active": False},
        {"user": "bob", "n": None, "tier": None, "score": None, "active": None},
        {"user": "cid", "n": 3, "tier": None, "score": None, "active": None},
    ]
    assert reasons == []


def test_a_key_with_several_rows_is_an_error_of_its_rows(customers: Any) -> None:
    database, table = customers
    rows = [{"name": "ann"}, {"name": "bob"}]
    found, (reason,) = looked_up(database.lookup(table), "name string", rows, on="name", output="tier string")
    assert found == [{"name": "ann", "tier": "gold"}]
    assert reason.startswith(f"The table {table} has ")
    assert reason.endswith("rows for a key.")


def test_a_column_that_is_not_there_is_named(customers: Any) -> None:
    database, table = customers
    _, (reason,) = looked_up(database.lookup(table), "name string", [{"name": "ann"}], on="name", output="rank string")
    assert "rank" in reason


def test_more_keys_than_one_statement_takes_are_several(customers: Any) -> None:
    database, table = customers
    rows = [{"shop": n} for n in range(1_200)]
    found, _ = looked_up(database.lookup(table), "shop bigint", rows, on="shop", output="tier string")
    assert len(found) == 1_200
    assert sorted(row["tier"] for row in found if row["tier"]) == ["bronze", "gold", "silver"]


def test_what_our_sink_wrote_is_read_back(customers: Any) -> None:
    """All types, from both databases."""
    database, table = customers
    types = {
        "i": ("int", 3), "f": ("float", 0.5), "d": ("decimal(10,2)", Decimal("1.50")), "day": ("date", date(2026, 1, 2)),
        "t": ("timestamp", datetime(2026, 1, 2, 3, tzinfo=timezone.utc)), "z": ("timestamp_ntz", datetime(2026, 1, 2, 3)),  # noqa: DTZ001
        "b": ("binary", b"\x00\xff"), "s": ("interval day to second", timedelta(hours=30)), "l": ("array<bigint>", [1, None]),
        "r": ("struct<a:string,n:double>", {"a": "x", "n": 1.5}), "yes": ("boolean", True),
    }  # fmt: skip
    schema = "id string, " + ", ".join(f"{name} {kind}" for name, (kind, _) in types.items())
    row = {"id": "one", **{name: value for name, (_, value) in types.items()}}
    target = replace(TARGET, schema=Schema.of(schema), rows="append", key=())
    publisher = database.write(f"{table}_all").prepare(target)
    publisher.publish(delivery(target, 1, tuple(row.values())))
    publisher.close()
    output = schema.partition(", ")[2]
    found, reasons = looked_up(database.lookup(f"{table}_all"), "id string", [{"id": "one"}], on="id", output=output)
    assert reasons == []
    assert found == [row]


def test_a_database_that_is_not_there_rejects_rows_and_tells_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_PASSWORD", "hunter22")
    database = sl.Database("postgresql://ann@127.0.0.1:1/crm", password=sl.Secret.env("CRM_PASSWORD"))
    found, (reason,) = looked_up(database.lookup("t"), "id string", [{"id": "a"}], on="id", output="x string")
    assert found == []
    assert reason.startswith("The database 127.0.0.1:1/crm said: ")
    assert "hunter22" not in reason


def test_a_value_that_can_be_no_key_of_the_table_is_the_error_of_its_row_alone(postgres: str) -> None:
    """A key is made the type of the table's column, so that its index is used; others of the batch are answered."""
    table = f"named_{uuid.uuid4().hex[:8]}"
    known = uuid.uuid4()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"create table {table} (id uuid primary key, rank numeric)")
        connection.execute(f"insert into {table} values (%s, 7.25)", [known])
    rows = [{"id": str(known)}, {"id": "nobody"}, {"id": str(uuid.uuid4())}]
    lookup = sl.Database(postgres).lookup(table)
    found, (reason,) = looked_up(lookup, "id string", rows, on="id", output="rank decimal(6,2)")
    assert {row["rank"] for row in found} == {Decimal("7.25"), None}
    assert "nobody" in reason
    _drop(postgres, table)


def test_a_connection_that_was_lost_is_made_again(postgres: str) -> None:
    table = f"lost_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"create table {table} (id bigint primary key, x text)")
        connection.execute(f"insert into {table} values (1, 'one')")
        lookup = sl.Database(postgres, options={"application_name": table}).lookup(table)
        events = sl.Flow("lost").source("events", sl.Rows(schema="id bigint, at timestamp"), time="at")
        stream = events.lookup("found", lookup, on="id", output="x string", timeout="30s", retries=2)
        ended = "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = %s"
        assert isinstance(stream.node, LookupNode)
        asking = Asking(stream.node, Schema.of("id bigint"))
        assert asking.ask([(1,)], Instant(0)) == [{"x": "one"}]
        assert connection.execute(ended, [table]).fetchone() == (1,)
        assert asking.ask([(1,)], Instant(0)) == [{"x": "one"}]
    _drop(postgres, table)


def test_as_many_columns_must_be_asked_for_as_the_table_has_in_its_key() -> None:
    events = sl.Flow("wrong").source("events", sl.Rows(schema="id bigint, at timestamp"), time="at")
    lookup = sl.Database("sqlite:///crm.db").lookup("customers", key=["shop", "id"])
    stream = events.lookup("found", lookup, on="id", output="x string")
    with pytest.raises(sl.CheckFailed, match="The key of table 'customers' has 2 columns, and on= names 1"):
        stream.flow.check()
    with pytest.raises(sl.CheckFailed):
        play(stream, [Events([])])
