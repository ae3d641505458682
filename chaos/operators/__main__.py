"""`python -m chaos.operators`: faults done to joins, tables, features, processes and patterns, as a table.

Each operator alone is broken off at every named point of the protocol, in one process. The flow that chains all of them
has its driver and its workers killed, is woken from sleep behind a replacement, and has the state of each stage damaged.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from chaos.checkpoints import lose_checkpoints
from chaos.damage import WAYS, damaged
from chaos.kills import chain_of_points, play_chain
from chaos.operators.breaking import break_off
from chaos.operators.flows import ALL, FLOWS
from chaos.operators.programs import program_of
from chaos.orders import state_of
from chaos.stage import Stage, playing
from chaos.trials import Trial, table, write
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


def too_few(trials: list[Trial], alone: dict[str, int]) -> list[str]:
    """Which flows met fewer faults than they should."""
    found = [f"{name}: {count} of {LEAST_ALONE}" for name, count in alone.items() if count < LEAST_ALONE]
    of_all = len(trials) - sum(alone.values())
    return found + ([f"all operators in one flow: {of_all} of {LEAST_OF_ALL}"] if of_all < LEAST_OF_ALL else [])


def main() -> int:
    """Play, print, and keep the result of a whole run."""
    parser = argparse.ArgumentParser(prog="python -m chaos.operators", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=FLOWS, metavar="FLOW", help=", ".join(FLOWS))
    parser.add_argument("--quick", action="store_true", help="a part of what is done to all in one; nothing is written")
    given = parser.parse_args()
    began, trials, spark = time.monotonic(), list[Trial](), None
    alone: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="strandline-chaos-") as folder:
        for name in given.only or FLOWS:
            with playing(Path(folder) / name.replace(" ", "-"), spark, program_of(name)) as stage:
                spark = stage.spark
                if name == ALL:
                    do_all(stage, quick=given.quick)
                else:
                    break_off(stage, name)
                    alone[name] = len(stage.trials)
                trials += stage.trials
    print("\n" + table(trials))
    whole = not (given.only or given.quick)
    wrong = [trial.line() for trial in trials if not trial.fine] + (too_few(trials, alone) if whole else [])
    if whole:
        write(trials, time.monotonic() - began, "chaos-operators", "The crash matrix of operators")
    print(f"\n{len(trials)} faults, {(time.monotonic() - began) / 60:.1f} minutes", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
