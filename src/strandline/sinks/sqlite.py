"""Tables of SQLite: the rows of a tick and its marker in one transaction.

The database is put in WAL mode, so that readers never wait for the sink, and `synchronous=FULL`: what was committed is
on disk. A database that another process locks is waited for, then it is a SinkError.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from strandline.errors import DescriptionError, SinkError
from strandline.model.time import Span
from strandline.sinks.contract import Delivery, Marker, Receipt, Target
from strandline.sinks.sqlite_markers import SqliteMarker
from strandline.sinks.sqlite_tables import KeyedTable, Table
from strandline.sinks.table_publishing import publish_tick

_LOCKED: Final = ("locked", "busy")


def sqlite_path(rest: str) -> str:
    """The path in what follows `sqlite://`.

    >>> sqlite_path("/totals.db"), sqlite_path("//var/totals.db")
    ('totals.db', '/var/totals.db')
    """
    path = rest.removeprefix("/")
    if not rest.startswith("/") or not path or path == ":memory:" or "\0" in path:
        raise DescriptionError(
            f"'sqlite://{rest}' names no file.",
            fix="Write sqlite:///relative.db or sqlite:////absolute.db; for rows in memory use sl.Memory().",
        )
    return path


class SqlitePublisher:
    """A table of SQLite, open for deliveries."""

    def __init__(self, path: str, table: str, target: Target, wait: Span) -> None:
        self.path, self.target, self.wait = path, target, wait
        self.table = KeyedTable(table, target) if target.rows == "upsert" else Table(table, target)
        self.table_marker = SqliteMarker(table, target)
        self.lock = threading.Lock()  # the driver publishes from other threads than the one that prepared
        with self._told("opened"):
            self.connection = self._connected()
        try:
            with self._told("prepared"), self._transaction() as cursor:
                self.table_marker.prepare(cursor, table_is_there=self.table.is_there(cursor))
                self.table.prepare(cursor)
        except BaseException:
            self.connection.close()
            raise

    @property
    def marker(self) -> Marker | None:
        """The last delivery that the database shows."""
        with self.lock, self._told("read"), self._transaction() as cursor:
            return self.table_marker.read(cursor)

    def publish(self, delivery: Delivery) -> Receipt:
        """Write the rows of a tick and its marker, once."""
        with self.lock, self._told("written"), self._transaction() as cursor:
            receipt = publish_tick(cursor, self.table, self.table_marker, self.target, delivery)
        self.target = self.target.once_published
        return receipt

    def close(self) -> None:
        """Close the connection."""
        with self.lock:
            self.connection.close()

    def _connected(self) -> sqlite3.Connection:
        folder = os.path.dirname(os.path.abspath(self.path))
        if not os.path.isdir(folder):
            raise SinkError(
                f"The folder {folder!r} of the database of {self.target} is not there.", fix="Make it, or mend the url."
            )
        connection = sqlite3.connect(
            self.path, timeout=self.wait / 1_000_000, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Cursor]:
        """All or nothing. IMMEDIATE: the marker that is read is the one that is moved."""
        cursor = self.connection.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        try:
            yield cursor
            cursor.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                cursor.execute("ROLLBACK")
            raise
        finally:
            cursor.close()

    @contextmanager
    def _told(self, done: str) -> Iterator[None]:
        """What SQLite says, said of the sink."""
        try:
            yield
        except sqlite3.Error as error:
            locked = any(word in str(error) for word in _LOCKED)
            raise SinkError(
                f"The table {self.table.name!r} in {self.path!r} could not be {done}: {error}.",
                fix=f"Another program held the database for more than {self.wait.text}: let it finish, or give a greater wait=."
                if locked
                else "Look at the database and its disk; nothing of this tick was written, so it can be tried again.",
            ) from error
