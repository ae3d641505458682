"""Which files there are, in the order in which they were found.

A sorted listing is no position: a new file may sort before those that were read. So each file gets its number when it
is first seen, and a log in the state keeps that: `log/000000000000.json` and so on, each a batch of newly found files
with their sizes and times of change. Entries are only ever added, each created once; of two processes that add at the
same time one finds the name taken, reads what the other wrote, and looks again. A file that changes before it is read
is told of once more, under the number that it has.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline.errors import DataError, StateError
from strandline.sources.globs import Wanted
from strandline.store.sealed import seal, unsealed

if TYPE_CHECKING:
    from strandline.store.storage import Storage

_VERSION: Final = 1
_BATCH: Final = 10_000
_JOINED: Final = 100
_LOOK_AGAIN: Final = 200  # the newest files are the ones somebody may still be writing
_ROOT: Final = "root"
_GONE: Final = (FileNotFoundError, NotADirectoryError)  # what was removed while we looked was never there
_SETTLED: Final = 2_000_000_000  # ns: a folder that changed longer ago than this is not in the middle of changing


class Found(NamedTuple):
    """A file as it was when it was found: its path below the root, its bytes, and when it was changed (ns)."""

    path: str
    size: int
    changed: int

    def below(self, root: str) -> str:
        """Where it is; a root that is a file is the file itself."""
        return os.path.join(root, self.path) if self.path else root


@dataclass(slots=True, eq=False)
class DiscoveryLog:
    """The files of a source by number. Read once, then followed.

    Law: a file that has a number keeps it, and has no second one.
    """

    storage: Storage
    files: list[Found] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    entries: int = 0

    def follow(self, to: int | None = None) -> None:
        """Read on, until nothing more stands in the log or `to` files are known."""
        if not self.entries:
            self._read_joined()
        while to is None or len(self.files) < to:
            if not self.storage.exists(_entry(self.entries)):
                break
            self._take(self._read(_entry(self.entries)))
            self.entries += 1
        if to is not None and len(self.files) < to:
            raise StateError(
                f"The log of files in {self.storage.url} knows {len(self.files)} files; {to} were read from it.",
                fix="Restore the folder of the source in the state, or start from a savepoint.",
            )

    def add(self, found: Iterable[Found]) -> None:
        """Give numbers to files that have none, oldest first; tell anew of those that are not as they were told."""
        new = sorted(found, key=lambda file: (file.changed, file.path))
        while new := [file for file in new if not self._knows(file)]:
            batch = new[:_BATCH]
            if self.storage.create(_entry(self.entries), _encode(batch)):
                self._take(batch)
                self.entries += 1
                self._join()
            else:  # another process was faster: what it found has its numbers now
                self.follow()

    def _knows(self, file: Found) -> bool:
        return file.path in self.numbers and self.files[self.numbers[file.path]] == file

    def _read(self, name: str) -> list[Found]:
        """The files of an entry. Damage must be found: a file might be read twice, or never."""
        told = unsealed(
            self.storage.read(name), f"The entry {name} of the log of files in {self.storage.url}", version=_VERSION
        )
        return [Found(*file) for file in told]

    def _take(self, found: Iterable[Found]) -> None:
        for file in found:
            if file.path in self.numbers:
                self.files[self.numbers[file.path]] = file
            else:
                self.numbers[file.path] = len(self.files)
                self.files.append(file)

    def _join(self) -> None:
        """Keep each hundred entries in one file too, so that a start need not open every one."""
        if self.entries % _JOINED == 0:
            numbers = range(self.entries - _JOINED, self.entries)
            files = [file for n in numbers for file in self._read(_entry(n))]
            self.storage.create(_joined(self.entries // _JOINED - 1), _encode(files))

    def _read_joined(self) -> None:
        while self.storage.exists(_joined(self.entries // _JOINED)):
            self._take(self._read(_joined(self.entries // _JOINED)))
            self.entries += _JOINED


def _entry(number: int) -> str:
    return f"log/{number:012d}.json"


def _joined(number: int) -> str:
    return f"joined/{number:012d}.json"


def _encode(files: Iterable[Found]) -> bytes:
    return seal([list(file) for file in files], version=_VERSION)


@dataclass(slots=True, eq=False)
class Listing:
    """What lies in a folder, and below it. Folders that did not change since they were last listed are not listed.

    A folder is walked once, and by its own name rather than by that of a link to it: else a link that is made later
    (`latest`) might give its files second names, by which they would be read again.
    """

    wanted: Wanted
    settled: dict[str, tuple[int, list[str], list[str]]] = field(default_factory=dict)

    def new_files(self, seen: Container[str], now: int | None) -> Iterator[Found]:
        """The wanted files that were not seen; `now` in microseconds, for a folder changed just now is listed again."""
        root = self.wanted.root
        if os.path.isfile(root):
            if "" not in seen:
                yield from _found(root, "")
            return
        if not os.path.isdir(root):
            raise DataError(
                f"There is no folder {root}.", fix="Make it before the flow starts, or correct the path of the source."
            )
        visited: set[tuple[int, int]] = set()
        folders: list[str] = [""]
        links: list[str] = []
        while folders or links:
            folder = (folders or links).pop()
            try:
                about = os.stat(os.path.join(root, folder))
            except _GONE:
                continue
            if (about.st_dev, about.st_ino) in visited:  # a link that leads back, or to the side
                continue
            visited.add((about.st_dev, about.st_ino))
            known = self.settled.get(folder)
            if known is not None and known[0] == about.st_mtime_ns:
                folders += known[1]
                links += known[2]
                continue
            inside, linked, files = self._list(folder)
            folders += inside
            links += linked
            for path in files:
                if path not in seen:
                    yield from _found(os.path.join(root, path), path)
            if now is not None and about.st_mtime_ns + _SETTLED < now * 1_000:
                self.settled[folder] = (about.st_mtime_ns, inside, linked)

    def _list(self, folder: str) -> tuple[list[str], list[str], list[str]]:
        """The folders in it, the links to folders, and the wanted files."""
        inside: list[str] = []
        linked: list[str] = []
        files: list[str] = []
        for entry in _entries(os.path.join(self.wanted.root, folder)):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if not self.wanted.is_visible(entry.name):
                continue
            if entry.is_dir():
                (linked if entry.is_symlink() else inside).append(path)
            elif self.wanted.matches(path):
                files.append(path)
        return inside, linked, files


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except _GONE:
        return []
    except OSError as error:  # not to be passed over: its files would be missing, and nobody would know
        raise DataError(
            f"The folder {folder} cannot be listed: {error.strerror}.", fix="Mend that, and start the flow again."
        ) from error


def _found(place: str, path: str) -> Iterator[Found]:
    try:
        about = os.stat(place)
    except _GONE:
        return
    yield Found(path, about.st_size, about.st_mtime_ns)


def require_same_root(storage: Storage, root: str) -> None:
    """Refuse another folder than the log tells of, unless the files of the log have moved there under their names.

    Files are known by their paths below the root: from a folder above, all of them would be read again.
    """
    told = seal(root, version=_VERSION)
    if storage.create(_ROOT, told):
        return
    before = unsealed(storage.read(_ROOT), f"The note of the folder in {storage.url}", version=_VERSION)
    if before == root:
        return
    log = DiscoveryLog(storage)
    log.follow()
    newest = log.files[-_LOOK_AGAIN:]
    moved = any(there.size == file.size for file in newest for there in _found(file.below(root), file.path))
    if newest and not moved:
        raise StateError(
            f"The files of this source were read from {before}, and none of them is below {root}.",
            fix="Put the path back; move files with their names below the folder; or read the new folder by a source of "
            "another name.",
        )
    storage.replace(_ROOT, told)


def look_again(root: str, files: list[Found], read: int, to: int) -> list[Found]:
    """Those that are not read yet and are not as they were when they got their numbers: of the next, and of the newest.

    One that is read must have the size it had: what was added to it would be lost. One that is gone unread is an error.
    """
    changed = []
    for number in sorted({*range(read, to), *range(max(0, len(files) - _LOOK_AGAIN), len(files))}):
        file = files[number]
        there = _there(root, file, may_be_gone=number < read)
        if there is None or there == file:
            continue
        if number >= read:
            changed.append(there)
        elif there.size != file.size:  # the time alone is another where a folder was copied
            raise _changed(root, file, there)
    return changed


def require_unchanged(root: str, file: Found) -> None:
    """Refuse a file that is gone, or is not as it was when its tick was planned: part of it would be lost."""
    there = _there(root, file)
    assert there is not None
    if there != file:
        raise _changed(root, file, there)


def _there(root: str, file: Found, *, may_be_gone: bool = False) -> Found | None:
    """The file as it is now."""
    place = file.below(root)
    for found in _found(place, file.path):
        return found
    if may_be_gone:
        return None
    raise DataError(
        f"The file {place} was found, and is gone before it was read.",
        fix="Put it back, or an empty file in its place if its rows may stay missing; remove files only when the flow has "
        "read them.",
    )


def _changed(root: str, file: Found, there: Found) -> DataError:
    how = f"has {there.size} bytes, not {file.size}" if there.size != file.size else "was written again"
    return DataError(
        f"The file {file.below(root)} {how}: it changed after it was found.",
        fix="If the flow has read it, put it back as it was; else start again when it is whole. Write files under a name "
        "that begins with '_' or '.', or ends with '.tmp', and rename them when they are whole; add rows in new files.",
    )
