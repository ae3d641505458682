"""`python -m chaos.operators`: faults done to joins, tables, features, processes and patterns, as a table.

Each operator alone is broken off at every named point of the protocol, in one process. The flow that chains all of them
has its driver and its workers killed, is woken from sleep behind a replacement, and has the state of each stage damaged.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from chaos.checkpoints import lose_checkpoints
from chaos.damage import WAYS, damaged
from chaos.kills import chain_of_points, play_chain
from chaos.matrix import Matrix
from chaos.operators.breaking import break_off
from chaos.operators.flows import ALL, FLOWS
from chaos.operators.programs import program_of
from chaos.orders import state_of
from chaos.stage import Stage, playing
from chaos.trials import Trial
from chaos.workers import kill_at_any_moment
from chaos.zombies import start_two, wake_zombies
from strandline.store.manifests import Manifests
from strandline.store.storage import storage_at

CHAINS: Final = 2
LEAST_OF_ALL, LEAST_ALONE = 60, 10


def states(folder: Path) -> dict[str, Path]:
    """A file of the state of each stage that keeps any."""
    state = state_of(folder)
    head = Manifests(storage_at(state)).head()
    assert head is not None, "the base run has made ticks"
    return {f"state of {name}": state / max(stage.files) for name, stage in head.stages.items() if stage.files}


def do_all(stage: Stage, *, quick: bool) -> None:
    """What is done to the flow with all operators."""
    for number in range(1 if quick else CHAINS):
        play_chain(stage, chain_of_points(number)[: 3 if quick else None])
    wake_zombies(stage, quick=True)
    kinds = list(states(stage.copy_of_base("looked-at")))
    ways = [way for way in WAYS if not quick or way == "cut short"]
    for seed, (kind, way) in enumerate((kind, way) for kind in kinds for way in ways):
        stage.note(damaged(stage, kind, way, seed=seed, found=states))
    if not quick:
        kill_at_any_moment(stage, 6)
        start_two(stage, quick=True)
        lose_checkpoints(stage, quick=False)


def play(folder: Path, parts: Collection[str], *, quick: bool) -> list[Trial]:
    """Do these flows their faults, one flow after the other."""
    trials, spark = list[Trial](), None
    for name in parts:
        with playing(folder / name.replace(" ", "-"), spark, program_of(name)) as stage:
            spark = stage.spark
            if name == ALL:
                do_all(stage, quick=quick)
            else:
                break_off(stage, name)
            trials += stage.trials
    return trials


def too_few(trials: Sequence[Trial]) -> list[str]:
    """Which flows met fewer faults than they should."""
    alone = {name: sum(trial.fault == name for trial in trials) for name in FLOWS if name != ALL}
    found = [f"{name}: {count} of {LEAST_ALONE}" for name, count in alone.items() if count < LEAST_ALONE]
    of_all = len(trials) - sum(alone.values())
    return found + ([f"all operators in one flow: {of_all} of {LEAST_OF_ALL}"] if of_all < LEAST_OF_ALL else [])


MATRIX: Final = Matrix(
    program="chaos.operators", about=__doc__, parts=FLOWS, play=play, too_few=too_few,
    results="chaos-operators", title="The crash matrix of operators",
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(MATRIX.main())
