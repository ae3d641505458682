"""The fixes that check() offers for triggers that lose events: who follows one is let through."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import strandline as sl
from strandline.errors import CheckFailed
from tests.model.checking import (
    COUNTED,
    HOPS,
    MINUTES,
    Unbounded,
    problems,
    stage,
)

LEAVES = st.sampled_from(
    [
        sl.AfterCount(1),
        sl.AfterCount(3, exact=True),
        sl.AfterProcessingTime("90s"),
        sl.AfterProcessingTime(aligned_to="1m"),
        sl.When("total > 3", crossing=True),
        sl.OnEvent("user = 'ann'"),
        sl.AfterClose(),
        sl.Never(),
        sl.AfterWatermark(),
    ]
)
TRIGGERS = st.recursive(
    LEAVES,
    lambda part: st.one_of(
        st.builds(sl.Repeatedly, part),
        st.builds(sl.OrFinally, part, part),
        st.builds(sl.AfterWatermark, early=st.none() | part, late=st.none() | part),
        st.lists(part, min_size=1, max_size=3).flatmap(
            lambda parts: st.sampled_from([sl.AfterAny, sl.AfterAll, sl.AfterEach]).map(lambda kind: kind(*parts))
        ),
    ),
    max_leaves=5,
)
KINDS_OF_WINDOWS = st.sampled_from([MINUTES, HOPS, sl.Session("1m"), sl.Global(), sl.Global(ttl="1h"), Unbounded()])


def offered(fix: str, given: Any) -> list[Any]:
    """The triggers that a fix says to write, made as it says."""
    match = re.fullmatch(r"Write (.*); allow_loss=True if that is meant\.", fix)
    assert match is not None, fix
    return [_made(text, given) for text in match[1].split(", or ")]


def _made(text: str, given: Any) -> Any:
    option, _, said = text.partition("=")
    now = {"trigger": given, "early": getattr(given, "early", None), "late": getattr(given, "late", None)}
    said = re.sub(r"<what (\w+)= is now>", r"now['\1']", said)
    made = eval(said, {**vars(sl), "now": now})  # texts of our own
    return dataclasses.replace(given, late=made) if option == "late" else made


@settings(max_examples=300, deadline=None)
@given(KINDS_OF_WINDOWS, TRIGGERS, st.sampled_from(["0s", "1m"]))
def test_who_follows_the_fix_of_a_trigger_that_loses_events_is_let_through(
    window: Any, trigger: Any, lateness: str
) -> None:
    try:
        stage(window, trigger=trigger, lateness=lateness).flow.check()
    except CheckFailed as failed:
        (problem,) = failed.problems
        event(problem.what)
        if not (isinstance(window, sl.Global) and window.ttl is not None):
            assert "ttl" not in str(problem)
        for mended in offered(problem.fix, trigger):
            assert problems(stage(window, trigger=mended, lateness=lateness)) == []


@pytest.mark.parametrize(
    ("trigger", "options", "fix"),
    [
        (sl.AfterCount(3), {}, "trigger=Repeatedly(AfterAny(AfterCount(3), AfterClose())), or trigger=AfterWatermark(early=AfterCount(3))"),
        (COUNTED, {}, "trigger=Repeatedly(AfterAny(AfterCount(3), AfterClose())), or trigger=AfterWatermark(early=AfterCount(3))"),
        (COUNTED, {"window": sl.Global()}, "trigger=Repeatedly(AfterAny(AfterCount(3), AfterClose()))"),
        (sl.Never(), {}, "trigger=AfterClose(), or trigger=AfterWatermark()"),
        (sl.AfterWatermark(), {"window": sl.Global(ttl="1h")}, "trigger=AfterClose()"),
        (sl.AfterWatermark(late=COUNTED), {"lateness": "1m"}, "late=AfterAny(AfterCount(3), AfterClose())"),
        (sl.AfterWatermark(late=sl.When("total > 3 and user <> 'somebody with quite a long name'")), {"lateness": "1m"},
         "late=AfterAny(<what late= is now>, AfterClose())"),
    ],
)  # fmt: skip
def test_the_fix_of_a_trigger_that_loses_events_can_be_copied(trigger: Any, options: Any, fix: str) -> None:
    with pytest.raises(CheckFailed) as failed:
        stage(trigger=trigger, **options).flow.check()
    assert failed.value.problems[0].fix == f"Write {fix}; allow_loss=True if that is meant."
