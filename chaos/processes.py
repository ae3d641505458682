"""Processes of this machine, found in /proc: which is whose child, and what they run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def _all() -> Iterator[tuple[int, int, str]]:
    """Every process: its number, its parent's, its command."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:  # it ended while we looked
                continue
            yield int(folder.name), int(stat.rpartition(")")[2].split()[1]), command


def below(pid: int) -> dict[int, tuple[int, str]]:
    """The children of a process, theirs, and so on: their parents and commands."""
    known = {number: (parent, command) for number, parent, command in _all()}
    found: dict[int, tuple[int, str]] = {}
    wave = {pid}
    while wave:
        wave = {number for number, (parent, _) in known.items() if parent in wave}
        found |= {number: known[number] for number in wave}
    return found


def java_of(pid: int) -> int | None:
    """The Java process that a driver has started."""
    return next((number for number, (_, command) in below(pid).items() if "/bin/java -cp" in command), None)


def workers_of(pid: int) -> list[int]:
    """The Python workers of Spark below a process: children of the one that forks them."""
    found = below(pid)
    daemons = {number for number, (_, command) in found.items() if "pyspark.daemon" in command}
    return sorted(number for number in daemons if found[number][0] in daemons)


def executors_of(pid: int) -> list[int]:
    """The Java processes of Spark's executors below a process."""
    return sorted(number for number, (_, command) in below(pid).items() if "CoarseGrainedExecutorBackend" in command)


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal."""
    return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "T"
