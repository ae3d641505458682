"""A child process that publishes one tick and dies at a chosen moment: `python -m tests.sinks.dying <sink> <place> <n>`.

The n-th call that could leave something behind (a system call on files, a statement to a database) ends the process
instead, without any clean-up, as kill -9 would. It exits with 77 then, and with 0 when there is no such call.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from strandline.sinks.contract import Sink
from strandline.sinks.database import DatabaseSink
from strandline.sinks.files import FileSink
from tests.sinks.delivering import TARGET, delivery

DIED = 77
CALLS = ("open", "writev", "fsync", "link", "replace", "unlink", "mkdir")
SINKS: dict[str, Callable[[str], Sink]] = {
    "ticks": FileSink,
    "log": lambda place: FileSink(place, layout="log"),
    "sqlite": lambda place: DatabaseSink(f"sqlite:///{place}/out.db", "rows"),
    "postgres": lambda place: DatabaseSink(Path(place, "url").read_text(), "rows"),
}
TICK = delivery(TARGET, 2, ("b", 2), ("c", 3))


def die_at(sink: str, place: Path, number: int) -> int:
    """Publish tick 2 in a child that dies at this call; how it ended."""
    root = Path(__file__).parents[2]
    told = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    command = [sys.executable, "-m", "tests.sinks.dying", sink, str(place), str(number)]
    return subprocess.run(command, cwd=root, env=told, check=False).returncode


class _Countdown:
    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self) -> None:
        self.left -= 1
        if not self.left:
            os._exit(DIED)

    def before(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            self()
            return call(*given, **named)

        return counted


def _die_in_files(countdown: _Countdown) -> None:
    for name in CALLS:
        setattr(os, name, countdown.before(getattr(os, name)))


def _die_in_sqlite(countdown: _Countdown) -> None:
    class Cursor(sqlite3.Cursor):
        def execute(self, *given: Any) -> Any:
            countdown()
            return super().execute(*given)

        def executemany(self, statement: str, rows: Any) -> Any:
            for row in rows:
                countdown()
                super().execute(statement, row)
            return self

    class Connection(sqlite3.Connection):
        def cursor(self, *given: Any) -> Any:
            return super().cursor(Cursor)

    connect = sqlite3.connect
    sqlite3.connect = lambda *given, **named: connect(*given, factory=Connection, **named)  # type: ignore[assignment]


def _die_in_postgres(countdown: _Countdown) -> None:
    """Before each statement and each piece of a COPY, and behind the last statement, which commits."""

    def committing(cursor: Any, statement: Any, *given: Any, **named: Any) -> Any:
        countdown()
        done = execute(cursor, statement, *given, **named)
        if statement == "COMMIT":
            countdown()
        return done

    execute = psycopg.Cursor.execute
    psycopg.Cursor.execute = committing  # type: ignore[assignment,method-assign]
    psycopg.Copy.write = countdown.before(psycopg.Copy.write)  # type: ignore[method-assign]


DIES = {"sqlite": _die_in_sqlite, "postgres": _die_in_postgres}


def main(sink: str, place: str, number: str) -> None:
    countdown = _Countdown(int(number))
    DIES.get(sink, _die_in_files)(countdown)
    SINKS[sink](place).prepare(TARGET).publish(TICK)


if __name__ == "__main__":
    main(*sys.argv[1:])
