"""Object stores: answers that are lost, servers that ignore conditions, and copies on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.errors import StorageError
from strandline.model.time import Instant
from strandline.store.cache import Cache
from strandline.store.cleanup import clean
from strandline.store.local import LocalStorage
from strandline.store.manifests import Manifests
from strandline.store.objects import ObjectStorage
from strandline.store.probe import probe
from strandline.store.savepoints import restore, take
from strandline.store.verify import verify
from tests.store.serving import BUCKET, Server, serving
from tests.store.states import following


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as found:
        yield found


@pytest.fixture
def storage(server: Server, tmp_path: Path) -> ObjectStorage:
    return ObjectStorage(f"s3://{BUCKET}/state", server.options, Cache(str(tmp_path / "cache")))


def test_a_put_whose_answer_was_lost_is_known_to_be_ours(storage: ObjectStorage, server: Server) -> None:
    server.loses = 1
    assert storage.create("manifest", b"mine")
    assert server.puts == 2
    assert storage.read("manifest") == b"mine"


def test_a_put_whose_answer_was_lost_does_not_claim_what_others_wrote(storage: ObjectStorage, server: Server) -> None:
    storage.create("manifest", b"theirs")
    server.loses = 1
    assert not storage.create("manifest", b"mine")
    assert storage.read("manifest") == b"theirs"


def test_a_server_that_ignores_conditional_create_is_refused_by_name(storage: ObjectStorage, server: Server) -> None:
    server.ignores_conditions = True
    with pytest.raises(StorageError, match=f"s3://{BUCKET}/state ignores conditional create") as raised:
        probe(storage)
    assert "If-None-Match" in raised.value.fix
    assert storage.names() == []


def test_a_file_is_fetched_once(storage: ObjectStorage, server: Server) -> None:
    storage.create("segment", b"rows")
    assert bytes(storage.open("segment")) == bytes(storage.open("segment")) == b"rows"
    assert server.gets == 1


def test_copies_used_longest_ago_go_when_there_are_too_many_bytes(tmp_path: Path) -> None:
    cache = Cache(str(tmp_path), most_bytes=250)
    for age, name in enumerate("abc"):
        cache.open(name, lambda: b"x" * 100)
        for path in tmp_path.iterdir():  # as if time had passed
            os.utime(path, ns=(path.stat().st_mtime_ns - (10 - age) * 10**9,) * 2)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 200
    assert bytes(cache.open("a", lambda: b"fetched again")) == b"fetched again"


def test_a_cache_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(StorageError, match="can be written to by others"):
        Cache(str(folder)).open("x", lambda: b"")


def test_without_the_package_it_is_said_which_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(StorageError, match="needs the package obstore") as raised:
        ObjectStorage("s3://bucket/state").read("x")
    assert "strandline[objects]" in raised.value.fix


def test_a_state_lives_there_from_the_first_tick_to_a_fork(storage: ObjectStorage, tmp_path: Path) -> None:
    manifests = Manifests(storage)
    for _ in range(4):
        manifests.commit(following(storage, manifests.head(), keeps=1))
    kept = take(storage, "a").manifest
    assert len(clean(storage, keep=2, now=Instant(0))) == 2
    assert restore(storage, "a").number == kept.number + 1
    fork = LocalStorage(tmp_path / "fork")
    assert restore(storage, "a", fork, flow="trial").stages == kept.stages
    assert verify(fork, Manifests(fork).at(kept.number)) > 0


def test_a_bucket_that_is_not_there_is_said(server: Server, tmp_path: Path) -> None:
    nowhere = ObjectStorage("s3://no-such-bucket/state", server.options, Cache(str(tmp_path)))
    with pytest.raises(StorageError, match="s3://no-such-bucket/state"):
        nowhere.create("x", b"1")
