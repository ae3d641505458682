"""Processes of this machine, found in /proc: which are below one, what they run, and whether something has happened."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from benchmarks.processes import PROC, family, state_and_parent

PATIENCE: Final = 600.0


def wait_until(happened: Callable[[], bool], every: float = 0.02) -> None:
    """Look again and again: the processes are others, and tell nobody. What never happens is an error."""
    until = time.monotonic() + PATIENCE
    while not happened():
        if time.monotonic() > until:
            raise TimeoutError(f"It has not happened in {PATIENCE:.0f} seconds.")
        time.sleep(every)


def commands_below(pid: int) -> dict[int, str]:
    """The processes below one, and what they run."""
    found = {}
    for number in family(pid)[1:]:
        with suppress(OSError):  # it ended while we looked
            found[number] = (PROC / str(number) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return found


def java_of(pid: int) -> int | None:
    """The Java process that a driver has started."""
    return next((number for number, command in commands_below(pid).items() if "/bin/java -cp" in command), None)


def workers_of(pid: int) -> list[int]:
    """The Python workers of Spark below a process: children of the one that forks them."""
    forking = {number for number, command in commands_below(pid).items() if "pyspark.daemon" in command}
    found = []
    for number in sorted(forking):
        with suppress(OSError):
            found += [number] if state_and_parent(number)[1] in forking else []
    return found


def executors_of(pid: int) -> list[int]:
    """The Java processes of Spark's executors below a process."""
    return sorted(n for n, command in commands_below(pid).items() if "CoarseGrainedExecutorBackend" in command)


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal."""
    return state_and_parent(pid)[0] == "T"
