"""The steps of a play as a source that the engine reads: one tick for each step, at the time that the step gives."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from strandline.kernel.schema import polars_schema
from strandline.model.nodes import SourceNode
from strandline.model.time import Instant, Span
from strandline.model.types import Schema
from strandline.sources.contract import MALFORMED, Piece
from strandline.sources.scripted import ScriptedReader
from strandline.testing.source import PlayedSource
from strandline.testing.steps import Crash, Step, Tick, as_tick, named

if TYPE_CHECKING:
    from strandline.store.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScriptedTick:
    """What happens in one tick.

    `clocked` says that a processing time has been given; `decides` that the source's own policy moves the watermark, and
    `watermark` where else it goes. `running` is how long the play has been running then.
    """

    place: str
    now: Instant
    clocked: bool
    running: Span
    decides: bool
    watermark: Instant | None
    pieces: tuple[Piece, ...]


def script_of(node: SourceNode, steps: Sequence[Step], sources: Collection[str]) -> tuple[ScriptedTick, ...]:
    """The ticks of a play for one of its sources, without its crashes; the rows are checked against the source's schema."""
    source, found, decided = PlayedSource(node), [], False
    for place, step in named(steps):
        if isinstance(step, Crash):
            continue
        tick = as_tick(step).of(node.name, sources, place)
        source.move_clock(tick.processing_time, place)
        decides = tick.policy or (decided and tick.processing_time is not None)
        decided = decided or decides
        found.append(
            ScriptedTick(
                place=place, now=source.now, clocked=source.started is not None, running=source.running,
                decides=decides, watermark=tick.reached, pieces=tuple(_pieces(source, tick, place)),
            )
        )  # fmt: skip
    return tuple(found)


def _pieces(source: PlayedSource, tick: Tick, place: str) -> Iterator[Piece]:
    """One piece for each partition that a tick names, also where it brings nothing."""
    rows: dict[str, list[tuple[dict[str, Any], str | None]]] = {}
    for part in sorted(tick.events, key=lambda events: events.partition):
        read = [source.read_row(row, f"{place}, row {number}") for number, row in enumerate(part.rows, 1)]
        rows.setdefault(str(part.partition), []).extend(read)
    for partition, each in rows.items():
        good = _table([values for values, reason in each if reason is None], source.schema)
        bad = _table([values for values, reason in each if reason is not None], source.schema)
        reasons = pl.Series("reason", [reason for _, reason in each if reason is not None], MALFORMED["reason"])
        malformed = bad.with_columns(reasons, raw=pl.lit(None, MALFORMED["raw"])) if bad.height else None
        yield Piece(partition=partition, rows=good, malformed=malformed)


def _table(rows: Sequence[Mapping[str, Any]], schema: Schema) -> pl.DataFrame:
    types = polars_schema(schema)
    return pl.DataFrame({n: pl.Series(n, [row.get(n) for row in rows], dtype=t) for n, t in types.items()})


@dataclass(frozen=True, slots=True, eq=False)
class ScriptedSource:
    """A source whose rows and clock are the steps of a play, up to the step `end`."""

    schema: Schema
    script: tuple[ScriptedTick, ...]
    end: int

    def reader(self, storage: Storage | None = None) -> ScriptedReader:
        """What reads the script."""
        return ScriptedReader([tick.pieces for tick in self.script], [int(tick.now) for tick in self.script], self.end)
