"""The partitions of a flow's sources as a tick left them: which one holds the watermark back, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from strandline.model.time import Instant, Span

Why = Literal["", "idle", "no data", "slow", "old events"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition of a source.

    `holds` if its source's watermark is its own: no partition that is not idle is further behind. `why` says what it
    does: "idle", it is not waited for; "no data", it is caught up and silent, and waited for; "slow", it has more than
    was read; "old events", most of what came lies behind the watermark; else nothing is special.
    """

    source: str
    name: str
    watermark: Instant
    greatest: Instant
    lag: Span | None
    backlog: int
    rows: int
    behind: int
    idle: bool
    holds: bool
    why: Why


def partitions(record: Mapping[str, Any]) -> Iterator[Partition]:
    """The partitions that a record of the journal tells of, by source and name.

    >>> told = {"greatest": 9, "position": 4, "end": 4, "idle": False, "lag": None}
    >>> two = {"0": {**told, "watermark": 7}, "1": {**told, "watermark": 2}}
    >>> record = {"partitions": {"orders": two}, "rows": {"orders": {"0": 5}}, "behind": {"orders": {}}}
    >>> [(each.name, each.holds, each.why) for each in partitions(record)]
    [('0', False, ''), ('1', True, 'no data')]
    """
    for source, found in sorted(record["partitions"].items()):
        waited_for = [told["watermark"] for told in found.values() if not told["idle"]]
        least = min(waited_for, default=None)
        for name, told in sorted(found.items()):
            rows = record["rows"].get(source, {}).get(name, 0)
            behind = record["behind"].get(source, {}).get(name, 0)
            yield Partition(
                source=source, name=name, watermark=Instant(told["watermark"]), greatest=Instant(told["greatest"]),
                lag=None if told["lag"] is None else Span(told["lag"]), backlog=told["end"] - told["position"],
                rows=rows, behind=behind, idle=told["idle"], holds=not told["idle"] and told["watermark"] == least,
                why=_why(told, rows, behind),
            )  # fmt: skip


def _why(told: Mapping[str, Any], rows: int, behind: int) -> Why:
    if told["idle"]:
        return "idle"
    if 2 * behind > rows:
        return "old events"
    if told["end"] > told["position"]:
        return "slow"
    return "" if rows else "no data"
