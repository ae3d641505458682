"""A PostgreSQL of a test's own, which may be killed."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import psycopg
import pytest

Result = TypeVar("Result")

NOBODIES = ("postgres", "nobody")  # PostgreSQL does not run as root


def binaries() -> Path:
    """Where the server's programs are, the newest first; or the test is skipped."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: -int(path.parts[4]))
    on_path = shutil.which("postgres")
    if not found and on_path is None:
        pytest.skip("no PostgreSQL: its programs are not installed")
    return (found[0] if found else Path(str(on_path))).parent


class Cluster:
    """A server on a free port, in a folder that is gone at the end."""

    def __init__(self, *settings: str) -> None:
        self.programs = binaries()
        self.folder = Path(tempfile.mkdtemp(prefix="strandline-postgres-"))
        self.user = next((n for n in NOBODIES if _exists(n)), None) if os.geteuid() == 0 else None
        if self.user is not None:
            shutil.chown(self.folder, self.user)
        self.settings = settings
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.url = f"postgresql://tester@127.0.0.1:{self.port}/postgres"
        self._run(
            "initdb", "-D", f"{self.folder}/data", "-U", "tester", "-A", "trust", "-N", "-E", "UTF8", "--locale=C"
        )
        self.start()

    def start(self) -> None:
        """Start it, again after a kill, and wait until it answers."""
        options = ["-p", str(self.port), "-c", "listen_addresses=127.0.0.1", "-k", str(self.folder)]
        options += [word for setting in self.settings for word in ("-c", setting)]
        command = [str(self.programs / "postgres"), "-D", f"{self.folder}/data", *options]
        deadline = time.monotonic() + 60
        self.process: subprocess.Popen[bytes] | None = None
        while not self._answers():
            if self.process is None or self.process.poll() is not None:
                # After a kill the processes that served others may still be ending, and then it does not start.
                with (self.folder / "log").open("ab") as log:
                    self.process = subprocess.Popen(
                        command, user=self.user, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log
                    )
            if time.monotonic() > deadline:
                raise OSError((self.folder / "log").read_text())
            time.sleep(0.05)

    def kill(self) -> None:
        """kill -9 of the first process; the others notice, and end."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

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
        raise OSError((self.folder / "log").read_text())

    def _run(self, program: str, *given: str) -> None:
        done = subprocess.run(
            [str(self.programs / program), *given], user=self.user, cwd="/", check=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        if done.returncode:
            log = self.folder / "log"
            raise OSError(f"{program}: {done.stderr} {log.read_text() if log.exists() else ''}")

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)  # at once, and the others with it
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
