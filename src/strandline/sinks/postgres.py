"""Tables of PostgreSQL: the rows of a tick and its marker in one transaction.

A connection that is lost is made anew, and the marker says whether the transaction took effect: then the tick is passed
over, else it is written again.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Final

import psycopg
from psycopg import errors

from strandline.clients.postgres import LEAST_VERSION, Postgres
from strandline.clients.postgres_session import Cursor, Session
from strandline.errors import SinkError
from strandline.model.time import Span
from strandline.sinks.contract import Delivery, Marker, Receipt, Target
from strandline.sinks.postgres_catalog import Named, schema_of
from strandline.sinks.postgres_markers import PostgresMarker
from strandline.sinks.postgres_tables import KeyedTable, Table
from strandline.sinks.table_publishing import publish_tick

_WEAK: Final = {
    "synchronous_commit": "a crash of the server can take back the last ticks, markers and all",
    "fsync": "a crash of the server's machine can damage or take back anything that was published",
    "full_page_writes": "a crash of the server's machine can damage what was published",
}
"""Settings that, when off, void what is promised; and how."""
_PREPARING: Final = 0x5374726E
"""The lock of those who make tables in a schema: to PostgreSQL, two who make one at the same moment are an error."""


class PostgresPublisher:
    """A table of PostgreSQL, open for deliveries."""

    def __init__(
        self, server: Postgres, table: tuple[str | None, str], target: Target, wait: Span, nul: str | None
    ) -> None:
        self.server, self.name, self.target, self.wait, self.nul = server, table[1], target, wait, nul
        self.notes: list[str] = []
        self.lock = threading.Lock()  # the driver publishes from other threads than the one that prepared
        with self._told("opened"):
            self.session = Session(server, wait)
        try:
            with self._told("prepared"):
                self.table, self.table_marker = self.session.run(lambda cursor: self._prepared(cursor, *table))
        except BaseException:
            self.session.close()
            raise

    @property
    def marker(self) -> Marker | None:
        """The last delivery that the database shows."""
        with self.lock, self._told("read"):
            return self.session.run(self.table_marker.read)

    def publish(self, delivery: Delivery) -> Receipt:
        """Write the rows of a tick and its marker, once."""
        written: list[Receipt] = []

        def work(cursor: Cursor) -> Receipt:
            receipt = publish_tick(cursor, self.table, self.table_marker, self.target, delivery)
            if receipt.skipped:  # by whom? A commit of ours, perhaps, of which the answer was lost
                return written[-1] if written else receipt
            written.append(receipt)
            return receipt

        with self.lock, self._told("written"):
            receipt = self.session.run(work)
        self.target = self.target.once_published
        return receipt

    def close(self) -> None:
        """Close the connection."""
        with self.lock:
            self.session.close()

    def _prepared(self, cursor: Cursor, schema: str | None, name: str) -> tuple[Table, PostgresMarker]:
        self._require_version()
        found = schema_of(cursor, schema)
        if found is None:
            raise SinkError(
                f"The schema {schema!r} of the table {name!r} is not there." if schema else "No schema is chosen.",
                fix="Make it: CREATE SCHEMA; or name another: 'schema.table'.",
            )
        named = Named(found, name)
        self.session.take_name(cursor, _name_of(self.target, named))
        cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_PREPARING, found))
        table = (KeyedTable if self.target.rows == "upsert" else Table)(named, self.target, self.nul)
        marker = PostgresMarker(named, self.target)
        marker.prepare(cursor, table_is_there=table.is_there(cursor))
        table.prepare(cursor)
        self.notes = list(_weaknesses(cursor))
        return table, marker

    def _require_version(self) -> None:
        version = self.session.connection.info.server_version // 10_000
        if version < LEAST_VERSION:
            raise SinkError(
                f"The database {self.server.place!r} is PostgreSQL {version}, in which null cannot be a key.",
                fix=f"PostgreSQL {LEAST_VERSION} or later is needed.",
            )

    @contextmanager
    def _told(self, done: str) -> Iterator[None]:
        """What PostgreSQL says, said of the sink. Not `from` what it said: that may hold what must not be told."""
        try:
            yield
        except psycopg.Error as error:
            raise SinkError(
                f"The table {self.name!r} in {self.server.place!r} could not be {done}: {self.server.said(error)}.",
                fix=self._fix(error),
            ) from None

    def _fix(self, error: psycopg.Error) -> str:
        again = "nothing of this tick was written, so it can be tried again"
        match error:
            case errors.LockNotAvailable():
                return f"Another program held the table for more than {self.wait.text}: let it finish, or give a greater wait=."
            case errors.QueryCanceled():
                return f"Somebody, or a statement_timeout, ended it: give it more time; {again}."
            case errors.InsufficientPrivilege():
                return f"Grant the user of the url what is missing; {again}."
            case errors.IntegrityError() | errors.CardinalityViolation():
                return f"A condition of the table's own refused a row: change the condition, or name another table; {again}."
            case _ if error.sqlstate is None or error.sqlstate[:2] in ("08", "57"):
                return "See that the server can be reached and start again: the marker tells whether the last tick is there."
        return f"Look at the database and its log; {again}."


def _name_of(target: Target, table: Named) -> str:
    """What the server knows the transactions of a sink by: the same in every run of its flow, and in no other sink."""
    identity = json.dumps([target.flow, target.sink, table.schema, table.name]).encode()
    return f"strandline {sha256(identity).hexdigest()[:32]}"


def _weaknesses(cursor: Cursor) -> Iterator[str]:
    for name, harm in _WEAK.items():
        found = cursor.execute("SELECT current_setting(%s)", (name,)).fetchone()
        if found is not None and found[0] == "off":
            yield f"exactly once only while the server does not crash: {name} is off there, and {harm}."
