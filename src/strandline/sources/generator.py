"""Made-up events, the same for the same seed: for demonstrations, benchmarks and tests."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from strandline.errors import DescriptionError, told
from strandline.model.options import require_boolean
from strandline.model.time import Instant, Span
from strandline.model.types import Schema
from strandline.sources.contract import Limit, Offset, Piece, Place, even_ranges, malformed_table
from strandline.sources.drawing import Pace, draw

if TYPE_CHECKING:
    from strandline.store.storage import Storage

SCHEMA: Final = Schema.of("key string, value double, n bigint, at timestamp, partition int")
_START: Final = Instant.of("2026-01-01T00:00:00Z")
_AT_ONCE: Final = 500_000

Text = str | timedelta


@dataclass(frozen=True, slots=True)
class Generator:
    """Events of a made-up world, `rate` of them in each second of event time, shared evenly by the partitions.

    Each event has a `key` (one of `keys`; `skew` is the exponent of Zipf's law, 0 for none), a `value` from 0 to 100,
    its number `n` in its `partition`, and its time `at`, which lies up to `disorder` before its turn. A share
    `late_share` of them is older by `late_by`; a share `malformed_share` is no row, but text that cannot be read.
    In `slow` partitions everything is older by the span given: `slow={1: "30s"}`. An `idle` one brings nothing in a
    stretch of time from the start: `idle={2: ("1m", "5m")}`.

    Without `rows` there is no end. With `live=True` events come to be as processing time goes by, from the first
    planning on, which is also the `start` of event time if none is given; otherwise all are there from the beginning,
    and a tick takes what its limit lets through, or one second's worth.

    Law: row n of partition p depends on the description, p and n alone, so that any part can be read again anywhere.

    >>> Generator(seed=7, rows=1000, keys=10, disorder="5s").schema.text
    'key string, value double, n bigint, at timestamp, partition int'
    """

    _: KW_ONLY
    seed: int = 0
    rows: int | None = None
    rate: float = 1000.0
    keys: int = 100
    skew: float = 0.0
    disorder: Span = Span(0)
    late_share: float = 0.0
    late_by: Span = Span(60_000_000)
    start: Instant | None = None
    partitions: int = 1
    slow: tuple[tuple[int, Span], ...] = ()
    idle: tuple[tuple[int, tuple[Span, Span]], ...] = ()
    malformed_share: float = 0.0
    live: bool = False

    def __init__(
        self,
        *,
        seed: int = 0,
        rows: int | None = None,
        rate: float = 1000.0,
        keys: int = 100,
        skew: float = 0.0,
        disorder: Text = "0s",
        late_share: float = 0.0,
        late_by: Text = "1m",
        start: str | datetime | int | None = None,
        partitions: int = 1,
        slow: Mapping[int, Text] | None = None,
        idle: Mapping[int, tuple[Text, Text]] | None = None,
        malformed_share: float = 0.0,
        live: bool = False,
    ) -> None:
        _whole("seed", seed, 0, 2**64 - 1)
        if rows is not None:
            _whole("rows", rows, 0, 2**50)
        _whole("keys", keys, 1, 100_000_000)
        _whole("partitions", partitions, 1, 10_000)
        _number("rate", rate, 0.001, 1e9)
        _number("skew", skew, 0, 10)
        _number("late_share", late_share, 0, 1)
        _number("malformed_share", malformed_share, 0, 1)
        if late_share + malformed_share > 1:
            raise DescriptionError(
                f"late_share={late_share} and malformed_share={malformed_share} are more than all rows together.",
                fix="Let them be at most 1 together.",
            )
        for option, given in (("slow", slow), ("idle", idle)):
            if given is not None and not (isinstance(given, Mapping) and all(isinstance(p, int) for p in given)):
                raise DescriptionError(
                    f"{option}={told(given)} does not say which partitions.", fix=f"Write it as {option}={{1: ...}}."
                )
        require_boolean("live", live)
        chosen = {
            "seed": seed, "rows": rows, "rate": float(rate), "keys": keys, "skew": float(skew),
            "disorder": Span.of(disorder), "late_share": float(late_share), "late_by": Span.of(late_by),
            "start": None if start is None else Instant.of(start), "partitions": partitions,
            "slow": tuple((_known(p, partitions), Span.of(by)) for p, by in sorted((slow or {}).items())),
            "idle": tuple((_known(p, partitions), _stretch(part)) for p, part in sorted((idle or {}).items())),
            "malformed_share": float(malformed_share), "live": live,
        }  # fmt: skip
        for name, value in chosen.items():
            object.__setattr__(self, name, value)

    @property
    def schema(self) -> Schema:
        """The columns, which are always the same."""
        return SCHEMA

    def reader(self, storage: Storage | None = None) -> GeneratorReader:
        """What makes the rows; it keeps nothing, so it needs no storage."""
        return GeneratorReader(self)


@dataclass(frozen=True, slots=True)
class GeneratorReader:
    """Makes rows when they are read. Positions count the rows of each partition."""

    source: Generator

    def first(self) -> Offset:
        """Before the first row of every partition. `began` is the processing time of the first planning, when live."""
        none = [0] * self.source.partitions
        return {"rows": none, "of": none, "began": None} if self.source.live else {"rows": none}

    def latest(self, start: Offset, limit: Limit, *, now: int | None = None) -> Offset:
        """Go on in event time, all partitions together, as far as the limit and, when live, the time let through."""
        if not self.source.live:
            return {"rows": self._taken(start["rows"], self._there(None), limit)}
        if now is None:
            return start
        began = now if start["began"] is None else start["began"]
        there = [max(*each) for each in zip(start["of"], self._there(now - began), strict=True)]
        return {"rows": self._taken(start["rows"], there, limit), "of": there, "began": began}

    def _taken(self, here: list[int], there: list[int], limit: Limit) -> list[int]:
        most = self._most(limit)
        return there if most is None or sum(there) - sum(here) <= most else self._within(here, there, most)

    def parts(self, start: Offset, end: Offset, wanted: int) -> list[Any]:
        """Ranges of rows of one partition each, with the start of event time."""
        spans = list(zip(start["rows"], end["rows"], strict=True))
        total = sum(high - low for low, high in spans)
        first = self._start_of(end)
        return [
            (partition, piece_low, piece_high, first)
            for partition, (low, high) in enumerate(spans)
            if high > low
            for piece_low, piece_high in even_ranges(low, high, max(1, round(wanted * (high - low) / total)))
        ]

    def read(self, part: Any) -> Iterator[Piece]:
        """The rows of one range."""
        partition, low, high, start = part
        for at in range(low, high, _AT_ONCE):
            rows, bad = draw(self.source, start, partition, at, min(high, at + _AT_ONCE))
            malformed = None
            if bad.any():
                raws = [f'{{"n": {n}, "key": ' for n in rows.filter(bad)["n"].to_list()]
                malformed = malformed_table(raws, ["made malformed on purpose"] * len(raws))
                rows = rows.filter(~bad)
            yield Piece(partition=str(partition), rows=rows, malformed=malformed)

    def places(self, offset: Offset) -> dict[str, Place]:
        """Every partition; with `rows` given the ends are final, as soon as they are reached when live."""
        final = self._there(None)
        ends = offset["of"] if self.source.live else final
        finished = self.source.rows is not None and ends == final
        return {
            str(partition): Place(position=position, end=end, finished=finished)
            for partition, (position, end) in enumerate(zip(offset["rows"], ends, strict=True))
        }

    def _start_of(self, offset: Offset) -> int:
        """Where event time starts."""
        if self.source.start is not None:
            return int(self.source.start)
        return int(offset["began"] or 0) if self.source.live else int(_START)

    def _pace(self, partition: int) -> Pace:
        return Pace.of(self.source, partition)

    def _total(self, partition: int) -> int:
        """How many rows a partition will ever have."""
        if self.source.rows is None:
            return 2**62 // self.source.partitions
        return (self.source.rows - partition + self.source.partitions - 1) // self.source.partitions

    def _there(self, elapsed: int | None) -> list[int]:
        """How many rows of each partition there are, so much time after the beginning; None: after all time."""
        totals = [self._total(partition) for partition in range(self.source.partitions)]
        if elapsed is None:
            return totals
        return [min(total, self._pace(p).before(elapsed)) for p, total in enumerate(totals)]

    def _most(self, limit: Limit) -> int | None:
        """How many rows a tick may take; one second's worth where there is neither limit nor end."""
        by_bytes = None if limit.bytes is None else max(1, limit.bytes // _ROW_BYTES)
        known = [most for most in (limit.rows, by_bytes) if most is not None]
        if not known and self.source.rows is None and not self.source.live:
            known = [math.ceil(self.source.rate)]
        return min(known, default=None)

    def _within(self, here: list[int], there: list[int], most: int) -> list[int]:
        """The positions at the latest time at which no more than `most` rows came; then some of the next ones."""

        def at(elapsed: int) -> list[int]:
            counts = (self._pace(p).before(elapsed) for p in range(len(here)))
            return [max(low, min(high, count)) for low, high, count in zip(here, there, counts, strict=True)]

        early, late = 0, 1
        while sum(at(late)) - sum(here) <= most:
            early, late = late, late * 2
        while late - early > 1:
            middle = (early + late) // 2
            early, late = (middle, late) if sum(at(middle)) - sum(here) <= most else (early, middle)
        taken, next_ones = at(early), at(late)
        left = most - (sum(taken) - sum(here))
        for partition, count in enumerate(next_ones):
            more = min(left, count - taken[partition])
            taken[partition] += more
            left -= more
        return taken


_ROW_BYTES: Final = 48  # what a row takes in memory, about


def _whole(option: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise DescriptionError(
            f"{option}={told(value)} is out of range.", fix=f"Give a whole number from {least} to {most}."
        )


def _number(option: str, value: object, least: float, most: float) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        raise DescriptionError(f"{option}={told(value)} is out of range.", fix=f"Give a number from {least} to {most}.")


def _known(partition: object, partitions: int) -> int:
    if not isinstance(partition, int) or isinstance(partition, bool) or not 0 <= partition < partitions:
        raise DescriptionError(
            f"There is no partition {told(partition)}.",
            fix=f"Name one from 0 to {partitions - 1}, or give partitions=.",
        )
    return partition


def _stretch(given: tuple[Text, Text]) -> tuple[Span, Span]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise DescriptionError(f"{told(given)} is no stretch of time.", fix="Give two spans: idle={2: ('1m', '5m')}.")
    start, end = Span.of(given[0]), Span.of(given[1])
    if end < start:
        raise DescriptionError(
            f"The stretch from {start.text} to {end.text} ends early.", fix="Give the shorter first."
        )
    return start, end
