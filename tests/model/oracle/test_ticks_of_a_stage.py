"""A stage from tick to tick: lateness, modes, merging windows, forgetting, what it gives the next stage."""

from __future__ import annotations

import copy
from datetime import datetime, timedelta, timezone
from typing import Any, ClassVar

import pytest

from strandline.model.aggregates import Count, Merge, Quantile, Sum
from strandline.model.oracle import StageOracle
from strandline.model.ticks import Edge
from strandline.model.time import EPOCH, Instant, Span
from strandline.model.triggers import AfterClose, AfterCount, AfterWatermark, Repeatedly
from strandline.model.types import Schema
from strandline.model.windows import CustomWindow, Global, Hopping, SameWindow, Session, Tumbling
from tests.model.oracle.playing import END, TENS, Playing, brief, row, stage, timings

EACH_TICK = AfterWatermark(early=AfterCount(1), late=AfterCount(1))
MODES = ("discarding", "accumulating", "retracting")


def at(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def test_a_pane_says_its_key_its_window_its_aggregates_and_its_place() -> None:
    (pane,) = Playing().tick(1, 2, to=10)
    assert pane == {
        "k": "a", "window_start": at(0), "window_end": at(10), "n": 2, "vs": [1, 2], "pane_timing": "on_time",
        "pane_index": 0, "pane_is_last": True, "op": "insert",
        "__time": 9, "__weight": 1, "__window_start": 0, "__window_end": 10,
    }  # fmt: skip
    assert pane["window_start"].tzinfo is timezone.utc


@pytest.mark.parametrize(("mode", "totals"), [("accumulating", [7, 14, 22]), ("discarding", [7, 7, 8])])
def test_the_worked_number_of_the_literature(mode: Any, totals: list[int]) -> None:
    play = Playing(trigger=EACH_TICK, mode=mode, aggregates={"total": Sum("v")})
    shown = [play.tick((1, 7)), play.tick((2, 7)), play.tick((3, 8), to=10)]
    assert [panes[0]["total"] for panes in shown] == totals


def test_retracting_takes_back_exactly_what_was_shown_before_it_shows_anew() -> None:
    play = Playing(trigger=EACH_TICK, mode="retracting")
    (first,) = play.tick(1)
    taken, second = play.tick(2)
    assert taken == {**first, "op": "retract", "__weight": -1}
    assert (brief(second), second["pane_index"]) == ((0, 10, [1, 2]), 1)


@pytest.mark.parametrize(("mode", "count"), [("discarding", 0), ("accumulating", 1), ("retracting", 2)])
def test_the_on_time_pane_is_shown_again_except_that_discarding_needs_something_new(mode: Any, count: int) -> None:
    play = Playing(trigger=EACH_TICK, mode=mode)
    play.tick(1)
    assert len(play.tick(to=10)) == count


def test_on_time_always_shows_an_empty_pane_for_a_key_that_the_window_knows() -> None:
    play = Playing(trigger=EACH_TICK, mode="discarding", on_time="always")
    play.tick(1)
    (pane,) = play.tick(to=10)
    assert (pane["n"], pane["vs"], pane["pane_timing"]) == (0, [], "on_time")
    assert play.tick(to=40) == []


def test_keys_are_apart_and_null_and_nan_are_keys() -> None:
    play = Playing(schema="k double, v bigint")
    nan = float("nan")
    keys = [None, nan, -0.0, 0.0, float("-nan"), None]
    panes = play.rows(*(row(1, k=key) for key in keys), to=10)
    assert sorted((str(p["k"]), p["n"]) for p in panes) == [("0.0", 2), ("None", 2), ("nan", 2)]


def test_no_key_is_one_group() -> None:
    (pane,) = Playing(keys=()).tick(1, 2, to=10)
    assert pane["n"] == 2


# Lateness


def test_an_event_is_judged_by_the_watermark_before_its_tick() -> None:
    play = Playing()
    play.tick(to=9)
    assert play.shown(1, to=50) == [(0, 10, [1])]


def test_an_event_that_misses_its_window_goes_aside_with_what_it_missed_and_by_how_much() -> None:
    play = Playing(lateness=Span(5))
    play.tick(to=16)
    assert play.shown(3) == []
    (late,) = play.outcome.late
    assert (late["v"], late["late_by"], late["kept"]) == (3, timedelta(microseconds=13), False)
    assert late["missed"] == [{"window_start": at(0), "window_end": at(10), "late_by": timedelta(microseconds=1)}]
    assert (play.outcome.books.late, play.outcome.books.missed) == (1, 1)


def test_an_event_that_is_late_but_allowed_shows_its_window_again() -> None:
    play = Playing(lateness=Span(5))
    play.tick(1, to=14)
    assert play.shown(2, to=20) == [(0, 10, [1, 2])]
    play.tick(3)
    assert play.outcome.books.late == 1


def test_a_hopping_event_may_miss_one_window_and_be_kept_in_another() -> None:
    play = Playing(Hopping(Span(10), every=Span(5)))
    play.tick(to=10)
    play.tick(7)
    (late,) = play.outcome.late
    assert (late["kept"], [m["window_end"] for m in late["missed"]]) == (True, [at(10)])
    assert (play.outcome.books.kept, play.outcome.books.late, play.outcome.books.missed) == (1, 0, 1)
    assert play.shown(to=15) == [(5, 15, [7])]


def test_a_late_event_that_touches_a_living_session_is_kept_and_one_that_touches_none_is_not() -> None:
    play = Playing(Session(Span(5)))
    play.tick(20, to=19)
    play.tick(17, 2)
    assert [late["v"] for late in play.outcome.late] == [2]
    assert play.shown(to=25) == [(17, 25, [17, 20])]


def test_late_events_of_one_tick_may_bridge_to_a_living_session_together() -> None:
    play = Playing(Session(Span(5)))
    play.tick(20, to=19)
    play.tick(13, 16)
    assert play.outcome.late == []
    assert play.shown(to=25) == [(13, 25, [13, 16, 20])]


def test_a_session_of_late_events_is_judged_as_a_whole() -> None:
    play = Playing(Session(Span(5)))
    play.tick(to=19)
    play.tick(13, 16)
    assert play.outcome.late == []
    play = Playing(Session(Span(5)))
    play.tick(to=21)
    play.tick(13, 16)
    assert [late["missed"][0]["window_end"] for late in play.outcome.late] == [at(21), at(21)]


def test_rows_without_a_usable_zone_or_gap_are_rejected_with_the_reason() -> None:
    play = Playing(Session(gap_column="g"), schema="k string, v bigint, g bigint")
    play.rows(row(1, g=3), row(2, g=0), row(3, g=None))
    assert [r["reason"] for r in play.outcome.rejected] == [
        "the session gap is not positive",
        "the session gap is null",
    ]
    assert (play.outcome.books.kept, play.outcome.books.rejected) == (1, 2)
    play = Playing(Tumbling("1d", zone_column="z"), schema="k string, v bigint, z string")
    play.rows(row(1, z="Nowhere"))
    assert play.outcome.rejected[0]["reason"] == "the time zone 'Nowhere' is not known"


# Merging windows


def test_sessions_exactly_a_gap_apart_are_two_unless_inclusive() -> None:
    assert Playing(Session(Span(5))).shown(1, 6, to=99) == [(1, 6, [1]), (6, 11, [6])]
    assert Playing(Session(Span(5), inclusive=True)).shown(1, 6, to=99) == [(1, 11, [1, 6])]


def test_each_event_may_bring_its_own_gap() -> None:
    play = Playing(Session(gap_column="g"), schema="k string, v bigint, g bigint")
    panes = play.rows(row(1, g=2), row(2, g=20), row(30, g=2), to=99)
    assert [brief(p) for p in panes] == [(1, 22, [1, 2]), (30, 32, [30])]


@pytest.mark.parametrize(
    ("mode", "grown", "replaced"),
    [
        ("discarding", [(1, 8, [3])], 0),
        ("accumulating", [(1, 8, [1, 3])], 1),
        ("retracting", [("-", 1, 6, [1]), (1, 8, [1, 3])], 0),
    ],
)
def test_a_session_that_grows_after_it_was_shown_is_a_new_window(mode: Any, grown: Any, replaced: int) -> None:
    play = Playing(Session(Span(5)), trigger=EACH_TICK, mode=mode)
    assert play.shown(1) == [(1, 6, [1])]
    panes = play.tick(3)
    assert [brief(p) for p in panes] == grown
    assert panes[-1]["pane_index"] == 0
    assert play.outcome.replaced == [{"k": "a", "window_start": at(1), "window_end": at(6)}] * replaced
    assert play.tick(2)[-1]["pane_index"] == 1  # the union is the same: the same window goes on


@pytest.mark.parametrize(
    ("mode", "merged"),
    [
        ("discarding", [(1, 14, [5])]),
        ("accumulating", [(1, 14, [1, 5, 9])]),
        ("retracting", [("-", 1, 6, [1]), ("-", 9, 14, [9]), (1, 14, [1, 5, 9])]),
    ],
)
def test_sessions_that_merge_after_they_were_shown(mode: Any, merged: Any) -> None:
    play = Playing(Session(Span(5)), trigger=EACH_TICK, mode=mode)
    assert play.shown(1, 9) == [(1, 6, [1]), (9, 14, [9])]
    assert play.shown(5) == merged
    assert len(play.outcome.replaced) == (2 if mode == "accumulating" else 0)


def test_what_was_shown_before_a_merge_stays_attached_until_the_merged_window_fires() -> None:
    play = Playing(Session(Span(5)), trigger=Repeatedly(AfterCount(3)), mode="retracting")
    assert play.shown(1, 2, 3) == [(1, 8, [1, 2, 3])]
    assert play.shown(6) == []
    assert play.shown(10) == []
    assert play.shown(14) == [("-", 1, 8, [1, 2, 3]), (1, 19, [1, 2, 3, 6, 10, 14])]


def test_counters_of_merged_windows_are_added() -> None:
    play = Playing(Session(Span(5)), trigger=Repeatedly(AfterCount(3)))
    assert play.shown(1, 9) == []
    assert play.shown(5) == [(1, 14, [1, 5, 9])]


class Shift(CustomWindow):
    def assign(self, time: Instant, row: Any) -> list[tuple[int, int]]:
        return [(time - time % 8, time - time % 8 + 8)] if row["v"] >= 0 else []


class Reach(CustomWindow):
    merging: ClassVar[bool] = True

    def assign(self, time: Instant, row: Any) -> list[tuple[int, int]]:
        return [(time - 2, time + 2)]


def test_a_custom_window_assigns_and_an_event_without_a_window_is_rejected() -> None:
    play = Playing(Shift())
    assert play.shown(3, 9, (4, -1), to=99) == [(0, 8, [3]), (8, 16, [9])]
    assert play.outcome.rejected[0]["reason"] == "it belongs to no window"


def test_a_custom_window_may_merge() -> None:
    assert Playing(Reach()).shown(3, 6, 11, to=99) == [(1, 8, [3, 6]), (9, 13, [11])]


# Global, SameWindow


def test_global_is_one_window_that_has_no_dates() -> None:
    play = Playing(Global(), trigger=Repeatedly(AfterCount(2)))
    (pane,) = play.tick(1, 10**9, to=50)
    assert (pane["window_start"], pane["window_end"], pane["n"], pane["pane_timing"]) == (None, None, 2, "early")
    assert timings(Playing(Global()).tick(1, to=END)) == [("on_time", 0, True)]


def test_a_key_is_forgotten_a_ttl_after_its_greatest_time_and_is_never_late() -> None:
    play = Playing(Global(ttl=Span(10)), trigger=Repeatedly(AfterCount(1)))
    assert play.shown(5, 1, to=14)[0][-1] == [1, 5]
    assert timings(play.tick(2, to=15)) == [("early", 1, True)]
    assert play.shown(3)[0][-1] == [3]
    assert play.outcome.late == []


def test_same_window_groups_panes_by_the_window_they_came_with() -> None:
    play = Playing(SameWindow(), keys=())
    panes = [row(19, 1, __window_start=10, __window_end=20), row(24, 2, __window_start=5, __window_end=25)]
    assert [brief(p) for p in play.rows(*panes, to=25)] == [(5, 25, [2]), (10, 20, [1])]


# Retractions as input


def test_an_event_taken_back_leaves_its_window() -> None:
    play = Playing(trigger=EACH_TICK, mode="retracting", taking_back=True)
    play.tick(1, 2)
    assert play.shown((1, 1, -1)) == [("-", 0, 10, [1, 2]), (0, 10, [2])]


def test_a_window_that_is_empty_again_is_withdrawn_or_shown_empty_if_it_was_shown() -> None:
    retracting = Playing(trigger=EACH_TICK, mode="retracting", taking_back=True)
    retracting.tick(1)
    assert retracting.shown((1, 1, -1)) == [("-", 0, 10, [1])]
    assert retracting.shown(to=10) == []
    accumulating = Playing(trigger=EACH_TICK, taking_back=True)
    accumulating.tick(1)
    assert accumulating.shown((1, 1, -1)) == [(0, 10, [])]
    assert Playing(trigger=EACH_TICK, taking_back=True).shown(1, (1, 1, -1)) == []


def test_on_time_always_shows_a_window_that_is_empty_again() -> None:
    play = Playing(mode="retracting", on_time="always", taking_back=True)
    assert play.shown(1, (1, 1, -1), to=10) == [(0, 10, [])]


# Forgetting, time, watermarks


def test_a_window_is_forgotten_after_its_lateness_and_its_last_pane_says_so() -> None:
    play = Playing(lateness=Span(5), trigger=EACH_TICK)
    assert timings(play.tick(1, to=10)) == [("on_time", 0, False)]
    assert timings(play.tick(2, to=15)) == [("late", 1, True)]
    assert play.oracle.living == {}


def test_nothing_outlives_the_end_of_time() -> None:
    play = Playing(lateness=Span(10**9), trigger=AfterClose())
    assert play.shown(1, to=END) == [(0, 10, [1])]
    assert play.oracle.living == {}


@pytest.mark.parametrize(("timestamp", "time", "watermark"), [("end", 9, 5), ("earliest", 2, 2), ("latest", 4, 4)])
def test_panes_carry_the_time_that_was_asked_for_and_hold_the_watermark_until_then(
    timestamp: Any, time: int, watermark: int
) -> None:
    play = Playing(timestamp=timestamp)
    play.tick(2, 4, to=5)
    assert play.outcome.watermark == watermark
    assert [p["__time"] for p in play.tick(to=10)] == [time]
    assert play.outcome.watermark == 10


def test_what_may_be_withdrawn_holds_the_watermark_too() -> None:
    play = Playing(timestamp="latest", mode="retracting", trigger=EACH_TICK)
    play.tick(2, to=3)
    play.tick(7, to=8)
    assert play.outcome.watermark == 7
    play = Playing(timestamp="latest", mode="retracting", trigger=AfterWatermark(early=AfterCount(2)))
    play.tick(1, 2, to=3)
    play.tick(7, to=8)
    assert play.outcome.watermark == 2


def test_a_copy_repeats_a_tick_and_leaves_the_first_alone() -> None:
    play = Playing(Session(Span(5)), trigger=EACH_TICK, mode="retracting")
    play.tick(1)
    kept = copy.deepcopy(play.oracle)
    edge = Edge(before=Instant(0), after=Instant(3))
    rows = [row(3), row(40)]
    first = play.oracle.tick(rows, edge, Instant(0))
    again = copy.deepcopy(kept).tick(rows, edge, Instant(0))
    assert first == again == kept.tick(rows, edge, Instant(0))


# Two stages


def test_a_second_stage_counts_what_the_first_corrects() -> None:
    first = StageOracle(stage(TENS, trigger=EACH_TICK, mode="retracting"), lateness=Span(0))
    second = StageOracle(
        stage(TENS, keys=(), schema="k string, n bigint", trigger=EACH_TICK, aggregates={"total": Sum("n")}),
        lateness=Span(0),
        taking_back=True,
    )
    edge = Edge.first()
    totals = []
    for rows in ([row(1)], [row(2), row(3)]):
        panes = second.tick(first.tick(rows, edge, Instant(0)).panes, edge, Instant(0)).panes
        totals.append([p["total"] for p in panes])
    assert totals == [[1], [3]]


def test_merge_rolls_up_quantiles_by_what_they_saw() -> None:
    quantile = Quantile("v", 0.5, error=0.001)
    first = StageOracle(stage(TENS, aggregates={"p": quantile}), lateness=Span(0), carry=("p",))
    node = stage(Tumbling(Span(100)), schema="p double", keys=(), aggregates={"p": Merge("p"), "n": Count()})
    second = StageOracle(node, lateness=Span(0), merged={"p": quantile}, schema=Schema.of("p double"))
    edge = Edge(before=Instant.BEFORE_ALL_TIME, after=Instant(100))
    panes = first.tick([row(1, 1), row(2, 2), row(3, 3), row(11, 1000)], edge, Instant(0)).panes
    (pane,) = second.tick(panes, edge, Instant(0)).panes
    assert pane["p"] == pytest.approx(2, rel=0.001)
    assert pane["n"] == 2
