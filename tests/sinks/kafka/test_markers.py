"""How far a topic is, and what may be published to it: no broker is needed to tell."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import SinkError
from strandline.sinks.contract import Marker
from strandline.sinks.kafka.markers import Progress, name_of_sink, require_no_loss, rows_before
from tests.sinks.delivering import TARGET, delivery

markers = st.builds(Marker, incarnation=st.text(), tick=st.integers(0), digest=st.text())
SEVEN = Marker(incarnation="one", tick=7, digest="digest-of-7")
HALF = Progress(owner="o", marker=SEVEN, rows=400, complete=False, before=replace(SEVEN, tick=6, digest="digest-of-6"))


@given(
    st.builds(
        Progress, owner=st.text(), marker=st.none() | markers, rows=st.integers(0), complete=st.booleans(),
        before=st.none() | markers,
    )
)  # fmt: skip
def test_progress_is_read_as_it_was_written(progress: Progress) -> None:
    assert Progress.read(progress.text, "g") == progress
    assert progress.text.isascii()


@pytest.mark.parametrize("text", ["", "{}", "offset of somebody", '{"version":1}', "[]"])
def test_metadata_of_others_is_no_marker(text: str) -> None:
    with pytest.raises(SinkError, match="has no marker of Strandline's"):
        Progress.read(text, "g")


def test_a_marker_of_a_later_release_is_told() -> None:
    with pytest.raises(SinkError, match="of version 2; this release knows 1"):
        Progress.read('{"version":2}', "g")


@given(*[st.text(min_size=1, max_size=300)] * 4)
def test_two_sinks_have_two_names(flow: str, sink: str, other_flow: str, other_sink: str) -> None:
    one, two = name_of_sink(flow, sink, "t"), name_of_sink(other_flow, other_sink, "t")
    assert (one == two) == ((flow, sink) == (other_flow, other_sink))
    assert len(one) <= 240
    assert one.isascii()


def test_a_tick_that_was_cut_short_goes_on_and_no_other_follows_it() -> None:
    assert rows_before(HALF, delivery(TARGET, 7), TARGET) == 400
    assert rows_before(HALF, delivery(TARGET, 6), TARGET) is None
    with pytest.raises(SinkError, match="holds the first 400 rows of tick 7 only"):
        rows_before(HALF, delivery(TARGET, 8), TARGET)
    with pytest.raises(SinkError, match="holds other rows for tick 7"):
        rows_before(HALF, delivery(TARGET, 7, digest="other"), TARGET)
    assert rows_before(HALF, delivery(TARGET, 8), replace(TARGET, acknowledged=True)) == 0


def test_a_whole_tick_is_skipped_and_the_next_follows() -> None:
    whole = Progress(owner="o", marker=SEVEN, rows=500)
    assert rows_before(whole, delivery(TARGET, 7), TARGET) is None
    assert rows_before(whole, delivery(TARGET, 8), TARGET) == 0
    with pytest.raises(SinkError, match="is at tick 7; tick 6 comes too late"):
        rows_before(whole, delivery(TARGET, 6), TARGET)


def test_the_marker_of_another_incarnation_is_refused_or_taken_over() -> None:
    other = replace(TARGET, incarnation="two")
    with pytest.raises(SinkError, match="of another incarnation"):
        rows_before(HALF, delivery(other, 1), other)
    agreed = replace(other, acknowledged=True)
    assert rows_before(HALF, delivery(agreed, 1), agreed) == 0


def test_a_marker_that_must_be_there_and_is_not_is_told_at_the_start() -> None:
    known = replace(TARGET, last=SEVEN)
    for found in (None, Progress(owner="o"), HALF):
        with pytest.raises(SinkError, match="tick 7 was published to it"):
            require_no_loss(found, known)
        require_no_loss(found, replace(known, acknowledged=True))
    require_no_loss(Progress(owner="o", marker=SEVEN), known)
    require_no_loss(None, TARGET)
