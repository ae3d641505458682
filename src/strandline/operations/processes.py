"""Servers as processes of their own: started, paused and ended by whoever knows their folder."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strandline.errors import RunError

LOOK_EVERY: Final = 0.05  # seconds
# The first shell leaves the second behind and ends, so that the server is nobody's child; the second becomes the server.
_LEAVE: Final = '"$@" &'
_BECOME: Final = 'echo $$ > "$0" && exec "$@"'
# A process of this kind costs nothing: it looks once a second whether whoever owns the server is still there.
_GUARD: Final = (
    'while kill -0 "$1" 2>/dev/null && kill -0 "$2" 2>/dev/null; do sleep 1; done; kill -9 "$2" 2>/dev/null; '
    'kill -0 "$1" 2>/dev/null || [ -z "$3" ] || { sleep 1; rm -rf "$3"; }'
)


@dataclass(frozen=True, slots=True)
class Process:
    """A server that goes on when the program that started it has ended. It is known by its folder.

    Law: it runs as long as the lock in its folder is held. It inherits the lock and cannot lose it while it lives, so
    that a number in a file which another process has got by now is never taken for it.
    """

    folder: Path
    name: str

    @property
    def out(self) -> Path:
        """Where what it prints goes."""
        return self.folder / f"{self.name}.out"

    def start(
        self, command: Sequence[str], *, user: str | None = None, owner: int | None = None, scratch: Path | None = None
    ) -> None:
        """Start it, as a user if one is named. With an owner it ends when that process does, and `scratch` goes too.

        RunError if it runs already.
        """
        import fcntl  # not on every system that imports this package

        self.folder.mkdir(parents=True, exist_ok=True)
        with self._lock.open("w") as lock, self.out.open("wb") as out:
            try:
                _patiently(lambda: fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB))
            except BlockingIOError:
                raise RunError(f"The {self.name} of {self.folder} runs already.", fix="Stop it first.") from None
            self._number.unlink(missing_ok=True)
            subprocess.run(
                ["sh", "-c", _LEAVE, "sh", "sh", "-c", _BECOME, str(self._number), *command], cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, pass_fds=[lock.fileno()], start_new_session=True,
                user=user, extra_groups=None if user is None else [], check=True,
            )  # fmt: skip
        if owner is not None:
            _guard(owner, self.pid, scratch)

    @property
    def pid(self) -> int:
        """Its number, while it runs."""
        for _ in range(100):  # it writes the number itself, first of all
            with suppress(OSError, ValueError):
                return int(self._number.read_text(encoding="ascii"))
            time.sleep(LOOK_EVERY)
        raise RunError(f"It is not known which process the {self.name} of {self.folder} is.", fix="Start it again.")

    @property
    def runs(self) -> bool:
        """Whether it lives; it may be paused."""
        import fcntl

        try:
            with self._lock.open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def stop(self, *, by: signal.Signals = signal.SIGTERM, within: float = 30.0) -> None:
        """Ask it to end, and wait; after so many seconds it is killed. Nothing happens if it does not run."""
        self.signal(by)
        self.resume()  # one that is paused hears nothing
        if not self.ended(within):
            self.kill()

    def kill(self) -> None:
        """End it without asking (kill -9), and wait until it is gone."""
        self.signal(signal.SIGKILL)
        if not self.ended(within=30.0):
            raise RunError(f"The {self.name} of {self.folder} cannot be killed.", fix="See what its process waits for.")

    def pause(self) -> None:
        """Let it stand still; those who wait for its answer wait. Where the system can say, it stands when this returns."""
        self.signal(signal.SIGSTOP)
        until(lambda: not self.runs or _stands(self.pid), within=10.0)

    def resume(self) -> None:
        """Let it go on."""
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self.runs:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def ended(self, within: float) -> bool:
        """Whether it has ended, or does before so many seconds are over."""
        return until(lambda: not self.runs, within)

    @property
    def _lock(self) -> Path:
        return self.folder / f"{self.name}.lock"

    @property
    def _number(self) -> Path:
        return self.folder / f"{self.name}.pid"


def until(holds: Callable[[], bool], within: float) -> bool:
    """Whether something holds, or comes to hold before so many seconds are over."""
    end = time.monotonic() + within
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(LOOK_EVERY)
    return True


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Wait until no other process is within; one that is killed leaves it."""
    import fcntl  # not on every system that imports this package

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _stands(pid: int) -> bool:
    """Whether all threads of a process are stopped: a signal is under way for a moment."""
    states = []
    for thread in Path("/proc", str(pid), "task").glob("*/stat"):
        with suppress(OSError):  # a thread that has ended
            states.append(thread.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0])
    return all(state == "T" for state in states)


def _patiently(take: Callable[[], None]) -> None:
    """Take a lock; whoever only looks whether it is held holds it for a moment."""
    for _ in range(5):
        with suppress(BlockingIOError):
            return take()
        time.sleep(LOOK_EVERY)
    return take()


def _guard(owner: int, server: int, scratch: Path | None) -> None:
    """Leave a process behind that ends the server when its owner is gone, however the owner ended."""
    guard = ["sh", "-c", _GUARD, "sh", str(owner), str(server), str(scratch or "")]
    subprocess.run(
        ["sh", "-c", _LEAVE, "sh", *guard], cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True, check=True,
    )  # fmt: skip
