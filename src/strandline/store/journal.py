"""The journal: one record for each tick, derived from its manifest. Metrics, health and tests read it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from strandline.errors import MissingFile, StateError
from strandline.model.time import Instant, Span
from strandline.store.manifests import Manifest
from strandline.store.storage import Storage

JOURNAL: Final = "journal/"


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a sink had of a tick: how many rows, and how long it took with whatever it had meanwhile, in microseconds."""

    rows: int = 0
    took: int = 0


def record_of_tick(
    manifest: Manifest, *, took: Mapping[str, int], delivered: Mapping[str, Delivered]
) -> dict[str, Any]:
    """What a tick did, as plain JSON. Spans are whole microseconds, watermarks microseconds since 1970.

    `restarts` is how often the flow was started again. In the first tick of a run, `took` has its start too: from the
    call until the head was published again ("resumed"), and until this tick was ready to be committed ("recovery").
    "idle" is how long nothing was there to do before it; "make" is everything up to the commit: "read", "step", and what
    it "waited" for sinks to have the tick before; "latency" is from the tick's processing time until sinks had its rows.
    The "lag" of a partition is how far its greatest event time is behind processing time. "behind" are the rows of each
    partition from before its source's watermark; which of them were late for a window, the "books" of the stage say.
    "lags" count the events of each partition by how far they lag behind processing time, as [bin, count] of a coarse
    `LagHistogram`.
    "panes" counts a stage's by timing, and those it took back as "retract"; other stages give "rows". "interval" is the
    batch interval that was asked for, "bounds" how far each source's watermark is meant to stay behind, "endless" the
    stages that forget no key. A sink "took" so long to publish its "rows"; "pending" ticks wait for it. "hottest" are the keys of a stage that brought most rows, each with its "share" of all rows that the stage took.

    The "rows" of a stage's "state" are as they were written: a window that was written again counts again until segments
    are merged; "at_least" so many windows (of other stages: rows) there are.

    Law: made again from the same manifest it differs at most in how long things took.
    """
    partitions = {
        name: {p: s.to_json() for p, s in source.partitions.items()} for name, source in manifest.sources.items()
    }
    return {
        "flow": manifest.flow,
        "tick": manifest.number,
        "run": manifest.run,
        "restarts": manifest.restarts,
        "now": int(manifest.tick.now),
        "watermarks": {name: int(edge.after) for name, edge in manifest.tick.edges.items()},
        "partitions": {
            source: {
                p: {
                    **{key: state[key] for key in ("watermark", "greatest", "position", "end", "idle")},
                    "lag": _lag(manifest, state["greatest"]),
                }
                for p, state in found.items()
            }
            for source, found in partitions.items()
        },
        "state": {
            name: {"rows": stage.rows, "at_least": stage.at_least, "bytes": stage.nbytes}
            for name, stage in manifest.stages.items()
        },
        "sinks": {
            name: {**asdict(delivered.get(name, Delivered())), "pending": len(sink.pending)}
            for name, sink in manifest.sinks.items()
        },
        **manifest.journal,
        "took": {**manifest.journal.get("took", {}), **took},
        "finished": manifest.finished,
    }


def _lag(manifest: Manifest, greatest: int) -> int | None:
    return None if greatest <= Instant.BEFORE_ALL_TIME else int(manifest.tick.now) - greatest


def write_record(
    storage: Storage, manifest: Manifest, *, took: Mapping[str, int], delivered: Mapping[str, Delivered]
) -> None:
    """Leave the record of a tick; one that is there already stays."""
    record = record_of_tick(manifest, took=took, delivered=delivered)
    storage.create(f"{JOURNAL}{manifest.number:012}.json", json.dumps(record, sort_keys=True).encode())


def backlog_of(record: Mapping[str, Any]) -> int:
    """How much of all sources was there and not yet read, in what each source counts.

    >>> backlog_of({"backlog": {"orders": {"orders/0": 3, "orders/1": 4}}})
    7
    """
    return sum(left for source in record["backlog"].values() for left in source.values())


def forget_records(storage: Storage, *, before: int, count: int) -> None:
    """Remove the records of the last so many ticks before one; done each so many ticks, none older is left."""
    storage.delete(f"{JOURNAL}{tick:012}.json" for tick in range(max(0, before - count), before))


def records_back_to(storage: Storage, span: Span) -> list[dict[str, Any]]:
    """The records of the last while of processing time, in order: those of ticks at most `span` before the last one.

    >>> import tempfile
    >>> from strandline.store.storage import storage_at
    >>> storage = storage_at(tempfile.mkdtemp())
    >>> for tick, now in enumerate((0, 40, 50, 60)):
    ...     _ = storage.create(f"{JOURNAL}{tick:012}.json", json.dumps({"now": now}).encode())
    >>> [record["now"] for record in records_back_to(storage, Span(20))]
    [40, 50, 60]
    """
    found: list[dict[str, Any]] = []
    for name in reversed(storage.names(JOURNAL)):
        try:
            record = _record(storage.read(name), name)
        except MissingFile:  # forgotten meanwhile
            break
        if found and record["now"] < found[0]["now"] - span:
            break
        found.append(record)
    return found[::-1]


def records(storage: Storage, *, since: int = 0) -> Iterator[dict[str, Any]]:
    """The records of ticks, from the oldest that is kept, in order; StateError names one that is damaged."""
    for name in storage.names(JOURNAL):
        if _tick_of(name) >= since:
            yield _record(storage.read(name), name)


def recorded_ticks(storage: Storage) -> list[int]:
    """The ticks that the journal tells of, in order."""
    return [_tick_of(name) for name in storage.names(JOURNAL)]


def _tick_of(name: str) -> int:
    return int(name.removeprefix(JOURNAL).removesuffix(".json"))


def _record(data: bytes, name: str) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(data)
    except ValueError as error:
        raise StateError(
            f"The record {name!r} of the journal is damaged: {error}.",
            fix="Remove the file: the journal tells of ticks, and nothing that runs needs it.",
        ) from error
    return record
