"""Which windows an event belongs to, one paragraph of the meaning at a time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import DataError
from strandline.model.oracle.windows import ALL_TIME, components, reason_to_reject, windows_of
from strandline.model.time import EPOCH, Instant, Span
from strandline.model.windows import CustomWindow, Global, Hopping, SameWindow, Session, Tumbling

HOUR = 3_600_000_000


def local(zone: str, *parts: int, fold: int = 0) -> int:
    return (datetime(*parts, tzinfo=ZoneInfo(zone), fold=fold) - EPOCH) // timedelta(microseconds=1)  # type: ignore[misc,arg-type]


def hours(interval: tuple[int, int]) -> float:
    return (interval[1] - interval[0]) / HOUR


def test_a_tumbling_window_starts_at_a_multiple_of_its_size_also_before_1970() -> None:
    window = Tumbling(Span(10))
    assert [windows_of(window, t, {}) for t in (-1, 0, 9, 10)] == [[(-10, 0)], [(0, 10)], [(0, 10)], [(10, 20)]]


def test_an_offset_moves_the_windows() -> None:
    assert windows_of(Tumbling(Span(10), offset=Span(3)), 2, {}) == [(-7, 3)]


def test_a_hopping_window_takes_an_event_once_for_each_window_over_it() -> None:
    assert windows_of(Hopping(Span(10), every=Span(4), offset=Span(1)), 9, {}) == [(1, 11), (5, 15), (9, 19)]
    assert windows_of(Hopping(Span(10), every=Span(4), offset=Span(1)), 8, {}) == [(1, 11), (5, 15)]


@given(st.integers(-(10**6), 10**6), st.integers(1, 50), st.integers(0, 50), st.integers(-50, 50))
def test_hopping_windows_are_all_windows_that_hold_the_event(time: int, every: int, more: int, offset: int) -> None:
    size = every + more
    starts = [s for s in range(time - size - 100, time + 100) if (s - offset) % every == 0 and s <= time < s + size]
    window = Hopping(Span(size), every=Span(every), offset=Span(offset))
    assert windows_of(window, time, {}) == [(s, s + size) for s in starts]


def test_the_day_on_which_clocks_are_put_on_has_23_hours() -> None:
    (found,) = windows_of(Tumbling("1d", zone="Europe/Berlin"), local("Europe/Berlin", 2026, 3, 29, 12), {})
    assert found == (local("Europe/Berlin", 2026, 3, 29), local("Europe/Berlin", 2026, 3, 30))
    assert hours(found) == 23


def test_the_day_on_which_clocks_are_put_back_has_25_hours_and_both_of_its_second_hours() -> None:
    window = Tumbling("1d", zone="Europe/Berlin")
    days = {windows_of(window, local("Europe/Berlin", 2026, 10, 25, 2, 30, fold=fold), {})[0] for fold in (0, 1)}
    assert [hours(day) for day in days] == [25]


def test_where_midnight_itself_does_not_exist_the_day_starts_after_the_gap() -> None:
    (found,) = windows_of(Tumbling("1d", zone="America/Sao_Paulo"), local("America/Sao_Paulo", 2018, 11, 4, 12), {})
    assert found[0] == local("America/Sao_Paulo", 2018, 11, 4, 1)
    assert hours(found) == 23


def test_a_day_that_a_zone_skipped_has_no_window() -> None:
    (before,) = windows_of(Tumbling("1d", zone="Pacific/Apia"), local("Pacific/Apia", 2011, 12, 29, 12), {})
    (after,) = windows_of(Tumbling("1d", zone="Pacific/Apia"), local("Pacific/Apia", 2011, 12, 31, 12), {})
    assert before[1] == after[0]
    assert (hours(before), hours(after)) == (24, 24)


def test_weeks_start_on_monday_and_months_on_the_first() -> None:
    time = local("UTC", 2026, 2, 18, 12)
    assert windows_of(Tumbling("1w", zone="UTC"), time, {}) == [(local("UTC", 2026, 2, 16), local("UTC", 2026, 2, 23))]
    assert windows_of(Tumbling("1mo"), time, {}) == [(local("UTC", 2026, 2, 1), local("UTC", 2026, 3, 1))]
    assert windows_of(Tumbling("1y"), time, {}) == [(local("UTC", 2026, 1, 1), local("UTC", 2027, 1, 1))]


def test_a_calendar_day_may_start_at_six_local_time() -> None:
    window = Tumbling("1d", zone="Europe/Berlin", offset="6h")
    (found,) = windows_of(window, local("Europe/Berlin", 2026, 3, 29, 5, 59), {})
    assert found == (local("Europe/Berlin", 2026, 3, 28, 6), local("Europe/Berlin", 2026, 3, 29, 6))
    assert hours(found) == 23


@given(
    st.integers(local("UTC", 1900, 1, 2), local("UTC", 2100, 1, 1)),
    st.sampled_from(["Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Gaza"]),
    st.sampled_from(["1d", "2d", "1w", "1mo", "5mo"]),
    st.sampled_from(["0s", "6h", "-30m"]),
)
def test_every_instant_lies_in_its_calendar_window(time: int, zone: str, size: str, offset: str) -> None:
    ((start, end),) = windows_of(Tumbling(size, zone=zone, offset=offset), time, {})
    assert start <= time < end
    assert windows_of(Tumbling(size, zone=zone, offset=offset), start, {}) == [(start, end)]
    assert windows_of(Tumbling(size, zone=zone, offset=offset), end - 1, {}) == [(start, end)]


def test_the_zone_may_be_a_column_and_an_unknown_one_is_a_reason_to_reject() -> None:
    window = Tumbling("1d", zone_column="z")
    noon = local("UTC", 2026, 1, 1, 12)
    assert windows_of(window, noon, {"z": "Asia/Tokyo"})[0][0] == local("Asia/Tokyo", 2026, 1, 1)
    assert reason_to_reject(window, {"z": "Asia/Tokyo"}) is None
    assert reason_to_reject(window, {"z": "Mars/Base"}) == "the time zone 'Mars/Base' is not known"
    assert reason_to_reject(window, {"z": None}) == "the time zone is null"


def test_a_session_is_opened_for_its_gap_which_may_be_a_column() -> None:
    assert windows_of(Session(Span(5)), 7, {}) == [(7, 12)]
    window = Session(gap_column="g")
    assert windows_of(window, 7, {"g": 3}) == [(7, 10)]
    assert windows_of(window, 7, {"g": timedelta(microseconds=4)}) == [(7, 11)]
    assert reason_to_reject(window, {"g": None}) == "the session gap is null"
    assert reason_to_reject(window, {"g": timedelta(0)}) == "the session gap is not positive"


def test_all_time_is_one_window_and_a_pane_keeps_its_own() -> None:
    assert windows_of(Global(), 7, {}) == [ALL_TIME]
    assert windows_of(SameWindow(), 19, {"__window_start": 10, "__window_end": 20}) == [(10, 20)]


class Around(CustomWindow):
    seen: ClassVar[list[Any]] = []

    def assign(self, time: Instant, row: Any) -> list[tuple[int, int]]:
        self.seen.append(row)
        return [(time - row["v"], time + row["v"]), (time, time + 1), (time, time + 1)]


def test_a_custom_window_sees_what_users_see_and_may_give_several_windows() -> None:
    assert windows_of(Around(), 7, {"v": 2, "__time": 7}) == [(5, 9), (7, 8)]
    assert Around.seen[-1] == {"v": 2}


def test_a_custom_window_that_ends_before_it_starts_is_an_error() -> None:
    with pytest.raises(DataError, match=r"Around\.assign"):
        windows_of(Around(), 7, {"v": -2})


def test_sessions_that_overlap_are_one_and_those_that_touch_are_so_only_when_inclusive() -> None:
    pieces = [(0, 5, "a"), (5, 10, "b"), (9, 14, "c"), (20, 25, "d")]
    assert [(c.start, c.end) for c in components(Session(Span(5)), pieces)] == [(0, 5), (5, 14), (20, 25)]
    assert [(c.start, c.end) for c in components(Session(Span(5), inclusive=True), pieces)] == [(0, 14), (20, 25)]


def test_windows_that_do_not_merge_are_one_only_when_they_are_equal() -> None:
    found = components(Hopping(Span(10), every=Span(5)), [(0, 10, "a"), (5, 15, "b"), (0, 10, "c")])
    assert [(c.start, c.end, c.members) for c in found] == [(0, 10, ["a", "c"]), (5, 15, ["b"])]
