"""What the rules of health look at: the last while of a journal, and the stretch before it, which is the flow's own norm."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

from strandline.model.time import Instant, Span
from strandline.store.runs import RunNote

Record = Mapping[str, Any]

RECENT: Final = Span.of("30s")
"""The last while: what is wrong for so long is told."""
NORM: Final = Span.of("10m")
"""How far back the norm of a flow reaches."""
KNOWN: Final = Span.of("2m")
"""How much of a flow's journal says what is normal for it."""
START: Final = Span.of("2m")
"""How long a run may take to make its first tick."""
SECOND: Final = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Watched:
    """The records of a journal, in order, as they are seen `at` a time of the clock.

    `runs` are the last runs, the newest last; `committed` is the last tick that was committed, which the journal tells
    of only when sinks had its rows; `free` is how many bytes the disk of the state has left, if it is a local one.
    """

    records: Sequence[Record]
    at: Instant
    runs: Sequence[RunNote] = ()
    committed: int | None = None
    free: int | None = None

    @property
    def newest(self) -> Record:
        """The last tick that the journal tells of."""
        return self.records[-1]

    @property
    def has_ticked(self) -> bool:
        """Whether there is a tick at all."""
        return bool(self.newest["tick"] >= 0)

    @property
    def interval(self) -> Span:
        """The batch interval."""
        return Span(self.newest.get("interval", 0))

    @cached_property
    def _cut(self) -> int:
        """Where the last while begins: by processing time, and never with fewer than the last two ticks of the run."""
        since = self.newest["now"] - max(RECENT, 5 * self.interval)
        first = next((at for at, record in enumerate(self.records) if record["now"] > since), len(self.records) - 1)
        return max(0, min(first, len(self.records) - 2))

    @cached_property
    def recent(self) -> Sequence[Record]:
        """The ticks of the last while."""
        return self.records[self._cut :]

    @property
    def counted(self) -> Sequence[Record]:
        """The ticks of the last while whose rows came in it: the first only says when it began."""
        return self.recent[1:]

    @cached_property
    def norm(self) -> Sequence[Record]:
        """The ticks before the last while."""
        return self.records[: self._cut]

    @cached_property
    def run(self) -> Sequence[Record]:
        """The ticks of the newest run."""
        mine = self.newest["run"]
        first = len(self.records)
        while first and self.records[first - 1]["run"] == mine:
            first -= 1
        return self.records[first:]

    @property
    def age(self) -> Span:
        """How long the newest run has been making ticks, as far back as is known."""
        return Span(self.newest["now"] - self.run[0]["now"])

    @property
    def lasts(self) -> Span:
        """How much processing time the last while spans."""
        return span_of(self.recent)

    @property
    def silence(self) -> Span:
        """How long ago the last tick was."""
        return Span(self.at - self.newest["now"])

    @property
    def last_run(self) -> RunNote | None:
        """The newest run that is known of."""
        return self.runs[-1] if self.runs else None

    @cached_property
    def is_over(self) -> bool:
        """Whether nobody makes ticks any more, in good order or not.

        A run that another one turned away has ended, and the other goes on.
        """
        last = self.last_run
        return self.newest["finished"] or (
            last is not None and last.ended is not None and last.ended >= self.newest["now"]
        )

    @cached_property
    def is_silent(self) -> bool:
        """Whether a tick should have come long ago. A run that has made none yet has more time: it starts Spark first."""
        gaps = [later["now"] - earlier["now"] for earlier, later in pairwise(self.run[-20:])]
        patience = max(RECENT, 3 * self.interval, 3 * max(gaps, default=0))
        began = 0 if self.last_run is None else self.last_run.began
        starting = began > self.newest["now"] or not self.has_ticked
        return not self.is_over and self.at - max(self.newest["now"], began) > (
            max(START, patience) if starting else patience
        )

    # -- sources ------------------------------------------------------------------------------------------------

    def sources(self) -> Iterator[str]:
        """The sources whose partitions are known."""
        yield from sorted(self.newest["partitions"])

    def backlog(self, source: str, record: Record | None = None) -> int:
        """The backlog of the source's partition that has most of it: a sum hides one that stands."""
        told = (self.newest if record is None else record)["backlog"].get(source, {})
        return max(told.values(), default=0)

    def is_catching_up(self, source: str) -> bool:
        """Whether the source's backlog shrinks, all partitions together, or was read up in the last while.

        That is how it looks after a start and after an outage: everything lags, and nothing is wrong.
        """
        totals = [sum(record["backlog"].get(source, {}).values()) for record in self.recent]
        half = len(totals) // 2
        if not half or not any(totals):
            return False
        return self.age < RECENT or max(totals[half:]) < max(totals[:half])

    @property
    def some_catch_up(self) -> bool:
        """Whether any source is catching up."""
        return any(self.is_catching_up(source) for source in self.sources())

    def together(self, records: Iterable[Record]) -> Record:
        """The newest record with the rows of all these ticks: what partitions do is not seen in one of a second."""
        found = list(records)
        return {**self.newest, **{word: _added(found, word) for word in ("rows", "behind")}}

    # -- sums and shares ----------------------------------------------------------------------------------------

    def booked(self, node: str, word: str, records: Iterable[Record]) -> int:
        """How many rows of a source or stage the books name by this word, in these ticks."""
        return sum(record["books"][node][word] for record in records if node in record["books"])

    def nodes(self) -> list[str]:
        """The sources and stages that had rows in the last while."""
        return sorted({node for record in self.recent for node in record["books"]})


def _added(records: Iterable[Record], word: str) -> dict[str, dict[str, int]]:
    """Rows by source and partition, of several ticks."""
    total: dict[str, dict[str, int]] = {}
    for record in records:
        for source, counts in record[word].items():
            mine = total.setdefault(source, {})
            for partition, count in counts.items():
                mine[partition] = mine.get(partition, 0) + count
    return total


def span_of(records: Sequence[Record]) -> Span:
    """How much processing time lies between the first of some ticks and the last."""
    return Span(records[-1]["now"] - records[0]["now"]) if records else Span(0)


def ran(records: Sequence[Record]) -> Span:
    """How long a flow made ticks in these: what lies between two runs does not count.

    >>> ran([{"now": 0, "run": "a"}, {"now": 5, "run": "a"}, {"now": 900, "run": "b"}, {"now": 901, "run": "b"}])
    Span('6us')
    """
    return Span(
        sum(later["now"] - earlier["now"] for earlier, later in pairwise(records) if later["run"] == earlier["run"])
    )


def spent(records: Iterable[Record], *steps: str) -> int:
    """How many microseconds ticks spent with steps.

    >>> spent([{"took": {"read": 5, "step": 2}}, {"took": {"read": 1}}], "read", "step")
    8
    """
    return sum(record["took"].get(step, 0) for record in records for step in steps)


def p95(values: Iterable[float]) -> float:
    """The least value that 95 of 100 do not exceed; 0 of none.

    >>> p95(range(1, 101)), p95([3]), p95([])
    (95, 3, 0)
    """
    found = sorted(values)
    return found[math.ceil(0.95 * len(found)) - 1] if found else 0


def no_tick(now: Instant) -> dict[str, Any]:
    """The record of a flow that has made no tick."""
    empty = (
        "watermarks",
        "partitions",
        "rows",
        "behind",
        "rejected",
        "books",
        "backlog",
        "state",
        "hottest",
        "panes",
        "sinks",
        "took",
    )
    return {
        "flow": "",
        "tick": -1,
        "run": "",
        "restarts": 0,
        "now": int(now),
        "endless": [],
        "finished": False,
        **{word: {} for word in empty},
    }


def longest(records: Sequence[Record], stands: Callable[[Record, Record], bool]) -> Span:
    """The longest time for which something stood from tick to tick, within one run.

    >>> ticks = [{"now": now, "run": "r", "watermark": w} for now, w in ((0, 1), (2, 1), (5, 1), (6, 2), (7, 2))]
    >>> longest(ticks, lambda earlier, later: earlier["watermark"] == later["watermark"])
    Span('5us')
    """
    most, began = 0, records[0]["now"] if records else 0
    for earlier, later in pairwise(records):
        if earlier["run"] != later["run"] or not stands(earlier, later):
            began = later["now"]
        most = max(most, later["now"] - began)
    return Span(most)


def share_of(part: float, whole: float) -> float:
    """A part of a whole; none of nothing."""
    return part / whole if whole else 0.0


def percent(share: float) -> str:
    """A share as people read it.

    >>> percent(0.123), percent(0.0012), percent(0)
    ('12 %', '0.12 %', '0 %')
    """
    return f"{100 * share:.{0 if share >= 0.1 or not share else 1 if share >= 0.01 else 2}f} %"


def seconds(span: int) -> str:
    """A span to the second, as people read it.

    >>> seconds(90_400_000)
    '1m30s'
    """
    return Span(max(span, 0) // SECOND * SECOND).text
