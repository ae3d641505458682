from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import strandline as sl
from strandline.model.streams import Stage, Stream
from strandline.testing import Books, Crash, Events, ProcessingTime, Tick, Watermark, play
from strandline.testing.results import Played

SCHEMA = "user string, amount bigint, at timestamp"
both = pytest.mark.parametrize("runner", ["oracle", "kernel"])


def at(clock: str) -> str:
    return f"2026-01-01T12:{clock}Z"


def moment(minute: int, second: int = 0) -> datetime:
    return datetime(2026, 1, 1, 12, minute, second, tzinfo=timezone.utc)


def row(user: str | None, amount: int | None, clock: str | None) -> dict[str, Any]:
    return {"user": user, "amount": amount, "at": None if clock is None else at(clock)}


def source(policy: sl.Policy | None = None, time: str | sl.Arrival = "at") -> Stream:
    return sl.Flow("test").source("events", sl.Rows(schema=SCHEMA), time=time, watermark=policy)


def per_minute(stream: Stream | None = None, **options: Any) -> Stage:
    keyed = (stream or source()).key_by("user").window(sl.Tumbling("1m"), **options)
    return keyed.aggregate("per_minute", n=sl.Count(), total=sl.Sum("amount"))


@both
def test_a_pane_is_a_dict_of_the_columns_that_are_shown(runner: str) -> None:
    played = play(per_minute(), [Events([row("ann", 5, "00:03")]), Watermark(at("01:00"))], runner=runner)
    assert played == [
        [],
        [
            {
                "user": "ann", "window_start": moment(0), "window_end": moment(1), "n": 1, "total": 5,
                "pane_timing": "on_time", "pane_index": 0, "pane_is_last": True, "op": "insert",
            }
        ],
    ]  # fmt: skip
    assert list(played[1][0])[:3] == ["user", "window_start", "window_end"]


@both
def test_each_step_is_one_tick_and_a_tick_does_all_at_once(runner: str) -> None:
    stage = per_minute(trigger=sl.AfterWatermark(early=sl.AfterProcessingTime("10s")))
    steps = [Tick([row("ann", 5, "00:03")], processing_time=at("00:05")), ProcessingTime(at("00:15"))]
    assert [len(panes) for panes in play(stage, steps, runner=runner)] == [0, 1]
    together = [Tick([row("ann", 5, "00:03")], watermark=at("01:00"))]
    assert [pane["pane_timing"] for pane in play(stage, together, runner=runner)[0]] == ["on_time"]


@both
def test_events_leave_the_watermark_unless_the_policy_may_move_it(runner: str) -> None:
    stage = per_minute(source(sl.Bounded("20s")))
    rows = [row("ann", 1, "00:50"), row("bob", 1, "02:00")]
    assert play(stage, [Events(rows)], runner=runner) == [[]]
    played = play(stage, [Events(rows, policy=True)], runner=runner)
    assert [pane["user"] for pane in played[0]] == ["ann"]
    assert played.watermarks == [
        {"events": sl.Instant.of(at("01:40")), "per_minute": sl.Instant.of(at("01:40"))},
    ]


@both
def test_events_are_judged_by_the_watermark_before_their_tick(runner: str) -> None:
    played = play(per_minute(), [Tick([row("ann", 1, "00:03")], watermark=at("05:00"))], runner=runner)
    assert [len(panes) for panes in played] == [1]
    assert played.late == [[]]


@both
def test_the_slowest_partition_holds_the_watermark_until_it_is_idle(runner: str) -> None:
    stage = per_minute(source(sl.Bounded("0s", idle_after="1m")))
    played = play(
        stage,
        [
            ProcessingTime(at("00:00")),
            Tick([Events([row("a", 1, "00:10")], 0, policy=True), Events([row("b", 1, "05:00")], 1, policy=True)]),
            Tick([Events([row("b", 1, "06:00")], 1, policy=True)], processing_time=at("00:30")),
            ProcessingTime(at("01:00")),
        ],
        runner=runner,
    )
    assert [marks["events"].text for marks in played.watermarks] == [
        "before all time", at("00:10"), at("00:10"), at("06:00"),
    ]  # fmt: skip


@both
def test_a_source_may_say_itself_how_far_it_is(runner: str) -> None:
    flow = sl.Flow("test")
    rows = sl.Rows(schema="user string, at timestamp, mark timestamp")
    events = flow.source("events", rows, time="at", watermark=sl.FromSource("mark"))
    steps = [Events([{"user": "ann", "at": at("00:01")}, {"mark": at("01:00")}], policy=True)]
    stage = events.key_by("user").window(sl.Tumbling("1m")).aggregate("s", n=sl.Count())
    played = play(stage, steps, runner=runner)
    assert [pane["n"] for pane in played[0]] == [1]
    assert played.rejected == [[]]


@both
def test_late_and_rejected_rows_are_shown_beside_the_panes_and_the_books_balance(runner: str) -> None:
    played = play(
        per_minute(),
        [Watermark(at("01:00")), Events([row("ann", 1, "00:59"), row("bob", 2, None), row("cem", 3, "01:00")])],
        runner=runner,
    )
    missed = {"window_start": moment(0), "window_end": moment(1), "late_by": timedelta(0)}
    assert played.late == [
        [],
        [
            {
                "user": "ann", "amount": 1, "at": moment(0, 59), "missed": [missed],
                "late_by": timedelta(seconds=1), "kept": False,
            }
        ],
    ]  # fmt: skip
    assert played.rejected == [
        [],
        [{"user": "bob", "amount": 2, "at": None, "reason": "the time is null", "raw": None}],
    ]
    assert played.books == {
        "events": Books(rows=3, kept=2, rejected=1),
        "per_minute": Books(rows=2, kept=1, late=1, missed=1),
    }


@both
def test_the_side_outputs_are_streams_that_can_be_played(runner: str) -> None:
    steps = [Watermark(at("01:00")), Events([row("ann", 1, "00:59"), row("bob", 2, None), row("cem", 3, "00:01")])]
    late = per_minute().late.where("amount > 1").select("user", "late_by")
    assert play(late, steps, runner=runner) == [[], [{"user": "cem", "late_by": timedelta(seconds=59)}]]
    rejected = source().rejected.with_column("why", "upper(reason)").select("user", "why", "1 as one")
    assert play(rejected, steps, runner=runner) == [[], [{"user": "bob", "why": "THE TIME IS NULL", "one": 1}]]


def test_the_late_rows_of_one_stage_are_seen_apart_by_playing_its_side() -> None:
    first = per_minute()
    second = first.late.select("user").key_by().window(sl.Tumbling("10s")).aggregate("late_ones", n=sl.Count())
    steps = [Watermark(at("01:00")), Events([row("ann", 1, "00:59"), row("bob", 2, "00:01")])]
    assert len(play(second, steps).late[1]) == 4
    for one in (first, second):
        assert [shown["user"] for shown in play(one.late, steps)[1]] == ["ann", "bob"]


@both
def test_a_stream_without_a_stage_shows_its_rows(runner: str) -> None:
    stream = source().where("amount > 1").with_column("double", "amount * 2").select("user", "double", "1 as one")
    steps = [Events([row("ann", 1, "00:01"), row("bob", 4, "00:01"), row("cem", None, "00:01")]), Watermark(0)]
    assert play(stream, steps, runner=runner) == [[{"user": "bob", "double": 8, "one": 1}], []]


@both
def test_current_timestamp_is_the_time_of_the_tick(runner: str) -> None:
    stream = source().select("current_timestamp() as now")
    steps = [Tick([row("ann", 1, "00:01")]), Tick([row("ann", 1, "00:01")], processing_time=at("07:00"))]
    shown = [panes[0]["now"] for panes in play(stream, steps, runner=runner)]
    assert shown == [datetime(1970, 1, 1, tzinfo=timezone.utc), moment(7)]


@both
def test_arrival_takes_processing_time_for_event_time(runner: str) -> None:
    stage = per_minute(source(time=sl.Arrival()))
    steps = [Tick([row("ann", 1, None)], processing_time=at("03:10")), Watermark(at("04:00"))]
    assert [pane["window_start"] for pane in play(stage, steps, runner=runner)[1]] == [moment(3)]


@both
def test_a_second_stage_takes_the_panes_of_the_first_in_the_same_tick(runner: str) -> None:
    first = per_minute(mode="retracting", lateness="1m")
    second = (
        first.where("total > 1").key_by().window(sl.SameWindow()).aggregate("users", n=sl.Count(), sum=sl.Sum("total"))
    )
    steps = [
        Events([row("ann", 5, "00:03"), row("bob", 1, "00:03")]),
        Watermark(at("01:00")),
        Events([row("bob", 2, "00:09")]),
        Crash(),
    ]
    played = play(second, steps, runner=runner)
    assert [[(pane["n"], pane["sum"]) for pane in panes] for panes in played] == [[], [(1, 5)], [(2, 8)], []]


@both
def test_merge_rolls_up_the_inner_state_of_an_earlier_stage(runner: str) -> None:
    keyed = source().key_by("user").window(sl.Tumbling("10s"), trigger=sl.AfterClose())
    parts = keyed.aggregate("parts", middle=sl.Quantile("amount", 0.5))
    whole = (
        parts.key_by().window(sl.Tumbling("1m"), trigger=sl.AfterClose()).aggregate("whole", middle=sl.Merge("middle"))
    )
    rows = [row("ann", amount, f"00:{second:02}") for second, amount in enumerate([1, 1, 1, 100, 100])]
    rows += [row("ann", 1000, "00:30")]
    played = play(whole, [Events(rows), Watermark(at("01:00"))], runner=runner)
    assert [pane["middle"] for panes in played for pane in panes] == [pytest.approx(1, rel=0.01)]


@both
def test_a_crash_changes_nothing_and_shows_nothing(runner: str) -> None:
    steps = [Crash(), Events([row("ann", 5, "00:03")]), Crash(), Crash(), Watermark(at("01:00")), Crash()]
    played = play(per_minute(), steps, runner=runner)
    assert [len(panes) for panes in played] == [0, 0, 0, 0, 1, 0]
    assert played.books["events"] == Books(rows=1, kept=1)


class _Forgetful(sl.Aggregate):
    columns = ("amount",)
    result = "bigint"

    def __init__(self) -> None:
        self.calls = 0

    def start(self) -> int:
        return 0

    def add(self, accumulator: int, *values: Any) -> int:
        self.calls += 1
        return accumulator + self.calls

    def merge(self, left: int, right: int) -> int:
        return left + right

    def output(self, accumulator: int) -> int:
        return accumulator


@both
def test_a_crash_finds_an_aggregate_that_is_not_a_pure_function(runner: str) -> None:
    windowed = source().key_by().window(sl.Tumbling("1m"), trigger=sl.AfterWatermark(early=sl.AfterCount(1)))
    stage = windowed.aggregate("forgetful", x=_Forgetful())
    with pytest.raises(sl.DataError, match="Tick 1: after the crash the tick, made again, shows"):
        play(stage, [Events([row("ann", 1, "00:01")]), Crash()], runner=runner)


def test_books_that_do_not_balance_are_a_fault_that_play_reports() -> None:
    with pytest.raises(sl.DataError, match="The books of 'stage' do not balance"):
        Books(rows=2, kept=1).balance("stage", rows=2, late=[], rejected=[])


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([Watermark(5), Watermark(4)], "Tick 2: the watermark goes back"),
        ([ProcessingTime(5), ProcessingTime(4)], "Tick 2: processing time goes back"),
        ([ProcessingTime(-1)], "processing time goes back"),
        ([ProcessingTime(2**70)], "Tick 1: processing time leaves the calendar"),
        ([Watermark(5), Crash(), Watermark(4)], "Tick 2: the watermark goes back"),
        ([Events([{"usr": "ann"}])], "Tick 1, row 1 has a column 'usr'"),
        ([Events([{"user": 5}])], "column 'user': 5 is no string"),
        ([Events([{"user": "a\ud800"}])], "column 'user': 'a\\ud800' holds half a character"),
        ([Events([{"at": "2026-01-01T12:00:00"}])], "has no time zone"),
        ([Events([5])], "no mapping"),  # type: ignore[list-item]
        (["tick"], "'tick' is no step"),
        (Events([]), "play takes a list of steps, not Events("),
        (Watermark(5), "play takes a list of steps"),
        ("tick", "play takes a list of steps"),
        ({}, "play takes a list of steps"),
        (None, "play takes a list of steps"),
    ],
)
def test_a_step_that_makes_no_sense_is_refused_by_name(steps: Any, said: str) -> None:
    with pytest.raises(sl.TranscriptError) as caught:
        play(per_minute(), steps)
    assert said in caught.value.what


def test_a_transform_is_refused_unless_it_is_skipped_by_name() -> None:
    stage = per_minute(source().transform(lambda frame: frame, name="clean"))
    steps = [Events([row("ann", 5, "00:03")]), Watermark(at("01:00"))]
    with pytest.raises(sl.TranscriptError, match="The transform 'clean' is PySpark code"):
        play(stage, steps)
    assert play(stage, steps, skip=["clean"])[1][0]["total"] == 5
    with pytest.raises(sl.TranscriptError, match="skip names 'claen'"):
        play(stage, steps, skip=["clean", "claen"])
    with pytest.raises(sl.TranscriptError, match="skip='clean' is no list") as caught:
        play(stage, steps, skip="clean")
    assert caught.value.fix == "Write skip=['clean']."
    with pytest.raises(sl.TranscriptError, match="skip=3 is no list"):
        play(stage, steps, skip=3)  # type: ignore[arg-type]


def test_an_expression_that_only_spark_knows_is_never_skipped() -> None:
    stage = per_minute(source().where("regexp_like(user, 'a.*')"))
    with pytest.raises(sl.ExpressionError) as caught:
        play(stage, [])
    assert 'runner="spark"' in caught.value.fix


def test_what_check_refuses_is_refused_by_play() -> None:
    with pytest.raises(sl.CheckFailed, match="usr"):
        play(source().key_by("usr").window(sl.Tumbling("1m")).aggregate("x", n=sl.Count()), [])


@pytest.mark.parametrize(
    ("runner", "options", "said"),
    [
        ("orcale", {}, "There is no runner 'orcale'"),
        ("spark", {"cores": 2}, "The runner 'spark' has no option 'cores'"),
        ("spark", {"tasks": 0}, "tasks=0 is no number of tasks"),
        ("oracle", {"buckets": 3}, "has no option 'buckets'"),
        ("kernel", {"bucket": 3}, "has no option 'bucket'"),
        ("kernel", {"tasks": "3"}, "tasks='3' is no number of tasks"),
        ("kernel", {"tasks": 0}, "tasks=0 is no number of tasks"),
        ("kernel", {"tasks": True}, "tasks=True is no number of tasks"),
        ("kernel", {"buckets": 2.0}, "buckets=2.0 is no number of buckets"),
        ("kernel", {"buckets": 65_537}, "buckets=65537 is no number of buckets"),
        (["kernel"], {}, "There is no runner"),
    ],
)
def test_an_unknown_runner_or_option_is_refused_by_name(runner: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(sl.TranscriptError, match=said):
        play(per_minute(), [], runner=runner, **options)


def test_only_streams_can_be_played() -> None:
    with pytest.raises(sl.TranscriptError, match="cannot be played"):
        play(source().key_by("user"), [])  # type: ignore[arg-type]


def test_nothing_played_is_an_empty_list() -> None:
    assert play(per_minute(), []) == Played([]) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: Events({"user": "ann"}),  # type: ignore[arg-type]
        lambda: Tick(5),  # type: ignore[arg-type]
        lambda: Tick([Events([]), {"user": "ann"}]),  # type: ignore[list-item]
        lambda: Events([], partition="a"),  # type: ignore[arg-type]
        lambda: Events([], partition=-1),
        lambda: Events([], policy="no"),  # type: ignore[arg-type]
        lambda: Watermark("noon"),
        lambda: Tick(processing_time="2026-01-01T12:00:00"),
    ],
)
def test_a_step_is_checked_when_it_is_made(make: Any) -> None:
    with pytest.raises(sl.TranscriptError):
        make()


def test_max_future_is_judged_once_a_processing_time_was_given() -> None:
    stream = source(sl.Bounded("0s", max_future="1m"))
    far = Events([row("ann", 1, "10:00")])
    played = play(stream, [far, Tick(far, processing_time=at("09:00")), Tick(far, processing_time=at("08:59"))][:2])
    assert [len(rows) for rows in played] == [1, 1]
    played = play(stream, [Tick(far, processing_time=at("08:59"))])
    assert played.rejected[0][0]["reason"] == "the time is more than 1m ahead of processing time"


@both
def test_what_a_source_rejected_has_a_raw_text_that_is_null_in_a_play(runner: str) -> None:
    flow = sl.Flow("f")
    events = flow.source("events", sl.Rows(schema="user string, at timestamp"), time="at")
    shown = play(
        events.rejected.select("user", "reason", "raw"), [Events([{"user": "ann", "at": None}])], runner=runner
    )
    assert shown == [[{"user": "ann", "reason": "the time is null", "raw": None}]]


WIDE = ("99999999999999999999.999999999999999999", "12345678901.123456789012345678")


@both
@pytest.mark.parametrize("value", WIDE)
def test_every_digit_of_a_wide_decimal_stays(runner: str, value: str) -> None:
    wide = sl.Flow("wide").source("rows", sl.Rows(schema="e decimal(38,18), at timestamp"), time="at")
    shown = wide.select("e as same", "-e as minus", "abs(-e) as plus", "e > 1 as more")
    ((row,),) = play(shown, [Events([{"e": value, "at": 0}])], runner=runner)
    assert {name: str(found) for name, found in row.items()} == {
        "same": value, "minus": f"-{value}", "plus": value, "more": "True",
    }  # fmt: skip
