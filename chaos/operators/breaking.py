"""A run is broken off at each named point of the protocol, and goes on in the same process: many ends in little time."""

from __future__ import annotations

import os

from chaos.kills import chain_of_points
from chaos.stage import Stage, head_of, recovery_after
from chaos.trials import Trial


def break_off(stage: Stage, name: str) -> None:
    """End the run at each point, each in a later tick than the one before; in the end everything must be there, once."""
    folder, trials, heads = stage.folder("broken"), [], []
    for kill in chain_of_points(0):
        os.environ["STRANDLINE_AT"] = f"{kill.at}=BREAK"
        try:
            error, told = stage.attempt(folder)
        finally:
            del os.environ["STRANDLINE_AT"]
        trial = Trial(fault=name, how="broken off at a point", what=kill.at, verdict=stage.verdict_so_far(folder))
        trial.amiss = "" if f"broken off {kill.how} " in told else f"it ended with {error or 'nothing amiss'}: {told}"
        trials.append(trial)
        heads.append(head_of(folder))
    error, told = stage.attempt(folder)
    trials[-1].amiss += f" the last run ended with {error}: {told}" if error else ""
    trials[-1].verdict += stage.verdict(folder)
    for trial, head in zip(trials, heads, strict=True):
        trial.recovery = recovery_after(folder, head)
        stage.note(trial)
