"""Files of an object store on this machine's disk. They never change, so a copy is right for ever."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from strandline.errors import MissingFile, StorageError
from strandline.store.local import LocalStorage

MOST_BYTES: Final = 20 * 2**30


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of copies, shared by the processes of this machine; those used longest ago go when there are too many bytes.

    Law: what it gives is what was fetched for that name, whole.

    >>> import tempfile
    >>> cache = Cache(tempfile.mkdtemp())
    >>> bytes(cache.open("s3://bucket/a", lambda: b"fetched")), bytes(cache.open("s3://bucket/a", lambda: b"not again"))
    (b'fetched', b'fetched')
    """

    folder: str = ""
    most_bytes: int = MOST_BYTES

    def open(self, name: str, fetch: Callable[[], bytes]) -> pa.Buffer:
        """The file of this name, memory-mapped; fetched if it is not there."""
        copies, key = LocalStorage(self._own_folder()), hashlib.sha256(name.encode()).hexdigest()
        try:
            found = copies.open(key)
        except MissingFile:
            copies.create(key, fetch())
            found = copies.open(key)
            self._make_room(Path(copies.root), key)
        with suppress(OSError):
            os.utime(os.path.join(copies.root, key))
        return found

    def _own_folder(self) -> str:
        """The folder, which only this user may write to: who can write there can change state."""
        folder = self.folder or os.path.join(tempfile.gettempdir(), f"strandline-cache-{os.getuid()}")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.stat(folder)
        if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
            raise StorageError(
                f"The cache folder {folder!r} can be written to by others.",
                fix="Make it yours alone (chmod 700), or remove it.",
            )
        return folder

    def _make_room(self, folder: Path, newest: str) -> None:
        files = []
        for path in folder.iterdir():
            with suppress(FileNotFoundError):
                found = path.stat()
                files.append((found.st_mtime_ns, found.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.most_bytes:
                return
            if path.name != newest:
                path.unlink(missing_ok=True)
                total -= size
