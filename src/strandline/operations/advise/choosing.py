"""The least bound that is enough, and the roundest one near it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from strandline.model.time import Span
from strandline.operations.advise.sample import Times

STEPS: Final = tuple(
    Span.of(f"{number}{unit}")
    for unit, numbers in (
        ("d", (30, 7, 1)), ("h", (12, 6, 3, 1)), ("m", (30, 10, 5, 2, 1)), ("s", (30, 10, 5, 2, 1)),
        ("ms", (500, 200, 100, 50, 20, 10, 5, 2, 1)), ("us", (500, 200, 100, 50, 20, 10, 5, 2, 1)),
    )
    for number in numbers
)  # fmt: skip
"""What spans that people write are multiples of, the roundest first."""

SHARES: Final = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0001)
BARS: Final = 10
DEVIATIONS: Final = 1.96
"""So many standard deviations to each side hold 19 of 20 cases."""
NEARLY: Final = 0.8
"""How much of what may be late is late at least, so that a round bound waits hardly longer than one that is not."""


@dataclass(frozen=True, slots=True, eq=False)
class Behind:
    """How far behind events come: spans in order, and how many events are at most so far behind.

    >>> Behind.of(np.array([0, 5, 5, 9])).late(5)
    1
    """

    spans: Times
    up_to: NDArray[np.int64]

    @classmethod
    def of(cls, behind: Times) -> Behind:
        """Of each event; one that is ahead is not behind at all."""
        return cls.counted(behind, np.ones(len(behind), np.int64))

    @classmethod
    def counted(cls, behind: Times, events: NDArray[np.int64]) -> Behind:
        """The same of spans that stand for so many events each."""
        order = np.argsort(behind, kind="stable")
        return cls(np.maximum(behind, 0)[order], np.cumsum(events[order]))

    def __len__(self) -> int:
        return int(self.up_to[-1]) if len(self.up_to) else 0

    def late(self, bound: int) -> int:
        """How many events are further behind than that."""
        place = int(np.searchsorted(self.spans, bound, side="right"))
        return len(self) - (int(self.up_to[place - 1]) if place else 0)

    def share(self, bound: int) -> float:
        """Which share of the events is further behind than that."""
        return self.late(bound) / len(self)

    def quantile(self, share: float) -> Span:
        """The least span that at least this share of the events does not exceed."""
        return self.least(1 - share)

    def least(self, rate: float) -> Span:
        """The least bound that makes at most this share of the events late."""
        return self._leaves(int(rate * len(self) + 1e-9))

    def bound(self, rate: float) -> Span:
        """The roundest bound that makes at most this share of the events late, and not much less than it.

        Law: `NEARLY * rate <= share(bound) <= rate`, as far as the events let choose.

        >>> Behind.of(np.arange(1_000) * 12_345).bound(0.01).text
        '12s220ms'
        """
        allowed = int(rate * len(self) + 1e-9)
        least = self._leaves(allowed)
        if not allowed:  # nothing says how far behind the next one may be
            return roundest(least, Span(least + least // 10))
        return roundest(least, max(least, Span(self._leaves(int(np.ceil(NEARLY * allowed)) - 1) - 1)))

    def _leaves(self, late: int) -> Span:
        """The least bound that leaves at most so many late."""
        if late >= len(self):
            return Span(0)
        return Span(int(self.spans[np.searchsorted(self.up_to, len(self) - late)]))

    def candidates(self, *others: Span) -> list[Span]:
        """Bounds worth comparing: none, those for some shares, enough for all; and the given ones."""
        near = (self.least(share) for share in (*SHARES, 0))
        return sorted({Span(0), *(roundest(each, Span(each + each // 10)) for each in near), *others})

    def picture(self, bound: Span) -> list[Bar]:
        """Which share of the events is how far behind; the bound is where a bar ends, and the last bar is the greatest's."""
        greatest = self.least(0)
        some = self.least(0.95 * self.share(0))  # where those begin that are behind at all, but for a few
        ends = sorted({Span(0), bound, *ladder(some, greatest, rungs=BARS), next_step(greatest)})
        up_to = [1 - self.share(end) for end in ends]
        return [Bar(end, share - before) for end, share, before in zip(ends, up_to, [0.0, *up_to], strict=False)]


@dataclass(frozen=True, slots=True)
class Bar:
    """The share of events that are at most so far behind, and further than the bar before says."""

    most: Span
    share: float


def roundest(least: Span, most: Span) -> Span:
    """The span from `least` to `most` that people would write.

    >>> roundest(Span.of("19s870ms"), Span.of("22s")).text, roundest(Span(7), Span(7)).text
    ('20s', '7us')
    """
    return next(up for step in STEPS if (up := _up(least, step)) <= most)


def ladder(least: Span, most: Span, *, rungs: int) -> list[Span]:
    """Spans that people would write, from the last under `least` to the first from `most` on; about so many of them.

    >>> [each.text for each in ladder(Span.of("3s"), Span.of("40m"), rungs=5)]
    ['2s', '10s', '2m', '10m', '1h']
    """
    known = STEPS[::-1]
    low = max((place for place, each in enumerate(known) if each <= least), default=0)
    high = next((place for place, each in enumerate(known) if each >= most), len(known) - 1)
    return [known[place] for place in dict.fromkeys(np.linspace(low, high, rungs).round().astype(int).tolist())]


def written(span: Span) -> str:
    """A span as people write it: seconds with a point, rather than seconds and milliseconds.

    >>> [written(Span.of(text)) for text in ("12s600ms", "1m18s", "250ms", "0s")]
    ['12.6s', '1m18s', '250ms', '0s']
    """
    if Span.of("1s") < span < Span.of("1m") and span % 1_000 == 0:
        return f"{span / 1_000_000:g}s"
    return span.text


def next_step(span: Span) -> Span:
    """The first span from this one on that people would write for a ttl.

    >>> next_step(Span.of("31m")).text
    '1h'
    """
    return next((each for each in STEPS[::-1] if each >= span), _up(span, STEPS[0]))


def late_by_stretch(behind: Times, bound: Span, *, stretches: int) -> list[float]:
    """The share of late events in each of so many stretches of the stream, one after the other."""
    return [float((part > bound).mean()) for part in np.array_split(behind, stretches) if len(part)]


def _up(span: Span, step: Span) -> Span:
    return Span(-(-span // step) * step)


def spread(late: int, events: int) -> tuple[float, float]:
    """Between which shares the true one lies, 19 times in 20, if so many of so many events were late one by one.

    Wilson's interval: it also has something to say where none, or nearly none, was late.

    >>> [tuple(round(share, 4) for share in spread(*seen)) for seen in ((100, 10_000), (0, 1), (0, 20_000))]
    [(0.0082, 0.0121), (0.0, 0.7935), (0.0, 0.0002)]
    """
    share, doubt = late / events, DEVIATIONS**2 / events
    middle = share + doubt / 2
    about = (doubt * (share * (1 - share) + doubt / 4)) ** 0.5
    return max(0.0, (middle - about) / (1 + doubt)), min(1.0, (middle + about) / (1 + doubt))
