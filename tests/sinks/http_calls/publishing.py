"""A child process that publishes ticks to a server: `python -m tests.sinks.http_calls.publishing <url> <first tick>`."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from strandline.model.time import Instant
from strandline.sinks.contract import Delivery, Target
from strandline.sinks.http.description import HttpSink
from strandline.sinks.http.publisher import HttpPublisher
from tests.sinks.delivering import TARGET, delivery
from tests.sinks.http_calls.paying import Payments, serving

NOON = Instant.of("2026-01-01T12:00:00Z")
TICKS = 3
ROWS = 12


def sink(url: str, **options: Any) -> HttpSink:
    """A sink that does not wait long."""
    quick = {"backoff": "1ms", "longest_backoff": "5ms", "pause": "20ms", "timeout": "5s", "concurrency": 3}
    return HttpSink(url, **(quick | options))


@dataclass(frozen=True)
class AtNoon:
    """A sink at the processing time of the deliveries of tests."""

    url: str

    @property
    def guarantee(self) -> str:
        return sink(self.url).guarantee

    @property
    def takes(self) -> frozenset[str]:
        return sink(self.url).takes

    def prepare(self, target: Target) -> HttpPublisher:
        return HttpPublisher(sink(self.url), target, now=lambda: NOON)


@cache
def shared_url() -> str:
    """A server that lives as long as this process."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(serving(Payments()))


def tick(number: int) -> Delivery:
    """The rows of a tick; no two rows of all ticks are equal."""
    return delivery(TARGET, number, *((f"user-{at}", 100 * number + at) for at in range(ROWS)))


def child(url: str, first: int) -> subprocess.Popen[bytes]:
    """Publish from this tick on, in a process of its own."""
    root = Path(__file__).parents[3]
    told = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.sinks.http_calls.publishing", url, str(first)], cwd=root, env=told
    )


def main(url: str, first: str) -> None:
    publisher = HttpPublisher(sink(url), TARGET, now=lambda: NOON)
    for number in range(int(first), TICKS + 1):
        publisher.publish(tick(number))
    publisher.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
