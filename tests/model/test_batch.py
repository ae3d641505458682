"""A flow as batch: nothing is complete before the end, so order does not matter."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strandline as sl
from strandline.model.batch import as_batch, without_early
from strandline.model.nodes import SinkNode, SourceNode, StageNode
from strandline.model.watermarks import AtEnd
from strandline.testing import Events, Watermark, play
from tests.lanes import examples
from tests.model.sinking import RETRACTING, Shelf, orders, stage

COUNT = sl.AfterCount(1)
WINDOWS = (sl.Tumbling("10s"), sl.Hopping("20s", every="10s"), sl.Session("5s"), sl.Global())


def last_of(flow: sl.Flow) -> sl.Stream:
    (node,) = [node for node in flow.nodes if isinstance(node, StageNode)]
    return sl.Stream(flow, node)


def test_every_source_waits_for_the_end_and_no_stage_fires_early() -> None:
    panes = stage(**RETRACTING, lateness="1m")
    panes.sink("out", Shelf(), rows="upsert")
    source, one, sink = as_batch(panes.flow).nodes
    assert isinstance(source, SourceNode)
    assert isinstance(one, StageNode)
    assert isinstance(sink, SinkNode)
    assert isinstance(source.watermark, AtEnd)
    assert (one.trigger, one.lateness, one.name) == (sl.AfterWatermark(), sl.Span.of("1m"), "one")
    assert (one.parent, sink.parent) == (source, one)


def test_the_flow_that_was_given_is_left_alone_and_batch_is_batch_already() -> None:
    flow = stage(**RETRACTING).flow
    batch = as_batch(flow)
    assert isinstance(flow.nodes[1], StageNode)
    assert flow.nodes[1].trigger == RETRACTING["trigger"]
    assert as_batch(batch) == batch


def test_early_goes_wherever_it_stands_and_late_stays() -> None:
    early = sl.AfterWatermark(early=COUNT, late=sl.AfterWatermark(early=COUNT))
    plain = sl.AfterWatermark(late=sl.AfterWatermark())
    for wrap in (
        sl.Repeatedly, lambda t: sl.AfterAny(t, COUNT), lambda t: sl.AfterAll(COUNT, t), sl.AfterEach,
        lambda t: sl.OrFinally(t, COUNT), lambda t: sl.OrFinally(COUNT, t),
    ):  # fmt: skip
        assert without_early(wrap(early)) == wrap(plain)
    assert without_early(sl.Repeatedly(COUNT)) == sl.Repeatedly(COUNT)


def test_a_row_that_only_marks_progress_is_no_event_in_batch_either() -> None:
    events = orders("user string, at timestamp, mark timestamp", watermark=sl.FromSource("mark"))
    batch = as_batch(events.flow)
    marks = [{"user": None, "at": None, "mark": "2026-01-01T00:00:00Z"}]
    played = play(sl.Stream(batch, batch.nodes[0]), [Events(marks, policy=True)])  # type: ignore[arg-type]
    assert (played[0], played.rejected[0]) == ([], [])
    assert played.watermarks[0]["orders"] == sl.Instant.BEFORE_ALL_TIME


rows = st.lists(
    st.builds(
        lambda user, n, second: {"user": user, "n": n, "at": f"2026-01-01T00:00:{second:02d}Z"},
        st.sampled_from(["ann", "bob", None]), st.integers(-9, 9), st.integers(0, 59),
    ),
    max_size=12,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["oracle", "kernel"])
@pytest.mark.parametrize("window", WINDOWS)
@given(data=st.data(), given_rows=rows, mode=st.sampled_from(["accumulating", "retracting", "discarding"]))
@settings(max_examples=examples(30), deadline=None)
def test_the_order_and_the_cuts_of_a_batch_do_not_matter(
    window: Any, runner: str, data: st.DataObject, given_rows: list[dict[str, Any]], mode: Any
) -> None:
    trigger = sl.AfterWatermark(early=COUNT, late=COUNT)
    read = orders("user string, n int, at timestamp", watermark=sl.Monotonic()).key_by("user")
    panes = read.window(window, trigger=trigger, lateness="1s", mode=mode)
    stream = last_of(as_batch(panes.aggregate("one", n=sl.Count(), total=sl.Sum("n"), top=sl.Max("n")).flow))

    def answer(ticks: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
        steps = [*(Events(tick, policy=True) for tick in ticks), Watermark(sl.Instant.END_OF_TIME)]
        played = play(stream, steps, runner=runner)
        assert not any(played[:-1]), "nothing is shown before everything is read"
        return played[-1]

    shuffled = data.draw(st.permutations(given_rows))
    cut = data.draw(st.integers(0, len(shuffled)))
    assert answer([shuffled[:cut], shuffled[cut:]]) == answer([given_rows])
