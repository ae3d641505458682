"""What becomes too great: state that nothing forgets, keys that explode, a disk that is full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from statistics import median
from typing import Final

from strandline.model.time import Span
from strandline.operations.health.finding import Finding
from strandline.operations.health.time_rules import stuck_watermark
from strandline.operations.health.watched import KNOWN, RECENT, Record, Watched, share_of, span_of

DAY: Final = Span.of("1d")
GROWTH: Final = 0.05
"""How much state may grow in a day."""
MANY: Final = 100_000
"""Rows of state: to grow by fewer in a day is no matter."""
STEADY: Final = 0.5
"""State that grows by less than this part of what it grew by before fills up, and will not go on."""
EXPLODED: Final = 2.5
SOME: Final = 1_000
"""Rows of state: no fewer are an explosion."""
LEAST_FREE: Final = 1 << 30
"""Bytes of disk."""


def growing_state(watched: Watched) -> Iterator[Finding]:
    """State of a stage that forgets no key grows beyond all it was, and does not slow down as where keys come to an end."""
    minute, before = _minute(watched)
    if span_of(before) < KNOWN or len(minute) < 4:
        return
    for stage in watched.newest.get("endless", ()):
        lows = [_low(quarter, stage) for quarter in minute]
        grown, rows = lows[3] - lows[1], _rows(watched.newest, stage)
        a_day = grown * DAY / (2 * _quarter(watched))
        usual = (lows[3] - _rows(before[0], stage)) / span_of(watched.records) * 2 * _quarter(watched)
        beyond = lows[3] > max(_rows(record, stage) for record in before) and lows[2] > lows[0]
        if beyond and grown >= STEADY * max(lows[2] - lows[0], usual) and a_day >= max(MANY, GROWTH * rows):
            yield Finding(
                rule="growing_state", severity="warning", about=f"stage {stage}",
                what=f"The state of {stage} grows by {a_day:,.0f} rows a day, and nothing forgets any: it has {rows:,} now.",
                cause="It keeps every key for ever (no ttl), and new keys keep coming.",
                fix="Give it a ttl: Global(ttl='30d'), table(ttl=...), process(ttl=...); or key it by something of which there are only so many.",
            )  # fmt: skip


def key_explosion(watched: Watched) -> Iterator[Finding]:
    """State of a stage that does forget grows far beyond its norm, and not because a watermark stands."""
    minute, before = _minute(watched)
    if span_of(before) < KNOWN or len(minute) < 4 or watched.some_catch_up or any(stuck_watermark(watched)):
        return
    for stage in sorted(watched.newest["state"].keys() - {*watched.newest.get("endless", ())}):
        usual = median(_rows(record, stage) for record in _at_pace(before, stage))
        now = median(_rows(record, stage) for record in minute[3])
        born = share_of(
            _low(minute[3], stage) - _low(minute[0], stage), watched.booked(stage, "rows", chain(*minute[1:]))
        )
        if now > max(EXPLODED * usual, SOME) and born > 0:
            yield Finding(
                rule="key_explosion", severity="critical", about=f"stage {stage}",
                what=f"The keys of {stage} explode: its state has {now:,.0f} rows, {usual:,.0f} is normal.",
                cause=f"A row of input brings {born:.2f} new rows of state. Something that is always new (a request id, a time, a random value) has come into the key.",
                fix="See which key columns have so many values, and key by fewer; or drop such rows with .where(...).",
            )  # fmt: skip


def _at_pace(records: Sequence[Record], stage: str) -> Sequence[Record]:
    """The ticks in which the stage's watermark was not far behind, for it: while one stands its windows stay, and keys are not to blame."""
    lags = [record["now"] - record["watermarks"].get(stage, record["now"]) for record in records]
    most = 2 * median(lags)
    return [record for record, lag in zip(records, lags, strict=True) if lag <= most]


def _quarter(watched: Watched) -> Span:
    """A quarter of a minute, longer where ticks are rare."""
    return Span(max(RECENT, 5 * watched.interval) // 2)


def _minute(watched: Watched) -> tuple[list[list[Record]], Sequence[Record]]:
    """The ticks of the last minute by its quarters, those without ticks left out, and what was before it."""
    length, newest = _quarter(watched), watched.newest["now"]
    ages = [min((newest - record["now"]) // length, 4) for record in watched.records]
    first = next(at for at, age in enumerate(ages) if age < 4)
    quarters = [[r for r, age in zip(watched.records, ages, strict=True) if age == wanted] for wanted in (3, 2, 1, 0)]
    return [quarter for quarter in quarters if quarter], watched.records[:first]


def _low(records: Sequence[Record], stage: str) -> int:
    """The least that state had: rows that are written again count twice until their segments are merged."""
    return min(_rows(record, stage) for record in records)


def _rows(record: Record, stage: str) -> int:
    return int(record["state"].get(stage, {"rows": 0})["rows"])


def full_disk(watched: Watched) -> Iterator[Finding]:
    """The disk of the state is nearly full."""
    kept = sum(stage["bytes"] for stage in watched.newest["state"].values())
    needed = max(LEAST_FREE, 2 * kept)
    if watched.free is not None and watched.free < needed:
        yield Finding(
            rule="full_disk", severity="critical", about="disk of the state",
            what=f"The disk of the state has {_megabytes(watched.free)} left; the state is {_megabytes(kept)}, and to rewrite it takes as much again.",
            cause="Something else fills the disk, or the state has outgrown it.",
            fix="Make room there, or move the state: strandline savepoint fork NAME --state OLD --into NEW.",
        )  # fmt: skip


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
