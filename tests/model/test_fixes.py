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
from strandline.testing import Tick, Watermark, play
from tests.model.checking import (
    COUNTED,
    HOPS,
    MINUTES,
    Unbounded,
    problems,
    stage,
)

BEFORE_THE_CLOSE = st.sampled_from(
    [
        sl.AfterCount(1),
        sl.AfterCount(4),
        sl.AfterCount(3, exact=True),
        sl.AfterProcessingTime("2s"),
        sl.AfterProcessingTime(aligned_to="5s"),
        sl.When("total > 3", crossing=True),
        sl.When("total = 2 or total = 7"),
        sl.OnEvent("user = 'ann'"),
        sl.Never(),
    ]
)
LEAVES = BEFORE_THE_CLOSE | st.sampled_from([sl.AfterClose(), sl.AfterWatermark()])


def composed(part: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(part, min_size=1, max_size=3)
    return st.one_of(
        st.builds(sl.Repeatedly, part),
        st.builds(sl.OrFinally, part, part),
        st.builds(lambda kind, parts: kind(*parts), st.sampled_from([sl.AfterAny, sl.AfterAll, sl.AfterEach]), several),
    )


TRIGGERS = st.recursive(
    LEAVES,
    lambda part: composed(part) | st.builds(sl.AfterWatermark, early=st.none() | part, late=st.none() | part),
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


@pytest.mark.slow
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


HOURS = sl.Tumbling("1h")
PLACES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "outermost": (HOURS, lambda trigger: trigger, {}),
    "late": (HOURS, lambda trigger: sl.AfterWatermark(late=trigger), {"lateness": "1h"}),
    "early, without an end": (sl.Global(ttl="1h"), lambda trigger: sl.AfterWatermark(early=trigger), {}),
}


def steps(events: int, *, late: bool) -> list[Any]:
    """An event a second, each in a tick of its own; if late, behind the end of its window; then the close."""
    moments = [f"2026-01-01T12:00:{second:02}Z" for second in range(events)]
    return [
        *([Watermark("2026-01-01T13:00:00Z")] if late else []),
        *(Tick([{"user": "ann", "n": 1, "at": moment}], processing_time=moment) for moment in moments),
        Watermark("2026-01-01T14:00:00Z"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=100, deadline=None)
@given(part=st.recursive(BEFORE_THE_CLOSE, composed, max_leaves=4), events=st.integers(3, 20))
def test_who_follows_the_fix_sees_what_the_trigger_shows_until_it_ends_and_then_loses_nothing(
    place: str, part: Any, events: int
) -> None:
    window, put, options = PLACES[place]

    def totals(trigger: Any) -> list[list[int]]:
        played = play(stage(window, trigger=trigger, allow_loss=True, **options), steps(events, late=place == "late"))
        return [[pane["total"] for pane in panes] for panes in played]

    try:
        stage(window, trigger=put(part), **options).flow.check()
    except CheckFailed as failed:
        (problem,) = failed.problems
        before = totals(put(part))[:-1]
        ended = max((number for number, panes in enumerate(before, 1) if panes), default=0)
        for mended in offered(problem.fix, put(part)):
            after = totals(mended)
            assert after[:ended] == before[:ended]
            assert [panes for panes in after if panes][-1][-1] == events


@pytest.mark.parametrize(
    ("trigger", "options", "fix"),
    [
        (sl.AfterCount(3), {}, "trigger=OrFinally(Repeatedly(AfterCount(3)), AfterClose()), or trigger=AfterWatermark(early=AfterCount(3))"),
        (COUNTED, {}, "trigger=OrFinally(Repeatedly(AfterCount(3)), AfterClose()), or trigger=AfterWatermark(early=AfterCount(3))"),
        (COUNTED, {"window": sl.Global()}, "trigger=OrFinally(Repeatedly(AfterCount(3)), AfterClose())"),
        (sl.AfterEach(sl.AfterCount(1), sl.AfterCount(9)), {"window": sl.Global()},
         "trigger=OrFinally(AfterEach(AfterCount(1), Repeatedly(AfterCount(9))), AfterClose())"),
        (sl.Never(), {}, "trigger=AfterClose(), or trigger=AfterWatermark()"),
        (sl.AfterWatermark(), {"window": sl.Global(ttl="1h")}, "trigger=AfterClose()"),
        (sl.AfterWatermark(late=COUNTED), {"lateness": "1m"}, "late=OrFinally(Repeatedly(AfterCount(3)), AfterClose())"),
        (sl.AfterWatermark(late=sl.When("total > 3 and user <> 'somebody with quite a long name'")), {"lateness": "1m"},
         "late=OrFinally(Repeatedly(<what late= is now>), AfterClose())"),
    ],
)  # fmt: skip
def test_the_fix_of_a_trigger_that_loses_events_can_be_copied(trigger: Any, options: Any, fix: str) -> None:
    with pytest.raises(CheckFailed) as failed:
        stage(trigger=trigger, **options).flow.check()
    assert failed.value.problems[0].fix == f"Write {fix}; allow_loss=True if that is meant."
