"""The databases whose tables can be written: what each needs to know, checked when it is said."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from strandline.clients.postgres import Postgres, require_psycopg
from strandline.errors import DescriptionError, told
from strandline.model.secrets import Secret
from strandline.model.time import Span
from strandline.sinks.contract import Publisher, Target
from strandline.sinks.sqlite import SqlitePublisher, sqlite_path

LONGEST_NAME: Final = 63
"""Bytes of a name in PostgreSQL, which cuts off what is more, and might take two for one."""


class Database(Protocol):
    """A database with tables."""

    def own(self, table: str) -> Hashable:
        """What a table is known by; equal for two names of one. DescriptionError for what cannot be a name."""

    def open(self, table: str, target: Target, wait: Span) -> Publisher:
        """Make a table, or check it."""


class Dialect(Protocol):
    """How a database is made from its description; DescriptionError for what cannot be one."""

    def __call__(
        self, url: str, *, password: Secret | None, options: Mapping[str, object], nul: str | None
    ) -> Database:
        """The database of a url."""


@dataclass(frozen=True, slots=True)
class SqliteDatabase:
    """A file of SQLite's."""

    path: str

    @classmethod
    def of(cls, url: str, *, password: Secret | None, options: Mapping[str, object], nul: str | None) -> SqliteDatabase:
        """The file that a url names."""
        for name, given in (("password", password), ("options", options or None), ("nul", nul)):
            if given is not None:
                raise DescriptionError(f"SQLite has no use for {name}=.", fix="Leave it out.")
        return cls(sqlite_path(url.partition("://")[2]))

    def own(self, table: str) -> Hashable:
        """The file, and the name: in capitals it is the same."""
        return os.path.realpath(self.path), table.lower()

    def open(self, table: str, target: Target, wait: Span) -> Publisher:
        """Make a table, or check it."""
        return SqlitePublisher(self.path, table, target, wait)


@dataclass(frozen=True, slots=True)
class PostgresDatabase:
    """A database of PostgreSQL's."""

    server: Postgres
    nul: str | None

    @classmethod
    def of(
        cls, url: str, *, password: Secret | None, options: Mapping[str, object], nul: str | None
    ) -> PostgresDatabase:
        """The database that a url names."""
        if nul is not None and (not isinstance(nul, str) or "\0" in nul):
            raise DescriptionError(
                f"nul={told(nul)} cannot stand for the character NUL.", fix="Give a text: '\\ufffd', or '' for nothing."
            )
        return cls(Postgres(url, password=password, options=options), nul)

    def own(self, table: str) -> Hashable:
        """Where the database is, as the url says it, and the table. That one place may have two names, `open` finds."""
        return self.server.place, schema_and_name(table)

    def open(self, table: str, target: Target, wait: Span) -> Publisher:
        """Make a table, or check it."""
        require_psycopg()
        from strandline.sinks.postgres import PostgresPublisher

        return PostgresPublisher(self.server, schema_and_name(table), target, wait, self.nul)


def schema_and_name(table: str) -> tuple[str | None, str]:
    """The parts of `schema.table`, each as it is: capitals count.

    >>> schema_and_name("totals"), schema_and_name("shop.Totals")
    ((None, 'totals'), ('shop', 'Totals'))
    """
    schema, dot, name = table.rpartition(".")
    if "." in schema or (dot and not schema) or not name:
        raise DescriptionError(f"{table!r} is no name of a table.", fix="Write 'table' or 'schema.table'.")
    long = [part for part in (schema, name) if len(part.encode()) > LONGEST_NAME]
    if long:
        raise DescriptionError(
            f"The name {long[0]!r} has more than {LONGEST_NAME} bytes, which PostgreSQL would cut off.",
            fix="Name a shorter one.",
        )
    return schema or None, name
