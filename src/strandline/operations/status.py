"""Where a flow is: its last tick, watermarks, backlog, state, sinks and findings, as plain JSON that scripts may rely on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from strandline.model.time import Instant
from strandline.operations.health.finding import Finding
from strandline.operations.health.watched import SECOND, Record, Watched
from strandline.operations.partitions import Partition, partitions

VERSION: Final = 1
"""Of the JSON: fields may be added to a version, and none is taken away or given another meaning."""


def status_of(watched: Watched, findings: Sequence[Finding]) -> dict[str, Any]:
    """The status of a flow. Instants are microseconds since 1970, spans microseconds; docs/monitoring.md says more.

    `rows_per_second`, and why a partition does what it does, are of the last while; all else is as the last tick left it.
    """
    newest = watched.newest
    return {
        "version": VERSION,
        "flow": newest["flow"],
        "is": _is(watched),
        "tick": newest["tick"] if watched.has_ticked else None,
        "now": newest["now"] if watched.has_ticked else None,
        "silence": int(watched.silence),
        "restarts": newest["restarts"],
        "interval": int(watched.interval),
        "catching_up": watched.some_catch_up,
        "sources": _sources(watched),
        "stages": {name: _stage(newest, name) for name in sorted(newest["state"])},
        "sinks": {name: dict(sink) for name, sink in sorted(newest["sinks"].items())},
        "took": dict(newest["took"]),
        "healthy": not any(finding.unhealthy for finding in findings),
        "findings": [finding.to_json() for finding in findings],
    }


def _is(watched: Watched) -> str:
    """What the flow is doing, in a word."""
    last = watched.last_run
    if watched.newest["finished"]:
        return "finished"
    if watched.is_over:
        return "failed" if last is not None and last.failure else "stopped"
    return "silent" if watched.is_silent else "running"


def _sources(watched: Watched) -> dict[str, Any]:
    found: dict[str, Any] = {name: {**_source(watched, name), "partitions": {}} for name in watched.sources()}
    for each in partitions(watched.together(watched.counted)):
        found[each.source]["partitions"][each.name] = _partition(watched, each)
    return found


def _source(watched: Watched, name: str) -> dict[str, Any]:
    newest = watched.newest
    return {
        "watermark": _told(newest["watermarks"][name]),
        "lag": _lag(watched, newest["watermarks"][name]),
        "bound": newest.get("bounds", {}).get(name),
        "backlog": sum(newest["backlog"].get(name, {}).values()),
        "rows_per_second": _rate(watched, watched.booked(name, "rows", watched.counted)),
        "late": newest["books"].get(name, {}).get("late", 0),
        "rejected": newest["books"].get(name, {}).get("rejected", 0),
    }


def _partition(watched: Watched, partition: Partition) -> dict[str, Any]:
    return {
        "watermark": _told(partition.watermark),
        "lag": _lag(watched, partition.watermark),
        "backlog": partition.backlog,
        "rows_per_second": _rate(watched, partition.rows),
        "idle": partition.idle,
        "holds": partition.holds,
        "why": partition.why,
    }


def _stage(newest: Record, name: str) -> dict[str, Any]:
    books: Mapping[str, int] = newest["books"].get(name, {})
    reached = newest["watermarks"].get(name)
    return {
        "watermark": None if reached is None else _told(reached),
        **newest["state"][name],
        "late": books.get("late", 0),
        "rejected": books.get("rejected", 0),
    }


def _told(reached: int) -> int | None:
    """A watermark; none before all time, and at its end."""
    return reached if Instant.BEFORE_ALL_TIME < reached < Instant.END_OF_TIME else None


def _lag(watched: Watched, reached: int) -> int | None:
    """How far a watermark is behind the processing time of the last tick."""
    return None if _told(reached) is None else int(watched.newest["now"] - reached)


def _rate(watched: Watched, rows: int) -> float:
    return round(rows * SECOND / watched.lasts, 1) if watched.lasts else 0.0
