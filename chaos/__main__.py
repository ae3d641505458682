"""`python -m chaos`: the whole matrix, as a table; exit code 1 if anything is wrong, or was tried too seldom."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from chaos.checkpoints import lose_checkpoints
from chaos.clocks import step_clocks
from chaos.damage import do_damage
from chaos.disks import fill_disks
from chaos.kills import kill_drivers
from chaos.stage import Stage, playing
from chaos.trials import table, too_few, write
from chaos.workers import kill_workers
from chaos.zombies import start_two, wake_zombies
from strandline.spark.points import POINTS

FAULTS: Final[dict[str, Callable[..., None]]] = {
    "kills": kill_drivers,
    "workers": kill_workers,
    "zombies": wake_zombies,
    "two": start_two,
    "disks": fill_disks,
    "damage": do_damage,
    "checkpoints": lose_checkpoints,
    "clocks": step_clocks,
}


def play(stage: Stage, names: list[str], *, quick: bool) -> None:
    """Do these faults, one after the other."""
    for name in names:
        FAULTS[name](stage, quick=quick)


def main() -> int:
    """Play, print, and keep the result of a whole run."""
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=FAULTS, metavar="FAULT", help=", ".join(FAULTS))
    parser.add_argument("--quick", action="store_true", help="a part of each; nothing is written")
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="strandline-chaos-") as name, playing(Path(name) / "stage") as stage:
        play(stage, given.only or list(FAULTS), quick=given.quick)
        trials = stage.trials
    print("\n" + table(trials))
    whole = not (given.only or given.quick)
    wrong = [trial.line() for trial in trials if not trial.fine] + (too_few(trials, POINTS) if whole else [])
    if whole:
        write(trials, time.monotonic() - began)
    print(f"\n{len(trials)} faults, {(time.monotonic() - began) / 60:.1f} minutes", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
