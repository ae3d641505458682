"""The clock steps, back and forth, while a flow runs: processing time goes on, and nothing else changes."""

from __future__ import annotations

import os
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Final

from chaos.judging import journal
from chaos.processes import wait_until
from chaos.stage import Stage, finish, head_of, last_error
from chaos.trials import Trial
from strandline.model.time import Span

FAULT: Final = "a clock that steps"
STEPS: Final = ("-1h", "-3m", "2h", "-1d", "-365d")  # from the time that it is


def step_clocks(stage: Stage, *, quick: bool) -> None:
    """Step before the start, then after each tick; the journal's times only grow, and the sinks are as they should be."""
    folder = stage.copy_of_base("clock")
    clock = folder.with_name("clock")
    _set(clock, "-5m")
    child, head = stage.start(folder, clock=clock), head_of(folder)
    trials = [Trial(fault=FAULT, how="back", what="-5m before the start")]
    for step in STEPS[:2] if quick else STEPS:
        head = _next_head(child, folder, head)
        _set(clock, step)
        how = "back" if step.startswith("-") else "forward"
        trials.append(Trial(fault=FAULT, how=how, what=f"{step} in tick {head + 1}"))
    ended = finish(child)
    trials[-1].amiss = f"it ended with {ended}: {last_error(folder)}" if ended else ""
    _judge(stage, folder, trials)


def _next_head(child: subprocess.Popen[bytes], folder: Path, head: int) -> int:
    wait_until(lambda: child.poll() is not None or head_of(folder) > head)
    return head_of(folder)


def _judge(stage: Stage, folder: Path, trials: list[Trial]) -> None:
    times = [each["now"] for each in journal(folder)]
    trials[-1].verdict = stage.verdict(folder)
    if not all(earlier < later for earlier, later in pairwise(times)):
        trials[-1].amiss += f" processing time went back: {times}"
    for trial in trials:
        stage.note(trial)


def _set(clock: Path, step: str) -> None:
    fresh = clock.with_name("clock.new")
    span = Span.of(step.removeprefix("-"))
    fresh.write_text(str(-int(span) if step.startswith("-") else int(span)))
    os.replace(fresh, clock)
