"""Spark = kernel, on flows that are drawn: each with a restart in which its last tick is made again from the files."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from strandline.model.triggers import KINDS as TRIGGERS
from strandline.testing import Crash, play
from strandline.testing.strategies import MODES
from tests.lanes import LANE
from tests.laws.comparing import differences
from tests.laws.drawing import KINDS, Cell, Trial, trials

pytestmark = pytest.mark.slow
FLOWS = {"ci": 50, "prove": 1000}[LANE]  # each takes some seconds: two queries are started for it


@st.composite
def restarted_trials(draw: st.DrawFn) -> Trial:
    """A trial of any cell, of four ticks at least, with one restart among them."""
    cell = Cell(
        window=draw(st.sampled_from([*KINDS])),
        trigger=draw(st.sampled_from(TRIGGERS)),
        mode=draw(st.sampled_from(MODES)),
        late=draw(st.booleans()),
    )
    trial = draw(trials(cell, most=5))
    steps = [step for step in trial.steps if not isinstance(step, Crash)]
    at = draw(st.integers(1, len(steps) - 1))
    return replace(trial, steps=(*steps[:at], Crash(), *steps[at:]))


def test_spark_and_the_kernel_agree_on_drawn_flows(spark: SparkSession) -> None:
    # Making an example smaller would take minutes: the one that differs is told as it was drawn.
    @settings(max_examples=FLOWS, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
    @given(restarted_trials())
    def agree(trial: Trial) -> None:
        kernel = play(trial.stream, trial.steps, runner="kernel", buckets=trial.buckets, tasks=trial.tasks)
        # One task is the engine's own choice for so few rows; more of them make each step a job of Spark's.
        spread = {"tasks": trial.tasks} if trial.tasks > 1 else {}
        engine = play(trial.stream, trial.steps, runner="spark", spark=spark, buckets=trial.buckets, **spread)
        found = differences(trial.stream, kernel, engine)
        assert not found, "\n".join(["kernel < > spark", *found])

    agree()
