from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import DescriptionError, StateError
from strandline.model.ticks import Edge, Tick, joint, output_watermark
from strandline.model.time import Instant

instants = st.integers(-(2**62), 2**62).map(Instant)
edges = st.tuples(instants, instants, instants).map(lambda t: Edge(before=min(t[:2]), after=max(t[:2]), seen=t[2]))


def test_an_edge_that_moves_backwards_is_refused():
    with pytest.raises(DescriptionError, match="backwards"):
        Edge(before=Instant(2), after=Instant(1))


def test_an_edge_of_a_flow_that_has_seen_nothing_stands_before_all_time():
    assert Edge.first().after == Instant.BEFORE_ALL_TIME


def test_a_hold_that_comes_to_lie_behind_a_promise_leaves_the_edge_where_it_is():
    promised = Edge(before=Instant(0), after=Instant(30))
    assert promised.moved_to(output_watermark(Instant(40), [Instant(10)])).after == 30


def test_time_has_come_to_the_watermark_and_at_its_end_to_the_latest_moment_that_is_known():
    assert Edge(before=Instant(3), after=Instant(5), seen=Instant(9)).come == 5
    for before, seen, come in ((3, 9, 9), (9, 3, 9), (Instant.END_OF_TIME, 9, 9)):
        assert Edge(before=Instant(before), after=Instant.END_OF_TIME, seen=Instant(seen)).come == come


def test_what_was_seen_along_one_of_several_edges_was_seen():
    left, right = Edge.first().moved_to(Instant(5), Instant(7)), Edge.first().moved_to(Instant(6), Instant(6))
    assert joint([left, right]).seen == 7
    assert left.moved_to(Instant(8), Instant(2)).seen == 7


def test_a_tick_that_was_written_without_what_was_seen_is_read():
    tick = Tick.from_json({"version": 1, "number": 0, "now": 0, "edges": {"a": [1, 2]}})
    assert tick.edges["a"] == Edge(before=Instant(1), after=Instant(2))


def test_a_tick_with_a_negative_number_is_refused():
    with pytest.raises(DescriptionError, match="number"):
        Tick(number=-1, now=Instant(0), edges={})


def test_a_tick_does_not_change_with_the_mapping_it_was_made_from():
    given_edges = {"a": Edge.first()}
    tick = Tick(number=0, now=Instant(0), edges=given_edges)
    given_edges.clear()
    assert list(tick.edges) == ["a"]
    assert hash(tick) == hash(Tick(number=0, now=Instant(0), edges={"a": Edge.first()}))


def test_a_stage_promises_its_input_watermark_unless_something_is_pending_before():
    assert output_watermark(Instant(5)) == 5
    assert output_watermark(Instant(5), [Instant(9)]) == 5
    assert output_watermark(Instant(5), [Instant(9), Instant(4)]) == 4


def test_a_tick_of_an_unknown_version_is_refused():
    with pytest.raises(StateError, match="version 99"):
        Tick.from_json({"version": 99})


@given(edges, st.lists(instants))
def test_an_edge_never_moves_backwards(edge, watermarks):
    for watermark in watermarks:
        moved = edge.moved_to(watermark)
        assert edge.after == moved.before <= moved.after
        edge = moved


@given(st.integers(0), instants, st.dictionaries(st.text(), edges))
def test_a_tick_comes_back_from_json_as_it_was(number, now, by_name):
    tick = Tick(number=number, now=now, edges=by_name)
    assert Tick.from_json(json.loads(json.dumps(tick.to_json()))) == tick
