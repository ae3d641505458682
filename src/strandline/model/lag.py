"""How far events lag behind processing time: a histogram that merges exactly.

A bin is made of the leading bits of a lag, so it does not depend on what else was counted: any order and any cut of
the same lags give the same histogram, bit for bit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from strandline.model.time import Instant, Span

_BITS: Final = 5  # bits of a lag kept after its leading one: a bin is at most 1/32 of its lag wide
_ZERO_EXPONENT: Final = (1023 + _BITS - 1) << _BITS  # makes the bins of 31 and 32 µs neighbours
_SLICES: Final = 10  # old lags are forgotten a tenth of `over` at a time


@dataclass(frozen=True, slots=True)
class LagHistogram:
    """How many lags fell into each bin, as sorted (bin, count) pairs.

    An event from the future has no lag. Lags under 64 µs are counted exactly.

    Laws: `of(a) + of(b) == of(a and b together)`; a quantile is never less than the true one, and exceeds it by less
    than 1/32 of it.

    >>> LagHistogram.of(np.array([1_000_000, 2_000_000, 60_000_000])).quantile(0.5).text
    '2s31ms615us'
    """

    counts: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, lags: NDArray[np.int64]) -> LagHistogram:
        """Count lags, in microseconds."""
        counts = np.bincount(_bins(np.maximum(lags, 0)))
        return cls(tuple((int(b), int(counts[b])) for b in np.flatnonzero(counts)))

    @classmethod
    def together(cls, histograms: Iterable[LagHistogram]) -> LagHistogram:
        """All of these as one."""
        total: Counter[int] = Counter()
        for histogram in histograms:
            total.update(dict(histogram.counts))
        return cls(tuple(sorted(total.items())))

    def __add__(self, other: LagHistogram) -> LagHistogram:
        return LagHistogram.together((self, other))

    @property
    def total(self) -> int:
        """How many lags were counted."""
        return sum(count for _, count in self.counts)

    def coarse(self) -> LagHistogram:
        """The same in bins four times as wide, for what is kept of every tick: a quantile exceeds the true one by less than 1/8.

        >>> LagHistogram.of(np.array([100_000, 101_000, 115_000])).coarse().counts
        ((403, 2), (411, 1))
        """
        return LagHistogram.together(LagHistogram(((bin_ | 3, count),)) for bin_, count in self.counts)

    def spread(self, parts: int = 8) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Lags, and how many of each: those of a bin of a coarse histogram lie evenly in it, in so many places.

        >>> spans, counts = LagHistogram(((411, 10),)).spread(4)
        >>> spans.tolist(), counts.tolist()
        ([115711, 117759, 119807, 121855], [3, 3, 2, 2])
        """
        bins, counts = np.array(self.counts, np.int64).reshape(-1, 2).T
        most = np.array([_greatest_of(bin_) for bin_ in bins.tolist()], np.int64)
        least = np.array([_greatest_of(bin_ - 4) for bin_ in bins.tolist()], np.int64)
        place = np.arange(parts)
        spans = least[:, None] + ((most - least)[:, None] * (2 * place + 1)) // (2 * parts)
        return spans.ravel(), (counts[:, None] // parts + (place < counts[:, None] % parts)).ravel()

    def quantile(self, share: float) -> Span:
        """The least lag, rounded up to the end of its bin, that at least this share of the lags do not exceed."""
        rank, seen = max(math.ceil(share * self.total), 1), 0
        for bin_, count in self.counts:
            seen += count
            if seen >= rank:
                return Span(_greatest_of(bin_))
        return Span(0)


@dataclass(frozen=True, slots=True)
class RecentLags:
    """The lags of the last while of processing time, in slices that are forgotten whole.

    Each slice is (start, histogram). Slices are named by their start, so a flow whose `over` was changed reads them.
    """

    slices: tuple[tuple[Instant, LagHistogram], ...] = ()

    def observe(self, lags: LagHistogram, *, now: Instant, over: Span) -> RecentLags:
        """Count lags seen now, and forget what is older than `over`.

        Law: observing nothing at one time and again later is the same as observing nothing later.
        """
        kept = {start: histogram for start, histogram in self.slices if start > now - over}
        if lags.counts:
            start = Instant(now - now % max(over // _SLICES, 1))
            kept[start] = kept.get(start, LagHistogram()) + lags
        return RecentLags(tuple(sorted(kept.items(), key=lambda item: item[0])))

    @property
    def histogram(self) -> LagHistogram:
        """All slices as one."""
        return LagHistogram.together(histogram for _, histogram in self.slices)

    def to_json(self) -> list[Any]:
        """These lags as plain JSON."""
        return [[int(start), [list(pair) for pair in histogram.counts]] for start, histogram in self.slices]

    @classmethod
    def from_json(cls, data: list[Any]) -> RecentLags:
        """Read what `to_json` wrote."""
        return cls(tuple((Instant(start), histogram_from_json(pairs)) for start, pairs in data))


def histogram_from_json(pairs: list[Any]) -> LagHistogram:
    """Read a histogram written as a list of [bin, count]."""
    return LagHistogram(tuple((bin_, count) for bin_, count in pairs))


def _bins(lags: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bins of lags that are not negative: small ones as they are, others by exponent and leading bits."""
    if len(lags) and lags.max() >= 2**53:
        # A double holds 53 bits: rounding must not lift a huge lag into the next bin.
        lags = np.where(lags >= 2**53, lags & -2048, lags)
    leading = lags.astype(np.float64).view(np.int64) >> (52 - _BITS)
    return np.where(lags < 2**_BITS, lags, leading - _ZERO_EXPONENT)


def _greatest_of(bin_: int) -> int:
    """The greatest lag that falls into a bin."""
    shift = max((bin_ >> _BITS) - 1, 0)
    return ((bin_ - (shift << _BITS) + 1) << shift) - 1
