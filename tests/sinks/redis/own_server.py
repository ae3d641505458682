"""A server of Redis of a test's own, that may be killed."""

from __future__ import annotations

import random
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry


class Server:
    """A server in a folder; what it keeps there it finds again when it is started again."""

    def __init__(self, folder: Path, *settings: str) -> None:
        binary = shutil.which("redis-server")
        if binary is None:
            pytest.skip("redis-server is not installed")
        self.port = free_port()
        self.command = [
            binary,
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--dir",
            str(folder),
            "--save",
            "",
            *settings,
        ]
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, and wait until it answers."""
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                with redis.Redis(port=self.port, retry=Retry(NoBackoff(), 0)) as client:
                    client.ping()
                return
            except redis.AuthenticationError:  # noqa: PERF203 - it is waited for
                return
            except redis.ConnectionError:
                time.sleep(0.02)  # a process that starts cannot be given the time
        raise AssertionError("redis-server does not answer")

    def kill(self) -> None:
        """Kill it, as kill -9 does."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None


def free_port() -> int:
    """One below 50,000: a server of a cluster also takes the port that is greater by 10,000."""
    while True:
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", random.randrange(20_000, 50_000)))
            return int(free.getsockname()[1])
