"""What a process and all that it started take: memory and open files, looked at from outside, in /proc."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

MB = 1_000_000
PROC = Path("/proc")
KINDS = ("driver", "jvm", "workers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What one process takes, in bytes.

    `rss` counts pages that others share as a whole, `pss` its part of them, so that the sum over processes is what they
    take of the machine; it takes the system long to find out, so it is 0 unless asked for. `anon` is what no file stands
    behind.
    """

    pid: int
    kind: str
    rss: int
    pss: int
    anon: int
    files: int


def state_and_parent(pid: int) -> tuple[str, int]:
    """The letter of a process's state, and its parent; OSError if it has ended."""
    # The name in brackets may hold spaces.
    state, parent = (PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[:2]
    return state, int(parent)


def family(root: int) -> list[int]:
    """A process and all that came of it."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                children.setdefault(state_and_parent(int(entry.name))[1], []).append(int(entry.name))
    found, new = [], [root]
    while new:
        found += new
        new = [child for parent in new for child in children.get(parent, [])]
    return found


def look(root: int, *, shared: bool = False) -> list[Taken]:
    """What each process of a family takes now; one that ends meanwhile takes nothing."""
    found: dict[int, Taken] = {}
    for pid in family(root):
        with suppress(OSError, KeyError, StopIteration):
            taken, parent = _look(pid, root, shared)
            # A Java that starts a program is for a moment two processes with one memory: it counts once.
            if not (taken.kind == "jvm" and parent in found and found[parent].kind == "jvm"):
                found[pid] = taken
    return list(found.values())


def _look(pid: int, root: int, shared: bool) -> tuple[Taken, int]:
    status = dict(line.split(":", 1) for line in (PROC / str(pid) / "status").read_text().splitlines() if ":" in line)
    java = os.readlink(PROC / str(pid) / "exe").endswith("/java")
    kind = "driver" if pid == root else "jvm" if java else "workers"
    rss, anon = (int(status[name].split()[0]) * 1024 for name in ("VmRSS", "RssAnon"))
    pss, files = _part(pid) if shared else 0, len(os.listdir(PROC / str(pid) / "fd"))
    return Taken(pid=pid, kind=kind, rss=rss, pss=pss, anon=anon, files=files), int(status["PPid"])


def _part(pid: int) -> int:
    shares = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in shares if line.startswith("Pss:"))


def totals(root: int, *, shared: bool = False) -> dict[str, float]:
    """The family together: resident megabytes, by kind too, those that no file stands behind, open files, processes."""
    found = look(root, shared=shared)
    by_kind = {f"rss_{kind}": sum(each.rss for each in found if each.kind == kind) / MB for kind in KINDS}
    greatest = max((each.anon for each in found if each.kind == "workers"), default=0) / MB
    return {
        "rss": sum(by_kind.values()), **by_kind, "pss": sum(each.pss for each in found) / MB, "anon": sum(each.anon for each in found) / MB,
        "greatest_worker": greatest, "files": sum(each.files for each in found), "processes": len(found),
    }  # fmt: skip


@dataclass(slots=True)
class Watch:
    """Samples of a family, taken at even intervals by a thread, with what `more` adds to each."""

    root: int
    every: float = 1.0
    more: Callable[[], Mapping[str, float]] = dict
    shared: bool = False
    samples: list[dict[str, float]] = field(default_factory=list)
    began: float = field(default_factory=monotonic)
    over: threading.Event = field(default_factory=threading.Event)
    failure: BaseException | None = None

    def peak(self, name: str) -> float:
        """The greatest that a number was."""
        return max(sample[name] for sample in self.samples)

    def work(self) -> None:
        """Take samples until it is over."""
        try:
            while not self.over.wait(max(0.0, self.began + self.every * len(self.samples) - monotonic())):
                at = monotonic() - self.began
                self.samples.append({"at": at, **totals(self.root, shared=self.shared), **self.more()})
        except BaseException as error:
            self.failure = error


@contextmanager
def watching(
    root: int | None = None,
    *,
    every: float = 1.0,
    more: Callable[[], Mapping[str, float]] = dict,
    shared: bool = False,
) -> Iterator[Watch]:
    """Watch a family (this process's, if none is named) while a block runs; a sample that fails fails the block."""
    watch = Watch(root or os.getpid(), every, more, shared)
    thread = threading.Thread(target=watch.work, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        watch.over.set()
        thread.join()
    if watch.failure is not None:
        raise watch.failure


def bytes_below(folder: Path) -> int:
    """The bytes of all files in a folder and below it; files may come and go meanwhile."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.stat(os.path.join(where, name)).st_size
    return total


def files_below(folder: Path) -> int:
    """How many files there are in a folder and below it."""
    return sum(len(names) for _, _, names in os.walk(folder))
