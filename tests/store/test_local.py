"""Files on this machine: durable, and nothing half-written."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.errors import StorageError
from strandline.model.time import Instant
from strandline.store.local import LocalStorage


@pytest.fixture
def little_room() -> Iterator[None]:
    """A real limit on the size of files: writing more fails half-way, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, ignored)


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.usefixtures("little_room")
def test_a_file_for_which_there_is_no_room_leaves_nothing_half(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.replace("small", b"old")
    with pytest.raises(StorageError, match=r"'big'.*could not be written") as raised:
        storage.create("big", b"x" * 20_000)
    assert "Make room" in raised.value.fix
    with pytest.raises(StorageError, match="'small'"):
        storage.replace("small", b"x" * 20_000)
    assert everything(tmp_path) == ["small"]
    assert storage.read("small") == b"old"


@pytest.mark.parametrize("call", ["writev", "fsync", "link"])
def test_a_full_disk_is_said_with_a_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    storage = LocalStorage(tmp_path)
    monkeypatch.setattr(os, call, full)
    with pytest.raises(StorageError, match="No space left on device") as raised:
        storage.create("state/x", b"data")
    assert "Make room" in raised.value.fix
    assert everything(tmp_path) == []


def test_a_file_system_without_links_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unable(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "link", unable)
    with pytest.raises(StorageError, match="has no hard links"):
        LocalStorage(tmp_path).create("x", b"data")
    assert everything(tmp_path) == []


def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("I am a file")
    with pytest.raises(StorageError, match=r"'x/y'.*could not be written"):
        LocalStorage(tmp_path / "state").create("x/y", b"data")


def test_what_a_dead_writer_left_is_not_listed_and_is_swept_when_it_is_old(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.create("state/x", b"data")
    left = tmp_path / "state" / ".tmp-0123"
    left.write_bytes(b"half")
    os.utime(left, (1000, 1000))
    assert storage.names() == ["state/x"]
    assert storage.sweep(Instant(1000 * 1_000_000)) == 0
    assert storage.sweep(Instant(1000 * 1_000_000 + 1)) == 1
    assert everything(tmp_path) == ["state/x"]


def test_a_writer_that_is_killed_leaves_files_that_are_whole(tmp_path: Path) -> None:
    """A process creates files as fast as it can, and is killed in the middle."""
    program = (
        "import sys, itertools\nfrom strandline.store.local import LocalStorage\n"
        "storage = LocalStorage(sys.argv[1])\nprint('on', flush=True)\n"
        "for n in itertools.count(): storage.create(f'f/{n}', b'x' * 100_000)\n"
    )
    source = Path(__file__).parents[2] / "src"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, env={"PYTHONPATH": str(source)}
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        while len(everything(tmp_path)) < 5:
            pass
        writer.kill()
    storage = LocalStorage(tmp_path)
    names = storage.names()
    assert sorted(int(name.removeprefix("f/")) for name in names) == list(range(len(names)))
    assert {storage.size(name) for name in names} == {100_000}


def test_a_file_that_is_open_can_be_deleted(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.create("x", b"data" * 10_000)
    mapped = storage.open("x")
    storage.delete(["x"])
    assert bytes(mapped) == b"data" * 10_000
