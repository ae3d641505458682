from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

import strandline as sl
from strandline.model.nodes import StageNode
from strandline.model.triggers import KINDS, AfterEach, AfterWatermark, Repeatedly, Trigger
from strandline.testing import Crash, Events, Watermark, play
from strandline.testing.strategies import (
    SCHEMA,
    WINDOWS,
    Case,
    batch_cuts,
    cases,
    events,
    flows,
    steps,
    traits,
    triggers,
)
from tests.lanes import examples


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_outermost_trigger_may_be_fixed(kind: type[Trigger]) -> None:
    assert isinstance(find(triggers(kind), lambda _: True), kind)


def test_a_misspelt_kind_of_window_gets_the_nearest_name() -> None:
    with pytest.raises(sl.DescriptionError, match="no kind of window 'sesion'") as caught:
        find(cases(window="sesion"), lambda _: True)
    assert "'session'" in caught.value.fix


@settings(max_examples=examples(30))
@given(flows(window="hopping", trigger=Repeatedly, mode="retracting", late=True))
def test_everything_about_a_flow_may_be_fixed(stage: Any) -> None:
    node = stage.node
    assert isinstance(node, StageNode)
    assert node.window in WINDOWS["hopping"]
    assert isinstance(node.trigger, Repeatedly)
    assert (node.mode, node.lateness > 0) == ("retracting", True)


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(flows(allow_loss=False, stages=None))
def test_every_flow_passes_its_check(stage: Any) -> None:
    stage.flow.check()
    assert not any(node.allow_loss for node in stage.flow.nodes if isinstance(node, StageNode))


@settings(max_examples=examples(30))
@given(st.data(), events())
def test_a_cut_keeps_the_rows_and_their_order(data: st.DataObject, rows: list[dict[str, Any]]) -> None:
    cut = data.draw(batch_cuts(rows))
    assert [row for tick in cut for row in tick] == rows
    assert all(set(row) == set(SCHEMA) for row in rows)


@settings(max_examples=examples(30))
@given(events(disorder="3s"))
def test_disorder_is_bounded(rows: list[dict[str, Any]]) -> None:
    times = [row["at"] for row in rows]
    assert all(earlier - later <= 3_000_000 for at, earlier in enumerate(times) for later in times[at:])


@pytest.mark.slow
@settings(max_examples=examples(20))
@given(cases(stages=None, crashes=True))
def test_every_case_can_be_played_and_its_crashes_change_nothing(case: Case) -> None:
    crashing = play(case.stream, case.steps)
    plain = play(case.stream, [step for step in case.steps if not isinstance(step, Crash)])
    # As text, because NaN is not equal to itself.
    assert repr([panes for panes in crashing if panes]) == repr([panes for panes in plain if panes])


@pytest.mark.slow
@pytest.mark.parametrize("window", [kind for kind in WINDOWS if kind != "global"])
def test_late_dropped_and_merged_events_are_common(window: str) -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=40, database=None)
    @given(cases(window=window, trigger=AfterWatermark, late=None))
    def collect(case: Case) -> None:
        seen.update(["all", *traits(case, play(case.stream, case.steps))])

    collect()
    wanted = {"late", "dropped"} | ({"merged"} if window in ("session", "custom_merging") else set())
    assert {name for name in wanted if seen[name] * 5 < seen["all"]} == set()


def test_a_trigger_tree_is_as_deep_as_is_asked_for() -> None:
    flat = find(triggers(AfterEach, depth=1), lambda trigger: True)
    assert isinstance(flat, AfterEach)
    find(triggers(AfterEach, depth=3), lambda trigger: isinstance(trigger.triggers[0], Repeatedly))  # type: ignore[union-attr]


@settings(max_examples=examples(20))
@given(st.data())
def test_a_user_draws_events_and_steps_for_a_schema_of_their_own(data: st.DataObject) -> None:
    schema = "who string, price decimal(5,2), flags array<boolean>, pair struct<a:int,b:date>, seen timestamp"
    stage = (
        sl.Flow("mine")
        .source("events", sl.Rows(schema=schema), time="seen")
        .key_by("who")
        .window(sl.Tumbling("10s"), trigger=sl.AfterClose())
        .aggregate("counts", n=sl.Count())
    )
    whose = {"who": st.sampled_from(["ann", "bob"])}
    played = play(stage, data.draw(steps(schema, time="seen", values=whose)))
    assert {pane["who"] for panes in played for pane in panes} <= {"ann", "bob"}
    assert sum(pane["n"] for panes in played for pane in panes) == played.books["counts"].kept
    sl.Rows(data.draw(events(schema, time="seen")), schema=schema)


def test_a_strategy_for_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(sl.DescriptionError, match="usr"):
        events(values={"usr": st.none()})


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(sl.DescriptionError, match="stages=3"):
        find(flows(stages=3), lambda _: True)
    with pytest.raises(sl.DescriptionError, match="'at', the time"):
        events(values={"at": st.none()})
    with pytest.raises(sl.DescriptionError, match="batch_cuts"):
        batch_cuts([], most=0)
    with pytest.raises(sl.DescriptionError, match="batch_cuts"):
        batch_cuts(events())  # type: ignore[arg-type]


def test_traits_are_told_of_a_flow_with_another_time() -> None:
    flow = sl.Flow("mine")
    stream = flow.source("events", sl.Rows(schema="who string, seen timestamp"), time="seen")
    stage = stream.key_by("who").window(sl.Tumbling("1m")).aggregate("counts", n=sl.Count())
    late = [Watermark("2026-01-01T12:00:30Z"), Events([{"who": "ann", "seen": "2026-01-01T12:00:10Z"}, {"who": "bob"}])]
    assert traits(Case(stream=stage, steps=tuple(late)), play(stage, late)) == {"late"}
