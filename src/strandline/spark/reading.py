"""Read a part of a source in a task: judge the time of each row, do the stateless work, sum up, and say what was heard."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import polars as pl

from strandline.kernel.preaggregate import Books
from strandline.kernel.schema import polars_type
from strandline.model.nodes import Arrival, SourceNode, raw_type
from strandline.model.panes import RAW, TIME
from strandline.model.partitions import PartitionStats, gather, too_far
from strandline.model.time import Instant
from strandline.model.types import Type
from strandline.sources.contract import Piece, Reader
from strandline.spark.program import Outgoing, Work
from strandline.spark.sending import send
from strandline.store.storage import storage_at

AT_ONCE: Final = 1_000_000  # rows that are summed up together; a greater part is taken in several turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a task may know of its tick: plain data, made by the driver before the tick."""

    tick: int
    now: Instant
    before: Mapping[str, Instant]  # of each source and stage, the output's watermark before the tick
    storage: str
    shares: int

    def to_text(self) -> str:
        """The context as text."""
        before = {name: int(at) for name, at in self.before.items()}
        told = {"tick": self.tick, "now": int(self.now), "before": before, "storage": self.storage}
        return json.dumps({**told, "shares": self.shares})

    @classmethod
    def from_text(cls, text: str) -> Context:
        """Read what `to_text` wrote."""
        told: dict[str, Any] = json.loads(text)
        before = {name: Instant(at) for name, at in told["before"].items()}
        return cls(**{**told, "now": Instant(told["now"]), "before": before})


@dataclass(slots=True)
class Heard:
    """What a task heard of a source: stats, rejected rows and rows behind the watermark by partition; the books of all rows."""

    source: str
    stats: dict[str, PartitionStats] = field(default_factory=dict)
    books: Books = field(default_factory=Books)
    rejected: Counter[str] = field(default_factory=Counter)
    behind: Counter[str] = field(default_factory=Counter)

    def add(self, partition: str, stats: PartitionStats, books: Books, behind: int = 0) -> None:
        """Take more rows into account."""
        known = self.stats.get(partition)
        self.stats[partition] = stats if known is None else known.merge(stats)
        self.books += books
        if books.rejected:
            self.rejected[partition] += books.rejected
        if behind:
            self.behind[partition] += behind

    def to_row(self) -> tuple[str, bytes]:
        """What was heard, as a row of Spark's."""
        stats = {name: each.to_json() for name, each in self.stats.items()}
        books = {name: getattr(self.books, name) for name in Books.__slots__}
        told = {"source": self.source, "stats": stats, "books": books}
        return json.dumps({"heard": {**told, "rejected": self.rejected, "behind": self.behind}}), b""

    @classmethod
    def from_row(cls, told: Mapping[str, Any]) -> Heard:
        """Read what `to_row` wrote."""
        stats = {name: PartitionStats.from_json(each) for name, each in told["stats"].items()}
        counts = Counter(told["rejected"]), Counter(told["behind"])
        return cls(told["source"], stats, Books(**told["books"]), *counts)


def read_part(
    work: Work, source: str, reader: Reader, part: Any, order: tuple[int, ...], context: Context
) -> Iterator[tuple[str, bytes]]:
    """Read a part of one of our own sources: rows of messages for the driver."""
    yield from take_in(work, source, reader.read(part), order, context)


def take_in(
    work: Work, source: str, pieces: Iterator[Piece], order: tuple[int, ...], context: Context
) -> Iterator[tuple[str, bytes]]:
    """Take in pieces of a source, wherever they were read."""
    intake = _Intake(work, source, context)
    for piece in pieces:
        intake.add(piece)
    parcels = send(work, intake.outgoing(), storage_at(context.storage), context.tick, order, context.shares)
    yield intake.heard.to_row()
    yield from (parcel.to_row() for parcel in parcels)


class _Intake:
    """The rows of one task, summed up turn by turn."""

    def __init__(self, work: Work, source: str, context: Context) -> None:
        self.work, self.context = work, context
        self.place = work.place_of(source)
        node = work.nodes[self.place]
        assert isinstance(node, SourceNode)
        self.node = node
        self.heard = Heard(source)
        self.waiting: list[pl.DataFrame] = []
        self.found: list[Outgoing] = []

    def add(self, piece: Piece) -> None:
        """Judge the rows of a piece, and keep them until there are enough to be worth summing up."""
        rows, rejected = self._judged(piece)
        self.waiting.append(rows)
        if rejected.height:
            for side in self.work.sides(self.place, "rejected"):
                self.found += self.work.follow(side, rejected, self._before, self.context.now)
        if sum(each.height for each in self.waiting) >= AT_ONCE:
            self._take_turn()

    @property
    def _before(self) -> Instant:
        return self.context.before[self.node.name]

    def _take_turn(self) -> None:
        batch = self.waiting[0] if len(self.waiting) == 1 else pl.concat(self.waiting)
        self.waiting = []
        self.found += self.work.follow(self.place, batch, self._before, self.context.now)

    def outgoing(self) -> list[Outgoing]:
        """Everything found."""
        if self.waiting:
            self._take_turn()
        return self.found

    def _judged(self, piece: Piece) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The rows that have a usable time, with it beside them; and the others, each with the reason."""
        rows, now, policy = piece.rows, self.context.now, self.node.watermark
        asserted = None if policy.marks_column is None else rows[policy.marks_column].cast(pl.Int64)
        times = self._times(rows)
        known = times.is_not_null().to_numpy()
        far = known & too_far(times.fill_null(0).to_numpy(), now, policy.max_future)
        # A row that only says how far the source is has no time of its own, and is no event.
        mark = np.zeros(len(rows), np.bool_) if asserted is None else ~known & asserted.is_not_null().to_numpy()
        good = known & ~far
        kept = rows.with_columns(times.alias(TIME))
        kept = kept if good.all() else kept.filter(pl.Series(good))
        bad = ~good & ~mark
        ahead = f"the time is more than {_text(policy.max_future)} ahead of processing time"
        reasons = pl.Series([ahead if each else "the time is null" for each in far[bad]], dtype=pl.String)
        rejected = _rejected(rows.filter(pl.Series(bad)), reasons, piece.malformed, raw_type(self.node.source))
        moments = kept[TIME].to_numpy()
        stats = gather(
            moments, now, max_future=policy.max_future,
            asserted=None if asserted is None else asserted.drop_nulls().to_numpy(),
        )  # fmt: skip
        books = Books(rows=kept.height + rejected.height, kept=kept.height, rejected=rejected.height)
        self.heard.add(piece.partition, stats, books, behind=int((moments < int(self._before)).sum()))
        return kept, rejected

    def _times(self, rows: pl.DataFrame) -> pl.Series:
        if isinstance(self.node.time, Arrival):
            return pl.Series([int(self.context.now)], dtype=pl.Int64).new_from_index(0, rows.height)
        return rows[self.node.time].cast(pl.Int64)


def _rejected(rows: pl.DataFrame, reasons: pl.Series, malformed: pl.DataFrame | None, raw: Type) -> pl.DataFrame:
    judged = rows.with_columns(reasons.alias("reason"), pl.lit(None, polars_type(raw)).alias(RAW))
    if malformed is None or malformed.is_empty():
        return judged
    return pl.concat([judged, malformed], how="diagonal").select(judged.columns)


def _text(span: Any) -> str:
    return "" if span is None else str(span.text)
