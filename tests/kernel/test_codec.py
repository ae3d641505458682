"""State bytes: the same back, the same again, and nothing believed that was not written."""

from __future__ import annotations

import struct
from datetime import date, datetime, timezone
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import StateError
from strandline.kernel import codec, segments
from strandline.kernel.codec import decode, encode
from strandline.kernel.lookup import lookup
from strandline.kernel.segments import Segment, segment_of

EVERY_TYPE: dict[str, pl.Series] = {
    "boolean": pl.Series([True, None, False]),
    "tinyint": pl.Series([1, None, -1], dtype=pl.Int8),
    "float": pl.Series([1.5, None, float("nan")], dtype=pl.Float32),
    "decimal": pl.Series([Decimal("1.50"), None, Decimal("-2.25")], dtype=pl.Decimal(38, 2)),
    "string": pl.Series(["", None, "Grüße an alle, die lange Texte mögen"]),
    "binary": pl.Series([b"", None, b"\0\xff"]),
    "date": pl.Series([date(1969, 1, 1), None, date(2026, 1, 1)]),
    "timestamp": pl.Series([datetime(2026, 1, 1, tzinfo=timezone.utc), None, None], dtype=pl.Datetime("us", "UTC")),
    "timestamp_ntz": pl.Series([0, None, 1], dtype=pl.Datetime("us")),
    "interval": pl.Series([1, None, -1], dtype=pl.Duration("us")),
    "array": pl.Series([[1, None], None, []], dtype=pl.List(pl.Int64)),
    "struct": pl.Series([{"value": "a", "count": 1}, None, {"value": None, "count": 2}]),
    "array of struct": pl.Series([[{"value": True}], None, []], dtype=pl.List(pl.Struct({"value": pl.Boolean}))),
}


def rows(hashes: list[int], extra: dict[str, pl.Series] | None = None) -> pl.DataFrame:
    ends = pl.Series(range(len(hashes)), dtype=pl.Int64)
    columns = {"hash": pl.Series(sorted(hashes), dtype=pl.UInt64), "window_end": ends}
    return pl.DataFrame({**columns, **(extra or {})})


def sample() -> list[Segment]:
    typed = segment_of(rows([1, 5, 2**64 - 1], EVERY_TYPE), slice=-3, tick=1, last_tick=4)
    return [typed, segment_of(rows([7, 8]), slice=2, tick=5), typed.within(2, 9), segment_of(rows([]), 0, 6)]


SAMPLE = encode(sample(), kind="state")
VALUES = [segment.frame() for segment in sample()]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "BLOCK_ROWS", 2)


def test_segments_of_every_type_and_several_schemas_come_back_as_they_were() -> None:
    assert decode(SAMPLE) == sample()
    assert [segment.frame().schema for segment in decode(SAMPLE)] == [frame.schema for frame in VALUES]


def test_the_same_segments_give_the_same_bytes_also_when_written_again() -> None:
    assert encode(sample(), kind="state") == encode(sample(), kind="state")
    assert encode(decode(SAMPLE), kind="state") == SAMPLE


def test_what_lies_under_nulls_and_behind_the_last_bit_does_not_reach_the_bytes() -> None:
    validity = pa.py_buffer(bytes([0b11111101]))
    outputs = []
    for hidden in (0, 99):
        values = pa.Array.from_buffers(pa.int64(), 3, [validity, pa.py_buffer(np.array([1, hidden, 3], np.int64))])
        bits = pa.Array.from_buffers(pa.bool_(), 3, [None, pa.py_buffer(bytes([0b101 | hidden & 0x60]))])
        frame = rows([1, 2, 3], {"n": pl.from_arrow(values), "b": pl.from_arrow(bits)})
        outputs.append(encode([segment_of(frame, 0, 1)], kind="state"))
    assert outputs[0] == outputs[1]


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.none() | st.text(max_size=5)), max_size=12), st.integers(0, 99))
def test_any_rows_come_back_as_they_were(pairs: list[tuple[int, str | None]], tick: int) -> None:
    texts = pl.Series([text for _, text in pairs], dtype=pl.String)
    segment = segment_of(rows([h for h, _ in pairs], {"text": texts}), 0, tick)
    assert decode(encode([segment, segment], kind="state"), kind="state") == [segment, segment]


def test_no_segments_make_a_file_too() -> None:
    assert decode(encode([], kind="state")) == []


def test_bodies_lie_on_boundaries_of_64_bytes_and_are_not_copied() -> None:
    file = pa.py_buffer(encode([segment_of(rows(list(range(9))), 0, 1)], kind="state"))
    for block in decode(file)[0].blocks:
        first_buffer = block.batch().column(0).buffers()[1]
        assert (first_buffer.address - file.address) % 64 == 0
        assert file.address < first_buffer.address < file.address + file.size


def test_any_arrow_reader_opens_the_file_as_a_stream_from_byte_64() -> None:
    frame = rows(list(range(9)), {"user": pl.Series([f"user-{n}" for n in range(9)])})
    file = pa.py_buffer(encode([segment_of(frame, 0, 1)], kind="state"))
    assert pl.DataFrame(pa.ipc.open_stream(file.slice(64)).read_all()).equals(frame)


@given(st.integers(0, len(SAMPLE) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_an_error_or_changes_nothing(place: int, flip: int) -> None:
    broken = bytearray(SAMPLE)
    broken[place] ^= flip
    try:
        found = [segment.frame() for segment in decode(bytes(broken))]
    except StateError:
        return
    assert all(mine.equals(theirs) for mine, theirs in zip(found, VALUES, strict=True))


@given(st.integers(0, len(SAMPLE) - 1), st.integers(1, 300))
def test_missing_bytes_are_an_error(place: int, length: int) -> None:
    with pytest.raises(StateError):
        decode(SAMPLE[:place] + SAMPLE[place + length :])


def test_the_error_says_which_block_is_damaged_and_other_blocks_can_still_be_read() -> None:
    file = encode([segment_of(rows([1, 2, 3, 4]), slice=7, tick=2, last_tick=3)], kind="state")
    start = file.rindex(struct.pack("<QQ", 3, 4))
    broken = file[:start] + b"\x09" + file[start + 1 :]
    (segment,) = decode(broken)
    assert lookup([(segment, np.array([2], np.uint64))], {}).height == 1
    with pytest.raises(StateError, match=r"block 1 of segment 0 \(slice 7, ticks 2 to 3\)"):
        lookup([(segment, np.array([4], np.uint64))], {})


def test_a_newer_format_is_refused_with_what_to_do() -> None:
    newer = SAMPLE[:8] + struct.pack("<I", 2) + SAMPLE[12:]
    with pytest.raises(StateError, match="version 2") as caught:
        decode(newer)
    assert "newer" in caught.value.fix


def test_another_hash_version_is_refused() -> None:
    with pytest.raises(StateError, match="hash version 9"):
        decode(SAMPLE[:12] + struct.pack("<I", 9) + SAMPLE[16:])


def test_older_formats_are_upgraded_one_step_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def next_version(file: pa.Buffer) -> pa.Buffer:
        version = struct.unpack_from("<I", file, 8)[0]
        return pa.py_buffer(file.to_pybytes()[:8] + struct.pack("<I", version + 1) + file.to_pybytes()[12:])

    monkeypatch.setattr(codec, "FORMAT_VERSION", 3)
    monkeypatch.setattr(codec, "UPGRADES", {1: next_version, 2: next_version})
    assert decode(SAMPLE) == sample()


def test_a_file_of_another_kind_is_refused() -> None:
    with pytest.raises(StateError, match="'state' rows, not 'due' rows"):
        decode(SAMPLE, kind="due")


TEXTS = {
    "string": pl.Series(["a", "bcd", "efghi", "j"]),
    "array": pl.Series([["a"], ["b", "c"], [], ["d"]], dtype=pl.List(pl.String)),
    "deep": pl.Series([[["a"]], [], [["b"], ["c", "d"]], [[]]], dtype=pl.List(pl.List(pl.String))),
}


@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize("last", range(4))
def test_equal_rows_give_equal_bytes_however_they_were_cut(
    first: int, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "BLOCK_ROWS", 4)
    whole = segment_of(rows([0, 1, 2, 3], TEXTS), slice=0, tick=1).within(first, last)
    alone = segment_of(rows([0, 1, 2, 3], TEXTS)[first : last + 1], slice=0, tick=1)
    assert encode([whole], kind="state") == encode([alone], kind="state")
