"""The log of a file sink: numbered entries, each of which adds data files and takes others out.

    _log/000000000007.json      {"entry": 7, "marker": ..., "add": [...], "remove": [...], "files": [...]}
    data/000000000007-<random>.parquet

An entry is created once, under the next free number: that is the one atomic act by which a tick, with its marker,
or a compaction becomes visible. Data files are written before; their names carry the number of the entry that they were
written for. Some entries also hold all files that are live, so that nobody reads the log from its start.

Law: the live files after an entry are those before it, without what it removes, with what it adds in the place of the
first of them (or at the end).
"""

from __future__ import annotations

import re
import secrets
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from strandline.errors import MissingFile, SinkError
from strandline.sinks.contract import Marker
from strandline.store.sealed import seal, unsealed
from strandline.store.storage import Buffers, Storage, buffers_of

VERSION: Final = 1
LOG: Final = "_log/"
DATA: Final = "data/"
SNAPSHOT_EVERY: Final = 100
GRACE: Final = 20
_ATTEMPTS: Final = 20
_NUMBER: Final = re.compile(r"(\d{12})[-.].*")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A file with rows of the ticks first..last."""

    name: str
    rows: int
    nbytes: int
    first: int
    last: int
    checksum: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the log."""

    entry: int
    marker: Marker | None
    add: tuple[DataFile, ...] = ()
    remove: tuple[str, ...] = ()
    files: tuple[DataFile, ...] | None = None

    def to_bytes(self) -> bytes:
        """As JSON, with a checksum of it."""
        return seal(asdict(self), version=VERSION)

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Entry:
        """Read what `to_bytes` wrote; SinkError if it is something else."""
        said = unsealed(data, f"The log entry {name!r}", version=VERSION, error=SinkError)
        return cls(
            entry=said["entry"],
            marker=None if said["marker"] is None else Marker(**said["marker"]),
            add=_files(said["add"]),
            remove=tuple(said["remove"]),
            files=None if said["files"] is None else _files(said["files"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What is live after an entry: the files in order, and the marker."""

    entry: int = -1
    marker: Marker | None = None
    files: tuple[DataFile, ...] = ()

    def after(self, entry: Entry) -> Snapshot:
        """What is live after the next entry.

        >>> a, b, c = (DataFile(name=n, rows=1, nbytes=1, first=0, last=0) for n in "abc")
        >>> before = Snapshot(entry=0, files=(a, b))
        >>> [file.name for file in before.after(Entry(entry=1, marker=None, add=(c,), remove=("a",))).files]
        ['c', 'b']
        """
        if entry.files is not None:
            return Snapshot(entry=entry.entry, marker=entry.marker, files=entry.files)
        gone = set(entry.remove)
        place = next((at for at, file in enumerate(self.files) if file.name in gone), len(self.files))
        kept = [file for file in self.files if file.name not in gone]
        return Snapshot(entry=entry.entry, marker=entry.marker, files=(*kept[:place], *entry.add, *kept[place:]))


def entry_name(number: int) -> str:
    """The name of an entry's file."""
    return f"{LOG}{number:012}.json"


def data_name(entry: int, extension: str) -> str:
    """A name for a data file of an entry, which no other has."""
    return f"{DATA}{entry:012}-{secrets.token_hex(8)}.{extension}"


def read_entry(storage: Storage, number: int) -> Entry:
    """An entry; MissingFile if there is none."""
    name = entry_name(number)
    return Entry.from_bytes(storage.read(name), name)


def latest(storage: Storage) -> Snapshot:
    """What is live now. Entries may be added, and old ones taken away, meanwhile."""
    head = -1
    for _ in range(_ATTEMPTS):
        seen, head = head, _greatest(storage)
        try:
            return _snapshot_at(storage, head)
        except MissingFile as error:
            if head == seen:
                raise SinkError(
                    f"The log in {storage.url} has a hole: {error.what}", fix="Restore the file from a copy."
                ) from error
    raise SinkError(f"The log in {storage.url} moves faster than it can be read.", fix="Try again; compact less often.")


def follow(storage: Storage, snapshot: Snapshot) -> Snapshot:
    """What is live now, from what was live before: only what is new is read."""
    try:
        while storage.exists(entry_name(snapshot.entry + 1)):
            snapshot = snapshot.after(read_entry(storage, snapshot.entry + 1))
    except MissingFile:
        return latest(storage)
    # The oldest entries go first: where this one is left, the next one was never there, and has not gone either.
    return snapshot if is_left(storage, snapshot.entry) else latest(storage)


def is_left(storage: Storage, number: int) -> bool:
    """Whether an entry, or the log before its first one, is as it was: not cleaned away behind others."""
    return storage.exists(entry_name(number)) if number >= 0 else _greatest(storage) <= 0


def write_data(storage: Storage, entry: int, extension: str, data: Buffers, **about: int) -> DataFile:
    """Write a data file for the entry of this number; `about` are its rows and ticks."""
    name = data_name(entry, extension)
    pieces = buffers_of(data)
    storage.create(name, data)
    checksum = 0
    for piece in pieces:
        checksum = zlib.crc32(piece, checksum)
    return DataFile(name=name, nbytes=sum(piece.nbytes for piece in pieces), checksum=checksum, **about)


def read_data(storage: Storage, file: DataFile) -> bytes:
    """The bytes of a data file; SinkError if they are not those that were written."""
    data = storage.read(file.name)
    if zlib.crc32(data) != file.checksum:
        raise SinkError(
            f"The file {file.name!r} in {storage.url} does not have the checksum it was written with.",
            fix="Restore the file from a copy.",
        )
    return data


def write_entry(storage: Storage, before: Snapshot, entry: Entry, *, snapshot: bool = False) -> Snapshot | None:
    """Create the next entry; None if somebody else was faster.

    If others went so far meanwhile that the entry before is cleaned away, the name may have been free for that reason
    alone: see `is_left`.
    """
    after = before.after(entry)
    whole = snapshot or entry.entry % SNAPSHOT_EVERY == 0
    said = replace(entry, files=after.files) if whole else entry
    return after if storage.create(entry_name(entry.entry), said.to_bytes()) else None


def garbage(storage: Storage, *, grace: int = GRACE) -> list[str]:
    """Data files and log entries that no reader can still want.

    A data file is garbage if the entry it was written for exists, it is not live, and no entry of the last `grace` ones
    removed it. (A file for an entry that does not exist yet may be about to be named.) An entry is garbage if it is older
    than `grace` and there is a younger one, as old as that too, that holds all live files.
    """
    data = _numbered(storage, DATA)  # listed before the log is read: what is written meanwhile is not in the list
    snapshot = latest(storage)
    first = max(snapshot.entry - grace + 1, 0)
    recent = [_entry_or_none(storage, number) for number in range(first, snapshot.entry + 1)]
    wanted = {file.name for file in snapshot.files}.union(*(entry.remove for entry in recent if entry is not None))
    old = [name for name, number in data.items() if number <= snapshot.entry and name not in wanted]
    return [*old, *_old_entries(storage, first)]


def _old_entries(storage: Storage, first: int) -> list[str]:
    numbers = sorted(_numbered(storage, LOG).values())
    for base in sorted((number for number in numbers if number <= first), reverse=True):
        entry = _entry_or_none(storage, base)
        if entry is not None and entry.files is not None:
            return [entry_name(number) for number in numbers if number < base]
    return []


def _entry_or_none(storage: Storage, number: int) -> Entry | None:
    try:
        return read_entry(storage, number)
    except MissingFile:
        return None


def _greatest(storage: Storage) -> int:
    return max(_numbered(storage, LOG).values(), default=-1)


def _snapshot_at(storage: Storage, head: int) -> Snapshot:
    """Back to an entry that holds all files, then forward again.

    Each entry is asked for by its number: a listing made while entries are added may show a later one without an earlier.
    """
    entries: list[Entry] = []
    for number in range(head, -1, -1):
        entries.append(read_entry(storage, number))
        if entries[-1].files is not None:
            break
    snapshot = Snapshot()
    for entry in reversed(entries):
        snapshot = snapshot.after(entry)
    return snapshot


def _files(said: Sequence[dict[str, Any]]) -> tuple[DataFile, ...]:
    return tuple(DataFile(**each) for each in said)


def _numbered(storage: Storage, prefix: str) -> dict[str, int]:
    """The files under a prefix with the number in their names; a stray file of somebody else is left alone."""
    matches = {name: _NUMBER.fullmatch(name.removeprefix(prefix)) for name in storage.names(prefix)}
    return {name: int(match[1]) for name, match in matches.items() if match}
