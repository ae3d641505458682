"""Laws about what a window shows over its life, whatever its trigger: tried on the kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strandline as sl
from strandline.model.flow import Flow
from strandline.model.nodes import StageNode
from strandline.model.streams import Stage
from strandline.model.time import Instant
from strandline.model.triggers import AfterClose, AfterCount, AfterProcessingTime, AfterWatermark, Repeatedly
from strandline.model.windows import Global, Hopping, Tumbling, Window
from strandline.testing import Events, play
from strandline.testing.results import Played, Shown
from strandline.testing.steps import Step, as_tick
from strandline.testing.strategies import SCHEMA, Case, cases, steps, windows
from tests.lanes import examples
from tests.laws.comparing import text

pytestmark = pytest.mark.slow

# A key that is forgotten after a while and comes back has several lives, which share the one window of all time.
one_life = windows().filter(lambda window: not isinstance(window, Global) or window.ttl is None)


def panes_of(played: Played) -> list[Shown]:
    return [pane for panes in played for pane in panes]


def window_of(pane: Shown, stage: Stage) -> str:
    assert isinstance(stage.node, StageNode)
    return repr([pane[name] for name in (*stage.node.keys, "window_start", "window_end")])


def in_mode(stage: Stage, mode: str) -> Stage:
    """The same stage in another mode."""
    node = stage.node
    assert isinstance(node, StageNode)
    changed: Any = replace(node, mode=mode)  # type: ignore[arg-type]
    others = [each for each in stage.flow.nodes if each is not node]
    return Stage(Flow("drawn", nodes=[*others, changed]), changed)


hops = st.sampled_from(
    [Tumbling("10s"), Tumbling("7s", offset="2s"), Hopping("10s", every="5s"), Hopping("10s", every="4s")]
)
on_time_triggers = st.sampled_from([
    AfterWatermark(), AfterWatermark(early=AfterCount(1)), AfterWatermark(early=AfterCount(2, exact=True), late=AfterCount(1)),
    AfterWatermark(early=AfterProcessingTime("3s"), late=AfterClose()), AfterWatermark(late=Repeatedly(AfterCount(2))),
])  # fmt: skip


def expected_on_time(window: Window, ticks: tuple[Any, ...]) -> Counter[tuple[Any, int]]:
    """By plain arithmetic: the windows that an event reached before the watermark passed their end."""
    assert isinstance(window, Tumbling | Hopping)
    size = int(window.size)  # type: ignore[arg-type]
    every = int(window.every) if isinstance(window, Hopping) else size
    found: set[tuple[Any, int]] = set()
    before = int(Instant.BEFORE_ALL_TIME)
    for tick in map(as_tick, ticks):
        for row in (row for part in tick.events for row in part.rows):
            last = (row["at"] - int(window.offset)) // every * every + int(window.offset)
            starts = range(last, row["at"] - size, -every)
            found |= {(row["user"], start) for start in starts if before < start + size}
        before = before if tick.watermark is None else int(tick.watermark)
    return Counter(found)


@settings(max_examples=examples(12))
@given(
    hops,
    on_time_triggers,
    st.sampled_from(["accumulating", "retracting"]),
    st.sampled_from(["0s", "8s"]),
    steps(most=6),
)
def test_the_on_time_pane_is_shown_exactly_once_for_each_window_that_has_events_by_then(
    window: Window, trigger: Any, mode: Any, lateness: str, ticks: Any
) -> None:
    stage = counting(window, trigger=trigger, mode=mode, lateness=lateness, allow_loss=True)
    shown = [pane for pane in panes_of(play(stage, ticks, runner="kernel")) if pane["op"] == "insert"]
    on_time = [(p["user"], int(Instant.of(p["window_start"]))) for p in shown if p["pane_timing"] == "on_time"]
    assert Counter(on_time) == expected_on_time(window, ticks)


def counting(window: Window, **options: Any) -> Stage:
    source = sl.Flow("counting").source("events", sl.Rows(schema=SCHEMA), time="at", watermark=sl.Bounded("5s"))
    return source.key_by("user").window(window, **options).aggregate("counts", n=sl.Count(), total=sl.Sum("amount"))


@settings(max_examples=examples(12))
@given(cases(trigger=AfterWatermark, most=6))
def test_a_window_of_any_kind_has_one_on_time_pane_at_most(case: Case) -> None:
    shown = [pane for pane in panes_of(play(case.stream, case.steps, runner="kernel")) if pane["op"] == "insert"]
    on_time = Counter(window_of(pane, case.stream) for pane in shown if pane["pane_timing"] == "on_time")
    assert all(count == 1 for count in on_time.values())


def test_a_session_that_grows_again_within_a_tick_is_withdrawn_after_it_was_shown() -> None:
    events = sl.Flow("grows").source("events", sl.Rows(schema="user string, at timestamp"), time="at")
    session = events.key_by("user").window(
        sl.Session(gap="5s"), trigger=sl.AfterCount(2, exact=True), mode="retracting", coalesce=False, allow_loss=True
    )
    rows = [{"user": "ann", "at": f"2026-01-01T12:00:{second}Z"} for second in (56, 52, 48)]
    assert misplaced(session.aggregate("grown", n=sl.Count()), [Events(rows)]) == []


@settings(max_examples=examples(12))
@given(st.data(), st.sampled_from(["tumbling", "hopping", "custom"]))
def test_discarding_panes_add_up_to_the_accumulating_one(data: st.DataObject, kind: str) -> None:
    case = data.draw(cases(window=kind, mode="discarding", allow_loss=False, most=6))
    added: Counter[str] = Counter()
    for pane in panes_of(play(case.stream, case.steps, runner="kernel")):
        added[window_of(pane, case.stream)] += pane["n"]
    accumulating = in_mode(case.stream, "accumulating")
    shown = panes_of(play(accumulating, case.steps, runner="kernel"))
    assert +added == +Counter({window_of(pane, case.stream): pane["n"] for pane in shown})


@settings(max_examples=examples(12))
@given(st.data(), one_life)
def test_a_retraction_repeats_a_pane_that_stands_and_one_row_per_window_is_left(
    data: st.DataObject, window: Window
) -> None:
    case = data.draw(cases(window=window, mode="retracting", most=6))
    assert misplaced(case.stream, case.steps) == []


def misplaced(stream: Stage, steps: Sequence[Step]) -> list[str]:
    """The retractions of what does not stand, and the inserts beside what does."""
    found: list[str] = []
    standing: dict[str, dict[str, str]] = {}
    for pane in panes_of(play(stream, steps, runner="kernel")):
        of_window = standing.setdefault(window_of(pane, stream), {})
        exactly = text({name: value for name, value in pane.items() if name != "op"})
        if pane["op"] == "retract":
            found += [] if of_window.pop(exactly, None) else [f"withdrawn, and did not stand: {exactly}"]
        else:
            found += [f"shown beside one that stands: {exactly}"] if of_window else []
            of_window[exactly] = exactly
    return found


@settings(max_examples=examples(12))
@given(st.data(), st.sampled_from(["tumbling", "hopping", "custom"]))
def test_what_retractions_leave_is_the_last_accumulating_pane_of_each_window(data: st.DataObject, kind: str) -> None:
    case = data.draw(cases(window=kind, mode="retracting", most=6))
    left: Counter[tuple[str, Any]] = Counter()
    for pane in panes_of(play(case.stream, case.steps, runner="kernel")):
        left[window_of(pane, case.stream), pane["n"]] += 1 if pane["op"] == "insert" else -1
    shown = panes_of(play(in_mode(case.stream, "accumulating"), case.steps, runner="kernel"))
    last = {window_of(pane, case.stream): pane["n"] for pane in shown}
    assert +left == Counter(last.items())
