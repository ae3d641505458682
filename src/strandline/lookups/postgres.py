"""A table of PostgreSQL's that is asked: many keys in one statement, over a few connections."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from strandline.clients.postgres import Postgres, require_psycopg
from strandline.errors import DataError, RunError
from strandline.lookups.values import from_plain
from strandline.model.lookups import Key
from strandline.model.types import Schema, Type

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

_COLUMNS: Final = """
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
"""


class PostgresTable:
    """A table, and the connections over which it is asked; each is one thread's at a time."""

    batch: Final = 500

    def __init__(
        self, server: Postgres, named: tuple[str | None, str], keys: Sequence[str], output: Schema, connections: int
    ) -> None:
        self.server, self.named, self.keys, self.output = server, [part for part in named if part], keys, output
        self.free: queue.LifoQueue[psycopg.Connection[Any] | None] = queue.LifoQueue()
        for _ in range(connections):
            self.free.put(None)  # made when it is needed
        self.statement: sql.Composed | None = None

    def open(self) -> None:
        """Nothing but to see that there is a client: whether the server answers is asked with the first keys."""
        require_psycopg()

    def ask(self, keys: Sequence[Key]) -> list[Any]:
        """The rows of keys. Where a value can be no key of the table, that is the error of its key alone."""
        import psycopg

        try:
            with self._connection() as connection:
                return self._answers(connection, keys)
        except psycopg.DataError as error:
            if len(keys) > 1:
                half = len(keys) // 2
                return [*self.ask(keys[:half]), *self.ask(keys[half:])]
            return [DataError(self._said(error), fix="Ask for values that the table's key can have.")]
        except psycopg.Error as error:
            raise RunError(self._said(error), fix="Look at the database, its table, and who may read it.") from None

    def close(self) -> None:
        """Close what is open, and nobody uses."""
        while not self.free.empty():
            connection = self.free.get_nowait()
            if connection is not None:
                connection.close()

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        connection = self.free.get()
        try:
            if connection is None or connection.closed:
                connection = self.server.connect()
            yield connection
        finally:
            self.free.put(connection)

    def _answers(self, connection: psycopg.Connection[Any], keys: Sequence[Key]) -> list[Any]:
        if self.statement is None:
            self.statement = self._asked(connection)
        found: list[list[Any]] = [[] for _ in keys]
        for place, *values in connection.execute(self.statement, [list(column) for column in zip(*keys, strict=True)]):
            found[place - 1].append(values)
        return [self._answer(rows) for rows in found]

    def _answer(self, rows: Sequence[Sequence[Any]]) -> Any:
        if len(rows) > 1:
            return DataError(
                f"The table {'.'.join(self.named)} has {len(rows)} rows for a key.", fix="Ask by what tells rows apart."
            )
        if not rows:
            return None
        named = zip(self.output.columns, rows[0], strict=True)
        return {name: from_plain(kind, value) for (name, kind), value in named}

    def _asked(self, connection: psycopg.Connection[Any]) -> sql.Composed:
        """The statement. Keys are made the types of the table's columns, or its index would not be used."""
        from psycopg import sql

        table = sql.Identifier(*self.named)
        kinds = dict(connection.execute(_COLUMNS, [table.as_string(connection)]).fetchall())
        for name in (*self.keys, *self.output):
            if name not in kinds:
                where = f"has no column {name!r}" if kinds else "is not there"
                raise DataError(f"The table {'.'.join(self.named)} {where}.", fix="Look at its name and its columns.")
        arrays = sql.SQL(", ").join(sql.SQL("%s::" + kinds[name] + "[]") for name in self.keys)
        asked = [sql.Identifier(f"key_{at}") for at in range(len(self.keys))]
        same = [
            sql.SQL("found.{} = asked.{}").format(sql.Identifier(name), key)
            for name, key in zip(self.keys, asked, strict=True)
        ]
        return sql.SQL(
            "SELECT asked.place, {columns} FROM unnest({arrays}) WITH ORDINALITY AS asked({names}, place) JOIN {table} AS found ON {same}"
        ).format(
            columns=sql.SQL(", ").join(_shown(name, kind) for name, kind in self.output.columns),
            arrays=arrays, names=sql.SQL(", ").join(asked), table=table, same=sql.SQL(" AND ").join(same),
        )  # fmt: skip

    def _said(self, error: BaseException) -> str:
        return f"The database {self.server.place} said: {self.server.said(error)}."


def _shown(name: str, kind: Type) -> sql.Composed:
    """A column, as text where text is wanted, whatever it is; all else as it is, for a cast might round it."""
    from psycopg import sql

    cast = {"string": "::text", "float": "::double precision", "double": "::double precision"}.get(kind.name, "")
    return sql.SQL("found.{}" + cast).format(sql.Identifier(name))
