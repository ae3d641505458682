"""Each trigger, and how triggers combine."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.model.time import Span
from strandline.model.triggers import (
    AfterAll,
    AfterAny,
    AfterClose,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    Never,
    OnEvent,
    OrFinally,
    Repeatedly,
    When,
)
from strandline.model.windows import Session
from tests.model.oracle.playing import Playing, timings


def test_after_watermark_shows_a_window_once_when_the_watermark_reaches_its_end() -> None:
    play = Playing()
    assert play.shown(1, 2, to=9) == []
    assert play.shown(to=10) == [(0, 10, [1, 2])]
    assert play.shown(to=50) == []


def test_the_event_that_closes_a_window_belongs_to_the_same_tick() -> None:
    assert Playing().shown(1, 12, to=10) == [(0, 10, [1])]


def test_early_panes_are_counted_and_repeat_and_the_on_time_pane_follows() -> None:
    play = Playing(trigger=AfterWatermark(early=AfterCount(2)))
    shown = [timings(play.tick(*events, to=to)) for events, to in (((1,), 0), ((2, 3), 0), ((4, 5), 1), ((), 10))]
    assert shown == [[], [("early", 0, False)], [("early", 1, False)], [("on_time", 2, True)]]


def test_late_panes_follow_their_own_trigger() -> None:
    play = Playing(trigger=AfterWatermark(late=AfterCount(2)), lateness=Span(100))
    play.tick(1, to=10)
    assert play.shown(2) == []
    assert timings(play.tick(3)) == [("late", 1, False)]


def test_with_lateness_and_no_late_trigger_every_tick_with_late_events_shows() -> None:
    play = Playing(lateness=Span(100))
    assert timings(play.tick(1, to=10)) == [("on_time", 0, False)]
    assert timings(play.tick(2)) == [("late", 1, False)]
    assert play.shown() == []
    assert timings(play.tick(3, to=110)) == [("late", 2, True)]


def test_a_window_whose_first_event_comes_after_its_end_has_missed_its_on_time_pane() -> None:
    play = Playing(trigger=AfterWatermark(late=AfterCount(2)), lateness=Span(100))
    assert play.shown(to=20) == []
    assert play.shown(1) == []
    assert timings(play.tick(2)) == [("late", 0, False)]


def test_after_close_shows_one_final_pane() -> None:
    play = Playing(trigger=AfterClose(), lateness=Span(5))
    assert play.shown(1, to=14) == []
    assert timings(play.tick(2, to=15)) == [("late", 0, True)]


def test_after_count_asks_for_at_least_so_many_once_a_tick() -> None:
    play = Playing(trigger=Repeatedly(AfterCount(2)), mode="discarding")
    assert [play.shown(1), play.shown(2, 3), play.shown(4), play.shown(5)] == [
        [],
        [(0, 10, [1, 2, 3])],
        [],
        [(0, 10, [4, 5])],
    ]


def test_a_trigger_outside_of_repeatedly_fires_once_and_says_that_it_was_the_last() -> None:
    play = Playing(trigger=AfterCount(1))
    assert timings(play.tick(1)) == [("early", 0, True)]
    assert play.shown(2, to=50) == []


def test_after_processing_time_counts_from_the_first_event_since_the_last_pane() -> None:
    play = Playing(trigger=Repeatedly(AfterProcessingTime(Span(10))))
    assert play.shown(1, now=100) == []
    assert play.shown(2, now=109) == []
    assert play.shown(now=110) == [(0, 10, [1, 2])]
    assert play.shown(now=500) == []
    assert play.shown(3, now=505) == []
    assert play.shown(now=515) == [(0, 10, [1, 2, 3])]


def test_aligned_processing_time_waits_for_the_next_boundary_after_the_first_event() -> None:
    play = Playing(trigger=Repeatedly(AfterProcessingTime(aligned_to=Span(60))))
    assert play.shown(1, now=60) == []
    assert play.shown(now=119) == []
    assert play.shown(now=120) == [(0, 10, [1])]


def test_when_asks_the_aggregates_and_the_keys() -> None:
    play = Playing(trigger=Repeatedly(When("n >= 2 and k = 'a'")))
    assert [play.shown(1), play.shown(2), play.shown(), play.shown(3)] == [
        [],
        [(0, 10, [1, 2])],
        [],
        [(0, 10, [1, 2, 3])],
    ]


def test_when_crossing_fires_only_as_it_becomes_true() -> None:
    play = Playing(trigger=Repeatedly(When("n >= 2", crossing=True)), mode="retracting", taking_back=True)
    assert [play.shown(1), play.shown(2), play.shown(3)] == [[], [(0, 10, [1, 2])], []]
    assert [play.shown((1, 1, -1)), play.shown((2, 2, -1)), play.shown(4)] == [
        [], [], [("-", 0, 10, [1, 2]), (0, 10, [3, 4])],
    ]  # fmt: skip


def test_on_event_is_punctuation() -> None:
    play = Playing(trigger=Repeatedly(OnEvent("v = 7")), mode="discarding")
    assert [play.shown(1, 2), play.shown(7, 3), play.shown(4)] == [[], [(0, 10, [1, 2, 3, 7])], []]


def test_never_is_never_ready() -> None:
    assert Playing(trigger=Never(), allow_loss=True).shown(1, to=50) == []


def test_after_any_takes_one_part_and_after_all_takes_all_at_once() -> None:
    either = Playing(trigger=Repeatedly(AfterAny(AfterCount(5), OnEvent("v = 7"))))
    assert [bool(either.shown(1)), bool(either.shown(7)), bool(either.shown(1, 2, 3, 4))] == [False, True, False]
    both = Playing(trigger=Repeatedly(AfterAll(AfterCount(2), OnEvent("v = 7"))))
    assert [bool(both.shown(7)), bool(both.shown(1)), bool(both.shown(1)), bool(both.shown(7))] == [
        False,
        True,
        False,
        True,
    ]


def test_after_each_counts_for_each_part_from_when_its_turn_comes() -> None:
    play = Playing(trigger=AfterEach(AfterCount(2), AfterCount(3)))
    assert timings(play.tick(1, 2, 3)) == [("early", 0, False)]
    assert play.shown(4, 5) == []
    assert timings(play.tick(6)) == [("early", 1, True)]
    assert play.shown(7, 8, 9, to=99) == []


def test_or_finally_ends_with_until() -> None:
    play = Playing(trigger=OrFinally(Repeatedly(AfterCount(1)), OnEvent("v = 7")))
    assert timings(play.tick(1)) == [("early", 0, False)]
    assert timings(play.tick(2, 7)) == [("early", 1, True)]
    assert play.shown(3, to=99) == []


def test_triggers_nest_to_any_depth() -> None:
    inner = AfterEach(AfterAll(AfterCount(2), OnEvent("v = 7")), OrFinally(Repeatedly(AfterCount(1)), When("n >= 5")))
    play = Playing(trigger=AfterWatermark(early=inner))
    shown = [len(play.tick(*events)) for events in ((1,), (7,), (2,), (3,), (4,), (5,))]
    assert shown == [0, 1, 1, 1, 1, 0]
    assert play.shown(7) == [(0, 10, [1, 2, 3, 4, 5, 7, 7])]
    assert timings(play.tick(to=10)) == [("on_time", 5, True)]


@pytest.mark.parametrize(
    ("coalesce", "mode", "expected"),
    [
        (True, "accumulating", [(0, 10, [1, 2, 3, 4])]),
        (False, "accumulating", [(0, 10, [1, 2]), (0, 10, [1, 2, 3, 4])]),
        (True, "discarding", [(0, 10, [1, 2]), (0, 10, [3, 4])]),
        (True, "retracting", [(0, 10, [1, 2]), ("-", 0, 10, [1, 2]), (0, 10, [1, 2, 3, 4])]),
    ],
)
def test_exact_counts_are_judged_at_each_event(coalesce: bool, mode: Any, expected: Any) -> None:
    play = Playing(trigger=Repeatedly(AfterCount(2, exact=True)), mode=mode, coalesce=coalesce)
    assert play.shown(1, 2, 3, 4, 5) == expected
    assert play.shown(6)[-1][-1] == ([5, 6] if mode == "discarding" else [1, 2, 3, 4, 5, 6])


def test_coalescing_never_goes_across_timings_and_the_index_counts_what_is_shown() -> None:
    play = Playing(trigger=AfterWatermark(early=AfterCount(1, exact=True)))
    assert timings(play.tick(1, 2, 3, to=10)) == [("early", 0, False), ("on_time", 1, True)]


def test_in_an_exact_count_nothing_else_answers_before_the_tick_ends() -> None:
    play = Playing(trigger=Repeatedly(AfterAll(AfterCount(1, exact=True), AfterCount(1))), coalesce=False)
    assert play.shown(1, 2) == [(0, 10, [1, 2])]


def test_sessions_with_exact_counts_merge_event_by_event() -> None:
    play = Playing(Session(Span(5)), trigger=Repeatedly(AfterCount(2, exact=True)), mode="retracting")
    assert play.shown(1, 3, 20) == [(1, 8, [1, 3])]
    assert play.shown(4) == []
    assert play.shown(5) == [("-", 1, 8, [1, 3]), (1, 10, [1, 3, 4, 5])]
