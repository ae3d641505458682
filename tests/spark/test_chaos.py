"""A part of the crash matrix (`make chaos` is the whole): what stands in the sinks does not know of any fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chaos.checkpoints import lose_checkpoints
from chaos.damage import do_damage
from chaos.disks import fill_disks
from chaos.kills import QUICK, kill_drivers
from chaos.operators.breaking import break_off
from chaos.operators.flows import ALL
from chaos.operators.programs import program_of
from chaos.stage import Stage, playing
from chaos.trials import Trial, table
from chaos.workers import kill_workers
from chaos.zombies import wake_zombies
from strandline.spark.points import POINTS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stage(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with playing(tmp_path_factory.mktemp("chaos") / "stage", spark) as made:
        yield made


def played(stage: Stage, fault: Callable[..., None]) -> list[Trial]:
    before = len(stage.trials)
    fault(stage, quick=True)
    return stage.trials[before:]


def wrong(trials: list[Trial]) -> list[str]:
    return [trial.line() for trial in trials if not trial.fine]


def test_a_driver_that_is_killed_again_and_again_leaves_the_same_rows(stage: Stage) -> None:
    trials = played(stage, kill_drivers)
    assert wrong(trials) == []
    assert [trial.how for trial in trials] == [f"at {point}" for point in QUICK]
    assert all(trial.recovery for trial in trials)


@pytest.mark.parametrize("fault", [kill_workers, wake_zombies, do_damage, lose_checkpoints, fill_disks])
def test_the_fault_leaves_the_same_rows_or_an_error_that_says_what_to_do(
    stage: Stage, fault: Callable[..., None], record_property: Callable[[str, object], None]
) -> None:
    trials = played(stage, fault)
    assert trials
    assert wrong(trials) == []
    if fault is fill_disks:
        record_property("table", table(stage.trials))


def test_a_flow_of_all_operators_that_is_broken_off_at_every_point_leaves_the_same_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    with playing(tmp_path / "stage", spark, program_of(ALL)) as operators:
        break_off(operators, ALL)
        assert wrong(operators.trials) == []
        assert {trial.what.partition(":")[0] for trial in operators.trials} == set(POINTS)
