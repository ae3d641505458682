"""Files in a folder that grows: parquet, lines of JSON, or CSV."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, get_args
from urllib.parse import unquote

from strandline.errors import DescriptionError, StateError, told
from strandline.model.options import require_boolean, require_column
from strandline.model.types import Schema
from strandline.sources.contract import EVERY, Limit, Offset, Piece, Place
from strandline.sources.discovery import DiscoveryLog, Found, Listing, look_again, require_same_root
from strandline.sources.globs import Wanted
from strandline.sources.ranges import Range, cut, rows_about
from strandline.sources.reading import pieces

if TYPE_CHECKING:
    from strandline.store.storage import Storage

Format = Literal["parquet", "json", "csv"]
OnBad = Literal["reject", "fail"]
_PARTITION: Final = "0"


@dataclass(frozen=True, slots=True)
class FileSource:
    """Every file that is in a folder, or will be put there, once each, in the order in which they are found.

    `path` is a folder (folders in it are walked), a file, or has wildcards; `pattern` is that of the files' names.
    Names that begin with '_' or '.', or end with '.tmp', are passed over: write under such a name, then rename. A file
    that changes while it is read, or grows afterwards, stops the flow by name, and so does one that is removed before it
    is read.

    Lines of JSON and CSV may be compressed (.gz, .bz2, .zst, .lz4). A column that is missing is null, a column that the
    schema does not name is passed over. With `header=True` columns of CSV go by the names in each file's first line
    that is not blank (blanks around a name do not count), else by their order. What cannot be understood is rejected
    with its raw text and the reason; of a parquet file that is damaged, and of CSV whose header cannot be read or has
    none of the columns, the file's name is. `on_bad="fail"` stops the flow instead.

    A record of CSV is one line; fields in double quotes may hold line ends, separators, and quotes that are doubled. A
    quote that opens a field and is not closed takes all up to the next quote with it, which is rejected as one text.
    The header is one line. A file whose lines end with a carriage return alone is rejected.

    A timestamp in JSON or CSV is ISO text, in UTC where it names no zone; a whole number is microseconds since 1970.

    `partition_by` names a column whose values have their own order and watermark, such as a device.

    >>> FileSource("data/orders", format="json", schema="user string, at timestamp").schema.text
    'user string, at timestamp'
    """

    path: str
    _: KW_ONLY
    format: Format
    schema: Schema
    pattern: str | None = None
    partition_by: str | None = None
    on_bad: OnBad = "reject"
    header: bool = True
    separator: str = ","
    max_files_per_tick: int | None = None

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        format: Format,
        schema: str | Schema,
        pattern: str | None = None,
        partition_by: str | None = None,
        on_bad: OnBad = "reject",
        header: bool = True,
        separator: str = ",",
        max_files_per_tick: int | None = None,
    ) -> None:
        chosen = {
            "path": _local(path), "format": _one_of("format", format, get_args(Format)), "schema": Schema.of(schema),
            "pattern": pattern, "partition_by": partition_by, "on_bad": _one_of("on_bad", on_bad, get_args(OnBad)),
            "header": header, "separator": separator, "max_files_per_tick": max_files_per_tick,
        }  # fmt: skip
        for name, value in chosen.items():
            object.__setattr__(self, name, value)
        require_boolean("header", header)
        require_column("partition_by", partition_by)
        if partition_by is not None and not self.schema.require(partition_by, "partition_by=").is_scalar:
            raise DescriptionError(
                f"partition_by={partition_by!r} has parts.", fix="Name a column of text, numbers, dates or times."
            )
        if pattern is not None and not (isinstance(pattern, str) and pattern):
            raise DescriptionError(f"pattern={told(pattern)} matches no name.", fix="Write it as '*.json'.")
        Wanted.of(self.path, pattern).require_readable()
        if not (isinstance(separator, str) and len(separator) == 1 and separator.isascii()) or separator in '"\r\n':
            raise DescriptionError(
                f"separator={told(separator)} cannot separate fields.",
                fix="Give one ASCII character that is neither a quote nor a line's end, such as ';' or a tab.",
            )
        most = max_files_per_tick
        if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
            raise DescriptionError(
                f"max_files_per_tick={told(most)} is no number of files.", fix="Give a whole number from 1."
            )

    def reads(self, path: str) -> bool:
        """Whether it would read a file that is put there; links in the path are resolved."""
        return Wanted.of(os.path.realpath(self.path), self.pattern).finds(path)

    def reader(self, storage: Storage | None = None) -> FileReader:
        """What reads the files; `storage` keeps the log of what was found."""
        if storage is None:
            raise DescriptionError(
                "A source of files keeps a log, and has no place for it.", fix="Give its folder in the state."
            )
        reader = FileReader(self, storage)
        require_same_root(storage, reader.wanted.root)
        return reader


class FileReader:
    """Reads the files of a source in the order of its discovery log; positions count files.

    The log and the last listing are remembered by the process that plans, and do not travel.
    """

    def __init__(self, source: FileSource, storage: Storage) -> None:
        # Workers may stand in another folder than who wrote the path.
        self.source = replace(source, path=os.path.abspath(source.path))
        self.storage = storage
        self._remember_nothing()

    def _remember_nothing(self) -> None:
        self.wanted = Wanted.of(self.source.path, self.source.pattern)
        self.log = DiscoveryLog(self.storage)
        self.listing = Listing(self.wanted)

    def __getstate__(self) -> dict[str, Any]:
        return {"source": self.source, "storage": self.storage}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._remember_nothing()

    def first(self) -> Offset:
        """Before the first file."""
        return {"files": 0, "of": 0}

    def latest(self, start: Offset, limit: Limit, *, now: int | None = None) -> Offset:
        """Find new files and write them down; take as many as the limit lets through, at least one."""
        self.log.follow(start["of"])
        try:
            self.log.add(list(self.listing.new_files(self.log.numbers, now)))
        except BaseException:
            self.listing.settled.clear()  # what was found is not written down, so it must be found again
            raise
        end = self._admitted(start["files"], limit)
        self.log.add(look_again(self.wanted.root, self.log.files, start["files"], end))
        return {"files": end, "of": len(self.log.files)}

    def _admitted(self, start: int, limit: Limit) -> int:
        """How far the limit lets a tick read."""
        most = self.source.max_files_per_tick
        stop = len(self.log.files) if most is None else min(len(self.log.files), start + most)
        rows = nbytes = 0.0
        for number in range(start, stop):
            file = self.log.files[number]
            nbytes += file.size
            if limit.rows is not None:
                rows += rows_about(self._place(file), file.size, self.source.format)
            if number > start and not limit.admits(rows=rows, bytes=nbytes):
                return number
        return stop

    def parts(self, start: Offset, end: Offset, wanted: int) -> list[Any]:
        """Ranges of files, put together or cut so that the parts have about equal bytes."""
        self.log.follow(end["files"])
        files = self.log.files[start["files"] : end["files"]]
        if start["files"] > end["files"]:
            raise StateError(
                f"A source of files cannot read from file {start['files']} back to {end['files']}.",
                fix="Restore the state and its Spark checkpoint together.",
            )
        return cut(files, wanted, self.source.format, self._place, self.source.separator)

    def read(self, part: Any) -> Iterator[Piece]:
        """The rows of some ranges."""
        ranges: list[Range] = part
        return pieces(self.source, self.wanted.root, ranges)

    def places(self, offset: Offset) -> dict[str, Place]:
        """How many files are read, of how many that were found."""
        name = _PARTITION if self.source.partition_by is None else EVERY
        return {name: Place(position=offset["files"], end=offset["of"])}

    def _place(self, file: Found) -> str:
        return file.below(self.wanted.root)


def _local(path: str | os.PathLike[str]) -> str:
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise DescriptionError(f"path={told(path)} names no folder.", fix="Give a path, such as 'data/orders'.")
    text = str(os.fspath(path))
    if text.startswith("file://"):
        text = unquote(text.removeprefix("file://"))
    if "://" in text:
        raise DescriptionError(
            f"Files cannot be read from {text!r}.",
            fix="Give a folder that every worker can open; read object stores with sl.DataFrameSource.",
        )
    return text


def _one_of(option: str, value: object, known: tuple[str, ...]) -> str:
    if value not in known:
        raise DescriptionError(
            f"{option}={told(value)} is not known.", fix="Write one of " + ", ".join(map(repr, known)) + "."
        )
    return str(value)
