"""A driver that sleeps while another takes its place, and wakes; and two that are started at once."""

from __future__ import annotations

import os
from pathlib import Path
from signal import SIGCONT
from subprocess import Popen
from typing import Final

from chaos.orders import NAMED_ERROR
from chaos.processes import is_stopped, wait_until
from chaos.stage import Stage, finish, head_of, last_error, recovery_after
from chaos.trials import Trial

FAULT: Final = "a zombie wakes"
STOPS: Final = (
    "offsets:9", "read:10", "ticked:9", "stepped:8", "stepped:11", "committed:8", "committed:10", "publishing:9",
    "publishing:7", "published:9", "recorded:10", "cleaned:10", "resumed:7",
)  # fmt: skip
QUICK: Final = ("committed:10",)
PAIRS: Final = 3


def wake_zombies(stage: Stage, *, quick: bool) -> None:
    """At each point: the driver stops, another goes on to the end, the first one wakes."""
    for stop in QUICK if quick else STOPS:
        stage.note(_woken(stage, stop))


def _woken(stage: Stage, stop: str) -> Trial:
    folder = stage.copy_of_base("zombie")
    zombie = stage.start(folder, at=stop, signal="SIGSTOP")
    trial = Trial(fault=FAULT, how=f"stopped at {stop.partition(':')[0]}", what=stop)
    _wait_for_stop(zombie)
    head = head_of(folder)
    error, told = stage.attempt(folder)
    trial.verdict = stage.verdict(folder)
    os.kill(zombie.pid, SIGCONT)
    ended = finish(zombie)
    trial.verdict += stage.verdict(folder)
    trial.recovery = recovery_after(folder, head)
    trial.error, trial.told = last_error(folder)
    if error or ended != NAMED_ERROR:
        trial.amiss = f"its replacement: {error or 'well'} {told}; it ended with {ended}"
    return trial


def _wait_for_stop(child: Popen[bytes]) -> None:
    wait_until(lambda: child.poll() is not None or is_stopped(child.pid))
    if child.returncode is not None:
        raise AssertionError(f"The driver ended with {child.returncode} and was to be stopped.")


def start_two(stage: Stage, *, quick: bool) -> None:
    """From nothing, and from the middle."""
    for number in range(1 if quick else PAIRS):
        stage.note(_both(stage, stage.copy_of_base("both") if number % 2 == 0 else stage.folder("both"), number))


def _both(stage: Stage, folder: Path, number: int) -> Trial:
    head = head_of(folder)
    children = [stage.start(folder) for _ in range(2)]
    ends = [finish(child, timeout=600) for child in children]
    trial = Trial(fault="two drivers at once", how="from nothing" if number % 2 else "from the middle")
    trial.what = f"they ended with {ends}"
    trial.error, trial.told = last_error(folder)
    if not set(ends) <= {0, NAMED_ERROR}:
        trial.amiss = trial.what
    trial.verdict = stage.verdict_so_far(folder)
    error, told = stage.attempt(folder) if NAMED_ERROR in ends else ("", "")
    trial.amiss += f" then {error}: {told}" if error else ""
    trial.verdict += stage.verdict(folder)
    trial.recovery = recovery_after(folder, head)
    return trial
