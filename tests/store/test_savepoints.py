"""Savepoints: taken, listed, restored into the same place or another, dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strandline.errors import StateError
from strandline.store.local import LocalStorage
from strandline.store.manifests import Manifest, Manifests
from strandline.store.savepoints import drop, going_back, restore, savepoints, take
from tests.store.states import following


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "state")


def tick(storage: Any, count: int = 1, **how: Any) -> Manifest:
    manifests = Manifests(storage)
    for _ in range(count):
        made = following(storage, manifests.head(), **how)
        manifests.commit(made)
    return made


def test_a_savepoint_is_the_head_kept_under_a_name(storage: LocalStorage) -> None:
    head = tick(storage, 3)
    assert take(storage, "before-upgrade").manifest == head
    assert [(each.name, each.manifest) for each in savepoints(storage)] == [("before-upgrade", head)]


def test_an_earlier_tick_can_be_kept_while_it_is_there(storage: LocalStorage) -> None:
    tick(storage, 3)
    assert take(storage, "earlier", 1).manifest.number == 1
    with pytest.raises(StateError, match="Tick 9 is not kept") as raised:
        take(storage, "never", 9)
    assert raised.value.fix == "Take another: ticks 0 to 2 are kept."


def test_a_name_is_used_once(storage: LocalStorage) -> None:
    tick(storage, 1)
    take(storage, "a")
    take(storage, "a")
    tick(storage, 1)
    with pytest.raises(StateError, match="There is a savepoint 'a' already, of tick 0"):
        take(storage, "a")


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "..", "ä", "x" * 101, "a b", "-a"])
def test_a_name_that_cannot_be_a_file_is_refused(storage: LocalStorage, name: str) -> None:
    tick(storage, 1)
    with pytest.raises(StateError, match="A savepoint cannot be called"):
        take(storage, name)


def test_without_state_there_is_nothing_to_keep(storage: LocalStorage) -> None:
    with pytest.raises(StateError, match="There is no state in"):
        take(storage, "a")


@pytest.mark.parametrize("folder", ["state/", "outputs/"])
@pytest.mark.parametrize("fault", ["missing", "changed", "cut off"])
def test_a_savepoint_of_files_that_cannot_be_read_is_not_taken(storage: LocalStorage, folder: str, fault: str) -> None:
    tick(storage, 1)
    name = storage.names(folder)[0]
    data = bytearray(storage.read(name))
    storage.delete([name])
    if fault == "changed":
        data[len(data) // 2 if folder == "outputs/" else 200] ^= 1
    if fault != "missing":
        storage.create(name, bytes(data[: len(data) // 2 if fault == "cut off" else None]))
    with pytest.raises(StateError) as raised:
        take(storage, "a")
    assert name in raised.value.what
    assert savepoints(storage) == []


def test_one_that_is_not_there_is_said_with_those_that_are(storage: LocalStorage) -> None:
    tick(storage, 1)
    take(storage, "monday")
    for act in (restore, drop):
        with pytest.raises(StateError, match="There is no savepoint 'mondya'") as raised:
            act(storage, "mondya")
        assert "'monday'" in raised.value.fix


def test_going_back_is_a_new_tick_with_the_old_state(storage: LocalStorage) -> None:
    kept = tick(storage, 2)
    take(storage, "a")
    head = tick(storage, 3)
    back = restore(storage, "a")
    assert Manifests(storage).head() == back
    assert back.number == head.number + 1
    assert back.parent == head.digest
    assert back.stages == kept.stages
    assert back.sources == kept.sources
    assert back.tick.edges == kept.tick.edges
    assert back.incarnation != kept.incarnation
    assert back.journal["restored"] == {"savepoint": "a", "tick": 1, "incarnation": "i"}
    assert [name for name in storage.names("savepoints/") if ".restoring" in name] == []
    assert tick(storage, 1).number == back.number + 1


def test_going_back_that_is_not_committed_changes_nothing_and_is_the_same_when_tried_again(
    storage: LocalStorage,
) -> None:
    tick(storage, 2)
    take(storage, "a")
    head, there = tick(storage, 3), storage.names()
    with going_back(storage, "a") as refused:
        pass
    assert (Manifests(storage).head(), storage.names()) == (head, there)
    assert restore(storage, "a") == refused
    assert restore(storage, "a").incarnation != refused.incarnation


def test_what_was_published_since_is_not_pending_after_going_back(storage: LocalStorage) -> None:
    tick(storage, 2)
    take(storage, "a")
    tick(storage, 3)
    back = restore(storage, "a")
    assert back.sinks["table"].outputs == ()
    assert back.sinks["table"].pending == ()


def test_what_a_sink_never_got_is_still_pending_after_going_back(storage: LocalStorage) -> None:
    kept = tick(storage, 2, waits=9)
    take(storage, "a")
    tick(storage, 2, waits=9)
    back = restore(storage, "a")
    assert [each.tick for each in back.sinks["table"].pending] == [0, 1]
    assert back.sinks["table"].pending[-1].outputs == kept.sinks["table"].outputs


def test_a_fork_lives_on_without_the_original(storage: LocalStorage, tmp_path: Path) -> None:
    kept = tick(storage, 3)
    storage.create("sources/orders/log", b"seen")
    take(storage, "a")
    fork = LocalStorage(tmp_path / "fork")
    first = restore(storage, "a", fork, flow="trial")
    storage.delete(storage.names())
    assert Manifests(fork).head() == first
    assert (first.flow, first.parent, first.number) == ("trial", None, kept.number)
    assert first.stages == kept.stages
    assert first.sinks["table"].outputs == first.sinks["table"].pending == ()
    assert fork.read("sources/orders/log") == b"seen"
    assert take(fork, "b").manifest == first
    assert tick(fork, 1).number == kept.number + 1


def test_a_fork_into_its_own_folder_and_a_new_name_for_going_back_are_refused(storage: LocalStorage) -> None:
    head = tick(storage, 2)
    take(storage, "a")
    with pytest.raises(StateError, match="There is state in"):
        restore(storage, "a", LocalStorage(storage.root), flow="other")
    with pytest.raises(StateError, match="cannot make the flow 'f' into 'other'"):
        restore(storage, "a", flow="other")
    assert Manifests(storage).head() == head


def test_a_fork_that_was_interrupted_can_be_made_again(storage: LocalStorage, tmp_path: Path) -> None:
    kept = tick(storage, 3)
    take(storage, "a")
    fork = LocalStorage(tmp_path / "fork")
    copied = min(kept.stages["counts"].files)
    fork.create(copied, storage.read(copied))
    assert restore(storage, "a", fork).number == kept.number
    with pytest.raises(StateError, match="There is state in"):
        restore(storage, "a", fork)


def test_a_fork_over_other_files_is_refused(storage: LocalStorage, tmp_path: Path) -> None:
    kept = tick(storage, 1)
    take(storage, "a")
    fork = LocalStorage(tmp_path / "fork")
    fork.create(min(kept.stages["counts"].files), b"something else")
    with pytest.raises(StateError, match="There is another file"):
        restore(storage, "a", fork)
