"""A table of SQLite's that is asked."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import polars as pl

from strandline.errors import DataError, RunError
from strandline.kernel.schema import polars_type
from strandline.lookups.values import from_plain
from strandline.model.lookups import Key
from strandline.model.types import Schema, Type
from strandline.sinks.sqlite_tables import sqlite_values
from strandline.sinks.table_checks import quoted


class SqliteTable:
    """A table of a file, which is only read; threads take turns."""

    batch: Final = 500

    def __init__(self, path: str, table: str, keys: Sequence[str], key: Schema, output: Schema) -> None:
        self.path, self.table, self.key, self.output = path, table, key, output
        # With the table before it: a name in quotes that is no column would be taken for a text.
        columns = ", ".join(f"found.{quoted(name)}" for name in output)
        same = " AND ".join(f"found.{quoted(name)} = ?" for name in keys)
        self.statement = f"SELECT {columns} FROM {quoted(table)} AS found WHERE {same} LIMIT 2"
        self.lock = threading.Lock()
        self.connection: sqlite3.Connection | None = None

    def open(self) -> None:
        """Nothing: a file that is not there is an error of those who ask for it."""

    def ask(self, keys: Sequence[Key]) -> list[Any]:
        """The rows of keys."""
        with self.lock:
            try:
                if self.connection is None:
                    url = f"{Path(self.path).resolve().as_uri()}?mode=ro"
                    self.connection = sqlite3.connect(url, uri=True, check_same_thread=False)
                return [
                    self._answer(self.connection.execute(self.statement, key).fetchall()) for key in self._stored(keys)
                ]
            except sqlite3.Error as error:
                raise RunError(
                    f"The database {self.path} said: {error}.", fix="Look at the file, its table and its columns."
                ) from None

    def close(self) -> None:
        """Close the file."""
        with self.lock:
            if self.connection is not None:
                self.connection.close()

    def _stored(self, keys: Sequence[Key]) -> list[tuple[Any, ...]]:
        """Keys as a table of ours has them."""
        columns = zip(self.key.columns, zip(*keys, strict=True), strict=True)
        stored = [sqlite_values(pl.Series(values, dtype=polars_type(kind)), kind) for (_, kind), values in columns]
        return [*zip(*stored, strict=True)]

    def _answer(self, rows: Sequence[Sequence[Any]]) -> Any:
        if len(rows) > 1:
            return DataError(f"The table {self.table} has several rows for a key.", fix="Ask by what tells rows apart.")
        if not rows:
            return None
        named = zip(self.output.columns, rows[0], strict=True)
        return {name: _read(kind, value) for (name, kind), value in named}


def _read(kind: Type, value: Any) -> Any:
    """A value as a table of ours holds it: intervals are whole microseconds there."""
    if kind.name == "interval day to second" and isinstance(value, int):
        return timedelta(microseconds=value)
    return from_plain(kind, value)
