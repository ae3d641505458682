"""The due index: what is due, and nothing that is not."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import StateError
from strandline.kernel import segments
from strandline.kernel.codec import encode
from strandline.kernel.due import ENTRY, DueIndex
from strandline.kernel.segments import Reads
from strandline.model.time import Instant

Entry = tuple[int, int, int, int]
entries = st.lists(
    st.tuples(st.integers(-5, 30), st.integers(0, 2**64 - 1) | st.integers(0, 3), st.integers(0, 2), st.integers(3, 5)),
    max_size=12,
)
steps = st.lists(st.tuples(entries, st.integers(-6, 32), st.booleans()), max_size=20)


def frame(rows: list[Entry]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=ENTRY, orient="row")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "BLOCK_ROWS", 3)


@pytest.mark.slow
@given(steps)
def test_the_index_says_what_a_plain_set_says(steps: list[tuple[list[Entry], int, bool]]) -> None:
    index, kept = DueIndex(), set[Entry]()
    for added, now, crash in steps:
        index, kept = index.add(frame(added)), kept | set(added)
        index = DueIndex.from_bytes(index.to_bytes()) if crash else index
        assert index.due(Instant(now)).rows() == sorted(e for e in kept if e[0] <= now)
        index, kept = index.forget(Instant(now)), {e for e in kept if e[0] > now}
        assert index.earliest == min((e[0] for e in kept), default=None)
        assert index.due(Instant.END_OF_TIME).rows() == sorted(kept)


@pytest.mark.slow
@given(steps)
def test_an_index_comes_back_from_its_bytes(steps: list[tuple[list[Entry], int, bool]]) -> None:
    index = DueIndex()
    for added, now, _ in steps:
        index = index.add(frame(added)).forget(Instant(now))
    assert DueIndex.from_bytes(index.to_bytes()) == index
    assert DueIndex.from_bytes(index.to_bytes()).to_bytes() == index.to_bytes()


def test_runs_stay_few() -> None:
    index = DueIndex()
    for number in range(300):
        index = index.add(frame([(number, number, 0, 1)]))
        assert len(index.runs) <= 25
    assert index.rows == 300


def test_what_is_not_due_is_not_read() -> None:
    index = DueIndex.from_bytes(DueIndex().add(frame([(n, n, 0, 1) for n in range(3000)])).to_bytes())
    reads = Reads()
    assert index.due(Instant(4), reads).height == 5
    assert reads.blocks == 2
    assert index.due(Instant(-1), reads).height == 0
    assert reads.rows == 5


def test_an_empty_index_has_nothing_due() -> None:
    assert DueIndex().earliest is None
    assert DueIndex().due(Instant(0)).schema == pl.Schema(ENTRY)
    assert DueIndex.from_bytes(DueIndex().to_bytes()) == DueIndex()


def test_a_file_of_state_is_no_due_index() -> None:
    with pytest.raises(StateError, match="not 'due' rows"):
        DueIndex.from_bytes(encode([], kind="state"))
