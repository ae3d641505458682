"""Conditions that cannot be answered of every row or window: kernel and oracle show the same, or both stop in the same tick."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strandline as sl
from strandline.errors import CheckFailed, DataError
from strandline.model.triggers import Trigger
from strandline.testing import play
from strandline.testing.strategies import MODES, SCHEMA, pace_of, steps, windows
from tests.lanes import examples
from tests.laws.comparing import differences

# amount may be 0, and n is 0 where a discarding window has nothing; n - 3 is 0 now and then.
WHEN, EVENT = sl.When("6 / n >= 2"), sl.OnEvent("8 / amount > 2")
SELDOM = sl.When("6 / (n - 3) >= 2", crossing=True)
TRIGGERS: list[Trigger] = [
    sl.Repeatedly(WHEN), sl.AfterWatermark(early=WHEN), sl.AfterWatermark(early=SELDOM, late=WHEN), sl.Repeatedly(SELDOM),
    sl.AfterWatermark(early=EVENT, late=EVENT), sl.AfterEach(sl.AfterCount(2), sl.Repeatedly(EVENT)),
    sl.Repeatedly(sl.AfterAny(SELDOM, sl.AfterCount(2, exact=True))), sl.Repeatedly(sl.AfterAll(WHEN, sl.AfterProcessingTime("2s"))),
]  # fmt: skip


def shown(stage: sl.Stage, given: tuple[Any, ...], runner: str) -> tuple[Any, int]:
    """What is played of the steps that can be, and how many these are."""
    found = played(stage, given, runner)
    return shown(stage, given[:-1], runner) if found is None else (found, len(given))


def played(stage: sl.Stage, given: tuple[Any, ...], runner: str) -> Any:
    """What is played; None where a condition stops it."""
    try:
        return play(stage, given, runner=runner)
    except DataError as error:
        if "ivision by zero" not in error.what:
            raise
        return None


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(
    window=windows(), trigger=st.sampled_from(TRIGGERS), mode=st.sampled_from(MODES), late=st.sampled_from(("0s", "8s")),
    where=st.sampled_from((None, "10 / amount > 1")), data=st.data(),
)  # fmt: skip
def test_what_cannot_be_answered_stops_both(
    window: Any, trigger: Trigger, mode: Any, late: str, where: str | None, data: st.DataObject
) -> None:
    events = sl.Flow("raising").source("events", sl.Rows(schema=SCHEMA), time="at", watermark=sl.Bounded("5s"))
    windowed = events.key_by("user").window(window, trigger=trigger, lateness=late, mode=mode, allow_loss=True)
    stage = windowed.aggregate("stage", n=sl.Count(), some=sl.Count(where=where))
    try:
        stage.flow.check()
    except CheckFailed:
        return  # not every window takes every option
    drawn = data.draw(steps(pace=pace_of(window)))
    (oracle, until), (kernel, so_far) = shown(stage, drawn, "oracle"), shown(stage, drawn, "kernel")
    assert until == so_far
    assert differences(stage, oracle, kernel) == []
