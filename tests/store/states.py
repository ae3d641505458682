"""Small states to keep: manifests with real files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from strandline.kernel.codec import encode
from strandline.kernel.segments import segment_of
from strandline.model.ticks import Edge, Tick
from strandline.model.time import Instant
from strandline.store.layout import output_file, state_file
from strandline.store.manifests import Manifest, OutputRef, PendingTick, SegmentRef, SinkRecord, StageRecord
from strandline.store.storage import Storage, digest_of

ROWS = pl.DataFrame({"hash": pl.Series([3, 5], dtype=pl.UInt64), "window_end": [10, 10]})
SEGMENT = encode([segment_of(ROWS, slice=0, tick=1)], kind="state")


def segment(storage: Storage, tick: int, stage: str = "counts") -> SegmentRef:
    """A new state file, and the ref of the one segment in it."""
    name = state_file(stage, tick)
    storage.create(name, SEGMENT)
    return SegmentRef(file=name, at=0, slice=0, first_tick=tick, last_tick=tick, rows=2, nbytes=32)


def output(storage: Storage, tick: int, sink: str = "table") -> OutputRef:
    """A new file of rows for a sink."""
    name, data = output_file(sink, tick), b"rows of tick %d" % tick
    storage.create(name, data)
    return OutputRef(file=name, rows=1, nbytes=len(data), digest=digest_of(data))


def first(number: int = 0, **fields: Any) -> Manifest:
    tick = Tick(number=number, now=Instant(1000 + number), edges={"events": Edge.first()})
    return Manifest(**{"flow": "f", "incarnation": "i", "run": "r", "tick": tick, **fields})


def following(
    storage: Storage, before: Manifest | None, *, keeps: int = 2, waits: int = 0, run: str = "r", number: int = 0
) -> Manifest:
    """The next tick, with its files: some segments of before and a new one, new rows, and some that still wait."""
    manifest = first(number) if before is None else replace(before, parent=before.digest)
    tick = replace(manifest.tick, number=number if before is None else before.number + 1)
    old = manifest.stages["counts"].segments if before else ()
    record = StageRecord(segments=(*old[len(old) - min(keeps, len(old)) :], segment(storage, tick.number)), rows=2)
    sink = manifest.sinks.get("table", SinkRecord())
    unpublished = [*sink.pending]
    if before is not None and sink.outputs:
        unpublished.append(
            PendingTick(tick=before.number, now=int(before.tick.now), outputs=sink.outputs, digest=sink.digest)
        )
    made = output(storage, tick.number)
    pending = tuple(unpublished[len(unpublished) - min(waits, len(unpublished)) :])
    sinks = {"table": SinkRecord(outputs=(made,), digest=made.digest, pending=pending)}
    return replace(manifest, run=run, tick=tick, stages={"counts": record}, sinks=sinks)
