"""How many keys a sample has, how unevenly events and buckets share them, and how long a key falls silent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from strandline.kernel.hashing import bucket_of, hash_columns
from strandline.model.time import Span
from strandline.operations.advise.choosing import Behind, ladder, next_step
from strandline.operations.advise.sample import Sample, Times

_TOP: Final = 5
_RUNGS: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """What a session's gap or a ttl of this length does: the share of returns that come after more, and the sessions it makes."""

    span: Span
    share: float
    sessions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Silences:
    """The time from an event of a key to its next: quantiles (p50, p95, p99, greatest), some lengths, and a ttl to take."""

    quantiles: tuple[Span, ...]
    gaps: tuple[Gap, ...]
    ttl: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """How the keys fall into buckets: the share of the events that the busiest has, and how many have none."""

    count: int
    busiest: float
    empty: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys of a sample: `top` has most events, each with its share; `new` is the share that only the second half has."""

    columns: tuple[str, ...]
    count: int
    top: tuple[tuple[str, float], ...]
    new: float
    buckets: Buckets
    silences: Silences | None


def keys_of(sample: Sample, *, rate: float, buckets: int) -> Keys | None:
    """What there is to say of the keys; None if no column is the key. The ttl forgets at most `rate` of those that return."""
    if sample.keys is None:
        return None
    hashes = hash_columns(sample.keys)
    codes = np.unique(hashes, return_inverse=True)[1]
    count = int(codes.max()) + 1
    return Keys(
        columns=tuple(sample.keys.columns), count=count, top=_top(sample.keys),
        new=1 - len(np.unique(codes[: len(codes) // 2])) / count,
        buckets=_buckets(bucket_of(hashes, buckets), buckets),
        silences=_silences(gaps(sample.times, codes), count, rate),
    )  # fmt: skip


def gaps(times: Times, codes: NDArray[np.int64]) -> Times:
    """The time from each event of a key to that key's next, in event time.

    >>> gaps(np.array([10, 15, 40, 13]), np.array([0, 1, 0, 1])).tolist()
    [30, 2]
    """
    order = np.lexsort((times, codes))
    found: Times = np.diff(times[order])[np.diff(codes[order]) == 0]
    return found


def _top(keys: pl.DataFrame) -> tuple[tuple[str, float], ...]:
    counted = keys.group_by(pl.all()).len("events of it")
    first = counted.sort("events of it", *keys.columns, descending=[True] + [False] * keys.width).head(_TOP)
    return tuple((", ".join(str(value) for value in row[:-1]), row[-1] / keys.height) for row in first.rows())


def _buckets(places: NDArray[np.int64], count: int) -> Buckets:
    events = np.bincount(places, minlength=count)
    return Buckets(count=count, busiest=float(events.max() / events.sum()), empty=int((events == 0).sum()))


def _silences(found: Times, keys: int, rate: float) -> Silences | None:
    if not len(found):
        return None
    ordered = Behind.of(found)
    told = tuple(ordered.quantile(share) for share in (0.5, 0.95, 0.99, 1.0))
    # Two events that are exactly the gap apart are two sessions.
    ttl = next_step(max(ordered.least(rate), Span(1)))
    tried = tuple(
        Gap(span=each, share=ordered.share(each), sessions=keys + ordered.late(each - 1))
        for each in sorted({ttl, *ladder(told[0], told[3], rungs=_RUNGS)})
    )
    return Silences(quantiles=told, gaps=tried, ttl=ttl)
