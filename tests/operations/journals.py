"""Journals as flows would write them, made without one: a small world whose parts an incident changes.

A world has a source of three partitions, a stage of one-minute windows, a table that forgets no key, and a sink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from strandline.model.time import Instant, Span
from strandline.operations.health.finding import Finding
from strandline.operations.health.judging import judge
from strandline.operations.health.watched import NORM, Watched
from strandline.store.runs import RunNote

SECOND = 1_000_000
NOON = int(Instant.of("2026-01-01T12:00:00Z"))
BOUND = 20 * SECOND

Record = dict[str, Any]


@dataclass
class Partition:
    """A partition: how many rows come in a second, how many of them are old, and how far it was read."""

    rate: float = 100.0
    old: float = 0.002
    readable: bool = True
    idle: bool = False
    position: int = 0
    end: int = 0
    greatest: int = Instant.BEFORE_ALL_TIME

    @property
    def watermark(self) -> int:
        return max(self.greatest - BOUND, int(Instant.BEFORE_ALL_TIME))


@dataclass
class World:
    """What a flow does at a time; an incident changes it."""

    chance: Random
    partitions: dict[str, Partition] = field(default_factory=lambda: {str(name): Partition() for name in range(3)})
    now: int = NOON
    tick: int = 0
    run: str = "first"
    restarts: int = 0
    most: int = 3_000  # rows of a tick
    late: float = 0.002
    rejected: float = 0.0005
    keys: int = 500
    random_keys: float = 0.0  # the share of rows with a key that nobody has seen
    hottest: float = 0.02
    known: int = 0  # keys of the table
    new_known: float = 0.0  # the share of rows that bring the table a key it has not seen
    endless: int = 200  # how many keys the table has by and by
    watermark: int = Instant.BEFORE_ALL_TIME
    windows: dict[int, float] = field(default_factory=dict)
    publish: int = 100_000
    waited: int = 0
    work: int = 200_000
    per_row: int = 500

    def step(self) -> Record:
        """The next tick, one interval later, or as long after as the one before took."""
        there = sum(p.end - p.position + p.rate for p in self.partitions.values() if p.readable)
        cold = 2_000_000 if self.tick < 3 else 0  # Spark and its workers start
        works = self.work + self.per_row * min(self.most, there) + cold
        makes = int(works * self.chance.uniform(0.8, 1.3)) + self.waited
        length = max(SECOND, makes + 20_000)
        self.now += length
        read = self._read(length)
        rows, taken = sum(read.values()), {name: count for name, count in read.items() if count}
        rejected = self._drawn(rows, self.rejected)
        behind = {name: old for name, count in read.items() if (old := self._drawn(count, self.partitions[name].old))}
        self.watermark = max(
            self.watermark, min((p.watermark for p in self.partitions.values() if not p.idle), default=0)
        )
        late = min(
            self._drawn(rows, self.late) + sum(c for n, c in behind.items() if self.partitions[n].old > 0.1), rows
        )
        hot = int(rows * self.hottest * self.chance.uniform(0.8, 1.2))
        made = {
            "flow": "shop", "tick": self.tick, "run": self.run, "restarts": self.restarts, "now": self.now, "finished": False,
            "watermarks": {"orders": self.watermark, "totals": self.watermark, "known": self.watermark},
            "partitions": {"orders": {name: self._told(p) for name, p in self.partitions.items()}},
            "rows": {"orders": taken}, "behind": {"orders": behind},
            "rejected": {"orders": {max(read, key=lambda n: read[n]): rejected} if rejected else {}},
            "books": {"orders": _books(rows, rejected=rejected), "totals": _books(rows - rejected, late=late), "known": _books(rows - rejected)},
            "backlog": {"orders": {name: p.end - p.position for name, p in self.partitions.items()}},
            "lags": {"orders": {name: [[0, count]] for name, count in taken.items()}},
            "caught_up": all(p.end == p.position for p in self.partitions.values()),
            "state": self._state(rows), "endless": ["known"], "interval": SECOND, "bounds": {"orders": BOUND},
            "hottest": {"totals": [{"key": "ann", "rows": hot, "share": round(hot / rows, 4)}] if rows else []},
            "panes": {"totals": {"on_time": self.keys} if self.tick % 60 == 0 else {}},
            "sinks": {"table": {"rows": 10, "pending": 0, "took": self.publish}}, "written": rows * 50,
            "took": {
                "idle": length - makes, "make": makes, "commit": 20_000, "read": (makes - self.waited) * 6 // 10, "step": (makes - self.waited) * 4 // 10,
                "waited": self.waited, "publish": self.publish, "latency": makes + self.publish + 20_000,
            },
        }  # fmt: skip
        self.tick += 1
        return made

    def _read(self, length: int) -> dict[str, int]:
        """How many rows of each partition the tick takes, evenly of what there is."""
        left = self.most
        for partition in self.partitions.values():
            partition.end += int(partition.rate * length / SECOND * self.chance.uniform(0.7, 1.3))
        read = {}
        for place, (name, partition) in enumerate(self.partitions.items()):
            fair = left // (len(self.partitions) - place)
            read[name] = min(partition.end - partition.position, fair) if partition.readable else 0
            left -= read[name]
            partition.position += read[name]
            if read[name] and partition.old < 1:
                waiting = (partition.end - partition.position) / max(partition.rate, 1)
                partition.greatest = max(partition.greatest, int(self.now - waiting * SECOND))
        return read

    def _drawn(self, count: int, share: float) -> int:
        """About a share of so many rows, with the noise that chance brings."""
        expected = count * share
        return min(count, max(0, round(self.chance.gauss(expected, max(expected * (1 - share), 0.0) ** 0.5))))

    def _told(self, partition: Partition) -> dict[str, Any]:
        told = {"watermark": partition.watermark, "greatest": partition.greatest, "idle": partition.idle}
        return {**told, "position": partition.position, "end": partition.end, "lag": self.now - partition.greatest}

    def _state(self, rows: int) -> dict[str, dict[str, int]]:
        """Windows of a minute hold each key once; the table fills up, or does not."""
        window = self.now // (60 * SECOND)
        held = self.windows.get(window, 0.0)
        held += (self.keys - held % self.keys) * (1 - (1 - 1 / self.keys) ** rows) if held < self.keys else 0
        self.windows[window] = held + self.random_keys * rows
        self.windows = {at: kept for at, kept in self.windows.items() if (at + 1) * 60 * SECOND > self.watermark}
        self.known += int(max(0, self.endless - self.known) * (1 - (1 - 1 / self.endless) ** rows)) + int(
            rows * self.new_known
        )
        windows = int(sum(self.windows.values()))
        # A tick writes the keys that it touched again; when there are eight such segments they become one.
        known = self.known + self.tick % 8 * min(self.known, rows // 2)
        return {
            "totals": {"rows": windows, "at_least": windows, "bytes": 90 * windows},
            "known": {"rows": known, "at_least": self.known, "bytes": 40 * known},
        }


def _books(rows: int, *, late: int = 0, rejected: int = 0) -> dict[str, int]:
    return {"rows": rows, "kept": rows - late - rejected, "late": late, "rejected": rejected, "missed": late}


Happens = Callable[[World], None]


def journal(
    seconds: float, happens: Happens | None = None, *, at: float = 0, seed: int = 1, world: World | None = None
) -> list[Record]:
    """The ticks of so many seconds; from second `at` on, what happens is done to the world before each of them."""
    world = world or World(Random(seed))
    found, began = [], world.now
    while world.now - began < seconds * SECOND:
        if happens is not None and world.now - began >= at * SECOND:
            happens(world)
        found.append(world.step())
    return found


def looks(
    records: list[Record], *, every: int = 5, since: float = 0, **watched: Any
) -> Iterator[tuple[Span, list[Finding]]]:
    """What health finds of a journal that grows, looked at every few seconds; how long after the second `since`."""
    began, seen = records[0]["now"], 0
    for count in range(1, len(records) + 1):
        now = records[count - 1]["now"]
        if now - seen < every * SECOND or now - began < since * SECOND:
            continue
        seen = now
        known = [record for record in records[max(0, count - 700) : count] if record["now"] > now - NORM]
        yield (
            Span(now - began - int(since * SECOND)),
            judge(Watched(records=known, at=Instant(now + 500_000), **watched)),
        )


def ended(number: int, *, began: int, lasted: int = 3, failure: str = "") -> RunNote:
    """A run that has ended."""
    return RunNote(run=f"run {number}", began=Instant(began), ended=Instant(began + lasted * SECOND), failure=failure)
