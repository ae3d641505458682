"""A PostgreSQL of a test's own, which may be killed, and is asked again until it is back."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import psycopg

from tests.servers import Postgres, own_postgres

Result = TypeVar("Result")


@dataclass(frozen=True)
class Cluster:
    """A server of PostgreSQL, and what is asked of it from outside."""

    server: Postgres

    @property
    def url(self) -> str:
        return self.server.address

    def kill_backend(self, pid: int) -> None:
        """kill -9 of a process that serves somebody: the server restarts all of them."""
        os.kill(pid, signal.SIGKILL)

    def ask(self, question: str) -> list[tuple[object, ...]]:
        return self._done(lambda connection: connection.execute(question).fetchall())  # type: ignore[arg-type]

    def tell(self, statement: str) -> None:
        self._done(lambda connection: connection.execute(statement))  # type: ignore[arg-type]

    def _done(self, work: Callable[[psycopg.Connection], Result]) -> Result:
        """What comes of it, once the server has come back from whatever was done to it."""
        for _ in range(600):
            try:
                with psycopg.connect(self.url, autocommit=True, connect_timeout=5) as connection:
                    return work(connection)
            except psycopg.OperationalError:  # noqa: PERF203 - it is starting
                time.sleep(0.05)
        raise OSError(self.server.process.out.read_text(encoding="utf-8"))


@contextmanager
def own_cluster(**settings: object) -> Iterator[Cluster]:
    """One that is gone at the end."""
    with own_postgres(**settings) as server:
        yield Cluster(server)
