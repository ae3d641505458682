"""What is done to publishers and to servers, and what is left when it is over."""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGKILL
from typing import Final

from chaos.judging import Verdict, differing
from chaos.orders import NAMED_ERROR
from chaos.processes import is_stopped, wait_until
from chaos.servers.outlets import Outlet
from chaos.servers.publisher import committed, start
from chaos.servers.ticks import amounts_to
from chaos.trials import IN_THE_END, Trial
from tests.proxy import Proxy

FURTHER: Final = 2  # ticks that a publisher is to publish if nothing happens to it
TRIES: Final = 3  # of one that comes while a server still holds what another has begun
PATIENCE: Final = 180.0
COMMIT: Final = b"COMMIT\0"  # the whole statement: BEGIN says READ COMMITTED


@dataclass
class Fire:
    """An outlet under fire: every fault is a trial; the reader beside it looks all the time."""

    outlet: Outlet
    folder: Path
    note: Callable[[Trial], Trial]
    looked: Callable[[], list[str]]
    drawn: random.Random = field(default_factory=lambda: random.Random(7))

    @property
    def head(self) -> int:
        found = committed(self.folder)
        return 0 if found is None else found[0]

    def publish(self, last: int, port: int | None = None) -> int:
        """Publish undisturbed up to a tick; how it ended."""
        return _ended(start(self.outlet.text(port), self.folder, last))

    def judged(self, trial: Trial, *, whole: bool) -> Trial:
        """What the reader has seen; and, if everything is published, what is there."""
        wrong = self.looked()
        trial.amiss = "; ".join([*([trial.amiss] if trial.amiss else []), *wrong[:3]])
        if whole:
            trial.verdict = differing(self.outlet.found(), amounts_to(self.outlet.target, self.head))
        return self.note(trial)

    def finish(self) -> Verdict:
        """Publish what was not, and see what is there."""
        ended = next((0 for _ in range(TRIES) if self.publish(self.head + 1) == 0), NAMED_ERROR)
        trial = Trial(fault=IN_THE_END, how=self.outlet.name, amiss="" if ended == 0 else self._last_words())
        return self.judged(trial, whole=True).verdict

    def _last_words(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-500:]

    # -- publishers ---------------------------------------------------------------------------------------------

    def kill(self, count: int) -> None:
        """Kill at the first moment, go on and kill at the second, and so on; begin again when a tick is through."""
        moment = 0
        while count:
            moment += 1
            last = self.head + FURTHER
            ended = _ended(start(self.outlet.text(), self.folder, last, moment))
            if ended == 0:
                moment = 0
                continue
            trial = Trial(fault="SIGKILL of a publisher", how=self.outlet.name, what=f"moment {moment}")
            trial.amiss = "" if ended == -SIGKILL else f"it ended with {ended}: {self._last_words()}"
            self.judged(trial, whole=False)
            count -= 1

    def kill_at_any_time(self, count: int, longest: float) -> None:
        """Kill when some time has gone by, whatever it does."""
        for _ in range(count):
            after = self.drawn.uniform(0.5, longest)
            child = start(self.outlet.text(), self.folder, self.head + 50)
            with suppress(subprocess.TimeoutExpired):
                child.wait(after)
            child.kill()
            ended = _ended(child)
            trial = Trial(fault="SIGKILL of a publisher", how=self.outlet.name, what=f"after {after:.2f} s")
            trial.amiss = "" if ended in (0, -SIGKILL) else f"it ended with {ended}: {self._last_words()}"
            self.judged(trial, whole=False)

    def wake(self, moments: Sequence[int]) -> None:
        """Stop one inside a tick, let another take its place and go on, and wake the first."""
        for moment in moments:
            zombie = start(self.outlet.text(), self.folder, self.head + 1, moment, "SIGSTOP")
            if not _stopped(zombie):
                continue
            began = time.monotonic()
            ends = [self.publish(self.head + FURTHER)]
            while ends[-1] != 0 and len(ends) < TRIES:
                ends.append(self.publish(self.head))
            trial = Trial(fault="a zombie wakes", how=self.outlet.name, what=f"stopped at moment {moment}")
            trial.recovery = time.monotonic() - began
            os.kill(zombie.pid, SIGCONT)
            ended = _ended(zombie)
            if ends[-1] != 0 or ended not in (0, NAMED_ERROR):
                trial.amiss = f"replacements ended with {ends}, the zombie with {ended}: {self._last_words()}"
            trial.error = "named" if ended == NAMED_ERROR else ""
            self.judged(trial, whole=True)

    def two_at_once(self, count: int) -> None:
        """Two publish the same ticks: one of them, or one after the other, and nothing twice."""
        for _ in range(count):
            last = self.head + FURTHER
            both = [start(self.outlet.text(), self.folder, last) for _ in range(2)]
            ends = [_ended(each) for each in both]
            again = self.publish(last) if 0 not in ends or self.head < last else 0
            trial = Trial(fault="two publishers at once", how=self.outlet.name, what=f"they ended with {ends}")
            if not set(ends) <= {0, NAMED_ERROR} or again:
                trial.amiss = f"{ends}, then {again}: {self._last_words()}"
            self.judged(trial, whole=True)

    # -- servers ------------------------------------------------------------------------------------------------

    def kill_server(self, moments: Sequence[int]) -> None:
        """Kill the server while a publisher stands at a moment, and start it again on what it has."""
        server = self.outlet.server
        assert server is not None
        for moment in moments:
            child = start(self.outlet.text(), self.folder, self.head + FURTHER, moment, "SIGSTOP")
            if not _stopped(child):
                continue
            began = time.monotonic()
            server.kill()
            again = threading.Thread(target=server.restart)
            again.start()
            os.kill(child.pid, SIGCONT)
            ended = _ended(child)
            again.join()
            trial = Trial(fault="SIGKILL of the server", how=self.outlet.name, what=f"at moment {moment}")
            trial.recovery = time.monotonic() - began
            trial.amiss = "" if ended == 0 else f"the publisher ended with {ended}: {self._last_words()}"
            self.judged(trial, whole=True)

    def cut(self, moments: Sequence[int], inside: Sequence[bytes] = ()) -> None:
        """Cut the connection: between two calls, at a moment; and inside one, before and behind the server's act."""
        server = self.outlet.server
        assert server is not None
        with Proxy("127.0.0.1", server.port) as proxy:
            for moment in moments:
                child = start(self.outlet.text(proxy.port), self.folder, self.head + 1, moment, "SIGSTOP")
                if _stopped(child):
                    proxy.cut()
                    os.kill(child.pid, SIGCONT)
                    self._cut_off(_ended(child), f"at moment {moment}")
            for pattern in inside:
                for rule in (proxy.cut_before, proxy.cut_after):
                    rule(pattern)
                    ended = self.publish(self.head + 1, proxy.port)
                    told = f"{rule.__name__.partition('_')[2]} {pattern.decode('ascii', 'replace').strip(chr(0))}"
                    self._cut_off(ended if not proxy.rules else -1, told)

    def _cut_off(self, ended: int, what: str) -> None:
        trial = Trial(fault="a connection is cut", how=self.outlet.name, what=what)
        trial.amiss = "" if ended == 0 else f"the publisher ended with {ended}: {self._last_words()}"
        self.judged(trial, whole=True)


def _ended(child: subprocess.Popen[bytes]) -> int:
    try:
        return child.wait(PATIENCE)
    finally:
        child.kill()
        child.wait()


def _stopped(child: subprocess.Popen[bytes]) -> bool:
    """Whether it has stopped itself; one that came to its end before had no such moment."""
    wait_until(lambda: child.poll() is not None or is_stopped(child.pid), every=0.01)
    return child.returncode is None
