"""The S3 server of the tests in a process of its own: the client of Delta tables keeps Python waiting while it calls.

`python -m tests.sinks.delta.objects` prints its port, and takes from each line that it reads how many answers to puts it
should lose; it then prints how many are left of those of the line before.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.store.serving import serving


class Elsewhere:
    """The server, from here."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.port = int(self._read())

    def lose(self, count: int) -> int:
        """Lose the answers to so many puts; how many are still to be lost of those asked for before."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return int(self._read())

    def _read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@contextmanager
def serving_elsewhere() -> Iterator[Elsewhere]:
    """A server with one empty bucket."""
    root = Path(__file__).parents[3]
    told = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    command = [sys.executable, "-m", "tests.sinks.delta.objects"]
    with subprocess.Popen(
        command, cwd=root, env=told, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Elsewhere(process)
        finally:
            process.kill()


def main() -> None:
    with serving() as server:
        print(server.server_port, flush=True)
        for line in sys.stdin:
            left, server.loses = server.loses, int(line)
            print(left, flush=True)


if __name__ == "__main__":
    main()
