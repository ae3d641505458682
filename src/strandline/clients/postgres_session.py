"""Transactions with PostgreSQL that survive a lost connection.

A connection that is lost while COMMIT is under way leaves nobody knowing whether it took effect. So what is done in a
transaction begins with a look at what is there (a marker), and may be done again: `run` opens a new connection, ends what
the old one may have left, and does it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg import errors, sql

from strandline.clients.postgres import Postgres
from strandline.errors import RunError
from strandline.model.time import Span

Cursor: TypeAlias = "psycopg.Cursor[tuple[Any, ...]]"
Result = TypeVar("Result")

ATTEMPTS: Final = 5
"""How often a transaction is tried, at most, when the connection is lost again and again."""
_FIRST_DELAY, _LONGEST_DELAY = 0.05, 2.0
# A server that lost us holds our locks until it notices: within half a minute, not the two hours that systems take.
_KEEPALIVES: Final = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"
_PASSING: Final = (errors.DeadlockDetected, errors.SerializationFailure)


class Session:
    """A connection, made anew when it was lost. One thread at a time.

    `wait` bounds how long a lock is waited for, and how long a server that was lost. Once it has a name, the server knows
    its transactions by that; whoever takes the same name later ends them.
    """

    def __init__(self, server: Postgres, wait: Span) -> None:
        self.server, self.wait = server, wait
        self.name = "strandline"
        self.connection = self._connected()
        self.current: tuple[int, Any] | None = None  # the transaction under way: the server's process, and its start

    def run(self, work: Callable[[Cursor], Result]) -> Result:
        """What `work` gives, in one transaction. If that was lost, `work` is done again: it must see what is there."""
        for left in reversed(range(ATTEMPTS)):
            if self.connection.closed:
                self._reconnect()
            try:
                return self._once(work)
            except psycopg.Error as error:
                lost = self.connection.closed or isinstance(error, _PASSING)
                if not lost or not left:
                    raise
        raise AssertionError("the last try has returned or raised")

    def take_name(self, cursor: Cursor, name: str) -> None:
        """Be known by a name from this transaction on, and end those that others have begun under it, and still hold.

        A process that stands still would hold its locks for ever. One that lives on begins its transaction again, and sees
        what has happened since.
        """
        self.name = name
        cursor.execute(sql.SQL("SET LOCAL application_name = {}").format(name))
        with suppress(errors.InsufficientPrivilege), cursor.connection.transaction():  # else the lock is waited for
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = %s AND datname = current_database() AND pid <> pg_backend_pid()",
                (name,),
            )

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def _once(self, work: Callable[[Cursor], Result]) -> Result:
        with self.connection.cursor() as cursor:
            self._begin(cursor)
            try:
                result = work(cursor)
                cursor.execute("COMMIT")
            except BaseException:
                self._roll_back(cursor)
                raise
            if cursor.statusmessage != "COMMIT":  # what the server says where a statement failed before
                raise RunError(
                    "PostgreSQL rolled a transaction back in place of committing it.", fix="Look at the server's log."
                )
        self.current = None
        return result

    def _begin(self, cursor: Cursor) -> None:
        """READ COMMITTED: what is read behind a lock is what the one before left there."""
        limit = max(1, self.wait // 1_000)  # 0 would wait for ever
        cursor.execute(
            sql.SQL(
                "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = {}; SET LOCAL application_name = {}"
            ).format(limit, self.name)
        )
        cursor.execute("SELECT pg_backend_pid(), now()")
        self.current = cursor.fetchone()

    def _roll_back(self, cursor: Cursor) -> None:
        if not self.connection.closed:
            with suppress(psycopg.Error):
                cursor.execute("ROLLBACK")
                self.current = None

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        connection = self.server.connect()
        try:
            connection.execute(_KEEPALIVES)
        except BaseException:
            connection.close()
            raise
        return connection

    def _reconnect(self) -> None:
        """A new connection, tried for as long as `wait` says, and once at least."""
        self.connection.close()
        for delay in delays(self.wait):
            try:
                self.connection = self._connected()
                return self._end_what_was_left()
            except psycopg.OperationalError:  # noqa: PERF203 - as above
                time.sleep(delay)
        self.connection = self._connected()
        return self._end_what_was_left()

    def _end_what_was_left(self) -> None:
        """End the transaction that was lost, if the server has not noticed yet and still holds its locks.

        Only that very one: its process may be another's by now. One that is just committing is not harmed: it is there or
        not, and who locks the marker next sees which.
        """
        if self.current is None:
            return
        with suppress(errors.InsufficientPrivilege):  # then the lock is waited for
            self.connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND xact_start = %s",
                self.current,
            )
        self.current = None


def delays(wait: Span) -> Iterator[float]:
    """Seconds between tries, longer and longer, that come to `wait` together.

    >>> list(delays(Span.of("1s")))
    [0.05, 0.1, 0.2, 0.4, 0.25]
    """
    left, delay = wait / 1_000_000, _FIRST_DELAY
    while left > 1e-9:
        yield round(min(delay, left), 6)
        left, delay = left - min(delay, left), min(2 * delay, _LONGEST_DELAY)
