"""Spark's checkpoint is deleted or rolled back, between two runs and under a run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from chaos import orders
from chaos.processes import wait_until
from chaos.stage import Stage, head_of, recovery_after
from chaos.trials import Trial
from strandline.errors import StrandlineError

FAULT: Final = "Spark's checkpoint"


def _query(folder: Path) -> Path:
    """The folder of the last query."""
    return max((orders.state_of(folder) / "spark").iterdir(), key=lambda path: path.stat().st_mtime_ns)


def _all(folder: Path) -> None:
    shutil.rmtree(orders.state_of(folder) / "spark")


def _rolled_back(*logs: str) -> Callable[[Path], None]:
    def roll_back(folder: Path) -> None:
        for log in logs:
            batches = sorted((path for path in (_query(folder) / log).glob("[0-9]*")), key=lambda path: int(path.name))
            for path in batches[-3:]:
                path.unlink()
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)

    return roll_back


BETWEEN: Final[Mapping[str, Callable[[Path], None]]] = {
    "deleted": _all,
    "its offsets deleted": lambda folder: shutil.rmtree(_query(folder) / "offsets"),
    "its commits deleted": lambda folder: shutil.rmtree(_query(folder) / "commits"),
    "rolled back three batches": _rolled_back("offsets", "commits"),
    "its commits rolled back three batches": _rolled_back("commits"),
}


def lose_checkpoints(stage: Stage, *, quick: bool) -> None:
    """Each way once; deleting it under a run, twice."""
    for how, lose in BETWEEN.items():
        if not quick or how in ("deleted", "rolled back three batches"):
            stage.note(_between(stage, how, lose))
    for tick in () if quick else (8, 10):
        stage.note(_under(stage, tick))


def _between(stage: Stage, how: str, lose: Callable[[Path], None]) -> Trial:
    folder = stage.copy_of_base("checkpoint")
    head = head_of(folder)
    lose(folder)
    trial = Trial(fault=FAULT, how=how)
    trial.error, trial.told = stage.attempt(folder)
    trial.amiss = "it should not matter" if trial.error else ""
    trial.verdict = stage.verdict(folder)
    trial.recovery = recovery_after(folder, head)
    return trial


def _under(stage: Stage, tick: int) -> Trial:
    folder = stage.copy_of_base("checkpoint")
    trial = Trial(fault=FAULT, how="deleted under a run", what=f"in tick {tick}")
    run = stage.program.run(folder, stage.spark, wait=False)
    wait_until(lambda: not run.running or head_of(folder) >= tick)
    shutil.rmtree(orders.state_of(folder) / "spark", ignore_errors=True)
    try:
        run.wait()
    except StrandlineError as error:
        trial.error, trial.told = type(error).__name__, " ".join(error.what.split())[:300]
    trial.verdict = stage.verdict_so_far(folder)
    head = head_of(folder)
    again, told = stage.attempt(folder)
    trial.amiss = f"the next run ended with {again}: {told}" if again else ""
    trial.verdict += stage.verdict(folder)
    trial.recovery = recovery_after(folder, head)
    return trial
