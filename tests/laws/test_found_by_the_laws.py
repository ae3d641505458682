"""What the laws found, each as small as it became: the oracle and the kernel show the same, and it is this."""

from __future__ import annotations

from typing import Any

import pytest

import strandline as sl
from strandline.model.streams import Stage
from strandline.testing import Tick, play

SCHEMA = "user string, id bigint, at timestamp"
RUNNERS = pytest.mark.parametrize("runner", ["oracle", "kernel"])
NOON = "2026-01-01T12:00:"


def at(second: int, user: str = "ann") -> dict[str, Any]:
    return {"user": user, "id": second, "at": f"{NOON}{second:02}Z"}


def events() -> Any:
    return sl.Flow("found").source("events", sl.Rows(schema=SCHEMA), time="at", watermark=sl.Bounded("5s"))


def counts(window: Any, *keys: str, **options: Any) -> Stage:
    stage: Stage = events().key_by(*keys).window(window, allow_loss=True, **options).aggregate("counts", n=sl.Count())
    return stage


def shown(stage: Stage, ticks: list[Tick], runner: str) -> list[list[int]]:
    return [sorted(pane["n"] for pane in panes) for panes in play(stage, ticks, runner=runner)]


@RUNNERS
@pytest.mark.parametrize("window", [sl.Tumbling("10s"), sl.Session("5s"), sl.Global()])
def test_events_without_a_key_and_without_a_column_to_read_are_counted(window: Any, runner: str) -> None:
    ticks = [Tick([at(1), at(2)], watermark=f"{NOON}00Z"), Tick(watermark=sl.Instant.END_OF_TIME)]
    assert shown(counts(window), ticks, runner) == [[], [2]]


@RUNNERS
def test_a_global_window_may_have_lateness(runner: str) -> None:
    stage = counts(sl.Global(), "user", trigger=sl.Repeatedly(sl.AfterCount(1)), lateness="10s")
    assert shown(stage, [Tick([at(1)]), Tick([at(2)], watermark=f"{NOON}50Z")], runner) == [[1], [2]]


@RUNNERS
def test_an_early_pane_of_a_hopping_window_holds_only_its_own_events(runner: str) -> None:
    """Windows of ten seconds every four are made of slices of two, and the first ends at 2: second 3 is not in it."""
    stage = counts(sl.Hopping("10s", every="4s"), "user", trigger=sl.AfterCount(1))
    played = play(stage, [Tick([at(11), at(13)])], runner=runner)
    assert [(pane["window_end"].second, pane["n"]) for pane in played[0]] == [(14, 2), (18, 2), (22, 1)]


@RUNNERS
def test_hopping_windows_that_show_once_hold_the_output_watermark_too(runner: str) -> None:
    stage = counts(sl.Hopping("10s", every="5s"), "user", trigger=sl.AfterClose(), timestamp="earliest")
    played = play(stage, [Tick([at(12)], watermark=f"{NOON}14Z")], runner=runner)
    assert played.watermarks[0]["counts"] == sl.Instant.of(f"{NOON}12Z")


@RUNNERS
def test_a_timer_that_rang_does_not_hide_one_that_is_still_to_ring(runner: str) -> None:
    until = sl.AfterAll(sl.AfterCount(2), sl.AfterProcessingTime("0s"))
    stage = counts(sl.Global(), "user", trigger=sl.OrFinally(sl.AfterProcessingTime("3s"), until))
    ticks = [Tick([at(1)], processing_time=f"{NOON}00Z"), Tick(processing_time=f"{NOON}05Z")]
    assert shown(stage, ticks, runner) == [[], [1]]


@RUNNERS
@pytest.mark.parametrize("late", [sl.AfterCount(2, exact=True), sl.AfterProcessingTime("3s")])
def test_without_lateness_a_late_trigger_is_never_asked(late: Any, runner: str) -> None:
    stage = counts(sl.Tumbling("10s"), "user", trigger=sl.AfterWatermark(late=late))
    ticks = [Tick([at(1), at(2)], watermark=f"{NOON}05Z"), Tick([at(3)], watermark=f"{NOON}10Z"), Tick([at(4)])]
    assert shown(stage, ticks, runner) == [[], [3], []]


@RUNNERS
def test_exact_counts_behind_a_stage_take_its_panes_by_key_and_then_by_window(runner: str) -> None:
    """The order of arrival of panes is the canonical one, however many tasks made them."""
    first = events().key_by("user").window(sl.Tumbling("5s")).aggregate("first", n=sl.Count(), id=sl.Max("id"))
    pairs = first.key_by().window(
        sl.Global(), trigger=sl.Repeatedly(sl.AfterCount(2, exact=True)), mode="discarding", allow_loss=True
    ).aggregate("pairs", ids=sl.Collect("id"))  # fmt: skip
    rows = [at(1, "ann"), at(2, "bob"), at(6, "ann"), at(7, "bob")]
    many = [{}] if runner == "oracle" else [{"tasks": 1}, {"tasks": 3}, {"buckets": 1}]
    for options in many:
        played = play(pairs, [Tick(rows, watermark=f"{NOON}30Z")], runner=runner, **options)
        assert sorted(pane["ids"] for pane in played[0]) == [[1, 6], [2, 7]]


@RUNNERS
def test_an_early_count_is_not_asked_past_the_end_even_if_the_on_time_pane_had_nothing_new(runner: str) -> None:
    trigger = sl.AfterWatermark(early=sl.AfterCount(2, exact=True))
    stage = counts(sl.Tumbling("10s"), "user", trigger=trigger, mode="discarding", lateness="20s")
    ticks = [Tick([at(1), at(2)]), Tick(watermark=f"{NOON}12Z"), Tick([at(3), at(4), at(5)])]
    assert shown(stage, ticks, runner) == [[2], [], [3]]
