"""One suite for every storage: what is created is whole, once, and findable."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from strandline.errors import MissingFile, StorageError
from strandline.model.time import Instant
from strandline.store.cache import Cache
from strandline.store.local import LocalStorage
from strandline.store.objects import ObjectStorage
from strandline.store.probe import probe
from strandline.store.storage import Storage, digest_of, folder_name, storage_at
from tests.store.serving import BUCKET, serving


@pytest.fixture(params=["local", "objects"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    if request.param == "local":
        yield LocalStorage(tmp_path / "state")
        return
    with serving() as server:
        yield ObjectStorage(f"s3://{BUCKET}/state", server.options, Cache(str(tmp_path / "cache")))


def test_a_name_is_created_once(storage: Storage) -> None:
    assert storage.create("a/b", b"first")
    assert not storage.create("a/b", b"second")
    assert not storage.create("a/b", b"first")
    assert storage.read("a/b") == b"first"


def test_of_several_that_create_a_name_one_succeeds(storage: Storage) -> None:
    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(lambda n: storage.create("x", b"%d" % n), range(8)))
    assert told.count(True) == 1
    assert storage.read("x") == b"%d" % told.index(True)


def test_pieces_of_every_kind_are_written_one_after_the_other(storage: Storage) -> None:
    storage.create("x", [b"one ", memoryview(b"two "), pa.py_buffer(b"three"), b""])
    assert storage.read("x") == bytes(storage.open("x")) == b"one two three"
    assert storage.size("x") == 13
    storage.create("many", [b"x"] * 3000)
    assert storage.read("many") == b"x" * 3000


def test_an_empty_file_can_be_opened(storage: Storage) -> None:
    storage.create("x", b"")
    assert bytes(storage.open("x")) == storage.read("x") == b""


def test_a_control_file_is_replaced_whole(storage: Storage) -> None:
    storage.replace("x", b"old")
    storage.replace("x", [b"ne", b"w"])
    assert storage.read("x") == b"new"


def test_names_are_sorted_and_go_by_their_beginning(storage: Storage) -> None:
    for name in ("b/2", "b/10/x", "a", "bb"):
        storage.create(name, b"")
    assert storage.names() == ["a", "b/10/x", "b/2", "bb"]
    assert storage.names("b/") == ["b/10/x", "b/2"]
    assert storage.names("b") == ["b/10/x", "b/2", "bb"]
    assert storage.names("b/1") == ["b/10/x"]
    assert storage.names("nowhere/") == []


def test_a_folder_is_a_storage_of_its_own(storage: Storage) -> None:
    storage.create("sources/orders/log", b"x")
    inner = storage.within("sources/orders")
    assert inner.names() == ["log"]
    assert inner.url == storage.url + "/sources/orders"


def test_a_missing_file_is_named(storage: Storage) -> None:
    for ask in (storage.read, storage.open, storage.size):
        with pytest.raises(MissingFile, match="'state/gone'"):
            ask("state/gone")
    assert not storage.exists("state/gone")


def test_what_is_not_there_may_be_deleted(storage: Storage) -> None:
    storage.create("x", b"1")
    storage.delete(["x", "y", "x/y"])
    assert storage.names() == []
    storage.delete([])


def test_a_storage_travels(storage: Storage) -> None:
    storage.create("x", b"1")
    again = pickle.loads(pickle.dumps(storage))
    assert again.url == storage.url
    assert again.read("x") == b"1"


@pytest.mark.parametrize("name", ["", "/x", "a//b", "../x", "a/./b", ".tmp-1", "a\\b", "a\0b", "a/"])
def test_a_name_that_leads_elsewhere_is_refused(storage: Storage, name: str) -> None:
    with pytest.raises(StorageError, match="cannot be called"):
        storage.create(name, b"")


def test_a_place_that_does_what_state_needs_passes_the_probe(storage: Storage) -> None:
    probe(storage)
    assert storage.names() == []


def test_sweeping_takes_no_file_that_has_a_name(storage: Storage) -> None:
    storage.create("x", b"1")
    assert storage.sweep(Instant.LAST_IN_CALENDAR) == 0
    assert storage.names() == ["x"]


def test_a_storage_is_found_by_path_and_by_url(tmp_path: Path) -> None:
    place = tmp_path / "with space"
    assert storage_at(place) == storage_at(str(place)) == storage_at(place.as_uri())
    assert storage_at("s3://bucket/state/").url == "s3://bucket/state"


def test_different_words_are_different_folders() -> None:
    words = ["a/b", "a%2Fb", ".", "..", "", "%", "a b", "ä"]
    folders = [folder_name(word) for word in words]
    assert len(set(folders)) == len(words)
    assert not any("/" in folder or folder.startswith(".") or not folder for folder in folders)


def test_a_digest_does_not_depend_on_the_pieces() -> None:
    assert digest_of([b"ab", b"c"]) == digest_of(pa.py_buffer(b"abc")) == digest_of(b"abc") != digest_of(b"abd")


@pytest.mark.parametrize(
    ("place", "what"),
    [
        ("file://state", "'file://state' names 'state' as a host"),
        ("s3://", "State cannot be kept at 's3://'"),
        ("az:///", "State cannot be kept at 'az:///'"),
    ],
)
def test_a_place_that_is_none_is_said_before_anything_is_made(place: str, what: str) -> None:
    with pytest.raises(StorageError, match=re.escape(what)):
        storage_at(place)
