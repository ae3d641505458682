"""How tables of SQLite are made, checked and written.

boolean                            INTEGER, 0 or 1
whole numbers                      INTEGER
float, double                      REAL; NaN, which SQLite would make NULL, is the text 'NaN' (greater than every number)
decimal, string                    TEXT; a decimal with all its digits
date, timestamp, timestamp_ntz     TEXT, ISO; a timestamp in UTC with microseconds, so that text sorts as time does
interval day to second             INTEGER, microseconds
binary                             BLOB
array, struct                      TEXT, JSON
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable
from typing import Any, Final

import polars as pl

from strandline.errors import SinkError
from strandline.kernel.changes import DELETE
from strandline.model.types import Type
from strandline.sinks.contract import OP, Target
from strandline.sinks.plain import plain_column
from strandline.sinks.table_checks import (
    KEY_INDEX,
    KEYED_TABLES,
    TICK,
    another_key,
    quoted,
    require_claim,
    require_columns,
    require_no_tick,
    require_table,
    several_rows,
)  # fmt: skip

_KEYED_TABLES: Final = (
    f'CREATE TABLE IF NOT EXISTS {KEYED_TABLES} ("table" TEXT PRIMARY KEY, flow TEXT NOT NULL, sink TEXT NOT NULL)'
)
# What may stand in a column of each declared kind without being changed; '' is a column without a type.
_FITTING: Final = {
    "INTEGER": {"INTEGER", "NUMERIC", ""},
    "REAL": {"REAL", "NUMERIC", ""},
    "TEXT": {"TEXT", ""},
    "BLOB": {"BLOB", "TEXT", ""},
}
_KINDS: Final = {
    "boolean": "INTEGER", "tinyint": "INTEGER", "smallint": "INTEGER", "int": "INTEGER", "bigint": "INTEGER",
    "interval day to second": "INTEGER", "float": "REAL", "double": "REAL", "binary": "BLOB",
}  # fmt: skip


class Table:
    """A table to which rows are added."""

    def __init__(self, name: str, target: Target) -> None:
        self.name, self.target = name, target
        self.columns: dict[str, str] = {name: kind_of(type) for name, type in target.delivered.columns}
        self._require_distinct_names()

    def is_there(self, cursor: sqlite3.Cursor) -> bool:
        """Whether the name is taken, by this table or by something else."""
        return self._kind(cursor) is not None

    def prepare(self, cursor: sqlite3.Cursor) -> None:
        """Make the table, or check the one that is there."""
        found = self._kind(cursor)
        if found is None:
            columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in self.columns.items())
            cursor.execute(f"CREATE TABLE {quoted(self.name)} ({columns})")
        else:
            require_table(self.name, found)
            self._check(cursor)

    def write(self, cursor: sqlite3.Cursor, tables: Iterable[pl.DataFrame], tick: int) -> int:
        """Write rows; how many there were."""
        count = 0
        for table in tables:
            self._write(cursor, table, tick)
            count += table.height
        return count

    def _write(self, cursor: sqlite3.Cursor, rows: pl.DataFrame, tick: int) -> None:
        """Add rows."""
        marks = ", ".join("?" * len(self.columns))
        cursor.executemany(f"INSERT INTO {quoted(self.name)} ({self._names()}) VALUES ({marks})", self._values(rows))

    def taken_over(self, cursor: sqlite3.Cursor) -> None:
        """Rows that another incarnation added stay."""

    def _kind(self, cursor: sqlite3.Cursor) -> str | None:
        """What stands under the name: a table, or perhaps a view."""
        found = cursor.execute("SELECT type FROM sqlite_master WHERE lower(name) = lower(?)", (self.name,)).fetchone()
        return None if found is None else str(found[0])

    def _names(self) -> str:
        return ", ".join(map(quoted, self.columns))

    def _values(self, rows: pl.DataFrame, names: Iterable[str] | None = None) -> Iterable[tuple[Any, ...]]:
        chosen = self.target.delivered if names is None else names
        return zip(*(sqlite_values(rows[name], self.target.delivered[name]) for name in chosen), strict=True)

    def _require_distinct_names(self) -> None:
        seen: dict[str, str] = {}
        for name in self.columns:
            other = seen.setdefault(name.lower(), name)
            if other != name:
                raise SinkError(
                    f"The columns {other!r} and {name!r} of {self.target} are one column to SQLite.",
                    fix="Rename one of them with .select().",
                )

    def _check(self, cursor: sqlite3.Cursor) -> None:
        """SinkError with all that differs, if anything does. To SQLite a name in capitals is the same."""
        own = {name.lower(): name for name in self.columns}
        rows = cursor.execute(f"PRAGMA table_info({quoted(self.name)})")
        found = {own.get(row[1].lower(), row[1].lower()): row[2] for row in rows}
        require_columns(
            self.name, self.target, self.columns, found, lambda kind, declared: affinity(declared) in _FITTING[kind]
        )


class KeyedTable(Table):
    """A table with one row for each key.

    To SQLite nulls are all distinct, so the key is unique by two expressions for each column: its value, or 0 for null; and
    whether it is null.
    """

    def __init__(self, name: str, target: Target) -> None:
        super().__init__(name, target)
        require_no_tick(target, lambda name: name.lower() == TICK)
        self.columns = {name: kind for name, kind in self.columns.items() if name != OP} | {TICK: "INTEGER"}

    def prepare(self, cursor: sqlite3.Cursor) -> None:
        """Make the table and its key, or check those that are there."""
        new = not self.is_there(cursor)
        super().prepare(cursor)
        self._claim(cursor, new=new)
        # An index stays with its table, and keeps its own name, when the table is renamed.
        found = cursor.execute(
            "SELECT sql FROM sqlite_master WHERE type = 'index' AND lower(tbl_name) = lower(?) AND substr(name, 1, ?) = ?",
            (self.name, len(KEY_INDEX), KEY_INDEX),
        ).fetchone()
        if found is None:
            index = KEY_INDEX + self.name
            while cursor.execute("SELECT 1 FROM sqlite_master WHERE lower(name) = lower(?)", (index,)).fetchone():
                index += "_"
            try:
                cursor.execute(f"CREATE UNIQUE INDEX {quoted(index)} ON {quoted(self.name)} ({self._key()})")
            except sqlite3.IntegrityError as error:
                raise several_rows(self.name, self.target) from error
        elif not found[0].endswith(f" ({self._key()})"):
            raise another_key(self.name, self.target)

    def _claim(self, cursor: sqlite3.Cursor, *, new: bool) -> None:
        cursor.execute(_KEYED_TABLES)
        name = self.name.lower()
        claimed = cursor.execute(f'SELECT flow, sink FROM {KEYED_TABLES} WHERE "table" = ?', (name,)).fetchone()
        require_claim(self.name, self.target, claimed, new=new)
        cursor.execute(
            f"INSERT OR REPLACE INTO {KEYED_TABLES} VALUES (?, ?, ?)", (name, self.target.flow, self.target.sink)
        )

    def _write(self, cursor: sqlite3.Cursor, rows: pl.DataFrame, tick: int) -> None:
        """Put rows in the place of those with their keys, or delete those."""
        gone = rows[OP] == DELETE
        if gone.any():
            each_twice = [name for name in self.target.key for _ in range(2)]
            cursor.executemany(self._delete(tick), self._values(rows.filter(gone), each_twice))
            rows = rows.filter(~gone)
        cursor.executemany(self._upsert(tick), self._values(rows, list(self.target.schema)))

    def taken_over(self, cursor: sqlite3.Cursor) -> None:
        """The ticks of another incarnation say nothing about the age of rows in this one."""
        cursor.execute(f"UPDATE {quoted(self.name)} SET {TICK} = -1 WHERE {TICK} <> -1")

    def _key(self) -> str:
        return ", ".join(f"ifnull({quoted(name)}, 0), {quoted(name)} IS NULL" for name in self.target.key)

    def _upsert(self, tick: int) -> str:
        marks = ", ".join("?" * len(self.target.schema))
        names = [*(name for name in self.target.schema if name not in self.target.key), TICK]
        changed = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in names)
        return (
            f"INSERT INTO {quoted(self.name)} ({self._names()}) VALUES ({marks}, {int(tick)}) ON CONFLICT ({self._key()}) "
            f"DO UPDATE SET {changed} WHERE {TICK} <= excluded.{TICK}"
        )

    def _delete(self, tick: int) -> str:
        same = " AND ".join(
            f"ifnull({quoted(name)}, 0) = ifnull(?, 0) AND ({quoted(name)} IS NULL) = (? IS NULL)"
            for name in self.target.key
        )
        return f"DELETE FROM {quoted(self.name)} WHERE {same} AND {TICK} <= {int(tick)}"


def sqlite_values(column: pl.Series, type: Type) -> list[Any]:
    """The values of a column as SQLite holds them."""
    if type.is_float:
        values: list[Any] = column.to_list()
        if not column.is_nan().any():
            return values
        return ["NaN" if value is not None and math.isnan(value) else value for value in values]
    if type.name == "interval day to second":
        return column.to_physical().to_list()
    if type.name == "binary":
        return column.to_list()
    return plain_column(column, type).to_list()


def kind_of(type: Type) -> str:
    """The declared type of a column.

    >>> kind_of(Type.of("decimal(10,2)")), kind_of(Type.of("bigint"))
    ('TEXT', 'INTEGER')
    """
    return _KINDS.get(type.name, "TEXT")


def affinity(declared: str) -> str:
    """What SQLite makes of a declared type, by its own rules; '' where it leaves values as they are.

    >>> affinity("VARCHAR(20)"), affinity("BIGINT"), affinity("DECIMAL(10,2)")
    ('TEXT', 'INTEGER', 'NUMERIC')
    """
    said = declared.upper()
    rules = (
        ("INTEGER", ("INT",)),
        ("TEXT", ("CHAR", "CLOB", "TEXT")),
        ("", ("BLOB",)),
        ("REAL", ("REAL", "FLOA", "DOUB")),
    )
    for kind, words in rules:
        if any(word in said for word in words):
            return kind
    return "NUMERIC" if said else ""
