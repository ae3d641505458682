"""How far behind events come, judged as the engine judges them."""

from __future__ import annotations

from heapq import heapreplace
from typing import Final

import numpy as np

from strandline.model.time import Instant, Span
from strandline.operations.advise.sample import Sample, Times

FEW: Final = 16
"""So many partitions are taken one by one, in columns; more of them event by event."""

_NEVER: Final = int(Instant.BEFORE_ALL_TIME)


def behind(sample: Sample, *, batch_interval: Span | None = None) -> Times:
    """How far each event lies behind the front: the least, over the partitions, of the greatest times seen before it.

    Before its tick, that is. Without `batch_interval` each event is a tick of its own, which makes most events late; else
    a tick has all that arrived within one interval. Before every partition has spoken there is no front, and nothing is late.

    Law: with the watermark policy `Bounded(bound)` an event is late if and only if `behind > bound`.

    >>> sample = Sample.of(np.array([10, 30, 20, 25]), partitions=["a", "a", "a", "b"])
    >>> behind(sample)[:3] < 0, behind(Sample.of(np.array([10, 30, 20]))).tolist()[1:]
    (array([ True,  True,  True]), [-20, 10])
    """
    front = _front_of_few(sample) if len(sample.names) <= FEW else _front_of_many(sample)
    before = np.concatenate([[_NEVER], front[:-1]])
    if batch_interval is not None:
        before = before[_first_of_tick(sample, batch_interval)]
    gaps: Times = before - sample.times
    return gaps


def behind_own(sample: Sample) -> Times:
    """How far each event lies behind the greatest time that its own partition brought before it; 0 if it is ahead."""
    result = np.zeros(len(sample), np.int64)
    for mine in sample.of_each_partition():
        times = sample.times[mine]
        result[mine] = np.maximum.accumulate(times) - times
    return result


def _front_of_few(sample: Sample) -> Times:
    """The least of the greatest times of the partitions, after each event: a pass over all events for each partition."""
    front = np.full(len(sample), np.iinfo(np.int64).max)
    for place in range(len(sample.names)):
        seen = np.where(sample.partitions == place, sample.times, _NEVER)
        np.minimum(front, np.maximum.accumulate(seen, out=seen), out=front)
    return front


def _front_of_many(sample: Sample) -> Times:
    """The same in one pass: a heap has for each partition a time that it has reached, and is put right only at its top."""
    greatest = [_NEVER] * len(sample.names)
    heap = [(_NEVER, place) for place in range(len(sample.names))]
    front = np.empty(len(sample), np.int64)
    for event, (place, time) in enumerate(zip(sample.partitions.tolist(), sample.times.tolist(), strict=True)):
        if time > greatest[place]:
            greatest[place] = time
            while heap[0][0] < greatest[heap[0][1]]:
                heapreplace(heap, (greatest[heap[0][1]], heap[0][1]))
        front[event] = heap[0][0]
    return front


def _first_of_tick(sample: Sample, interval: Span) -> Times:
    assert sample.arrivals is not None, "ticks are made by the time of arrival"
    ticks = sample.arrivals // max(interval, 1)
    starts = np.concatenate([[True], ticks[1:] != ticks[:-1]])
    first: Times = np.maximum.accumulate(np.where(starts, np.arange(len(sample)), 0))
    return first
