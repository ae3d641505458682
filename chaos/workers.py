"""Workers are killed while they work, and executors; Spark tries their tasks again, and the tick is the same."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from typing import Any, Final

from chaos import orders
from chaos.processes import executors_of, wait_until, workers_of
from chaos.stage import Stage, finish, head_of, last_error
from chaos.trials import Trial
from strandline.errors import StrandlineError
from strandline.model.types import Schema
from strandline.sources.contract import Limit, Offset, Piece, Place, Reader
from strandline.sources.files import FileSource
from strandline.spark import engine
from strandline.store.storage import Storage

FAULT: Final = "SIGKILL of a worker"
CLUSTER: Final = "local-cluster[2,1,1024]"  # two executors in processes of their own
AT_ANY_MOMENT, IN_A_TASK, EXECUTORS = 12, 10, 4


def kill_workers(stage: Stage, *, quick: bool) -> None:
    """Workers at any moment, workers in the middle of reading, and executors."""
    with _all_steps_in_tasks():
        kill_at_any_moment(stage, 3 if quick else AT_ANY_MOMENT)
    kill_in_a_task(stage, 3 if quick else IN_A_TASK)
    if not quick:
        kill_executors(stage, EXECUTORS)


@contextmanager
def _all_steps_in_tasks() -> Iterator[None]:
    usual, engine.SMALL = engine.SMALL, 0  # type: ignore[misc]
    try:
        yield
    finally:
        engine.SMALL = usual  # type: ignore[misc]


def kill_at_any_moment(stage: Stage, count: int) -> None:
    """Kill a worker every second or so, whatever it does; several runs if one is too short for all."""
    drawn = random.Random(count)
    while count > 0:
        folder, killed = stage.folder("workers"), 0
        run = stage.program.run(folder, stage.spark, wait=False)
        while run.running and killed < count:
            time.sleep(drawn.uniform(0.3, 1.5))
            killed += _killed_one(workers_of(os.getpid()), drawn)
        _note_all(stage, folder, "at any moment", killed, run.wait)
        count -= max(killed, 1)


def _killed_one(found: list[int], drawn: random.Random) -> bool:
    if not found:
        return False
    try:
        os.kill(drawn.choice(found), SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _note_all(stage: Stage, folder: Path, how: str, killed: int, wait: Callable[[], object]) -> None:
    """One trial for each kill; what the run left counts for the last of them."""
    error = told = ""
    try:
        wait()
    except StrandlineError as failure:  # a task that was killed four times: the run is started again
        error, told = type(failure).__name__, failure.what[:300]
        again, why = stage.attempt(folder)
        told += f" Then: {again} {why}" if again else ""
    for number in range(killed):
        last = number == killed - 1
        trial = Trial(fault=FAULT, how=how, what=f"kill {number + 1} of {killed}", error=error if last else "")
        trial.told = told if last else ""
        trial.verdict = stage.verdict(folder) if last else trial.verdict
        stage.note(trial)


# -- in the middle of reading -----------------------------------------------------------------------------------


def kill_in_a_task(stage: Stage, count: int) -> None:
    """Kill a worker that has read rows and not sent them, in one tick after the other."""
    folder = stage.folder("workers")
    tokens = folder.with_name(folder.name + ".tokens")
    tokens.mkdir()
    run = orders.run(folder, stage.spark, FatalSource(orders.files(folder), str(tokens)), wait=False)
    given, head = 0, -1
    while run.running and given < count:
        if (now := head_of(folder)) > head or given == 0:
            (tokens / str(given)).touch()
            given, head = given + 1, now
        time.sleep(0.02)
    wait_until(lambda: not run.running)
    killed = given - len(list(tokens.iterdir()))
    _note_all(stage, folder, "in a task that reads", killed, run.wait)


@dataclass(frozen=True, slots=True)
class FatalSource:
    """A source whose reading kills the worker, once for each file in a folder."""

    source: FileSource
    tokens: str

    @property
    def schema(self) -> Schema:
        """The columns of the source."""
        return self.source.schema

    def reader(self, storage: Storage | None = None) -> FatalReader:
        """The source's reader, with an end."""
        return FatalReader(self.source.reader(storage), self.tokens)


@dataclass(frozen=True, slots=True)
class FatalReader:
    """Reads as another reader does, and dies when it has read."""

    reader: Reader
    tokens: str

    def first(self) -> Offset:
        """As the reader says."""
        return self.reader.first()

    def latest(self, start: Offset, limit: Limit, *, now: int | None = None) -> Offset:
        """As the reader says."""
        return self.reader.latest(start, limit, now=now)

    def parts(self, start: Offset, end: Offset, wanted: int) -> list[Any]:
        """As the reader says."""
        return self.reader.parts(start, end, wanted)

    def places(self, offset: Offset) -> dict[str, Place]:
        """As the reader says."""
        return self.reader.places(offset)

    def read(self, part: Any) -> Iterator[Piece]:
        """The rows; then, if a token can be had, death."""
        yield from self.reader.read(part)
        for token in Path(self.tokens).iterdir():
            with suppress(FileNotFoundError):  # another worker took it
                token.unlink()
                os.kill(os.getpid(), SIGKILL)


# -- executors --------------------------------------------------------------------------------------------------


def kill_executors(stage: Stage, count: int) -> None:
    """Kill executors of a small cluster, one after the other: their tasks are done elsewhere, and new ones start."""
    folder, killed, drawn = stage.folder("executors"), 0, random.Random(count)
    child = stage.start(folder, CLUSTER)
    while child.poll() is None and killed < count:
        head = head_of(folder)
        if head >= 2 * killed and _killed_one(executors_of(child.pid), drawn):
            killed += 1
        time.sleep(0.1)
    ended = finish(child, timeout=600)
    _note_all(stage, folder, "an executor of a cluster", killed, lambda: None)
    if ended != 0 or not killed:
        last = stage.trials[-1] if killed else stage.note(Trial(fault=FAULT, how="an executor of a cluster"))
        last.amiss = f"{killed} were killed; the run ended with {ended}: {last_error(folder)}"
