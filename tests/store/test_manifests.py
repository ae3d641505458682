"""Manifests: written once, read back equal, and refused by name when something is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import MissingFile, OwnershipError, StateError
from strandline.kernel.segments import GREATEST_HASH
from strandline.model.partitions import PartitionState, SourceState
from strandline.model.ticks import Edge, Tick
from strandline.model.time import Instant
from strandline.store.local import LocalStorage
from strandline.store.manifests import (
    Manifest,
    Manifests,
    OutputRef,
    PendingTick,
    SegmentRef,
    SinkRecord,
    SparkPlace,
    StageRecord,
)
from tests.store.states import first

words = st.text(max_size=4)
times = st.integers(int(Instant.BEFORE_ALL_TIME), int(Instant.END_OF_TIME))
counts = st.integers(0, 2**40)
refs = st.builds(
    SegmentRef, file=words, at=counts, slice=times, first_tick=counts, last_tick=counts, rows=counts, nbytes=counts,
    least=st.integers(0, GREATEST_HASH), greatest=st.integers(0, GREATEST_HASH), forgotten=st.none() | times,
)  # fmt: skip
some_refs = st.lists(refs, max_size=2).map(tuple)
outputs = st.lists(st.builds(OutputRef, file=words, rows=counts, nbytes=counts, digest=words), max_size=2).map(tuple)
pending = st.lists(st.builds(PendingTick, tick=counts, now=times, outputs=outputs, digest=words), max_size=2).map(tuple)
stages = st.builds(
    StageRecord, about=st.dictionaries(words, words, max_size=2), segments=some_refs,
    indexes=st.dictionaries(words, some_refs, max_size=2), due=st.dictionaries(words, st.none() | times, max_size=2),
    watermark=times, rows=counts, nbytes=counts,
)  # fmt: skip
sources = st.builds(
    SourceState, watermark=times.map(Instant), run=words,
    partitions=st.dictionaries(words, st.builds(PartitionState, watermark=times.map(Instant), position=counts), max_size=2),
)  # fmt: skip
manifests = st.builds(
    Manifest, flow=words, incarnation=words, run=words, parent=st.none() | words, finished=st.booleans(),
    tick=st.builds(Tick, number=counts, now=times.map(Instant), edges=st.just({"e": Edge.first()})),
    spark=st.none() | st.builds(SparkPlace, query=words, batch=counts, offsets=words),
    sources=st.dictionaries(words, sources, max_size=2), stages=st.dictionaries(words, stages, max_size=2),
    sinks=st.dictionaries(words, st.builds(SinkRecord, outputs=outputs, digest=words, pending=pending), max_size=2),
    journal=st.dictionaries(words, st.none() | st.booleans() | counts | words | st.lists(words, max_size=2), max_size=2),
)  # fmt: skip


@given(manifests)
def test_a_manifest_is_read_back_as_it_was(manifest: Manifest) -> None:
    again = Manifest.from_bytes(manifest.to_bytes())
    assert again == manifest
    assert again.to_bytes() == manifest.to_bytes()
    assert again.digest == manifest.digest


@given(manifests, st.data())
def test_a_changed_byte_is_noticed(manifest: Manifest, data: st.DataObject) -> None:
    whole = bytearray(manifest.to_bytes()[:-1])  # a line's end more or less says nothing
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found: Manifest | str = Manifest.from_bytes(bytes(whole), "manifests/7.json")
    except StateError as error:
        found = error.what
    assert found == manifest if isinstance(found, Manifest) else "manifests/7.json" in found


@given(manifests)
def test_a_manifest_that_was_cut_off_is_named(manifest: Manifest) -> None:
    whole = manifest.to_bytes()
    for length in (0, 1, len(whole) // 2, len(whole) - 2):
        with pytest.raises(StateError, match=r"manifests/7\.json"):
            Manifest.from_bytes(whole[:length], "manifests/7.json")


def test_another_version_is_named() -> None:
    whole = json.loads(first().to_bytes())
    with pytest.raises(StateError, match="m has version 99"):
        Manifest.from_bytes(json.dumps({**whole, "version": 99}).encode(), "m")


def test_the_files_are_those_of_state_indexes_outputs_and_what_is_pending() -> None:
    def ref(file: str) -> SegmentRef:
        return SegmentRef(file=file, at=0, slice=0, first_tick=0, last_tick=0, rows=1, nbytes=1)

    def out(file: str) -> OutputRef:
        return OutputRef(file=file, rows=1, nbytes=1, digest="")

    waiting = PendingTick(tick=0, now=0, outputs=(out("d"),), digest="")
    manifest = first(
        stages={"s": StageRecord(segments=(ref("a"),), indexes={"timers": (ref("b"),)})},
        sinks={"t": SinkRecord(outputs=(out("c"),), pending=(waiting,))},
    )
    assert manifest.files() == {"a", "b", "c", "d"}


@pytest.fixture
def chain(tmp_path: Path) -> Manifests:
    return Manifests(LocalStorage(tmp_path))


def extended(chain: Manifests, count: int, run: str = "r") -> list[Manifest]:
    made = []
    for _ in range(count):
        head = chain.head()
        parent, number = (None, 0) if head is None else (head.digest, head.number + 1)
        made.append(first(number, parent=parent, run=run))
        chain.commit(made[-1])
    return made


def test_the_head_is_the_youngest(chain: Manifests) -> None:
    assert chain.head() is None
    made = extended(chain, 3)
    assert chain.head() == made[-1]
    assert Manifests(chain.storage).head() == made[-1]
    assert chain.at(1) == made[1]
    assert chain.numbers() == [0, 1, 2]


def test_a_head_that_others_committed_is_seen(chain: Manifests) -> None:
    extended(chain, 1)
    other = Manifests(chain.storage)
    made = extended(other, 20)
    chain.storage.delete([f"manifests/{n:012}.json" for n in range(15)])
    assert chain.head() == made[-1]


def test_the_same_manifest_may_be_committed_again(chain: Manifests) -> None:
    made = extended(chain, 2)
    chain.commit(made[1])
    Manifests(chain.storage).commit(made[1])
    assert chain.numbers() == [0, 1]


def test_of_two_runs_that_commit_a_tick_the_second_is_told_by_name(chain: Manifests) -> None:
    head = extended(chain, 1)[0]
    other = Manifests(chain.storage)
    other.head()
    chain.commit(first(1, parent=head.digest, run="mine"))
    with pytest.raises(OwnershipError, match=r"Another run owns this flow.*000000000001\.json.*'theirs'"):
        other.commit(first(1, parent=head.digest, run="theirs"))


@pytest.mark.parametrize("ticks", [0, 5])
def test_a_run_that_slept_in_its_commit_until_others_had_cleaned_up_is_told_and_leaves_nothing(
    tmp_path: Path, ticks: int
) -> None:
    others = Manifests(LocalStorage(tmp_path))
    made = extended(others, ticks)

    class Sleepy(LocalStorage):
        def create(self, name: str, data: Any, *, durable: bool = True) -> bool:
            extended(others, 30, run="theirs")
            others.storage.delete([f"manifests/{n:012}.json" for n in range(ticks + 20)])
            return super().create(name, data, durable=durable)

    with pytest.raises(OwnershipError, match="comes too late: others have gone far beyond it"):
        Manifests(Sleepy(tmp_path)).commit(first(ticks, parent=made[-1].digest if made else None, run="mine"))
    assert others.numbers() == list(range(ticks + 20, ticks + 30))


def test_a_tick_that_does_not_follow_the_head_is_refused(chain: Manifests) -> None:
    with pytest.raises(OwnershipError, match="there is no manifest at all"):
        chain.commit(first(3, parent="somebody"))
    head = extended(chain, 2)[-1]
    with pytest.raises(OwnershipError, match="the head is tick 1 of run 'r'"):
        chain.commit(first(2, parent="somebody else"))
    with pytest.raises(StateError, match="Tick 5 cannot follow tick 1"):
        chain.commit(first(5, parent=head.digest))


def test_a_manifest_missing_in_the_middle_is_named(chain: Manifests) -> None:
    extended(chain, 5)
    chain.storage.delete(["manifests/000000000002.json"])
    with pytest.raises(StateError, match=r"manifests/000000000002\.json' is missing"):
        Manifests(chain.storage).head()


def test_a_head_without_its_parent_is_refused(chain: Manifests) -> None:
    extended(chain, 2)
    chain.storage.delete(["manifests/000000000000.json"])
    with pytest.raises(StateError, match=r"000000000000\.json' is missing, which tick 1 names as its parent"):
        Manifests(chain.storage).head()


def test_a_head_whose_parent_is_another_is_refused(chain: Manifests) -> None:
    made = extended(chain, 2)
    chain.storage.replace("manifests/000000000000.json", replace(made[0], run="forged").to_bytes())
    with pytest.raises(StateError, match=r"000000000000\.json' is not the parent"):
        Manifests(chain.storage).head()


def test_a_manifest_under_a_wrong_number_is_refused(chain: Manifests) -> None:
    made = extended(chain, 1)
    chain.storage.create("manifests/000000000001.json", made[0].to_bytes())
    with pytest.raises(StateError, match="holds the manifest of tick 0"):
        Manifests(chain.storage).head()


def test_a_tick_that_is_not_kept_is_missing(chain: Manifests) -> None:
    with pytest.raises(MissingFile, match="000000000007"):
        chain.at(7)


def test_windows_in_several_segments_are_counted_between_two_numbers() -> None:
    def of(slice_: int, rows: int, least: int, greatest: int) -> SegmentRef:
        return SegmentRef(
            file="f", at=0, slice=slice_, first_tick=0, last_tick=0, rows=rows, nbytes=9, least=least, greatest=greatest
        )

    shares = (of(0, 5, 0, 99), of(0, 7, 100, 199))  # of two tasks: no window is in both
    again = (of(0, 3, 0, 199), of(1, 4, 0, 199))  # written later by one, into the same slice and into another
    assert StageRecord(segments=shares).at_least == 12
    assert StageRecord(segments=shares + again).at_least == 16
    assert StageRecord().at_least == 0
