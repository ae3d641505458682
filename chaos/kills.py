"""The driver is killed: at each named point of the protocol, or at any moment; its Java process, too.

Kills come in chains: each start recovers from the last kill and is killed at the next point, so that every start of Java
is a trial. What the sinks have is judged after every kill, and one of them compacted; what they lack in the end, at the
end of the chain.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from typing import Final

from chaos.orders import NAMED_ERROR
from chaos.processes import java_of, wait_until
from chaos.stage import Stage, finish, head_of, last_error, recovery_after
from chaos.trials import Trial
from strandline.sinks.compact import compact
from strandline.sinks.folder import OWNER
from strandline.spark.points import POINTS

FAULT: Final = "SIGKILL of the driver"
IN_EVERY_TICK: Final = tuple(point for point in POINTS if point not in ("resumed", "cleaned"))
CHAINS: Final = 6
RANDOM_CHAINS: Final = 2
RANDOM_KILLS: Final = 6  # in a chain
COMPACTED: Final = "changes"
QUICK: Final = (
    "read",
    "stepped",
    "committed",
    "published",
)  # before a tick is anything, and on both sides of its commit


@dataclass(frozen=True, slots=True)
class Kill:
    """When a driver dies: at a point, or after some seconds; then it or its Java process."""

    at: str = ""
    after: float = 0.0
    java: bool = False

    @property
    def how(self) -> str:
        if self.at:
            return f"at {self.at.partition(':')[0]}"
        return "of its Java process, at any moment" if self.java else "at any moment"


def chain_of_points(number: int) -> list[Kill]:
    """Every point of a tick once, each in a later tick than the one before; then while cleaning up, and while starting."""
    turned = [IN_EVERY_TICK[(place + 3 * number) % len(IN_EVERY_TICK)] for place in range(len(IN_EVERY_TICK))]
    kills = [Kill(at=f"{point}:{tick}") for tick, point in enumerate(turned)]
    kills.insert(4, Kill(at="resumed:*"))
    return [*kills, Kill(at="cleaned:10")]


def chain_of_moments(number: int, longest: float) -> list[Kill]:
    """Kills at moments that are drawn."""
    drawn = random.Random(number)
    return [Kill(after=drawn.uniform(1.0, longest), java=place % 3 == 2) for place in range(RANDOM_KILLS)]


def kill_drivers(stage: Stage, *, quick: bool) -> None:
    """All chains; the quick one has a few points."""
    if quick:
        play_chain(stage, [Kill(at=f"{point}:{tick}") for tick, point in enumerate(QUICK, 1)])
        return
    for number in range(CHAINS):
        play_chain(stage, chain_of_points(number))
    for number in range(RANDOM_CHAINS):
        play_chain(stage, chain_of_moments(number, longest=1.2 * stage.seconds_of_base()))


def play_chain(stage: Stage, kills: Sequence[Kill]) -> None:
    """Kill, go on, kill again; in the end everything must be there, once."""
    folder, trials, heads = stage.folder("killed"), [], []
    for kill in kills:
        before = head_of(folder)
        trials.append(_killed(stage, folder, kill))
        heads.append(head_of(folder))
        if heads[-1] < before:
            trials[-1].amiss = f"the head went from tick {before} back to {heads[-1]}"
    ended = finish(stage.start(folder))
    for trial, head in zip(trials, heads, strict=True):
        trial.recovery = recovery_after(folder, head)
    trials[-1].verdict += stage.verdict(folder)
    if ended:
        trials[-1].amiss = f"the last run ended with {ended}: {last_error(folder)}"
    for trial in trials:
        stage.note(trial)


def _killed(stage: Stage, folder: Path, kill: Kill) -> Trial:
    child = stage.start(folder, at=kill.at or None)
    if not kill.at:
        _kill_after(child, kill)
    ended = finish(child)
    trial = Trial(fault=FAULT, how=kill.how, what=kill.at or f"after {kill.after:.1f} s")
    if kill.java and ended == NAMED_ERROR:
        trial.error, trial.told = last_error(folder)
    elif ended != -SIGKILL and (kill.at or ended != 0):
        trial.amiss = f"it ended with {ended}: {last_error(folder)}"
    if (folder / COMPACTED / OWNER).exists():
        compact(folder / COMPACTED, grace=1)
    trial.verdict = stage.verdict_so_far(folder)
    return trial


def _kill_after(child: subprocess.Popen[bytes], kill: Kill) -> None:
    with suppress(subprocess.TimeoutExpired):
        child.wait(kill.after)
        return
    if kill.java:  # it may not have been started yet
        wait_until(lambda: java_of(child.pid) is not None or child.poll() is not None, every=0.1)
    java = java_of(child.pid) if kill.java else None
    with suppress(ProcessLookupError):
        os.kill(child.pid if java is None else java, SIGKILL)
