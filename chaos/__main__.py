"""`python -m chaos`: the whole matrix, as a table; exit code 1 if anything is wrong, or was tried too seldom."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Final

from chaos.checkpoints import lose_checkpoints
from chaos.clocks import step_clocks
from chaos.damage import do_damage
from chaos.disks import fill_disks
from chaos.kills import kill_drivers
from chaos.matrix import Matrix
from chaos.stage import playing
from chaos.trials import Trial, too_few
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


def play(folder: Path, parts: Collection[str], *, quick: bool) -> list[Trial]:
    """Do these faults, one after the other, to one flow."""
    with playing(folder / "stage") as stage:
        for name in parts:
            FAULTS[name](stage, quick=quick)
    return stage.trials


MATRIX: Final = Matrix(
    program="chaos", about=__doc__, parts=FAULTS, play=play, too_few=partial(too_few, points=POINTS),
    results="chaos", title="The crash matrix",
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(MATRIX.main())
