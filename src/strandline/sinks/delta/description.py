"""Rows in a Delta table: a tick is one commit, with the tick as its application transaction."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from strandline.clients.secrets import hide, reveal, revealed
from strandline.errors import DescriptionError, RunError, SinkError, told
from strandline.model.secrets import Secret, checked_options, has_open_secret
from strandline.sinks.contract import (
    ALL_ROWS,
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
from strandline.sinks.delta.markers import TableTransactions
from strandline.sinks.delta.tables import Appended, Merged

if TYPE_CHECKING:
    from deltalake import DeltaTable

_TRIES: Final = 20
_UNSAFE: Final = ("aws_s3_allow_unsafe_rename", "allow_unsafe_rename")


@dataclass(frozen=True, slots=True)
class DeltaSink:
    """Write rows to a Delta table, here or in an object store.

    `path` is a path or a url (s3://, gs://, az://); `options` are the storage's, with secrets as `sl.Secret`. The table is
    made when it is not there, divided by `partition_by`; otherwise it must have exactly the columns that are delivered.

    * rows="append": rows are added.
    * rows="changelog": rows are added, with `op`.
    * rows="upsert": the table holds one row for each key. Null is a key, and NaN is one.

    A commit is made only upon the version of the table that was judged, so that of two writers one comes first, and the
    other looks again. Nothing removes old files by itself: run `DeltaTable.vacuum`, and compact, when you like; both may
    run beside the sink.

    Law: every version of the table holds whole ticks.

    >>> DeltaSink("out/revenue", partition_by=["day"]).partition_by
    ('day',)
    """

    path: str
    _: KW_ONLY
    partition_by: tuple[str, ...]
    options: tuple[tuple[str, str | Secret], ...]

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        partition_by: str | Sequence[str] = (),
        options: Mapping[str, object] | None = None,
    ) -> None:
        if not isinstance(path, str | os.PathLike) or not os.fspath(path) or "\0" in os.fspath(path):
            raise DescriptionError(f"{told(path)} is no place of a table.", fix="Give a path or a url: 'out/revenue'.")
        names = (partition_by,) if isinstance(partition_by, str) else partition_by
        if not isinstance(names, Sequence) or not all(isinstance(name, str) and name for name in names):
            raise DescriptionError(
                f"partition_by={told(partition_by)} names no columns.", fix="Write partition_by=['day']."
            )
        _require_no_password(os.fspath(path))
        object.__setattr__(self, "path", os.fspath(path))
        object.__setattr__(self, "partition_by", tuple(names))
        object.__setattr__(self, "options", _options(options or {}))

    @property
    def guarantee(self) -> str:
        """What is promised, and on which conditions."""
        return (
            "exactly once: rows and marker are one commit of the table, if its storage creates a file once and keeps it"
        )

    @property
    def takes(self) -> frozenset[str]:
        """Every kind of rows."""
        return ALL_ROWS

    def own_target(self, rows: Rows) -> str | None:
        """A table whose rows are overwritten. To others each sink adds, with a marker of its own."""
        if rows != "upsert":
            return None
        return self.path.rstrip("/") if "://" in self.path else os.path.realpath(self.path)

    def prepare(self, target: Target) -> DeltaPublisher:
        """Make the table, or check it."""
        require_rows(target, self.takes)
        for name in self.partition_by:
            if name not in target.schema:
                raise SinkError(
                    f"partition_by= names {name!r}, which {target} does not deliver.",
                    fix=f"Choose from {', '.join(map(repr, target.schema))}.",
                )
        return DeltaPublisher(self, target)


class DeltaPublisher:
    """A Delta table, open for deliveries."""

    def __init__(self, sink: DeltaSink, target: Target) -> None:
        _require_deltalake()
        self.sink, self.target = sink, target
        self.secrets = [reveal(value) for _, value in sink.options if isinstance(value, Secret)]
        self.writes = Merged(target) if target.rows == "upsert" else Appended(target)
        self.transactions = TableTransactions(target)
        self.lock = threading.Lock()  # the driver publishes from other threads than the one that prepared
        with self._told("opened"):
            self.table = self._opened()
            self.writes.check(self.table, self.sink.partition_by)
            self.transactions.require_own_rows(self.table)
            own_marker(self.transactions.read(self.table), target)
            self.notes: Sequence[str] = self.transactions.weaknesses(self.table)

    @property
    def marker(self) -> Marker | None:
        """The last delivery that the table shows."""
        with self.lock, self._told("read"):
            self.table.update_incremental()
            return self.transactions.read(self.table)

    def publish(self, delivery: Delivery) -> Receipt:
        """Write the rows of a tick and its marker in one commit."""
        with self.lock, self._told("written"):
            receipt = self._published(delivery)
            self.target = self.transactions.target = self.target.once_published
        return receipt

    def close(self) -> None:
        """Nothing is open."""

    def _published(self, delivery: Delivery) -> Receipt:
        from deltalake.exceptions import CommitFailedError

        rows: pl.DataFrame | None = None
        for _ in range(_TRIES):
            self.table.update_incremental()
            if judge_marker(self.transactions.read(self.table, delivery), delivery, self.target) == "skip":
                # Also where the answer to a commit of this very call was lost.
                return SKIPPED if rows is None else Receipt(rows=rows.height)
            self.transactions.require_own_rows(self.table)
            if rows is None:
                rows = self._rows(delivery)
            try:
                self.writes.write(self.table, rows, self.transactions.commit(delivery))
            except CommitFailedError:
                continue  # another writer was faster: a compaction, or another run, and then the marker says so
            return Receipt(rows=rows.height)
        raise SinkError(
            f"Others changed the table {self.sink.path!r} of {self.target} each time it was written to, {_TRIES} times.",
            fix="Let them write less often, or one after the other; nothing of this tick was written.",
        )

    def _rows(self, delivery: Delivery) -> pl.DataFrame:
        return pl.concat([self.writes.empty, *delivered_tables(self.target, delivery)])

    def _opened(self) -> DeltaTable:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        path, options = self.sink.path, revealed(self.sink.options)
        if not DeltaTable.is_deltatable(path, options):
            try:
                return DeltaTable.create(
                    path, self.writes.schema, partition_by=list(self.sink.partition_by), storage_options=options
                )
            except DeltaError:
                if not DeltaTable.is_deltatable(path, options):
                    raise  # nobody else made it meanwhile
        return DeltaTable(path, storage_options=options)

    @contextmanager
    def _told(self, done: str) -> Iterator[None]:
        """What the client says, said of the sink."""
        from deltalake.exceptions import DeltaError

        try:
            yield
        except (DeltaError, OSError) as error:
            said = hide(str(error), self.secrets)
            # Without its cause, which might hold what was hidden.
            raise SinkError(
                f"The table {self.sink.path!r} of {self.target} could not be {done}: {said}.",
                fix="Look at the table and its storage; a tick is written whole or not at all, so it can be tried again.",
            ) from None


def _require_deltalake() -> None:
    try:
        import deltalake  # noqa: F401 - asked for, not used
    except ImportError:
        raise RunError(
            "The client of Delta tables is not installed.", fix="Install it: pip install 'strandline[delta]'."
        ) from None


def _require_no_password(path: str) -> None:
    if "://" not in path:
        return
    names_user = "@" in path.partition("://")[2].partition("/")[0] and not path.startswith(("abfs", "wasb"))
    if names_user or has_open_secret(path):
        raise DescriptionError(
            "The url of the table tells who logs in; it is not repeated here.",
            fix="Say it in options={'name': sl.Secret.env('A_VARIABLE')}.",
        )


def _options(options: Mapping[str, object]) -> tuple[tuple[str, str | Secret], ...]:
    chosen = checked_options(options, option="options")
    for name, _ in chosen:
        if name.lower() in _UNSAFE:
            raise DescriptionError(
                f"The setting {name!r} lets two writers make the same version of the table: ticks would be lost.",
                fix="Leave it out; S3 and its likes create a file once by themselves.",
            )
    return chosen
