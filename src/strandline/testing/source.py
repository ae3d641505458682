"""The source in a play: it checks the rows, rejects those without a usable time, and keeps its watermark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from strandline.errors import StrandlineError, TranscriptError
from strandline.model.nodes import Arrival, SourceNode
from strandline.model.panes import TIME
from strandline.model.partitions import SourceState, gather
from strandline.model.progress import advance_source
from strandline.model.ticks import Edge
from strandline.model.time import Instant, Span
from strandline.model.values import checked_row
from strandline.testing.steps import Row, Tick

RUN = "play"  # one play is one run, however often it crashes


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """What a source gives in a tick: rows with their hidden time, rows it rejected, its edge and the processing time."""

    rows: list[dict[str, Any]]
    rejected: list[dict[str, Any]]
    edge: Edge
    now: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    values: dict[str, Any]
    time: Instant | None = None
    reason: str | None = None
    asserted: int | None = None


class PlayedSource:
    """A source whose rows, watermark and clock are the steps of a test.

    Law: neither its watermark nor its clock moves backwards.
    """

    def __init__(self, node: SourceNode) -> None:
        self.node = node
        self.schema = node.source.schema
        self.edge = Edge.first()
        self.now = Instant(0)
        self.started: Instant | None = None  # the first processing time given: running time counts from here
        self.decided = False  # whether the policy has spoken: then idleness is its business too
        self.read: dict[str, int] = {}
        self.state = SourceState()

    def tick(self, tick: Tick, place: str) -> Arrived:
        """Take in what arrived, judge it, then move the watermark."""
        self.move_clock(tick.processing_time, place)
        judged: dict[str, list[_Judged]] = {}
        for part in sorted(tick.events, key=lambda events: events.partition):
            found = [self._judge(row, f"{place}, row {number}") for number, row in enumerate(part.rows, 1)]
            judged.setdefault(str(part.partition), []).extend(found)
        every = [row for part in judged.values() for row in part]
        rows = [{**row.values, TIME: int(row.time)} for row in every if row.time is not None and row.reason is None]
        seen = Instant(max([int(self.edge.seen), *(row[TIME] for row in rows)]))
        self.edge = self.edge.moved_to(self._watermark(tick, judged, place), seen)
        return Arrived(
            rows=rows,
            rejected=[_rejected(row) for row in every if row.reason is not None],
            edge=self.edge,
            now=self.now,
        )

    def encode(self) -> str:
        """All that is kept between ticks, as JSON."""
        return json.dumps({
            "edge": [self.edge.before, self.edge.after, self.edge.seen], "now": self.now, "started": self.started,
            "decided": self.decided, "read": self.read, "state": self.state.to_json(),
        })  # fmt: skip

    def restore(self, kept: str) -> None:
        """Go on from what `encode` gave."""
        data = json.loads(kept)
        before, after, seen = map(Instant, data["edge"])
        self.edge, self.now = Edge(before=before, after=after, seen=seen), Instant(data["now"])
        self.started = None if data["started"] is None else Instant(data["started"])
        self.decided, self.read = data["decided"], data["read"]
        self.state = SourceState.from_json(data["state"])

    @property
    def running(self) -> Span:
        """How long the play has been running: since the first processing time that was given."""
        return Span(0 if self.started is None else self.now - self.started)

    def move_clock(self, to: Instant | None, place: str) -> None:
        """Let processing time go on; None leaves it where it is."""
        if to is None:
            return
        if not to.in_calendar:
            raise TranscriptError(
                f"{place}: processing time leaves the calendar, at {int(to)} microseconds since 1970.",
                fix="Give an instant of the years 1 to 9999; a number is taken for microseconds.",
            )
        if to < self.now:
            raise TranscriptError(
                f"{place}: processing time goes back from {self.now.text} to {to.text}.",
                fix="Give processing times in order; before the first one it is 1970-01-01T00:00:00Z.",
            )
        self.now = to
        self.started = to if self.started is None else self.started

    def _judge(self, row: Row, place: str) -> _Judged:
        values, reason = self.read_row(row, place)
        column = self.node.watermark.marks_column
        mark = None if column is None else values.get(column)
        asserted = None if mark is None else int(Instant.of(mark))
        if reason is not None:
            return _Judged(values=values, reason=reason, asserted=asserted)
        time = self.now if isinstance(self.node.time, Arrival) else _instant(values[self.node.time])
        if time is None:
            # A row that only says how far the source is has no time of its own, and is no event.
            return _Judged(values=values, reason="the time is null" if asserted is None else None, asserted=asserted)
        return _Judged(values=values, time=time, reason=self._too_far(time), asserted=asserted)

    def read_row(self, row: Row, place: str) -> tuple[dict[str, Any], str | None]:
        """The values of a row, and why a reader would reject it, if it would."""
        row, reason = self._readable(row, place)
        try:
            return checked_row(self.schema, row, place), reason
        except StrandlineError as error:
            raise TranscriptError(error.what, fix=error.fix) from None

    def _readable(self, row: Row, place: str) -> tuple[Row, str | None]:
        """The row, with a time that no reader could read taken out and named as the reason to reject it."""
        column = self.node.time
        if isinstance(column, Arrival) or not isinstance(row, Mapping) or not isinstance(row.get(column), str):
            return row, None
        text = row[column]
        try:
            if not Instant.of(text).in_calendar:
                return {**row, column: None}, f"the time {text!r} leaves the calendar"
        except StrandlineError as error:
            if _is_local(text):  # a slip in the test rather than bad data
                raise TranscriptError(f"{place}: {error.what}", fix=error.fix) from None
            return {**row, column: None}, f"the time {text!r} cannot be read"
        return row, None

    def _too_far(self, time: Instant) -> str | None:
        most = self.node.watermark.max_future
        if most is None or self.started is None or time <= self.now + most:
            return None
        return f"the time is more than {most.text} ahead of processing time"

    def _watermark(self, tick: Tick, judged: dict[str, list[_Judged]], place: str) -> Instant:
        reached = self.edge.after
        if tick.reached is not None:
            if tick.reached < reached:
                raise TranscriptError(
                    f"{place}: the watermark goes back from {reached.text} to {tick.reached.text}.",
                    fix="Give watermarks in order; one never moves backwards.",
                )
            reached = tick.reached
        if tick.policy or (self.decided and tick.processing_time is not None):
            self._decide(judged)
            reached = max(reached, self.state.watermark)
        return reached

    def _decide(self, judged: dict[str, list[_Judged]]) -> None:
        self.decided = True
        stats = {}
        for partition, rows in judged.items():
            self.read[partition] = self.read.get(partition, 0) + len(rows)
            times = [row.time for row in rows if row.time is not None and row.reason is None]
            marks = [row.asserted for row in rows if row.asserted is not None]
            stats[partition] = gather(
                np.array(times, dtype=np.int64), self.now, position=self.read[partition], end=self.read[partition],
                max_future=None if self.started is None else self.node.watermark.max_future,
                asserted=np.array(marks, dtype=np.int64) if marks else None,
            )  # fmt: skip
        self.state = advance_source(
            self.node.watermark, self.state, stats, now=self.now, running=self.running, run=RUN
        )  # fmt: skip


def _rejected(row: _Judged) -> dict[str, Any]:
    """A row with the reason; a play has no text that could not be decoded, so `raw` is null."""
    return {**row.values, "reason": row.reason, "raw": row.values.get("raw")}


def _instant(moment: datetime | None) -> Instant | None:
    return None if moment is None else Instant.of(moment)


def _is_local(text: str) -> bool:
    try:
        return datetime.fromisoformat(text.strip()).tzinfo is None
    except ValueError:
        return False
