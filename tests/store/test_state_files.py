"""State files: only what is new is written, only what is needed is read, and what is damaged is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from strandline.errors import MissingFile, StateError
from strandline.kernel.fingerprint import fingerprint
from strandline.kernel.plan import Plan, plan_stage
from strandline.kernel.segments import GREATEST_HASH, Origin
from strandline.kernel.state import State
from strandline.model.aggregates import Count
from strandline.model.flow import Flow
from strandline.model.ticks import Edge
from strandline.model.time import Instant
from strandline.model.triggers import AfterProcessingTime, AfterWatermark
from strandline.model.watermarks import Bounded
from strandline.model.windows import Tumbling
from strandline.sources.rows import Rows
from strandline.store.joining import record_of
from strandline.store.local import LocalStorage
from strandline.store.manifests import SegmentRef, StageRecord
from strandline.store.opened import OpenedFiles
from strandline.store.state_files import StatePart, open_state, write_state
from tests.store.playing import EVERYTHING, StoredStage, ranges, shown

HALF = GREATEST_HASH // 2
SECOND = 1_000_000


def plan(size: str = "1m") -> Plan:
    source = Flow("f").source("events", Rows(schema="user string, at timestamp"), time="at", watermark=Bounded("0s"))
    trigger = AfterWatermark(early=AfterProcessingTime("10s"))
    stage = source.key_by("user").window(Tumbling(size), trigger=trigger).aggregate("counts", n=Count())
    return plan_stage(stage.node)


def rows(users: range, seconds: int = 1) -> pl.DataFrame:
    times = [seconds * SECOND] * len(users)
    columns = {"user": [f"user {n}" for n in users], "__time": times, "at": times}
    return pl.DataFrame(columns).with_columns(pl.col("at").cast(pl.Datetime("us", "UTC")))


def edge(before: int = 0, after: int = 0) -> Edge:
    return Edge(before=Instant(before * SECOND), after=Instant(after * SECOND))


@pytest.fixture
def stage(tmp_path: Path) -> StoredStage:
    return StoredStage(plan(), LocalStorage(tmp_path))


def whole(stage: StoredStage, least: int = 0, greatest: int = GREATEST_HASH) -> State:
    return open_state(stage.plan, stage.storage, stage.record, least, greatest)


def test_one_file_for_each_share_that_has_something_new(stage: StoredStage) -> None:
    stage.tick(rows(range(100)), edge(), Instant(0), ranges([HALF]))
    assert len(stage.storage.names("state/counts/")) == 2
    stage.tick(rows(range(0)), edge(), Instant(1), ranges([HALF]))
    assert len(stage.storage.names()) == 2


def test_what_is_already_in_a_file_is_not_written_again(stage: StoredStage) -> None:
    stage.tick(rows(range(5000)), edge(), Instant(0), [EVERYTHING])
    before = stage.storage.names()
    stage.tick(rows(range(5000, 5001)), edge(), Instant(1), [EVERYTHING])
    (new,) = set(stage.storage.names()) - set(before)
    assert stage.storage.size(new) < stage.storage.size(before[0]) / 10
    assert whole(stage).rows == 5001


def test_a_state_file_carries_its_tick(stage: StoredStage) -> None:
    stage.number = 42
    stage.tick(rows(range(3)), edge(), Instant(0), [EVERYTHING])
    assert stage.storage.names()[0].startswith("state/counts/000000000042-")


def test_a_segment_that_one_share_has_merged_away_does_not_come_back(stage: StoredStage) -> None:
    """The first share writes all its rows anew; the other still refers to the old file, for its own hashes only."""
    stage.tick(rows(range(100)), edge(), Instant(0), [EVERYTHING])
    state = whole(stage, 0, HALF)
    merged = replace(
        state, slices={n: tuple(replace(s, origin=None) for s in found) for n, found in state.slices.items()}
    )
    parts = [
        write_state(stage.plan, stage.storage, "counts", 1, merged, 0, HALF),
        write_state(stage.plan, stage.storage, "counts", 1, whole(stage, HALF + 1), HALF + 1, GREATEST_HASH),
    ]
    stage.record = record_of(fingerprint(stage.plan), parts, stage.record, watermark=0)
    stage.number = 2
    assert sorted((ref.least, ref.greatest) for ref in stage.record.segments) == ranges([HALF + 1])
    stage.tick(rows(range(0)), edge(), Instant(1), [EVERYTHING])
    stage.tick(rows(range(0)), edge(), Instant(2), ranges([HALF // 2]))
    assert whole(stage).rows == 100


def test_shares_of_one_segment_are_one_range_again(stage: StoredStage) -> None:
    stage.tick(rows(range(100)), edge(), Instant(0), [EVERYTHING])
    before = stage.record
    assert before is not None
    stage.tick(rows(range(0)), edge(), Instant(1), ranges([HALF, HALF // 3]))
    assert stage.record is not None
    assert stage.record.segments == before.segments
    assert stage.record.indexes == before.indexes


def test_keys_that_no_share_has_stay_as_they_were(stage: StoredStage) -> None:
    stage.tick(rows(range(100)), edge(), Instant(0), [EVERYTHING])
    before = whole(stage)
    stage.tick(rows(range(0)), edge(), Instant(1), [(HALF, HALF + HALF // 2)])
    assert shown(stage.plan, whole(stage)) == shown(stage.plan, before)
    assert stage.record is not None
    assert stage.record.rows == 100


def test_shares_that_overlap_are_refused() -> None:
    parts = [StatePart(least=0, greatest=10), StatePart(least=10, greatest=20)]
    with pytest.raises(StateError, match="overlap"):
        record_of({}, parts, watermark=0)


def test_opening_reads_no_rows(stage: StoredStage) -> None:
    stage.tick(rows(range(100)), edge(), Instant(0), [EVERYTHING])
    name = stage.storage.names()[0]
    data = bytearray(stage.storage.read(name))
    data[1000] ^= 1
    stage.storage.delete([name])
    moved = name.replace("-", "-9")
    stage.storage.create(moved, bytes(data))
    assert stage.record is not None
    segments = tuple(replace(ref, file=moved) for ref in stage.record.segments)
    indexes = {each: tuple(replace(ref, file=moved) for ref in refs) for each, refs in stage.record.indexes.items()}
    stage.record = replace(stage.record, segments=segments, indexes=indexes)
    state = whole(stage)
    assert state.rows == 100
    with pytest.raises(StateError, match=r"block \d+ of segment \d+ .* of the file 'state/counts/"):
        shown(stage.plan, state)


@pytest.mark.parametrize("length", [0, 10, 500, -1])
def test_a_file_that_was_cut_off_is_named(stage: StoredStage, length: int) -> None:
    stage.tick(rows(range(100)), edge(), Instant(0), [EVERYTHING])
    stage.storage.create("state/counts/cut.seg", stage.storage.read(stage.storage.names()[0])[:length])
    ref = SegmentRef(file="state/counts/cut.seg", at=0, slice=0, first_tick=0, last_tick=0, rows=1, nbytes=1)
    record = StageRecord(about=fingerprint(stage.plan), segments=(ref,))
    with pytest.raises(StateError, match=r"The file 'state/counts/cut\.seg' cannot be used"):
        open_state(stage.plan, stage.storage, record, *EVERYTHING)


def test_a_missing_file_or_segment_is_named(stage: StoredStage) -> None:
    stage.tick(rows(range(100)), edge(), Instant(0), [EVERYTHING])
    assert stage.record is not None
    ref = stage.record.segments[0]
    with pytest.raises(MissingFile, match="'state/counts/gone'"):
        open_state(
            stage.plan,
            stage.storage,
            replace(stage.record, segments=(replace(ref, file="state/counts/gone"),)),
            *EVERYTHING,
        )
    with pytest.raises(StateError, match=f"{ref.file}' has no segment 9"):
        open_state(stage.plan, stage.storage, replace(stage.record, segments=(replace(ref, at=9),)), *EVERYTHING)


def test_a_stage_that_was_changed_is_refused_with_what_differs(stage: StoredStage) -> None:
    stage.tick(rows(range(3)), edge(), Instant(0), [EVERYTHING])
    with pytest.raises(StateError, match="window: Tumbling"):
        open_state(plan("2m"), stage.storage, stage.record, *EVERYTHING)


def test_a_stage_without_a_record_is_empty(stage: StoredStage) -> None:
    assert open_state(stage.plan, stage.storage, None, *EVERYTHING) == State()


def test_what_is_due_is_said(stage: StoredStage) -> None:
    stage.tick(rows(range(3), seconds=65), edge(), Instant(5 * SECOND), [EVERYTHING])
    assert stage.record is not None
    assert stage.record.due == {"event": 120 * SECOND, "processing": 15 * SECOND, "hold": None}
    stage.tick(rows(range(0)), edge(0, 120), Instant(6 * SECOND), [EVERYTHING])
    assert stage.record.due["event"] is None
    assert stage.record.rows == 0


def test_timers_that_rang_are_forgotten_also_after_opening_again(stage: StoredStage) -> None:
    stage.tick(rows(range(50)), edge(), Instant(0), [EVERYTHING])
    stage.tick(rows(range(50, 100), seconds=61), edge(), Instant(5 * SECOND), ranges([HALF]))
    stage.tick(rows(range(0)), edge(), Instant(10 * SECOND), ranges([HALF // 2]))
    timers = whole(stage).timers
    assert timers.earliest == 15 * SECOND
    assert timers.rows == 50


def test_files_that_no_record_names_any_more_are_closed(tmp_path: Path, stage: StoredStage) -> None:
    stage.tick(rows(range(3)), edge(), Instant(0), [EVERYTHING])
    (name,) = stage.storage.names()
    opened = OpenedFiles()
    first = opened.segments(stage.storage, name)
    assert opened.segments(stage.storage, name) is first
    opened.keep(stage.storage, {"state/other/x.seg"})
    assert opened.segments(stage.storage, name) is first
    opened.keep(stage.storage, {"state/counts/x.seg"})
    assert opened.segments(stage.storage, name) is not first


def test_a_damaged_file_that_was_put_back_is_opened_anew_once_it_is_forgotten(stage: StoredStage) -> None:
    stage.tick(rows(range(3)), edge(), Instant(0), [EVERYTHING])
    (name,) = stage.storage.names()
    data, opened = stage.storage.read(name), OpenedFiles()
    rows_at = data.index(b"user 1")  # in a block, which is looked at when it is needed, and not when the file is opened
    stage.storage.replace(name, data[:rows_at] + b"nobody" + data[rows_at + 6 :])
    (segment, *_) = opened.segments(stage.storage, name)
    with pytest.raises(StateError, match=name):
        segment.blocks[0].batch()
    stage.storage.replace(name, data)
    opened.forget(stage.storage)
    assert opened.segments(stage.storage, name)[0].blocks[0].batch().num_rows == 3


def test_only_so_many_files_are_kept_open(stage: StoredStage) -> None:
    for number in range(4):
        stage.tick(rows(range(number, number + 1)), edge(), Instant(number), [EVERYTHING])
    opened = OpenedFiles(most=2)
    first = [opened.segments(stage.storage, name) for name in stage.storage.names()]
    again = [opened.segments(stage.storage, name) for name in reversed(stage.storage.names())]
    assert [one is other for one, other in zip(reversed(first), again, strict=True)] == [True, True, False, False]


def test_an_origin_says_file_number_and_range(stage: StoredStage) -> None:
    stage.tick(rows(range(100)), edge(), Instant(0), [EVERYTHING])
    (segment,) = (s for found in whole(stage, 0, HALF).slices.values() for s in found)
    assert segment.origin == Origin(stage.storage.names()[0], 0, 0, HALF)
