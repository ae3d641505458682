"""Read what a file sink wrote, as one consistent table, while it goes on writing."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from strandline.errors import MissingFile, SinkError
from strandline.kernel.schema import polars_schema
from strandline.sinks import filelog
from strandline.sinks.folder import Owner, required_owner
from strandline.sinks.formats import FORMATS
from strandline.store.storage import Storage, storage_at

_ATTEMPTS: Final = 20
_TICK: Final = re.compile(r"tick-(\d{12})-.*")


def read_files(path: str | os.PathLike[str]) -> pl.DataFrame:
    """All rows that a file sink has published, in order of their ticks.

    Law: the rows of whole ticks, from the first to some last one, each once; whatever is published, compacted or cleaned up
    meanwhile.
    """
    return FileReader(os.fspath(path)).frame()


@dataclass(frozen=True, slots=True)
class FileReader:
    """A reader of a file sink's folder; it keeps nothing, and each question is answered as of now."""

    path: str

    def frame(self) -> pl.DataFrame:
        """All rows, in order of their ticks."""
        return pl.concat(self.frames())

    def frames(self) -> list[pl.DataFrame]:
        """All rows, a frame for each file; an empty one if there are none."""
        storage = storage_at(self.path)
        owner = required_owner(storage)
        empty = pl.DataFrame(schema=polars_schema(owner.schema))
        found = _logged(storage, owner) if owner.layout == "log" else _ticks(storage, owner)
        return found or [empty]


def _ticks(storage: Storage, owner: Owner) -> list[pl.DataFrame]:
    return [_decoded(storage, owner, name, storage.read(name)) for name in tick_files(storage)]


def tick_files(storage: Storage) -> list[str]:
    """The files of a folder with layout "ticks", without gaps, in order.

    A listing made while files are added may show a later one without an earlier. Those up to the last of a first listing
    were all there when the second began.
    """
    last = max((_tick(name) for name in storage.names("tick-")), default=-1)
    return [name for name in storage.names("tick-") if 0 <= _tick(name) <= last]


def _tick(name: str) -> int:
    match = _TICK.fullmatch(name)
    return int(match[1]) if match else -1


def _logged(storage: Storage, owner: Owner) -> list[pl.DataFrame]:
    seen = -1
    for _ in range(_ATTEMPTS):
        snapshot = filelog.latest(storage)
        try:
            return [_decoded(storage, owner, f.name, filelog.read_data(storage, f)) for f in snapshot.files]
        except MissingFile as error:
            # Compacted away while we read: the log has moved on, and names other files.
            if snapshot.entry == seen:
                raise SinkError(
                    f"A file that the log in {storage.url} names is missing: {error.what}",
                    fix="Restore the file from a copy.",
                ) from error
            seen = snapshot.entry
    raise SinkError(
        f"The files in {storage.url} change faster than they can be read.", fix="Compact with a greater grace."
    )


def _decoded(storage: Storage, owner: Owner, name: str, data: bytes) -> pl.DataFrame:
    try:
        return FORMATS[owner.format].decode(data, owner.schema)
    except _UNREADABLE as error:
        raise SinkError(
            f"The file {name!r} in {storage.url} cannot be read as {owner.format}: {error}",
            fix="Restore the file from a copy.",
        ) from error


_UNREADABLE: Final[tuple[Any, ...]] = (pl.exceptions.PolarsError, ValueError, KeyError, TypeError, OSError)
