from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import DescriptionError, StateError
from strandline.model.ticks import Edge, Tick, output_watermark
from strandline.model.time import Instant

instants = st.integers(-(2**62), 2**62).map(Instant)
edges = st.tuples(instants, instants).map(lambda pair: Edge(before=min(pair), after=max(pair)))


def test_an_edge_that_moves_backwards_is_refused():
    with pytest.raises(DescriptionError, match="backwards"):
        Edge(before=Instant(2), after=Instant(1))


def test_an_edge_of_a_flow_that_has_seen_nothing_stands_before_all_time():
    assert Edge.first().after == Instant.BEFORE_ALL_TIME


def test_a_hold_that_comes_to_lie_behind_a_promise_leaves_the_edge_where_it_is():
    promised = Edge(before=Instant(0), after=Instant(30))
    assert promised.moved_to(output_watermark(Instant(40), [Instant(10)])).after == 30


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
