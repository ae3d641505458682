"""What a source is to the engine: a description, and a reader made from it.

**Positions.** An offset says how far a source has been read. It is plain JSON, because Spark's offset log keeps it, and
it says everything: the same two offsets always mean the same rows, in this run, after a crash and in a replay. So a
reader finds out *what there is* only in `latest`; all the others work from offsets alone. `latest` may list folders and
may write down what it found in the source's own folder of the state, but never goes behind its start. No reader asks
the time: who plans gives it, as `now`.

**Work.** `parts` cuts what lies between two offsets into about as many pieces of work as are wanted, in order of
arrival. A part can be pickled, and any worker can read it any number of times, with the same rows. However it is cut,
the rows are the same, none lost and none twice.

**Rows.** `read` gives pieces: rows of one partition with exactly the columns of the source's schema, and beside them
what could not be understood, as raw text with a reason. Nothing is dropped, and nothing that does not fit becomes null
in silence. Whether a row is understood does not depend on which of its columns a flow uses.

**Partitions.** A partition has its own order and its own watermark. `places` says for each of them how far it is read
and how far there is to read, also where it brought nothing. A source whose partitions are known only from their rows
gives one place under the name `EVERY`, which then holds for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, runtime_checkable

import polars as pl

from strandline.errors import DescriptionError
from strandline.model.types import Schema

if TYPE_CHECKING:  # only named here: a source that keeps nothing needs no storage
    from strandline.store.storage import Storage

Offset: TypeAlias = dict[str, Any]
"""How far a source has been read: plain JSON, made and understood by its reader alone."""

EVERY: Final = "*"
"""The name of the place that holds for every partition, where only the rows know their partition."""

MALFORMED: Final[dict[str, pl.DataType]] = {"raw": pl.String(), "reason": pl.String()}
"""The columns of text that could not be understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How much one tick may take, at most; None is no limit. The least that can be taken always goes.

    >>> Limit(rows=1000).admits(rows=900), Limit(rows=1000).admits(rows=1001)
    (True, False)
    """

    rows: int | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("rows", self.rows), ("bytes", self.bytes)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise DescriptionError(
                    f"{name}={value!r} is no limit.", fix=f"Give {name} as a whole number from 1, or leave it out."
                )

    def admits(self, *, rows: float = 0, bytes: float = 0) -> bool:  # noqa: A002 - the word for what is counted
        """Whether so much is within the limit."""
        return (self.rows is None or rows <= self.rows) and (self.bytes is None or bytes <= self.bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How far one partition is read, and how far there was to read when it was planned.

    `finished` says that `end` is final: nothing will ever come behind it. `asserted` is the watermark, in microseconds,
    that the source itself vouches for. Positions and ends are counted in what suits the source (rows, files), and are
    only compared with each other.

    Law: `position <= end`.
    """

    position: int
    end: int
    finished: bool = False
    asserted: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """Rows of one partition in order of arrival, and what stood among them that could not be understood.

    `malformed` is None where there is nothing; else it has `raw`, of the source's `raw_type`, and `reason`. It may have
    columns of the source too, as far as they are known: where a message was, say.
    """

    partition: str
    rows: pl.DataFrame
    malformed: pl.DataFrame | None = None


class Reader(Protocol):
    """Reads one source. It can be pickled: it plans in one process and reads in others."""

    def first(self) -> Offset:
        """The offset before everything."""

    def latest(self, start: Offset, limit: Limit, *, now: int | None = None) -> Offset:
        """How far the next tick may read from `start`; `start` itself when there is nothing.

        `now` is the processing time of the planning in microseconds, for sources to which it matters.
        """

    def parts(self, start: Offset, end: Offset, wanted: int) -> list[Any]:
        """What lies between two offsets as about `wanted` pieces of work; none when they are equal."""

    def read(self, part: Any) -> Iterator[Piece]:
        """The rows of one part. Runs in a worker."""

    def places(self, offset: Offset) -> dict[str, Place]:
        """Where each partition stands, from the offset alone."""


@runtime_checkable
class ReadableSource(Protocol):
    """The description of a source that Strandline reads itself. What has no `reader` is read by Spark."""

    @property
    def schema(self) -> Schema:
        """The columns of its rows."""

    def reader(self, storage: Storage | None = None) -> Reader:
        """What reads it. `storage` is the source's own folder in the state."""


def malformed_table(raws: list[str], reasons: list[str]) -> pl.DataFrame | None:
    """What could not be understood, as a piece carries it; None when there is nothing.

    >>> malformed_table(["{"], ["no JSON"]).rows()
    [('{', 'no JSON')]
    """
    return pl.DataFrame({"raw": raws, "reason": reasons}, schema=MALFORMED) if raws else None


def even_ranges(start: int, end: int, wanted: int) -> list[tuple[int, int]]:
    """A range cut into about equal ranges that are not empty, at most `wanted`.

    >>> even_ranges(0, 10, 3)
    [(0, 3), (3, 6), (6, 10)]
    """
    count = max(1, min(wanted, end - start))
    edges = [start + (end - start) * i // count for i in range(count + 1)]
    return [(low, high) for low, high in pairwise(edges) if low < high]
