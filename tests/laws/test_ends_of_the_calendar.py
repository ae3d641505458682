"""At the ends of the calendar: no date kills a flow, and the runners agree on every one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import strandline as sl
from strandline.errors import StrandlineError
from strandline.model.time import Instant, Span
from strandline.testing import Tick, play
from strandline.testing.ingredients import Blocks, Visits

DATES = (
    "0001-01-01T00:00:00Z",
    "0001-01-02T00:00:00Z",
    "0001-01-08T12:00:00Z",
    "0001-02-28T23:59:59Z",
    "2026-01-01T12:00:00Z",
    "9999-11-30T12:00:00Z",
    "9999-12-26T00:00:00Z",
    "9999-12-30T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Pacific/Kiritimati")


class Century(sl.CustomWindow):
    """The hundred years around an event."""

    def assign(self, time: Instant, row: Mapping[str, Any]) -> Sequence[tuple[int, int]]:
        """One window."""
        return [(time - Span.of("18262d"), time + Span.of("18262d"))]


WINDOWS: dict[str, sl.Window] = {
    "second": sl.Tumbling("1s"),
    "week": sl.Tumbling("7d"),
    "millennia": sl.Tumbling("9999d", offset="-3660000d"),
    "hopping": sl.Hopping("10h", every="4h", offset="1h"),
    "hopping-of-seconds": sl.Hopping("3s", every="1s"),
    "hopping-of-years": sl.Hopping("3000000d", every="1000000d"),
    "session": sl.Session("1h"),
    "long-session": sl.Session("3660000d"),
    "inclusive-session": sl.Session("1us", inclusive=True),
    "session-by-column": sl.Session(gap_column="gap"),
    "custom": Century(),
    "custom-blocks": Blocks(),
    "custom-merging": Visits(),
    **{f"{size}-{zone}": sl.Tumbling(size, zone=zone) for zone in ZONES for size in ("1d", "1w", "1mo", "1000y")},
    **{f"1d-{zone}{by}": sl.Tumbling("1d", zone=zone, offset=by) for zone in ZONES for by in ("23h", "-23h")},
    **{f"1mo-{zone}{by}": sl.Tumbling("1mo", zone=zone, offset=by) for zone in ZONES for by in ("3660000d", "-40d")},
}
SHAPES: dict[str, dict[str, Any]] = {
    "late": {"lateness": "3660000d", "timestamp": "earliest"},
    "refined": {"trigger": sl.AfterWatermark(early=sl.AfterCount(1)), "mode": "retracting", "lateness": "1d"},
    "one-at-a-time": {"trigger": sl.AfterWatermark(early=sl.AfterCount(2, exact=True))},
}
GAPS = (1, 10**6, 10**12, 2**62, 2**63 - 1, 0, None)


def played(stage: sl.Stream, runner: str, **options: Any) -> list[Any]:
    rows = [
        {"user": f"u{at % 2}", "kind": 1 + at % 2, "gap": GAPS[at % len(GAPS)], "at": date}
        for at, date in enumerate(DATES)
    ]
    marks = (DATES[0], DATES[4], Instant.END_OF_TIME)
    steps = [*(Tick(rows, watermark=mark) for mark in marks), Tick(rows)]
    shown = play(stage, steps, runner=runner, **options)
    return [
        [sorted(map(repr, each)) for each in (tick.panes, tick.late, tick.rejected)] + [tick.books, tick.watermarks]
        for tick in shown.ticks
    ]


def staged(window: sl.Window, **options: Any) -> sl.Stream:
    source = sl.Rows(schema="user string, kind int, gap bigint, at timestamp")
    keyed = sl.Flow("far").source("events", source, time="at").key_by("user")
    return keyed.window(window, **options).aggregate("counts", n=sl.Count(), last=sl.Last("at"))


@pytest.mark.parametrize("name", WINDOWS)
def test_the_runners_agree_at_the_ends_of_the_calendar(name: str) -> None:
    stage = staged(WINDOWS[name])
    assert played(stage, "kernel") == played(stage, "oracle")


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", WINDOWS)
def test_the_runners_agree_there_however_windows_are_shown(name: str, shape: str) -> None:
    stage = staged(WINDOWS[name], **SHAPES[shape])
    assert played(stage, "kernel", tasks=3, buckets=7) == played(stage, "oracle")


@pytest.mark.parametrize("runner", ["oracle", "kernel"])
def test_a_window_without_bounds_takes_every_date(runner: str) -> None:
    stage = staged(sl.Global(ttl="3660000d"), trigger=sl.Repeatedly(sl.AfterCount(1)), allow_loss=True)
    shown = play(stage, [Tick([{"user": "ann", "at": date} for date in DATES])], runner=runner)
    assert [(pane["n"], pane["window_start"], pane["window_end"]) for pane in shown[0]] == [(len(DATES), None, None)]


@pytest.mark.parametrize("runner", ["oracle", "kernel"])
@pytest.mark.parametrize("gap", [timedelta(days=999_999_999), "999999999d", timedelta(days=10_000_000), "10000000d"])
def test_a_gap_beyond_all_measure_is_a_clear_error_or_a_rejected_row(gap: Any, runner: str) -> None:
    source = sl.Rows(schema="gap interval day to second, at timestamp")
    keyed = sl.Flow("far").source("events", source, time="at").key_by()
    stage = keyed.window(sl.Session(gap_column="gap")).aggregate("visits", n=sl.Count())
    steps = [Tick([{"gap": gap, "at": DATES[4]}])]
    if "999999999" in str(gap):
        with pytest.raises(StrandlineError, match="64 bits"):
            play(stage, steps, runner=runner)
    else:
        assert play(stage, steps, runner=runner).rejected[0][0]["reason"] == "the session gap is too long"


@pytest.mark.parametrize("runner", ["oracle", "kernel"])
@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00"])
def test_a_time_that_only_its_own_zone_has_is_rejected_by_the_source(text: str, runner: str) -> None:
    shown = play(staged(sl.Tumbling("1h")), [Tick([{"user": "ann", "at": text}])], runner=runner)
    assert [row["reason"] for row in shown.rejected[0]] == [f"the time '{text}' leaves the calendar"]


@pytest.mark.parametrize(
    "options", [{"tasks": 0}, {"tasks": -1}, {"tasks": 1.5}, {"buckets": 0}, {"buckets": True}], ids=str
)
def test_a_play_needs_at_least_one_task_and_one_bucket(options: dict[str, Any]) -> None:
    with pytest.raises(StrandlineError, match="is no number of") as caught:
        play(staged(sl.Tumbling("1h")), [], runner="kernel", **options)
    assert caught.value.fix.startswith("Give a whole number from 1")


def test_the_calendar_has_all_instants_that_a_datetime_can_say() -> None:
    first, last = Instant.FIRST_IN_CALENDAR, Instant.LAST_IN_CALENDAR
    assert first.moment == datetime.min.replace(tzinfo=timezone.utc)
    assert last.moment == datetime.max.replace(tzinfo=timezone.utc)
    assert (first.in_calendar, last.in_calendar) == (True, True)
    assert (Instant(first - 1).in_calendar, Instant(last + 1).in_calendar) == (False, False)
    assert Instant(last + 1).text == "253402300800000000us from 1970"


def test_a_dozen_of_the_longest_spans_never_wrap_in_64_bits() -> None:
    assert Instant.END_OF_TIME + 12 * Span.LONGEST < 2**63
    assert Instant.BEFORE_ALL_TIME - 12 * Span.LONGEST > -(2**63)
