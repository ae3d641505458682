"""Make few files of many, for readers of a folder with layout="log"."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from strandline.errors import DescriptionError, MissingFile, SinkError
from strandline.sinks import filelog
from strandline.sinks.filelog import GRACE, DataFile, Entry, Snapshot
from strandline.sinks.folder import Owner, required_owner
from strandline.sinks.formats import FORMATS
from strandline.store.storage import Storage, storage_at

TARGET_BYTES: Final = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What a compaction did: files before and after, and old files deleted."""

    before: int
    after: int
    deleted: int


def compact(path: str | os.PathLike[str], *, target_bytes: int = TARGET_BYTES, grace: int = GRACE) -> Compacted:
    """Swap neighbouring small files for one of up to `target_bytes`, in one entry of the log; first delete what is old.

    It may run while the flow does, and more than once at a time. Files that were swapped are deleted by a later
    compaction, when `grace` more entries stand in the log; a reader that is slower than that starts again.

    Law: the rows that a reader sees, and their order, do not change.
    """
    if not all(isinstance(n, int) and n >= 1 for n in (target_bytes, grace)):
        raise DescriptionError(
            f"target_bytes={target_bytes!r} and grace={grace!r} must be whole numbers from 1.",
            fix="Leave them out for the defaults.",
        )
    storage = storage_at(path)
    owner = required_owner(storage)
    if owner.layout != "log":
        raise SinkError(
            f"The folder {storage.url} has the layout {owner.layout!r}, which cannot be compacted.",
            fix="Write with layout='log' to a new folder.",
        )
    old = filelog.garbage(storage, grace=grace)  # before anything is swapped: readers may still want that
    storage.delete(old)
    before = after = filelog.latest(storage)
    for run in _runs(before, target_bytes):
        after = _swapped(storage, owner, run) or after
    return Compacted(before=len(before.files), after=len(after.files), deleted=len(old))


def _runs(snapshot: Snapshot, target_bytes: int) -> list[list[DataFile]]:
    """Neighbours that fit into one file together."""
    runs: list[list[DataFile]] = [[]]
    room = target_bytes
    for file in snapshot.files:
        if file.nbytes > room:
            runs.append([])
            room = target_bytes
        runs[-1].append(file)
        room -= file.nbytes
    return [run for run in runs if len(run) > 1]


def _swapped(storage: Storage, owner: Owner, run: list[DataFile]) -> Snapshot | None:
    """Name one file in place of the run's; None if another compaction already did."""
    try:
        parts = [filelog.read_data(storage, file) for file in run]
    except MissingFile:
        return None
    data = FORMATS[owner.format].join(parts, owner.schema)
    names = {file.name for file in run}
    while True:
        snapshot = filelog.latest(storage)
        if not names <= {file.name for file in snapshot.files}:
            return None
        number = snapshot.entry + 1
        new = filelog.write_data(
            storage, number, owner.format, data,
            rows=sum(file.rows for file in run), first=min(file.first for file in run), last=max(file.last for file in run),
        )  # fmt: skip
        entry = Entry(entry=number, marker=snapshot.marker, add=(new,), remove=tuple(file.name for file in run))
        after = filelog.write_entry(storage, snapshot, entry, snapshot=True)
        if after is not None:
            return after
        storage.delete([new.name])
