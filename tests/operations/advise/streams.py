"""Streams of events with a known disorder, and what a run would leave of them in its journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from strandline.model.lag import LagHistogram
from strandline.model.partitions import PartitionStats, SourceState, gather
from strandline.model.progress import advance_source
from strandline.model.ticks import Tick
from strandline.model.time import Instant, Span
from strandline.model.watermarks import Bounded
from strandline.operations.advise.sample import Sample
from strandline.store.manifests import Manifest

SECOND = 1_000_000
Lags = NDArray[np.float64]
Drawn = Callable[[np.random.Generator, int, NDArray[np.int64]], Lags]


def log_normal(chance: np.random.Generator, count: int, _: NDArray[np.int64]) -> Lags:
    return chance.lognormal(0, 1.2, count)


def bimodal(chance: np.random.Generator, count: int, _: NDArray[np.int64]) -> Lags:
    """Most come at once; one in two hundred from telephones that were away for about five minutes."""
    away = chance.random(count) < 0.005
    return np.where(away, chance.normal(300, 60, count).clip(0), chance.gamma(2, 0.5, count))


def one_slow_partition(chance: np.random.Generator, count: int, partitions: NDArray[np.int64]) -> Lags:
    """One of four is a minute behind the others, and more out of order."""
    slow = partitions == 3
    return np.where(slow, 60 + chance.gamma(2, 10, count), chance.gamma(2, 0.5, count))


def stream(lags: Drawn, *, events: int, seed: int = 7) -> Sample:
    """A thousand events in each second, of four partitions."""
    chance = np.random.default_rng(seed)
    partitions = chance.integers(0, 4, events)
    arrivals = np.arange(events) * SECOND // 1000 + 1_767_225_600 * SECOND
    times = arrivals - (lags(chance, events, partitions) * SECOND).astype(np.int64)
    return Sample.of(times, arrivals=arrivals, partitions=partitions)


def stretch(sample: Sample, start: int, stop: int) -> Sample:
    assert sample.arrivals is not None
    part = slice(start, stop)
    return Sample.of(sample.times[part], arrivals=sample.arrivals[part], partitions=sample.partitions[part])


def manifests(sample: Sample, *, every: Span, policy: Bounded, backlog: int = 0) -> Iterator[Manifest]:
    """What the ticks of a run would leave that reads the events as they arrive; in the end so much is left unread."""
    assert sample.arrivals is not None
    state, ticks = SourceState(), sample.arrivals // every
    for number, tick in enumerate(np.unique(ticks)):
        mine = ticks == tick
        now = Instant((tick + 1) * every)
        heard: dict[str, PartitionStats] = {}
        for place, name in enumerate(sample.names):
            upto = int(((sample.partitions == place) & (ticks <= tick)).sum())
            heard[name] = gather(
                sample.times[mine & (sample.partitions == place)], now, position=upto, end=upto + backlog
            )
        behind = Counter(
            sample.names[place] for place in sample.partitions[mine & (sample.times < int(state.watermark))]
        )
        state = advance_source(policy, state, heard, now=now, running=Span(0), run="r")
        yield Manifest(
            flow="f", incarnation="i", run="r", tick=Tick(number=number, now=now, edges={}), sources={"events": state},
            journal={
                "rows": {"events": {name: stats.count for name, stats in heard.items()}},
                "behind": {"events": behind}, "rejected": {"events": {}}, "bounds": {"events": int(policy.delay)},
                "lags": {"events": {name: _pairs(stats.lags) for name, stats in heard.items()}},
            },
        )  # fmt: skip


def _pairs(lags: LagHistogram) -> list[list[int]]:
    return [list(pair) for pair in lags.coarse().counts]
