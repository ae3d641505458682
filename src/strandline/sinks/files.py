"""Rows as files in a folder, here or in an object store."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Final, Literal, get_args
from urllib.parse import unquote

from strandline.errors import DescriptionError, SinkError, StorageError, told
from strandline.sinks import filelog, folder
from strandline.sinks.contract import (
    SKIPPED,
    Delivery,
    Marker,
    Receipt,
    Rows,
    Target,
    delivered_tables,
    judge_marker,
    own_marker,
    require_rows,
)  # fmt: skip
from strandline.sinks.filelog import Entry
from strandline.sinks.folder import Owner
from strandline.sinks.formats import FORMATS
from strandline.sinks.reading import FileReader
from strandline.store.probe import probe
from strandline.store.storage import Storage, storage_at

FileFormat = Literal["parquet", "json", "csv"]
Layout = Literal["ticks", "log"]

_TICK: Final = re.compile(r"tick-(\d{12})-([0-9a-f]{8})-([0-9a-f]{16})\.\w+")


@dataclass(frozen=True, slots=True)
class FileSink:
    """Write rows as files.

    `layout="ticks"`: one file for each tick, `tick-<12 digits>-<incarnation>-<digest>.<format>`, that any tool can read.
    The file's name is the marker: it appears whole, in one atomic act.

    `layout="log"`: files named by a log, which `strandline.sinks.reading.read_files` reads as one consistent table, and
    `strandline.sinks.compact.compact` makes few of many. The log's entry is the marker.

    How values are written stands in `strandline.sinks.formats`. With rows="changelog" files have the column `op` too.

    >>> FileSink("out/late", format="json").layout
    'ticks'
    """

    path: str
    _: KW_ONLY
    format: FileFormat
    layout: Layout

    def __init__(
        self, path: str | os.PathLike[str], *, format: FileFormat = "parquet", layout: Layout = "ticks"
    ) -> None:
        try:
            storage_at(path)
        except StorageError as error:
            raise DescriptionError(f"{told(path)} is no place for files.", fix=error.fix) from None
        for option, value, known in (("format", format, get_args(FileFormat)), ("layout", layout, get_args(Layout))):
            if value not in known:
                raise DescriptionError(
                    f"{option}={value!r} is not known.", fix=f"Give one of {', '.join(map(repr, known))}."
                )
        object.__setattr__(self, "path", os.fspath(path))
        object.__setattr__(self, "format", format)
        object.__setattr__(self, "layout", layout)

    @property
    def guarantee(self) -> str:
        """What is promised, and on which conditions."""
        where = "files that the log names" if self.layout == "log" else "files named tick-*"
        return f"exactly once, for readers of {where}, if nobody else writes to or deletes from the folder"

    @property
    def takes(self) -> frozenset[str]:
        """Files are never changed, so there are no upserts."""
        return frozenset({"append", "changelog"})

    def own_target(self, rows: Rows) -> str:
        """The folder: it has one owner."""
        return storage_at(self.path).url

    @property
    def example(self) -> str:
        """The path of a file such as it writes, with links resolved; a url in an object store."""
        name = (
            filelog.data_name(0, self.format) if self.layout == "log" else _tick_name(0, "0" * 8, "0" * 16, self.format)
        )
        return f"{unquote(storage_at(self.path).url.removeprefix('file://'))}/{name}"

    def reader(self) -> FileReader:
        """A reader of what was written so far."""
        return FileReader(self.path)

    def prepare(self, target: Target) -> TickFiles | LoggedFiles:
        """Make the folder this sink's, and find out how far it is."""
        require_rows(target, self.takes)
        if self.format == "csv" and len(target.delivered) == 1:
            raise SinkError(
                f"A null in the only column of {target} would be a blank line of CSV, which readers pass over.",
                fix="Write another column with it, or format='json'.",
            )
        owner = Owner(
            flow=target.flow, sink=target.sink, incarnation=target.incarnation, format=self.format,
            layout=self.layout, rows=target.rows, schema=target.delivered,
        )  # fmt: skip
        with folder.told(target):
            storage = storage_at(self.path)
            probe(storage.within("_strandline"))  # where no reader looks
            folder.claim(storage, owner, target)
            return (LoggedFiles if self.layout == "log" else TickFiles)(storage, owner, target)


class TickFiles:
    """A folder with one file for each tick."""

    def __init__(self, storage: Storage, owner: Owner, target: Target) -> None:
        self.storage, self.owner, self.target = storage, owner, target
        there = [match for match in map(_TICK.fullmatch, storage.names("tick-")) if match]
        self.marker = _last_of(there, owner)
        if self.marker is None and target.restored_from is not None:
            self.marker = _last_of(there, replace(owner, incarnation=target.restored_from))

    def publish(self, delivery: Delivery) -> Receipt:
        """Write the file of a tick, once."""
        digest = folder.short_digest(delivery.digest)
        # The marker holds what the name holds of the digest, so a delivery is compared by the same part of its own.
        known = self.marker
        if known is not None and known.digest == digest:
            known = Marker(incarnation=known.incarnation, tick=known.tick, digest=delivery.digest)
        if judge_marker(known, delivery, self.target) == "skip":
            return SKIPPED
        tables = list(delivered_tables(self.target, delivery))
        data = FORMATS[self.owner.format].encode(tables, self.owner.schema)
        name = _tick_name(delivery.tick, self.owner.tag, digest, self.owner.format)
        with folder.told(self.target):
            # The names of files tell nothing of who took the folder over: a run that was, and lives, must not go on.
            folder.require_own(self.storage, self.owner, self.target)
            created = self.storage.create(name, data)
        self.marker = Marker(incarnation=self.owner.incarnation, tick=delivery.tick, digest=digest)
        return Receipt(rows=sum(table.height for table in tables)) if created else SKIPPED

    def close(self) -> None:
        """Nothing is open."""


def _tick_name(tick: int, tag: str, digest: str, extension: str) -> str:
    return f"tick-{tick:012}-{tag}-{digest}.{extension}"


def _last_of(files: Sequence[re.Match[str]], owner: Owner) -> Marker | None:
    """What the names of files say of an owner's last delivery."""
    last = max((match for match in files if match[2] == owner.tag), key=lambda match: match[1], default=None)
    return None if last is None else Marker(incarnation=owner.incarnation, tick=int(last[1]), digest=last[3])


class LoggedFiles:
    """A folder of data files, and the log that names them."""

    def __init__(self, storage: Storage, owner: Owner, target: Target) -> None:
        self.storage, self.owner, self.target = storage, owner, target
        self.snapshot = filelog.latest(storage)
        own_marker(self.snapshot.marker, target)

    @property
    def marker(self) -> Marker | None:
        """The last delivery that the log tells of."""
        return self.snapshot.marker

    def publish(self, delivery: Delivery) -> Receipt:
        """Write the data file of a tick, and name it in the log, once."""
        with folder.told(self.target):
            self.snapshot = filelog.follow(self.storage, self.snapshot)
            if judge_marker(self.snapshot.marker, delivery, self.target) == "skip":
                self.target = self.target.once_published
                return SKIPPED
        tables = list(delivered_tables(self.target, delivery))
        data = FORMATS[self.owner.format].encode(tables, self.owner.schema)
        rows = sum(table.height for table in tables)
        with folder.told(self.target):
            while not self._written(delivery, data, rows):
                # A compaction was faster; or another run, and then the marker says so.
                self.snapshot = filelog.follow(self.storage, self.snapshot)
                if judge_marker(self.snapshot.marker, delivery, self.target) == "skip":
                    return SKIPPED
        self.target = self.target.once_published
        return Receipt(rows=rows)

    def close(self) -> None:
        """Nothing is open."""

    def _written(self, delivery: Delivery, data: list[Any], rows: int) -> bool:
        number = self.snapshot.entry + 1
        tick = delivery.tick
        file = filelog.write_data(self.storage, number, self.owner.format, data, rows=rows, first=tick, last=tick)
        entry = Entry(entry=number, marker=Marker.of(delivery), add=(file,))
        after = filelog.write_entry(self.storage, self.snapshot, entry)
        if after is not None and not filelog.is_left(self.storage, number - 1):
            # Others went on and cleaned up; the entry is a part of the log only if the log knows of the tick.
            self.snapshot = filelog.latest(self.storage)
            known = self.snapshot.marker
            if known is not None and known.incarnation == delivery.incarnation and known.tick >= delivery.tick:
                return True
            after = None
        if after is None:
            self.storage.delete([file.name])
            return False
        self.snapshot = after
        return True
