"""State in a folder of this machine, or of a file system that all machines see.

A file is written under a temporary name, forced to disk, linked to its name (which fails if the name is taken) or renamed
over it, and then its folder is forced to disk: a file that has its name is whole, also after a power failure.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

from strandline.errors import MissingFile, StorageError
from strandline.model.time import Instant
from strandline.store.storage import TEMPORARY, Buffers, buffers_of, checked_name

_MOST_PIECES: Final = 512  # of one writev; the least that systems promise is 16, Linux takes 1024


@dataclass(frozen=True)
class LocalStorage:
    """A folder.

    >>> import tempfile
    >>> storage = LocalStorage(tempfile.mkdtemp())
    >>> storage.create("a/b", b"first"), storage.create("a/b", b"second"), storage.read("a/b")
    (True, False, b'first')
    """

    root: str
    url: str = field(init=False)

    def __init__(self, root: str | os.PathLike[str]) -> None:
        object.__setattr__(self, "root", os.path.realpath(Path(root).expanduser()))
        object.__setattr__(self, "url", Path(self.root).as_uri())

    def create(self, name: str, data: Buffers, *, durable: bool = True) -> bool:
        """Write a new file; False if the name exists."""
        path = self._path(name)
        with self._told(name, "written"), _temporary(path, data, durable=durable) as written:
            try:
                os.link(written, path)
                return True
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno in {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}:
                    raise StorageError(
                        f"The file system of {self.root!r} has no hard links, by which files are created atomically.",
                        fix="Keep the state on another file system (ext4, xfs, APFS, NFS, ...) or in an object store.",
                    ) from error
                raise

    def replace(self, name: str, data: Buffers) -> None:
        """Write a file over what was there."""
        path = self._path(name)
        with self._told(name, "written"), _temporary(path, data) as written:
            os.replace(written, path)

    def read(self, name: str) -> bytes:
        """The whole file."""
        with self._told(name, "read"):
            return Path(self._path(name)).read_bytes()

    def open(self, name: str) -> pa.Buffer:
        """The whole file, memory-mapped."""
        path = self._path(name)
        with self._told(name, "read"):
            if not os.path.getsize(path):
                return pa.py_buffer(b"")  # nothing cannot be mapped
            with pa.memory_map(path) as mapped:
                return mapped.read_buffer()

    def names(self, prefix: str = "") -> list[str]:
        """The names that begin with `prefix`, sorted."""
        folder = prefix.rpartition("/")[0]
        with self._told(prefix, "listed"):
            return sorted(name for name in self._walk(folder) if name.startswith(prefix))

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        return os.path.isfile(self._path(name))

    def size(self, name: str) -> int:
        """How many bytes it has."""
        with self._told(name, "read"):
            return os.path.getsize(self._path(name))

    def delete(self, names: Iterable[str]) -> None:
        """Remove files; what is gone when this returns does not come back after a power failure."""
        folders = set()
        for name in names:
            path = self._path(name)
            with self._told(name, "deleted"):
                if not os.path.lexists(path):
                    continue
                with suppress(FileNotFoundError):
                    os.unlink(path)
                folders.add(os.path.dirname(path))
        for folder in sorted(folders):
            with self._told(folder, "deleted from"):
                _force_folder(folder)

    def within(self, folder: str) -> LocalStorage:
        """The storage of a folder in this one."""
        return LocalStorage(self._path(folder))

    def sweep(self, before: Instant) -> int:
        """Remove temporary files last written before then."""
        swept = 0
        for folder, _, files in os.walk(self.root):
            for path in (os.path.join(folder, file) for file in files if file.startswith(TEMPORARY)):
                with suppress(FileNotFoundError):  # its writer, or another sweep, was faster
                    if os.stat(path).st_mtime_ns // 1000 < before:
                        os.unlink(path)
                        swept += 1
        return swept

    def _path(self, name: str) -> str:
        return os.path.join(self.root, *checked_name(name).split("/"))

    def _walk(self, folder: str) -> Iterator[str]:
        """All files under a folder; one that vanishes meanwhile is not there."""
        try:
            entries = list(os.scandir(os.path.join(self.root, folder)))
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir():
                yield from self._walk(name)
            elif not entry.name.startswith(TEMPORARY):
                yield name

    @contextmanager
    def _told(self, name: str, done: str) -> Iterator[None]:
        """What the system says, said with the file's name and what to do."""
        try:
            yield
        except OSError as error:
            missing = isinstance(error, FileNotFoundError | NotADirectoryError) and done == "read"
            raise self._said(name, done, error, missing=missing) from error

    def _said(self, name: str, done: str, error: OSError, *, missing: bool) -> MissingFile | StorageError:
        if missing:
            return MissingFile(
                f"The file {name!r} is not in {self.root!r}.",
                fix="Restore it from a copy, or start from an earlier tick or savepoint.",
            )
        return StorageError(
            f"The file {name!r} in {self.root!r} could not be {done}: {error.strerror or error}.",
            fix=_FIXES.get(error.errno or 0, _ANY),
        )


_ANY: Final = "Look at the disk and the system's log; nothing was left half-written, so it can be tried again."
_FULL: Final = "Make room on the disk, or move the state; nothing was left half-written, so it can be tried again."
_FORBIDDEN: Final = "Let this user write there, or keep the state elsewhere."
_NO_FOLDER: Final = "A file is where a folder should be: keep the state in a folder."
_FIXES: Final = {
    errno.ENOSPC: _FULL, errno.EDQUOT: _FULL, errno.EFBIG: _FULL,
    errno.EACCES: _FORBIDDEN, errno.EPERM: _FORBIDDEN, errno.EROFS: _FORBIDDEN,
    errno.EEXIST: _NO_FOLDER, errno.ENOTDIR: _NO_FOLDER,
    errno.ENAMETOOLONG: "Use a shorter name, such as that of the stage or sink.",
}  # fmt: skip


@contextmanager
def _temporary(path: str, data: Buffers, *, durable: bool = True) -> Iterator[str]:
    """A temporary file beside `path` with the data, forced to disk; gone afterwards, and then the folder is forced too."""
    folder = os.path.dirname(path)
    _make_folder(folder)
    written = os.path.join(folder, TEMPORARY + secrets.token_hex(8))
    try:
        _write(written, data, durable=durable)
        yield written
    finally:
        with suppress(FileNotFoundError):  # it was renamed, or never made
            os.unlink(written)
    if durable:
        _force_folder(folder)


def _write(path: str, data: Buffers, *, durable: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        left = [piece for piece in buffers_of(data) if len(piece)]
        while left:
            count = os.writev(descriptor, left[:_MOST_PIECES])
            while left and count >= len(left[0]):
                count -= len(left.pop(0))
            if count:
                left[0] = left[0][count:]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_folder(folder: str) -> None:
    """Make a folder, and force the entries of all that are new."""
    if os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    _make_folder(parent)
    try:
        os.mkdir(folder)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise
    _force_folder(parent)


def _force_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
