"""A child process that publishes ticks to Redis and dies at a chosen moment: `python -m tests.sinks.redis.dying <url> <prefix> <n>`.

The n-th time that it would send something to Redis, or read an answer, the process ends instead, without any clean-up, as
kill -9 would. It exits with 77 then, and with 0 when there is no such time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from strandline.sinks.contract import Delivery
from strandline.sinks.redis.description import RedisSink
from tests.sinks.delivering import CHANGES, delivery

DIED = 77
BATCH = 2
FIRST: list[tuple[Any, ...]] = [(f"k{at}", at, "upsert") for at in range(7)]
SECOND: list[tuple[Any, ...]] = [
    ("k0", None, "delete"), ("k1", 10, "upsert"), ("k2", None, "delete"), ("new", 11, "upsert"), ("k6", None, "upsert"),
]  # fmt: skip
TICKS = [delivery(CHANGES, 1, *FIRST), delivery(CHANGES, 2, *SECOND)]
LEFT = {
    "k1": {"k": "k1", "n": "10"}, "k3": {"k": "k3", "n": "3"}, "k4": {"k": "k4", "n": "4"}, "k5": {"k": "k5", "n": "5"},
    "k6": {"k": "k6"}, "new": {"k": "new", "n": "11"},
}  # fmt: skip
"""What stands there in the end."""


def die_at(url: str, prefix: str, number: int) -> int:
    """Publish both ticks in a child that dies at this moment; how it ended."""
    root = Path(__file__).parents[3]
    told = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    command = [sys.executable, "-m", "tests.sinks.redis.dying", url, prefix, str(number)]
    return subprocess.run(command, cwd=root, env=told, check=False).returncode


def publish(url: str, prefix: str, ticks: list[Delivery]) -> list[bool]:
    """Publish these ticks, those first that the marker does not know; which of them were skipped."""
    publisher = RedisSink(url, prefix, batch=BATCH).prepare(CHANGES)
    known = publisher.marker
    done = [publisher.publish(tick).skipped for tick in ticks if known is None or tick.tick >= known.tick]
    publisher.close()
    return done


def main(url: str, prefix: str, number: str) -> None:
    from redis.connection import AbstractConnection

    left = int(number)

    def before(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if not left:
                os._exit(DIED)
            return call(*given, **named)

        return counted

    for name in ("send_packed_command", "read_response"):
        setattr(AbstractConnection, name, before(getattr(AbstractConnection, name)))
    publish(url, prefix, TICKS)


if __name__ == "__main__":
    main(*sys.argv[1:])
