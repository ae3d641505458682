"""Laws that hold for every window, trigger and disorder, tried on the oracle itself."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from strandline.model.time import Span
from strandline.model.triggers import (
    AfterAny,
    AfterClose,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    OnEvent,
    Repeatedly,
)
from strandline.model.windows import Global, Hopping, Session, Tumbling
from tests.model.oracle.playing import END, Playing

WINDOWS = [
    Tumbling(Span(10)), Hopping(Span(10), every=Span(4)), Session(Span(4)), Session(Span(4), inclusive=True), Global(ttl=Span(15)),
]  # fmt: skip
TRIGGERS = [
    AfterWatermark(),
    AfterWatermark(early=AfterCount(2), late=AfterCount(1)),
    AfterWatermark(early=Repeatedly(AfterAny(AfterCount(3), OnEvent("v = 7"))), late=AfterCount(1)),
    AfterWatermark(early=AfterEach(AfterCount(1), AfterProcessingTime(Span(5))), late=AfterCount(1)),
    AfterWatermark(early=AfterCount(2, exact=True), late=AfterCount(1)),
]
ticks = st.lists(st.tuples(st.lists(st.integers(0, 40), max_size=5), st.integers(0, 12)), max_size=6)


def played(
    window: Any, trigger: Any, mode: str, lateness: int, steps: Any, **options: Any
) -> list[list[dict[str, Any]]]:
    """All panes, tick by tick; the last tick ends time."""
    play = Playing(window, trigger=trigger, mode=mode, lateness=Span(lateness), **options)
    shown, watermark = [], 0
    for number, (events, step) in enumerate(steps):
        watermark += step
        shown.append(play.tick(*events, to=watermark, now=3 * number))
    return [*shown, play.tick(to=END, now=1000)]


def window_of(pane: dict[str, Any]) -> tuple[int, int]:
    return (pane["__window_start"], pane["__window_end"])


stages = st.tuples(st.sampled_from(WINDOWS), st.sampled_from(TRIGGERS), st.sampled_from([0, 6]), ticks)
still = st.tuples(st.sampled_from(WINDOWS[:2]), st.sampled_from(TRIGGERS), st.sampled_from([0, 6]), ticks)


@given(stages, st.sampled_from(["discarding", "accumulating", "retracting"]))
def test_the_on_time_pane_of_a_window_is_shown_at_most_once(drawn: Any, mode: str) -> None:
    window, trigger, lateness, steps = drawn
    panes = [p for shown in played(window, trigger, mode, lateness, steps) for p in shown]
    on_time = Counter(window_of(p) for p in panes if p["pane_timing"] == "on_time" and p["op"] == "insert")
    assert isinstance(window, Global) or all(count == 1 for count in on_time.values())


@given(still)
def test_discarding_panes_add_up_to_the_accumulating_one(drawn: Any) -> None:
    window, trigger, lateness, steps = drawn
    added: Counter[Any] = Counter()
    for pane in (p for shown in played(window, trigger, "discarding", lateness, steps) for p in shown):
        added.update((window_of(pane), v) for v in pane["vs"])
    last = {window_of(p): p["vs"] for shown in played(window, trigger, "accumulating", lateness, steps) for p in shown}
    assert added == Counter((w, v) for w, vs in last.items() for v in vs)


@given(stages)
def test_a_retraction_takes_back_a_pane_that_stands(drawn: Any) -> None:
    window, trigger, lateness, steps = drawn
    standing: Counter[Any] = Counter()
    for pane in (p for shown in played(window, trigger, "retracting", lateness, steps) for p in shown):
        what = (*window_of(pane), tuple(pane["vs"]), pane["pane_index"], pane["pane_timing"])
        standing[what] += 1 if pane["op"] == "insert" else -1
        assert standing[what] in (0, 1) or isinstance(window, Global)


@given(still)
def test_what_retractions_leave_is_the_last_accumulating_pane_of_each_window(drawn: Any) -> None:
    window, trigger, lateness, steps = drawn
    left: Counter[Any] = Counter()
    for pane in (p for shown in played(window, trigger, "retracting", lateness, steps) for p in shown):
        left[window_of(pane), tuple(pane["vs"])] += pane["__weight"]
    last = {
        window_of(p): tuple(p["vs"])
        for shown in played(window, trigger, "accumulating", lateness, steps)
        for p in shown
    }
    assert +left == Counter(last.items())


@given(st.sampled_from(WINDOWS), st.permutations(list(range(0, 40, 3))), st.integers(1, 5))
def test_without_late_events_batch_cuts_change_no_on_time_pane(window: Any, times: list[int], size: int) -> None:
    whole = played(window, AfterWatermark(), "accumulating", 0, [(times, 0)])
    cut = played(
        window, AfterWatermark(), "accumulating", 0, [(times[i : i + size], 0) for i in range(0, len(times), size)]
    )
    assert whole[-1] == cut[-1]


@given(st.sampled_from([w for w in WINDOWS if not isinstance(w, Hopping)]), ticks)
def test_with_one_final_pane_and_no_lateness_panes_and_late_events_account_for_every_event(
    window: Any, steps: Any
) -> None:
    play = Playing(window, trigger=AfterClose())
    shown: list[int] = []
    watermark = 0
    for events, step in [*steps, ([], END)]:
        watermark = min(watermark + step, END)
        shown += [v for p in play.tick(*events, to=watermark) for v in p["vs"]]
        shown += [late["v"] for late in play.outcome.late if not late["kept"]]
    assert sorted(shown) == sorted(e for events, _ in steps for e in events)
