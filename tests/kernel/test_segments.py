"""Segments: found by binary search, cut without copying, and read no more than needed."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import StateError
from strandline.kernel import segments
from strandline.kernel.codec import decode, encode
from strandline.kernel.hashing import bucket_of, hash_range
from strandline.kernel.lookup import lookup
from strandline.kernel.segments import BLOCK_ROWS, Reads, Segment, segment_of


def state_rows(hashes: list[int]) -> pl.DataFrame:
    number = np.arange(len(hashes), dtype=np.int64)
    return pl.DataFrame(
        {
            "hash": pl.Series(sorted(hashes), dtype=pl.UInt64),
            "user": pl.Series([None if n % 7 == 3 else f"user-{n}" for n in number], dtype=pl.String),
            "window_start": number * 10,
            "window_end": number * 10 + 60,
            "least": pl.Series([None if n % 11 == 5 else int(n) for n in number], dtype=pl.Int64),
            "items": pl.Series([[int(n)] * (n % 3) for n in number], dtype=pl.List(pl.Int64)),
        }
    )


def stored(segment: Segment) -> Segment:
    return decode(encode([segment], kind="state"))[0]


few_hashes = st.lists(st.integers(0, 40) | st.integers(0, 2**64 - 1), max_size=60)


def words(hashes: list[int]) -> np.ndarray:
    return np.unique(np.array(hashes, np.uint64))


SCHEMA = state_rows([]).schema


def found_in(segment: Segment, hashes: list[int], reads: Reads | None = None) -> pl.DataFrame:
    return lookup([(segment, words(hashes))], SCHEMA, reads)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that a few rows make many of them."""
    monkeypatch.setattr(segments, "BLOCK_ROWS", 4)


@given(few_hashes, few_hashes, st.booleans())
def test_a_lookup_finds_the_rows_that_a_scan_finds(kept: list[int], asked: list[int], from_file: bool) -> None:
    rows = state_rows(kept)
    segment = segment_of(rows, slice=0, tick=1)
    found = found_in(stored(segment) if from_file else segment, asked)
    assert found.equals(rows.filter(pl.Series([h in asked for h in rows["hash"]], dtype=pl.Boolean)))
    assert found.schema == rows.schema


@given(few_hashes, st.integers(1, 9), st.booleans())
def test_the_buckets_parts_adjoin_and_make_the_whole(kept: list[int], buckets: int, from_file: bool) -> None:
    rows = state_rows(kept)
    segment = stored(segment_of(rows, 0, 1)) if from_file else segment_of(rows, 0, 1)
    parts = [segment.within(*hash_range(bucket, buckets)) for bucket in range(buckets)]
    assert pl.concat([part.frame() for part in parts]).equals(rows)
    assert sum(part.rows for part in parts) == segment.rows == len(kept)
    for bucket, part in enumerate(parts):
        assert set(bucket_of(part.frame()["hash"].to_numpy(), buckets).tolist()) <= {bucket}


@pytest.mark.slow
@given(few_hashes, st.integers(0, 50), st.integers(0, 50), few_hashes)
def test_a_part_is_searched_like_any_segment(kept: list[int], least: int, greatest: int, asked: list[int]) -> None:
    part = segment_of(state_rows(kept), 0, 1).within(least, greatest)
    again = segment_of(part.frame(), 0, 1)
    assert part == again == stored(part)
    assert found_in(part, asked).equals(found_in(again, asked))
    assert part.within(least + 2, greatest - 2) == again.within(least + 2, greatest - 2)


@given(few_hashes)
def test_every_block_keeps_to_its_bounds_and_size(kept: list[int]) -> None:
    for block in segment_of(state_rows(kept), 0, 1).blocks:
        assert block.rows <= 4
        hashes, ends = block.column("hash").tolist(), block.column("window_end").tolist()
        assert all(block.least_hash <= h <= block.greatest_hash for h in hashes)
        assert all(block.least_time <= t <= block.greatest_time for t in ends)


def test_a_lookup_over_several_segments_keeps_their_order() -> None:
    old, young = segment_of(state_rows([1, 2, 3]), 0, 1), segment_of(state_rows([2, 9]), 0, 2)
    assert lookup([(old, words([2, 9])), (young, words([2, 9]))], SCHEMA)["hash"].to_list() == [2, 2, 9]


def test_rows_that_are_not_sorted_are_refused() -> None:
    with pytest.raises(StateError, match="not sorted"):
        segment_of(state_rows([1, 2]).reverse(), 0, 1)


def test_a_segment_is_equal_to_one_that_says_the_same() -> None:
    segment = segment_of(state_rows([1, 2]), 0, 1)
    assert segment == segment_of(state_rows([1, 2]), 0, 1, 1)
    assert segment != segment_of(state_rows([1, 2]), 0, 2)
    assert segment != segment_of(state_rows([1, 3]), 0, 1)
    assert segment != "a segment"


def test_only_blocks_that_can_hold_the_hash_are_opened_and_verified_once() -> None:
    segment = stored(segment_of(state_rows(list(range(400))), 0, 1))
    first, second = Reads(), Reads()
    assert found_in(segment, [17], first).height == found_in(segment, [17], second).height == 1
    assert first.blocks == second.blocks == 1
    assert second.bytes < first.bytes < segment.nbytes / 20


def test_a_lookup_in_a_great_segment_touches_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "BLOCK_ROWS", BLOCK_ROWS)
    spread = np.arange(300_000, dtype=np.uint64) * np.uint64(2**44)
    rows = pl.DataFrame({"hash": spread, "window_end": np.zeros(300_000, np.int64), "n": np.ones(300_000)})
    segment = segment_of(rows, 0, 1)
    reads = Reads()
    assert lookup([(segment, spread[::3000])], SCHEMA, reads).height == 100
    assert len(segment.blocks) == reads.blocks == 5
    assert reads.rows == 100
    assert reads.bytes < segment.nbytes / 100
    part = segment.within(2**50, 2**60)
    assert part.blocks[0].content is segment.blocks[0].content


def test_reading_everything_is_tallied_too() -> None:
    reads = Reads()
    segment = segment_of(state_rows([1, 2, 3, 4, 5]), 0, 1)
    segment.frame(reads)
    assert (reads.blocks, reads.rows) == (2, 5)
    assert reads.bytes == segment.nbytes
