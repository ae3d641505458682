"""Advice from what a flow has seen: the lags that its journal counts, judged tick by tick as they were in the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from strandline.errors import DescriptionError, StateError, did_you_mean
from strandline.model.lag import LagHistogram, histogram_from_json
from strandline.model.time import Instant, Span
from strandline.operations.advise.advice import STRETCHES, Advice, OfPartition, conclude
from strandline.operations.advise.choosing import Behind
from strandline.operations.advise.sample import Times
from strandline.operations.said import plural

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Events of one partition in one tick: how far behind the front they came, how many of each, and their lags."""

    now: Instant
    partition: str
    behind: Times
    events: Times
    lags: LagHistogram


def advise_journal(
    records: Iterable[Record], *, rate: float, source: str | None = None, bound: Span | None = None
) -> Advice:
    """The bound for a source of a flow, from the events that it read as they came in.

    The lag of old data says how old it is, and not how disordered: ticks in which a partition was catching up are left
    out, as `sl.Percentile` does. Lags are known to an eighth.
    """
    told = list(records)
    name = _source(told, source)
    found = list(_counted(told, name))
    if not found:
        raise StateError(
            f"The journal tells of no events of the source {name!r} that were read as they came in: how late events of a "
            "backlog would have come, nobody knows.",
            fix="Let the flow run on live data for a while; or give a sample: strandline advise FILE --time COLUMN.",
        )
    ordered = Behind.counted(np.concatenate([e.behind for e in found]), np.concatenate([e.events for e in found]))
    chosen = ordered.bound(rate) if bound is None else bound
    return conclude(
        ordered, chosen, rate, given=bound is not None, first=found[0].now, last=found[-1].now, measured="journal", rejected=_rejected(told, name),
        stretches=_stretches(found, chosen), partitions=tuple(_partitions(found, chosen)), keys=None,
        notes=tuple(_notes(told, name, len(ordered))),
    )  # fmt: skip


def _source(records: list[Record], wanted: str | None) -> str:
    known: list[str] = sorted({name for record in records for name in record["partitions"]})
    if not known:
        raise DescriptionError(
            "The journal tells of no source whose partitions are known.",
            fix="Let the flow make some ticks first, or read a sample: strandline advise FILE.",
        )
    if wanted is None:
        if len(known) != 1:
            raise DescriptionError(
                f"There are {len(known)} sources in the journal.", fix=f"Name one: --source {' or '.join(known)}."
            )
        return known[0]
    if wanted not in known:
        raise DescriptionError(f"There is no source {wanted!r} in the journal.", fix=did_you_mean(wanted, known))
    return wanted


def _counted(records: list[Record], source: str) -> Iterator[Counted]:
    for before, record in pairwise(records):
        front = _front(before["partitions"].get(source, {}))
        if front is None or before["run"] != record["run"] or before["tick"] + 1 != record["tick"]:
            continue
        now = Instant(record["now"])
        for name, pairs in record.get("lags", {}).get(source, {}).items():
            if _read_up(before, source, name) and _read_up(record, source, name):
                lags = histogram_from_json(pairs)
                spans, events = lags.spread()
                yield Counted(now=now, partition=name, behind=spans - (now - front), events=events, lags=lags)


def _front(partitions: Mapping[str, Any]) -> int | None:
    """What the watermark was before the tick, but for the bound; None before every partition has spoken."""
    front = min((told["greatest"] for told in partitions.values() if not told["idle"]), default=None)
    return None if front is None or front <= Instant.BEFORE_ALL_TIME else front


def _read_up(record: Record, source: str, name: str) -> bool:
    told = record["partitions"][source].get(name)
    return told is not None and told["position"] >= told["end"]


def _stretches(found: list[Counted], bound: Span) -> tuple[float, ...]:
    """The late share of each tenth of the events, as they came."""
    events = np.array([each.events.sum() for each in found])
    late = np.array([each.events[each.behind > bound].sum() for each in found])
    tenths = np.minimum((np.cumsum(events) - events) * STRETCHES // events.sum(), STRETCHES - 1)
    of_all, of_late = np.bincount(tenths, events), np.bincount(tenths, late)
    return tuple((of_late[of_all > 0] / of_all[of_all > 0]).tolist())


def _partitions(found: list[Counted], bound: Span) -> Iterator[OfPartition]:
    for name in sorted({each.partition for each in found}):
        mine = [each for each in found if each.partition == name]
        lags = LagHistogram.together(each.lags for each in mine)
        late = sum(int(each.events[each.behind > bound].sum()) for each in mine)
        yield OfPartition(
            name=name, events=lags.total, lags=tuple(lags.quantile(share) for share in (0.5, 0.95, 0.99, 1.0)),
            late=late / lags.total, ends=0.0,
        )  # fmt: skip


def _rejected(records: list[Record], source: str) -> int:
    return sum(count for record in records for count in record["rejected"].get(source, {}).values())


def _notes(records: list[Record], source: str, counted: int) -> Iterator[str]:
    rows = sum(count for record in records for count in record["rows"].get(source, {}).values())
    behind = sum(count for record in records for count in record["behind"].get(source, {}).values())
    bound = records[-1].get("bounds", {}).get(source)
    own = (
        "" if bound is None else f" With the flow's own bound, {Span(bound).text}, {plural(behind, 'event')} came late."
    )
    yield f"The journal tells of {plural(rows, 'event')}; counted here are those that were read as they came in: {counted:,}.{own}"
    yield "Lags are kept to an eighth. The journal keeps no keys: a sample of events would tell of them."
