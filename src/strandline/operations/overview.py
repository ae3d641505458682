"""What a run looks like at a glance, from the records of its last ticks: the live panel and notebooks draw this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from strandline.model.time import Instant, Span
from strandline.operations.partitions import Partition, partitions
from strandline.store.journal import backlog_of

Record = Mapping[str, Any]

STEPS: Final = ("read", "step", "waited", "commit", "publish")
"""The parts of a tick whose time the journal tells. Publishing goes on beside the next tick."""
NOTHING: Final[Record] = {
    "books": {}, "panes": {}, "rows": {}, "behind": {}, "backlog": {}, "took": {}, "hottest": {}, "endless": (),
    "interval": 0, "bounds": {}, "caught_up": False,
}  # fmt: skip
"""What a record does not tell whose tick read nothing: that which goes back to a savepoint."""
RECENT: Final = 30_000_000  # microseconds: rates are of this time up to the last tick


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What a run did so far, in counts that only grow: records are forgotten, these are not.

    `panes` counts a stage's by timing; `dropped` and `rejected` count rows of sources and stages; `rows` are those that were read.
    """

    ticks: int = 0
    rows: int = 0
    panes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)
    delivered: Mapping[str, int] = field(default_factory=dict)

    def after(self, record: Record) -> Totals:
        """The totals with one more tick.

        >>> record = {"books": {"orders": {"rows": 5, "late": 0, "rejected": 1}}, "partitions": {"orders": {}}}
        >>> Totals().after(record).after(record).rejected
        {'orders': 2}
        """
        record = {**NOTHING, **record}
        books = record["books"]
        panes = {stage: Counter(self.panes.get(stage, {})) for stage in {**self.panes, **record["panes"]}}
        for stage, shown in record["panes"].items():
            panes[stage].update(shown)
        return Totals(
            ticks=self.ticks + 1, rows=self.rows + rows_read(record), panes=panes,
            dropped=_added(self.dropped, {name: book["late"] for name, book in books.items()}),
            rejected=_added(self.rejected, {name: book["rejected"] for name, book in books.items()}),
            delivered=_added(self.delivered, {name: sink["rows"] for name, sink in record.get("sinks", {}).items()}),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StageNow:
    """A stage after the last tick. Of its `rows` some may be of the same window, written again; `at_least` so many are not. `growth` is in rows for each second, over the recent ticks; None where there was one only.

    `endless`: it forgets no key, so that nothing but new keys bounds it.
    """

    name: str
    rows: int
    at_least: int
    nbytes: int
    growth: float | None
    endless: bool
    watermark: Instant
    panes: Mapping[str, int]
    dropped: int
    rejected: int
    hottest: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkNow:
    """A sink after the last tick: rows that it got so far and in each second, and how many ticks it has still to get."""

    name: str
    rows: int
    rate: float | None
    pending: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """A run at a glance. Rates are for each second, over the recent ticks; None where one tick tells none.

    `steps` is how long each part of a tick took, on average over the recent ones; `made` all that comes before publishing.
    """

    flow: str
    tick: int
    now: Instant
    finished: bool
    caught_up: bool
    restarts: int
    totals: Totals
    rate_in: float | None
    rate_out: float | None
    interval: Span
    steps: Mapping[str, Span]
    made: Span
    backlog: int
    backlog_growth: float | None
    sources: Mapping[str, Instant]
    bounds: Mapping[str, Span]
    partitions: tuple[Partition, ...]
    stages: tuple[StageNow, ...]
    sinks: tuple[SinkNow, ...]


def overview(records: Sequence[Record], totals: Totals | None = None) -> Overview | None:
    """A run at a glance, from the records of its last ticks, in order; None if there are none.

    `totals` are those of the whole run, if that had more ticks than there are records. Pure: the same records, the same answer.
    """
    if not records:
        return None
    if totals is None:
        totals = Totals()
        for record in records:
            totals = totals.after(record)
    recent = [{**NOTHING, **record} for record in _recent(records)]
    last = recent[-1]
    return Overview(
        flow=last["flow"], tick=last["tick"], now=Instant(last["now"]), finished=last["finished"],
        caught_up=last["caught_up"], restarts=last["restarts"], totals=totals,
        rate_in=_rate(recent, rows_read), rate_out=_rate(recent, _delivered), interval=Span(last["interval"]),
        steps={step: _mean(recent, step) for step in STEPS}, made=_mean(recent, "make"), backlog=backlog_of(last),
        backlog_growth=_growth(recent, backlog_of),
        sources={name: Instant(last["watermarks"][name]) for name in last["partitions"] if name in last["watermarks"]},
        bounds={name: Span(bound) for name, bound in last["bounds"].items()},
        partitions=tuple(partitions(last)), stages=_stages(last, recent, totals), sinks=_sinks(last, recent, totals),
    )  # fmt: skip


def worst_first(found: Sequence[Partition]) -> list[Partition]:
    """Partitions that hold their source's watermark back first, then by how far they are behind; idle ones last."""
    return sorted(found, key=lambda each: (not each.holds, each.idle, int(each.watermark), each.source, each.name))


def rows_read(record: Record) -> int:
    """The rows that a tick read, those that were rejected at once included."""
    return sum(record["books"][name]["rows"] for name in record["partitions"] if name in record["books"])


def _stages(last: Record, recent: Sequence[Record], totals: Totals) -> tuple[StageNow, ...]:
    return tuple(
        StageNow(
            name=name, rows=state["rows"], at_least=state.get("at_least", state["rows"]), nbytes=state["bytes"], growth=_growth(recent, _rows_of(name)),
            endless=name in last["endless"], watermark=Instant(last["watermarks"].get(name, Instant.BEFORE_ALL_TIME)),
            panes=totals.panes.get(name, {}), dropped=totals.dropped.get(name, 0), rejected=totals.rejected.get(name, 0),
            hottest=tuple((hot["key"], hot["share"]) for hot in _last_with(recent, "hottest", name)),
        )
        for name, state in last["state"].items()
    )  # fmt: skip


def _rows_of(stage: str) -> Any:
    return lambda record: record["state"].get(stage, {"rows": 0})["rows"]


def _sinks(last: Record, recent: Sequence[Record], totals: Totals) -> tuple[SinkNow, ...]:
    def rows_to(name: str) -> Any:
        return lambda record: record["sinks"].get(name, {"rows": 0})["rows"]

    return tuple(
        SinkNow(name=name, rows=totals.delivered.get(name, 0), rate=_rate(recent, rows_to(name)), pending=sink["pending"])
        for name, sink in last["sinks"].items()
    )  # fmt: skip


def _recent(records: Sequence[Record]) -> Sequence[Record]:
    """The last records, and at least two where there are two: of one nothing can be said to grow."""
    since = records[-1]["now"] - RECENT
    first = next(at for at, record in enumerate(records) if record["now"] >= since)
    return records[max(0, min(first, len(records) - 2)) :]


def _rate(recent: Sequence[Record], count: Any) -> float | None:
    """How much came in each second: what the first of the ticks brought came before."""
    seconds = (recent[-1]["now"] - recent[0]["now"]) / 1_000_000
    return sum(map(count, recent[1:])) / seconds if seconds > 0 else None


def _growth(recent: Sequence[Record], measure: Any) -> float | None:
    seconds = (recent[-1]["now"] - recent[0]["now"]) / 1_000_000
    return (measure(recent[-1]) - measure(recent[0])) / seconds if seconds > 0 else None


def _mean(recent: Sequence[Record], step: str) -> Span:
    return Span(sum(record["took"].get(step, 0) for record in recent) // len(recent))


def _last_with(recent: Sequence[Record], what: str, name: str) -> Any:
    """What the last tick that says anything of it says: a stage is not stepped in each one."""
    return next((found for record in reversed(recent) if (found := record[what].get(name))), ())


def _delivered(record: Record) -> int:
    return sum(sink["rows"] for sink in record.get("sinks", {}).values())


def _added(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {name: counts.get(name, 0) + more.get(name, 0) for name in {**counts, **more}}
