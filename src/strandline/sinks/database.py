"""Rows in a table of a database. Which database it is, the url says."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Final, TypeAlias

from strandline.errors import DescriptionError, did_you_mean, told
from strandline.model.time import Span
from strandline.sinks.contract import ALL_ROWS, Publisher, Rows, Target, require_rows
from strandline.sinks.sqlite import SqlitePublisher, sqlite_path

# A dialect checks the rest of a url (the database), and opens a table in it: (database, table, target, wait).
Check: TypeAlias = Callable[[str], str]
Opens: TypeAlias = Callable[[str, str, Target, Span], Publisher]

DIALECTS: Final[dict[str, tuple[Check, Opens]]] = {"sqlite": (sqlite_path, SqlitePublisher)}


@dataclass(frozen=True, slots=True)
class DatabaseSink:
    """Write rows to a table.

    `url` is `sqlite:///relative.db` or `sqlite:////absolute.db`. The table is made when it is not there, and otherwise
    must have exactly the columns that are delivered. `wait` says how long to wait for a database that others lock.

    * rows="append": rows are added.
    * rows="changelog": rows are added, with `op`.
    * rows="upsert": the table holds one row for each key, with `_tick`, the tick that last changed it. Null is a key.

    The rows of a tick and the marker, in the table `strandline_markers`, are one transaction. A table that has a marker
    and was dropped is refused, until that is acknowledged.

    >>> DatabaseSink("mysql://host/db", "totals")
    Traceback (most recent call last):
        ...
    strandline.errors.DescriptionError: The database 'mysql://host/db' is of a kind that is not known: 'mysql'.
      fix: Known: 'sqlite'.
    """

    url: str
    table: str
    _: KW_ONLY
    wait: Span

    def __init__(self, url: str, table: str, *, wait: str | timedelta | Span = Span(30_000_000)) -> None:
        if not isinstance(url, str) or "://" not in url:
            raise DescriptionError(f"{told(url)} is no url of a database.", fix="Write 'sqlite:///totals.db'.")
        if not isinstance(table, str) or not table or "\0" in table:
            raise DescriptionError(f"{told(table)} is no name of a table.", fix="Name one: 'totals'.")
        scheme, _, rest = url.partition("://")
        if scheme not in DIALECTS:
            raise DescriptionError(
                f"The database {url!r} is of a kind that is not known: {scheme!r}.", fix=did_you_mean(scheme, DIALECTS)
            )
        DIALECTS[scheme][0](rest)
        object.__setattr__(self, "url", url)
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "wait", Span.of(wait))
        if self.wait < 0:
            raise DescriptionError(f"wait={self.wait.text!r} is negative.", fix="Give such as '30s'; '0s' waits never.")

    @property
    def guarantee(self) -> str:
        """What is promised, and on which conditions."""
        return "exactly once: rows and marker are one transaction, if the database's disk keeps what it acknowledged"

    @property
    def takes(self) -> frozenset[str]:
        """Every kind of rows."""
        return ALL_ROWS

    def own_target(self, rows: Rows) -> tuple[str, str] | None:
        """A table whose rows are overwritten. To others each sink adds, with a marker of its own."""
        if rows != "upsert":
            return None
        scheme, _, rest = self.url.partition("://")
        return os.path.realpath(DIALECTS[scheme][0](rest)), self.table.lower()

    def prepare(self, target: Target) -> Publisher:
        """Make the table, or check it."""
        require_rows(target, self.takes)
        scheme, _, rest = self.url.partition("://")
        check, opens = DIALECTS[scheme]
        return opens(check(rest), self.table, target, self.wait)
