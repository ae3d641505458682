"""A child process that publishes ticks to a Delta table: `python -m tests.sinks.delta.publishing <path> <rows> <n>`.

With n the process ends, as kill -9 would, at the n-th moment before or after a commit; with 0 it lives, unless it is killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from strandline.sinks.contract import Delivery, Target
from strandline.sinks.delta.description import DeltaSink
from strandline.sinks.delta.tables import Appended, Merged
from tests.sinks.delivering import CHANGES, TARGET, delivery

DIED = 77
TICKS = 12
KEYS = 5


def ticks(rows: str) -> tuple[Target, list[Delivery]]:
    """Ticks of which each changes every key, so that a reader can tell a half one; or adds as many rows."""
    if rows == "append":
        return TARGET, [
            delivery(TARGET, number, *((f"k{at}", number) for at in range(KEYS))) for number in range(1, TICKS + 1)
        ]
    changed: list[list[tuple[Any, ...]]] = [
        [(f"k{at}", None, "delete") if number % 4 == at else (f"k{at}", number, "upsert") for at in range(KEYS)]
        for number in range(1, TICKS + 1)
    ]
    return CHANGES, [delivery(CHANGES, number, *each) for number, each in enumerate(changed, 1)]


def is_whole(rows: str, table: list[tuple[Any, ...]]) -> bool:
    """Whether a table holds whole ticks."""
    numbers = [number for _, number in table]
    if rows == "append":
        return sorted(numbers) == sorted(each for each in range(1, max(numbers, default=0) + 1) for _ in range(KEYS))
    gone = {max(numbers) % 4} & set(range(KEYS)) if numbers else set()
    return len(set(numbers)) <= 1 and len(numbers) in (0, KEYS - len(gone))


def child(path: Path, rows: str, number: int = 0) -> subprocess.Popen[bytes]:
    """Publish all ticks that are missing, in a process of its own."""
    root = Path(__file__).parents[3]
    told = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    command = [sys.executable, "-m", "tests.sinks.delta.publishing", str(path), rows, str(number)]
    return subprocess.Popen(command, cwd=root, env=told)


def publish(path: str | Path, rows: str) -> None:
    """Publish all ticks that are missing, the last again that is there."""
    target, deliveries = ticks(rows)
    publisher = DeltaSink(path).prepare(target)
    known = publisher.marker
    for tick in deliveries:
        if known is None or tick.tick >= known.tick:
            publisher.publish(tick)
    publisher.close()


def main(path: str, rows: str, number: str) -> None:
    left = int(number)

    def count() -> None:
        nonlocal left
        left -= 1
        if not left:
            os._exit(DIED)

    for kind in (Appended, Merged):
        write = kind.write

        def counted(self: Any, *given: Any, write: Any = write) -> None:
            count()
            write(self, *given)
            count()

        kind.write = counted  # type: ignore[method-assign]
    publish(path, rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
