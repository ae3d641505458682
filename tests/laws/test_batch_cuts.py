"""What batch cuts may and may not change, tried on the kernel: events arrive in one order, and are cut into ticks.

The source's own policy moves the watermark: it stands five seconds behind the greatest time seen.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strandline as sl
from strandline.model.streams import Stage
from strandline.model.time import Instant
from strandline.model.windows import Window
from strandline.testing import Events, Watermark, play
from strandline.testing.results import Played
from strandline.testing.strategies import batch_cuts, events
from tests.lanes import examples

SCHEMA = "user string, id bigint, at timestamp"
PANE = ("pane_timing", "pane_index", "pane_is_last", "op")
WINDOWS: list[Window] = [
    sl.Tumbling("10s"),
    sl.Tumbling("7s", offset="2s"),
    sl.Hopping("10s", every="4s"),
    sl.Session("4s"),
]
# Not inclusive sessions: an event exactly at the end of one is not late, and joins it only if it came in time to.
Cut = list[list[dict[str, Any]]]


def stage(window: Window, **options: Any) -> Stage:
    source = sl.Flow("cuts").source("events", sl.Rows(schema=SCHEMA), time="at", watermark=sl.Bounded("5s"))
    return source.key_by("user").window(window, **options).aggregate("ids", n=sl.Count(), ids=sl.Collect("id"))


def numbered(disorder: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Events of two users, each with its place in the order of arrival."""
    drawn = events(SCHEMA, disorder=disorder, values={"user": st.sampled_from(["ann", "bob"])}, most=16)
    return drawn.map(lambda rows: [{**row, "id": at} for at, row in enumerate(rows)])


@st.composite
def two_cuts(draw: st.DrawFn, disorder: str) -> tuple[list[dict[str, Any]], Cut, Cut]:
    """Events, a cut, and a coarser one: some of its ticks are one."""
    rows = draw(numbered(disorder))
    fine: Cut = draw(batch_cuts(rows))
    coarse: Cut = [[]]
    for tick in fine:
        coarse = [*coarse, tick] if draw(st.booleans()) else [*coarse[:-1], [*coarse[-1], *tick]]
    return rows, fine, coarse


def played(stage: Stage, cut: Cut) -> Played:
    return play(stage, [*(Events(tick, policy=True) for tick in cut), Watermark(Instant.END_OF_TIME)], runner="kernel")


def content(pane: dict[str, Any]) -> str:
    return repr({name: value for name, value in pane.items() if name not in PANE})


def standing(shown: Played) -> Counter[str]:
    """What is left when all that was withdrawn is taken away."""
    left: Counter[str] = Counter()
    for pane in (pane for panes in shown for pane in panes):
        left[content(pane)] += 1 if pane["op"] == "insert" else -1
    return +left


def missed(shown: Played) -> Counter[tuple[int, Any]]:
    """The pairs of an event and a window that it missed."""
    return Counter((row["id"], gone["window_start"]) for late in shown.late for row in late for gone in row["missed"])


def in_panes(shown: Played) -> Counter[tuple[int, Any]]:
    return Counter((event, pane["window_start"]) for panes in shown for pane in panes for event in pane["ids"])


triggers = st.sampled_from([
    sl.AfterWatermark(), sl.AfterWatermark(early=sl.AfterCount(1)), sl.AfterWatermark(early=sl.AfterCount(2, exact=True)),
])  # fmt: skip


@pytest.mark.slow
@settings(max_examples=examples(12))
@given(st.sampled_from(WINDOWS), triggers, st.sampled_from(["accumulating", "retracting"]), two_cuts("5s"))
def test_without_late_events_batch_cuts_change_no_on_time_pane(
    window: Window, trigger: Any, mode: Any, cuts: Any
) -> None:
    shown = [played(stage(window, trigger=trigger, mode=mode), cut) for cut in cuts[1:]]
    one, other = (
        Counter(content(p) for panes in each for p in panes if (p["pane_timing"], p["op"]) == ("on_time", "insert"))
        for each in shown
    )
    assert one == other
    assert not any(any(each.late) for each in shown)


@settings(max_examples=examples(12))
@given(st.sampled_from(WINDOWS), st.sampled_from(["0s", "3s"]), two_cuts("20s"))
def test_what_is_late_under_a_coarser_cut_is_late_under_the_finer(window: Window, lateness: str, cuts: Any) -> None:
    fine, coarse = ({event for event, _ in missed(played(stage(window, lateness=lateness), cut))} for cut in cuts[1:])
    assert coarse <= fine


@pytest.mark.slow
@settings(max_examples=examples(12))
@given(st.sampled_from(WINDOWS[:3]), st.sampled_from(["0s", "3s"]), two_cuts("20s"))
def test_a_window_that_is_missed_under_a_coarser_cut_is_missed_under_the_finer(
    window: Window, lateness: str, cuts: Any
) -> None:
    fine, coarse = (missed(played(stage(window, lateness=lateness), cut)) for cut in cuts[1:])
    assert coarse <= fine


@pytest.mark.slow
@settings(max_examples=examples(12))
@given(st.sampled_from(WINDOWS), triggers, st.sampled_from(["0s", "3s"]), two_cuts("20s"))
def test_panes_and_late_events_account_for_every_event_under_every_cut(
    window: Window, trigger: Any, lateness: str, cuts: Any
) -> None:
    times = 1 if not isinstance(window, sl.Hopping) else None
    rows, *both = cuts
    for cut in both:
        shown = played(stage(window, trigger=trigger, mode="discarding", lateness=lateness), cut)
        pairs = in_panes(shown) + missed(shown)
        assert Counter(event for event, _ in pairs.elements()).keys() == {row["id"] for row in rows}
        if times is not None:
            assert sum(pairs.values()) == len(rows)
        elif lateness == "0s":
            hops = Counter({row["id"]: _windows_of(int(row["at"])) for row in rows})
            assert Counter(event for event, _ in pairs.elements()) == hops


def _windows_of(time: int) -> int:
    """How many windows of ten seconds every four hold an instant."""
    return len(range(time // 4_000_000 * 4_000_000, time - 10_000_000, -4_000_000))


@pytest.mark.slow
@settings(max_examples=examples(12))
@given(st.sampled_from(WINDOWS), triggers, two_cuts("20s"))
def test_if_lateness_covers_the_disorder_the_last_pane_of_each_window_is_the_same(
    window: Window, trigger: Any, cuts: Any
) -> None:
    one, other = (
        standing(played(stage(window, trigger=trigger, mode="retracting", lateness="20s"), cut)) for cut in cuts[1:]
    )
    assert one == other
