"""Rows in a table of a database. Which database it is, the url says."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Final

from strandline.clients.postgres import without_secrets
from strandline.errors import DescriptionError, did_you_mean, told
from strandline.model.secrets import Secret, checked_options
from strandline.model.time import Span
from strandline.sinks.contract import ALL_ROWS, Publisher, Rows, Target, require_rows
from strandline.sinks.dialects import Database, Dialect, PostgresDatabase, SqliteDatabase

DIALECTS: Final[dict[str, Dialect]] = {
    "sqlite": SqliteDatabase.of, "postgresql": PostgresDatabase.of, "postgres": PostgresDatabase.of,
}  # fmt: skip
Options = Mapping[str, object] | tuple[tuple[str, str | Secret], ...]


@dataclass(frozen=True, slots=True)
class DatabaseSink:
    """Write rows to a table.

    `url` is `sqlite:///relative.db`, `sqlite:////absolute.db`, or `postgresql://user@host:5432/database` (PostgreSQL 15 or
    later; settings of libpq's, such as `sslmode`, stand behind a `?` or in `options`). A password is a `Secret`, and
    stands in no url. The table, for PostgreSQL also as `schema.table`, is made when it is not there, and otherwise must
    have exactly the columns that are delivered. `wait` says how long to wait for a database that others lock, or for a
    server that was lost. `nul` is what is written for the character NUL, which PostgreSQL cannot keep; without it, one is
    an error.

    * rows="append": rows are added.
    * rows="changelog": rows are added, with `op`.
    * rows="upsert": the table holds one row for each key, with `_tick`, the tick that last changed it. Null is a key.

    The rows of a tick and the marker, in the table `strandline_markers`, are one transaction. A table that has a marker
    and was dropped is refused, until that is acknowledged.

    >>> DatabaseSink("mysql://ann:hunter2@host/db", "totals")
    Traceback (most recent call last):
        ...
    strandline.errors.DescriptionError: The database mysql://***@host/db is of a kind that is not known: 'mysql'.
      fix: Known: 'postgres', 'postgresql', 'sqlite'.
    """

    url: str
    table: str
    _: KW_ONLY
    password: Secret | None
    options: tuple[tuple[str, str | Secret], ...]
    wait: Span
    nul: str | None

    def __init__(
        self, url: str, table: str, *, password: Secret | None = None, options: Options | None = None,
        wait: str | timedelta | Span = Span(30_000_000), nul: str | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(url, str) or "://" not in url:
            # What is no url at all may be a text with a password in it.
            said = "A text" if isinstance(url, str) and "@" in url else told(url)
            raise DescriptionError(f"{said} is no url of a database.", fix="Write 'sqlite:///totals.db'.")
        if not isinstance(table, str) or not table or "\0" in table:
            raise DescriptionError(f"{told(table)} is no name of a table.", fix="Name one: 'totals'.")
        scheme = url.partition("://")[0]
        if scheme not in DIALECTS:
            raise DescriptionError(
                f"The database {without_secrets(url)} is of a kind that is not known: {scheme!r}.",
                fix=did_you_mean(scheme, DIALECTS),
            )
        given = dict(options) if isinstance(options, tuple) else options or {}
        object.__setattr__(self, "url", url)
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "password", password)
        object.__setattr__(self, "options", checked_options(given, option="options"))
        object.__setattr__(self, "wait", Span.of(wait))
        object.__setattr__(self, "nul", nul)
        if self.wait < 0:
            raise DescriptionError(f"wait={self.wait.text!r} is negative.", fix="Give such as '30s'; '0s' waits never.")
        self._database().own(table)  # what cannot be used is said where it stands

    @property
    def guarantee(self) -> str:
        """What is promised, and on which conditions."""
        return "exactly once: rows and marker are one transaction, if the database's disk keeps what it acknowledged"

    @property
    def takes(self) -> frozenset[str]:
        """Every kind of rows."""
        return ALL_ROWS

    def own_target(self, rows: Rows) -> Hashable | None:
        """A table whose rows are overwritten. To others each sink adds, with a marker of its own."""
        return self._database().own(self.table) if rows == "upsert" else None

    def prepare(self, target: Target) -> Publisher:
        """Make the table, or check it."""
        require_rows(target, self.takes)
        return self._database().open(self.table, target, self.wait)

    def _database(self) -> Database:
        dialect = DIALECTS[self.url.partition("://")[0]]
        return dialect(self.url, password=self.password, options=dict(self.options), nul=self.nul)
