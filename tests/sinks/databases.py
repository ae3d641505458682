"""The databases that the tests of tables judge alike: what each calls things, and how it is looked into from outside."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

import polars as pl
import psycopg
import pytest
from psycopg import sql

from strandline.kernel.schema import polars_type
from strandline.model.types import Schema, Type
from strandline.sinks.database import DatabaseSink
from strandline.sinks.plain import column_of, plain_type
from tests import servers

KINDS = ("sqlite", pytest.param("postgres", marks=pytest.mark.slow))


class Base(Protocol):
    """A database of a test's own."""

    text: str
    number: str
    integer: str

    def sink(self, table: str = "totals", *, wait: str = "0s") -> DatabaseSink: ...
    def ask(self, question: str) -> list[tuple[Any, ...]]: ...
    def tell(self, *statements: str) -> None: ...
    def names(self) -> list[str]: ...
    def locked(self) -> AbstractContextManager[Callable[[], None]]: ...
    def read(self, table: str, schema: Schema) -> pl.DataFrame: ...


class SqliteBase:
    text, number, integer = "TEXT", "INTEGER", "INTEGER"

    def __init__(self, folder: Path) -> None:
        self.path = folder / "out.db"

    def sink(self, table: str = "totals", *, wait: str = "0s") -> DatabaseSink:
        return DatabaseSink(f"sqlite:///{self.path}", table, wait=wait)

    def ask(self, question: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(question).fetchall()

    def tell(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    def names(self) -> list[str]:
        """The tables that are there."""
        return [name for (name,) in self.ask("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]

    @contextmanager
    def locked(self) -> Iterator[Callable[[], None]]:
        """Nobody else can write; until what is given is called."""
        other = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        with closing(other):
            other.execute("BEGIN IMMEDIATE")
            yield lambda: other.execute("ROLLBACK") and None

    def read(self, table: str, schema: Schema) -> pl.DataFrame:
        """What a table holds, as it was delivered."""
        rows = self.ask(f"SELECT * FROM {table}")
        columns = [_of_sqlite([row[at] for row in rows], kind) for at, kind in enumerate(schema.values())]
        return pl.DataFrame(dict(zip(schema, columns, strict=True)))


def _of_sqlite(values: list[Any], kind: Type) -> pl.Series:
    if kind.is_float:
        return pl.Series([None if v is None else float(v) for v in values], dtype=polars_type(kind))
    if kind.name == "boolean":
        return pl.Series([None if v is None else bool(v) for v in values], dtype=pl.Boolean)
    if kind.name == "interval day to second":
        return pl.Series(values, dtype=pl.Int64).cast(pl.Duration("us"))
    if kind.name == "binary":
        return pl.Series(values, dtype=pl.Binary)
    return column_of(pl.Series(values, dtype=plain_type(kind)), kind)


class PostgresBase:
    """A schema of its own on the server, gone at the end."""

    text, number, integer = "text", "bigint", "integer"

    def __init__(self, server: str) -> None:
        self.server, self.schema = server, f"test_{uuid.uuid4().hex[:12]}"
        self.url = f"{server}{'&' if '?' in server else '?'}options=-csearch_path%3D{self.schema}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self.schema)))

    def drop(self) -> None:
        with psycopg.connect(self.server, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(self.schema)))

    def sink(self, table: str = "totals", *, wait: str = "0s") -> DatabaseSink:
        return DatabaseSink(self.url, table, wait=wait)

    def ask(self, question: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SET TIME ZONE 'UTC'")
            return connection.execute(question).fetchall()  # type: ignore[arg-type]

    def tell(self, *statements: str) -> None:
        with psycopg.connect(self.url) as connection:
            for statement in statements:
                connection.execute(statement)  # type: ignore[arg-type]

    def names(self) -> list[str]:
        """The tables that are there."""
        found = self.ask(f"SELECT tablename::text FROM pg_tables WHERE schemaname = '{self.schema}' ORDER BY 1")
        return [name for (name,) in found]

    @contextmanager
    def locked(self) -> Iterator[Callable[[], None]]:
        """Nobody else can write; until what is given is called."""
        with closing(psycopg.connect(self.url, autocommit=True)) as other:
            other.execute("BEGIN")
            other.execute("LOCK TABLE totals IN ACCESS EXCLUSIVE MODE")
            yield lambda: other.execute("ROLLBACK") and None

    def read(self, table: str, schema: Schema) -> pl.DataFrame:
        """What a table holds, as it was delivered."""
        asked = ", ".join(_asked(name, kind) for name, kind in schema.columns)
        rows = self.ask(f"SELECT {asked} FROM {table}")
        columns = [_of_postgres([row[at] for row in rows], kind) for at, kind in enumerate(schema.values())]
        return pl.DataFrame(dict(zip(schema, columns, strict=True)))


def _asked(name: str, kind: Type) -> str:
    if kind.name == "interval day to second":
        return f"(extract(epoch FROM {name}) * 1000000)::bigint"
    return name if kind.is_scalar else f"{name}::text"


def _of_postgres(values: list[Any], kind: Type) -> pl.Series:
    if kind.name == "interval day to second":
        return pl.Series(values, dtype=pl.Int64).cast(pl.Duration("us"))
    if not kind.is_scalar:
        return column_of(pl.Series(values, dtype=pl.String), kind)
    return pl.Series(values, dtype=polars_type(kind))


@contextmanager
def opened(kind: str, folder: Path) -> Iterator[Base]:
    """A database of this kind."""
    if kind == "sqlite":
        yield SqliteBase(folder)
        return
    base = PostgresBase(servers.postgres())
    try:
        yield base
    finally:
        base.drop()
