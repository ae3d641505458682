"""A table of a database that is asked for the row of a key. Which database it is, the url says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from strandline.clients.postgres import Postgres
from strandline.errors import DescriptionError, told
from strandline.lookups.postgres import PostgresTable
from strandline.lookups.sqlite import SqliteTable
from strandline.model.lookups import BatchLookup, Key
from strandline.model.secrets import Secret
from strandline.model.types import Schema
from strandline.sinks.database import DatabaseSink, Options
from strandline.sinks.dialects import schema_and_name
from strandline.sinks.sqlite import sqlite_path


@dataclass(frozen=True)
class DatabaseLookup(BatchLookup):
    """Ask a table for the row of each key: its columns of the output's names.

    `url`, `password` and `options` are as in `DatabaseSink`. `keys` are the table's columns that the key is compared with,
    one for each column of `on`; where they are left out they have the same names. A key without a row has no answer, and
    one with several is an error of its rows. Up to 500 keys are one statement, and up to `connections` of these are under
    way in each process; a PostgreSQL should have an index on the keys.

    >>> DatabaseLookup("sqlite:///crm.db", "customers", keys="id").keys
    ('id',)
    """

    url: str
    table: str
    _: KW_ONLY
    keys: tuple[str, ...]
    password: Secret | None
    options: tuple[tuple[str, str | Secret], ...]
    connections: int

    def __init__(
        self, url: str, table: str, *, keys: str | Sequence[str] = (), password: Secret | None = None,
        options: Options | None = None, connections: int = 4,
    ) -> None:  # fmt: skip
        checked = DatabaseSink(url, table, password=password, options=options)
        named = (keys,) if isinstance(keys, str) else tuple(keys) if isinstance(keys, Sequence) else (None,)
        if not all(isinstance(name, str) and name and "\0" not in name for name in named):
            raise DescriptionError(
                f"key={told(keys)} names no columns of the table.", fix="Write key='id', or key=['shop', 'item']."
            )
        if isinstance(connections, bool) or not isinstance(connections, int) or not 1 <= connections <= 100:
            raise DescriptionError(f"connections={told(connections)} is not possible.", fix="Give 1 to 100, such as 4.")
        chosen = {
            "url": url, "table": table, "keys": named, "password": password, "options": checked.options,
            "connections": connections,
        }  # fmt: skip
        for option, value in chosen.items():
            object.__setattr__(self, option, value)

    def check(self, key: Schema, output: Schema) -> None:
        """As many columns on both sides."""
        if self.keys and len(self.keys) != len(key):
            raise DescriptionError(
                f"The key of table {self.table!r} has {len(self.keys)} columns, and on= names {len(key)}.",
                fix="Name a column of the table for each: .lookup('customers', key='id').",
            )

    def opened(self, key: Schema, output: Schema) -> PostgresTable | SqliteTable:
        """The table, in this process."""
        names = self.keys or tuple(key)
        if self.url.startswith("sqlite:"):
            return SqliteTable(sqlite_path(self.url.partition("://")[2]), self.table, names, key, output)
        server = Postgres(self.url, password=self.password, options=dict(self.options))
        return PostgresTable(server, schema_and_name(self.table), names, output, self.connections)

    def ask(self, keys: Sequence[Key]) -> Sequence[object]:
        """Not this one: the table that `opened` gives."""
        raise AssertionError("it is opened before it is asked")
