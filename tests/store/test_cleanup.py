"""Clean-up takes what nobody needs, and nothing else."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strandline.errors import StateError
from strandline.model.time import Instant
from strandline.store.cleanup import clean, garbage
from strandline.store.local import LocalStorage
from strandline.store.manifests import Manifest, Manifests
from strandline.store.savepoints import drop, pins, restore, take
from tests.lanes import examples
from tests.store.interleaving import play
from tests.store.states import following, output, segment

NOW = Instant.of("2026-01-01T12:00:00Z")


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


def tick(storage: Any, count: int = 1, **how: Any) -> Manifest:
    """Make so many ticks; the last one."""
    manifests = Manifests(storage)
    for _ in range(count):
        made = following(storage, manifests.head(), **how)
        manifests.commit(made)
    return made


def test_what_the_head_needs_stays_and_what_it_left_behind_goes(storage: LocalStorage) -> None:
    tick(storage, 8, keeps=1)
    for _ in range(2):  # old manifests in one pass, the files that only they named in the next
        clean(storage, keep=2, now=NOW)
    head = Manifests(storage).head()
    assert head is not None
    assert Manifests(storage).numbers() == [6, 7]
    needed = head.files() | Manifests(storage).at(6).files()
    assert {name for name in storage.names() if not name.startswith("manifests/")} == needed


def test_files_of_a_tick_that_is_not_yet_committed_stay(storage: LocalStorage) -> None:
    head = tick(storage, 3)
    coming = segment(storage, head.number + 1).file
    later = output(storage, head.number + 2).file
    storage.create(f"staging/{head.number + 1:012}-x.parcels", b"")
    clean(storage, keep=2, now=NOW)
    assert storage.exists(coming)
    assert storage.exists(later)
    assert storage.names("staging/") == [f"staging/{head.number + 1:012}-x.parcels"]


def test_files_of_an_attempt_that_failed_go_when_the_tick_is_committed(storage: LocalStorage) -> None:
    head = tick(storage, 1)
    failed = segment(storage, head.number + 1).file
    staged = f"staging/{head.number + 1:012}-x.parcels"
    storage.create(staged, b"")
    tick(storage, 1)
    assert garbage(storage) == [failed, staged]


def test_rows_that_wait_for_a_sink_stay(storage: LocalStorage) -> None:
    tick(storage, 1)
    waiting = Manifests(storage).at(0).sinks["table"].outputs[0].file
    tick(storage, 6, waits=10)
    for _ in range(2):
        clean(storage, keep=2, now=NOW)
    assert storage.exists(waiting)


def test_what_is_not_of_a_tick_is_left_alone(storage: LocalStorage) -> None:
    tick(storage, 5)
    mine = ["sources/orders/000000000001.log", "notes.txt", "state/readme", "limit.json"]
    for name in mine:
        storage.create(name, b"")
    clean(storage, keep=2, now=NOW)
    assert all(storage.exists(name) for name in mine)


def test_an_empty_state_has_no_garbage(storage: LocalStorage) -> None:
    segment(storage, 0)
    assert clean(storage, now=NOW) == []


def test_the_head_and_its_parent_are_always_kept(storage: LocalStorage) -> None:
    with pytest.raises(StateError, match="cannot keep 1"):
        garbage(storage, keep=1)


def test_a_savepoint_keeps_its_files_until_it_is_dropped(storage: LocalStorage) -> None:
    kept = tick(storage, 2, keeps=5)
    take(storage, "before")
    tick(storage, 8, keeps=0)
    for _ in range(3):
        clean(storage, keep=2, now=NOW)
    assert all(storage.exists(file) for file in kept.files())
    drop(storage, "before")
    clean(storage, keep=2, now=NOW)
    assert not any(storage.exists(file) for file in kept.files())


def test_what_a_restore_that_crashed_left_goes(storage: LocalStorage) -> None:
    manifest = tick(storage, 2)
    left = f"savepoints/.restoring-{2:012}-0123.json"
    storage.create(left, manifest.to_bytes())
    assert garbage(storage) == []
    tick(storage, 1)
    assert left in garbage(storage)


# The law. Every actor does one thing, or a few; each call to the storage is a step, and steps come in any order.
ACTORS: dict[str, Any] = {
    "clean": lambda storage: clean(storage, 2, now=NOW),
    "clean twice": lambda storage: [clean(storage, 2, now=NOW) for _ in range(2)],
    "run": lambda storage: tick(storage, 3, keeps=1),
    "run on": lambda storage: tick(storage, 1, keeps=0),
    "take": lambda storage: take(storage, "new"),
    "take an old one": lambda storage: take(storage, "new", Manifests(storage).numbers()[0]),
    "drop": lambda storage: drop(storage, "old"),
    "restore": lambda storage: restore(storage, "old"),
    "restore and run": lambda storage: (restore(storage, "old"), tick(storage, 2, keeps=1)),
}


def assert_nothing_is_missing(names: list[str], order: list[int], before: int, passes: int = 0) -> int:
    """Let the actors act in this order; say how many steps they took."""
    with tempfile.TemporaryDirectory() as folder:
        storage = LocalStorage(folder)
        tick(storage, 2, keeps=1)
        take(storage, "old")
        tick(storage, before, keeps=0)
        for _ in range(passes):
            clean(storage, 2, now=NOW)
        steps = play(storage, [ACTORS[name] for name in names], order)
        head = Manifests(storage).head()
        assert head is not None
        for manifest in [head, *pins(storage)]:
            missing = [file for file in manifest.files() if not storage.exists(file)]
            assert not missing, f"tick {manifest.number} needs {missing}"
        return steps


@pytest.mark.slow
@pytest.mark.parametrize("other", ACTORS)
@pytest.mark.parametrize("first", ["clean", "other"])
def test_clean_up_takes_nothing_that_is_needed_wherever_another_comes_in_between(first: str, other: str) -> None:
    """One takes some steps, then the other acts from beginning to end, then the first goes on: at every step."""
    names = ["clean", other] if first == "clean" else [other, "clean"]
    at, steps = 0, 1
    while at < steps:
        steps = assert_nothing_is_missing(names, [0] * at + [1] * 1000, before=3)
        at += 1


@pytest.mark.slow
@pytest.mark.parametrize("begun", [2, 3])
def test_a_savepoint_of_a_tick_that_goes_meanwhile_is_whole_or_refused(begun: int) -> None:
    """It has read the manifest when a first pass removes that, and a second one begins to remove its files."""
    for at in range(10, 50):
        order = [0] * begun + [1] * at + [0] * 1000
        assert_nothing_is_missing(["take an old one", "clean twice"], order, before=3)


@pytest.mark.slow
@pytest.mark.parametrize("begun", [7, 10, 12])
def test_a_savepoint_that_is_dropped_while_it_is_restored_leaves_its_files_to_the_new_head(begun: int) -> None:
    """A pass has listed the savepoint when it is dropped, and the restore's own pin came after the list."""
    for at in range(4, 14):
        order = [0] * at + [1] * begun + [2] * 1000 + [0] * 1000
        assert_nothing_is_missing(["clean", "restore", "drop"], order, before=3, passes=2)


@pytest.mark.slow
@settings(max_examples=examples(100))
@example(others=["run", "run on"], stretches=[(1, 9), (2, 10)], before=1, passes=0)  # one slept behind its commit
@example(others=["run", "run"], stretches=[(1, 9), (2, 9)], before=1, passes=0)
@given(
    st.lists(st.sampled_from(sorted(ACTORS)), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 30)), max_size=6),
    st.integers(1, 5),
    st.integers(0, 2),
)
def test_clean_up_never_takes_what_the_head_or_a_savepoint_names(
    others: list[str], stretches: list[tuple[int, int]], before: int, passes: int
) -> None:
    """Stretches say who takes how many steps before the next one does."""
    order = [actor for actor, steps in stretches for _ in range(steps)]
    assert_nothing_is_missing(["clean twice", *others], order, before, passes)


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(st.integers(1, 8), st.integers(0, 40))
def test_a_clean_up_that_dies_leaves_the_rest_for_the_next(ticks: int, steps: int) -> None:
    """It is killed after so many steps; the chain has no gap, and the next pass ends where an undisturbed one does."""

    class Killed(BaseException):
        pass

    class Mortal:
        left = steps

        def __init__(self, storage: LocalStorage) -> None:
            self._storage = storage

        def __getattr__(self, name: str) -> Any:
            return getattr(self._storage, name)

        def delete(self, names: Any) -> None:
            for name in names:
                if self.left == 0:
                    raise Killed
                self.left -= 1
                self._storage.delete([name])

    with tempfile.TemporaryDirectory() as folder:
        storage = LocalStorage(folder)
        tick(storage, ticks + 2, keeps=1)
        with suppress(Killed):
            clean(Mortal(storage), 2, now=NOW)  # type: ignore[arg-type]
        assert Manifests(storage).head() is not None
        for _ in range(2):
            clean(storage, 2, now=NOW)
        assert Manifests(storage).numbers() == [ticks, ticks + 1]
        assert garbage(storage, 2) == []


def test_the_law_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clean-up that does not look at pins again, after it has listed, takes a savepoint's files."""
    monkeypatch.setattr("strandline.store.cleanup.pins", lambda storage: [])
    storage = LocalStorage(tmp_path)
    tick(storage, 2)
    kept = take(storage, "old").manifest
    tick(storage, 4, keeps=0)
    for _ in range(2):
        clean(storage, 2, now=NOW)
    assert not all(storage.exists(file) for file in kept.files())
