"""Where trials are played: a folder with the events, what an undisturbed run leaves, and a session of Spark's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL
from typing import Any, Final

from chaos import orders
from chaos.judging import Sinks, Verdict, compared, compared_so_far, recoveries
from chaos.program import ORDERS, Program
from chaos.trials import Trial
from strandline.errors import StrandlineError
from strandline.spark.session import session
from strandline.store.manifests import Manifests
from strandline.store.savepoints import take
from strandline.store.storage import storage_at

BASE_KILLED_AT: Final = "committed:7"  # the head is not published, and half of the ticks are still to come
SAVEPOINT: Final = "kept"


@dataclass(slots=True)
class Stage:
    """All that trials share. `root` is a folder of their own."""

    root: Path
    spark: Any = None
    program: Program = ORDERS
    trials: list[Trial] = field(default_factory=list)
    expected: Sinks = field(init=False)
    folders: int = 0
    base_took: float | None = None

    def __post_init__(self) -> None:
        self.program.write_events(self.root / "events")
        if self.spark is None:
            self.spark = session(name="chaos", master="local[2,4]")
            self.spark.sparkContext.setLogLevel("OFF")  # what is wrong is said by errors of ours
        calm = self.root / "calm"
        self.program.run(calm, self.spark)
        self.expected = self.program.read(calm)
        differs = self.program.judge(calm)
        if not differs.fine:
            raise AssertionError(f"The undisturbed run is not what plain Python makes of the list: {differs}")

    def folder(self, name: str) -> Path:
        """A new folder for a run."""
        self.folders += 1
        return self.root / f"{name}-{self.folders}"

    def copy_of_base(self, name: str, *, linked: bool = True) -> Path:
        """A run that died in the middle, ready to be gone on with. Files that never change are shared."""
        target = self.folder(name)
        copied = _linked if linked else shutil.copy2
        shutil.copytree(self.base(), target, copy_function=copied)
        return target

    def base(self) -> Path:
        """A run that was killed between commit and publishing, made once."""
        folder = self.root / "base"
        if self.base_took is None:
            began = time.monotonic()
            ended = finish(self.start(folder, at=BASE_KILLED_AT))
            if ended != -SIGKILL:
                raise AssertionError(f"The base run ended with {ended}: {log_of(folder).read_text()[-2000:]}")
            take(storage_at(orders.state_of(folder)), SAVEPOINT, tick=5)
            self.base_took = time.monotonic() - began
        return folder

    def seconds_of_base(self) -> float:
        """How long a driver takes on this machine, from its start to the middle of the ticks."""
        self.base()
        assert self.base_took is not None
        return self.base_took

    def start(self, folder: Path, *more: str, **options: Any) -> subprocess.Popen[bytes]:
        """A driver of the program in a process group of its own."""
        return start(folder, *more, program=self.program.module, **options)

    def attempt(self, folder: Path, **options: Any) -> tuple[str, str]:
        """Run to the end in this process: the name of the error that it ended with, and what that said."""
        try:
            self.program.run(folder, self.spark, **options)
        except StrandlineError as error:
            return type(error).__name__, " ".join(error.what.split())[:300]
        return "", ""

    def verdict(self, folder: Path) -> Verdict:
        """How the sinks differ from those of the undisturbed run."""
        return compared(self.program.read(folder), self.expected)

    def verdict_so_far(self, folder: Path) -> Verdict:
        """How what the sinks have so far differs."""
        return compared_so_far(self.program.read(folder), self.expected, self.program.added_to)

    def note(self, trial: Trial) -> Trial:
        """Keep a trial, and show it."""
        trial.told = trial.told.replace(f"{self.root.resolve()}/", "")
        self.trials.append(trial)
        print(trial.line(), flush=True)
        return trial


def _linked(source: str, target: str) -> None:
    """Share a file, unless it is changed in place."""
    if "results.db" in source:
        shutil.copy2(source, target)
    else:
        os.link(source, target)


def head_of(folder: Path) -> int:
    """The number of the last committed tick; -1 before the first."""
    state = orders.state_of(folder)
    head = Manifests(storage_at(state)).head() if state.exists() else None
    return -1 if head is None else head.number


def recovery_after(folder: Path, head: int) -> float | None:
    """How long the run took to its first tick that went on behind a head, if it got there."""
    return recoveries(folder).get(head + 1)


# -- drivers in processes of their own --------------------------------------------------------------------------


def start(
    folder: Path,
    *more: str,
    at: str | None = None,
    signal: str = "SIGKILL",
    clock: Path | None = None,
    program: str,
) -> subprocess.Popen[bytes]:
    """A driver in a process group of its own, told at which point to send itself a signal."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("STRANDLINE_AT", "STRANDLINE_CLOCK")
    }
    if at is not None:
        environment["STRANDLINE_AT"] = f"{at}={signal}"
    if clock is not None:
        environment["STRANDLINE_CLOCK"] = str(clock)
    with log_of(folder).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", program, str(folder), *more],
            env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def finish(child: subprocess.Popen[bytes], timeout: float = 300) -> int:
    """Wait for a driver; what is left of its processes (Java, say) goes with it."""
    try:
        return child.wait(timeout)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, SIGKILL)
        child.wait()


def log_of(folder: Path) -> Path:
    """What drivers in a folder have said."""
    return folder.with_name(folder.name + ".log")


def last_error(folder: Path) -> tuple[str, str]:
    """The last named error in the log of a folder."""
    lines = log_of(folder).read_text(errors="replace").splitlines()
    for line in reversed(lines):
        name, _, told = line.partition(": ")
        if name.endswith(("Error", "MissingFile")) and " " not in name and "." not in name:
            return name, told[:300]
    return "", ""


@contextmanager
def playing(folder: Path, spark: Any = None, program: Program = ORDERS) -> Iterator[Stage]:
    """A stage in a folder, which is emptied afterwards."""
    try:
        yield Stage(folder, spark, program)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
