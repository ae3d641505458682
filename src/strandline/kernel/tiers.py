"""Which segments to merge now, so that there are few of them and each row is written seldom.

A segment of n rows is in tier log(n) to the base `fan_out`. Segments arrive at the young end; only neighbours in age are
merged, because what a row means may depend on what is older.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

Run = tuple[int, int]
MERGE_BUDGET: Final = 1_000_000  # rows that one tick may write again
MERGE_BYTES: Final = 100_000_000  # and bytes of them: while they are merged they are in memory about three times


def plan(sizes: Sequence[int], *, fan_out: int = 8, budget: int) -> list[Run]:
    """The runs `sizes[start:stop]` to merge in this tick; sizes stand from the oldest to the youngest.

    Two things are merged: a tier with at least `fan_out` segments, and smaller segments shut in before a greater one,
    which no younger neighbour can ever join. Cheap runs go first; what does not fit into the budget waits. A segment of
    more than half the budget is never merged again.

    Laws: runs do not overlap, and their sizes add up to at most the budget. If every tick follows its plan, a row is
    written at most about twice per tier, and at most about 2 * fan_out segments per tier are left, beside those of more
    than half the budget and the one shut in before each.

    >>> plan([900, 10, 9, 8, 9, 9, 9, 9, 9], budget=10_000)
    [(1, 9)]
    >>> plan([900, 3, 4, 800], budget=10_000)
    [(1, 3)]
    """
    tiers = [_tier(size, fan_out, budget) for size in sizes]
    packed = (run for start, stop in _wanted(tiers, fan_out) for run in _packed(sizes, start, stop, budget))
    chosen, left = [], budget
    for total, run in sorted((sum(sizes[start:stop]), (start, stop)) for start, stop in packed):
        if total <= left:
            chosen.append(run)
            left -= total
    return sorted(chosen)


def _tier(size: int, fan_out: int, budget: int) -> int:
    """The whole logarithm of the size; what can never be merged again is above every tier."""
    if 2 * size > budget:
        return _WALL
    tier = 0
    while size >= fan_out:
        size //= fan_out
        tier += 1
    return tier


_WALL = 1 << 30


def _wanted(tiers: Sequence[int], fan_out: int) -> Iterator[Run]:
    """The runs worth merging, whatever they cost."""
    for level, start, stop in _levels(tiers):
        if level != _WALL and tiers[start:stop].count(level) >= fan_out:
            yield start, stop
        else:
            yield from _shut_in(tiers, level, start, stop)


def _levels(tiers: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Stretches of one level: a segment's level is the greatest tier among itself and everything younger."""
    levels, greatest = [], 0
    for tier in reversed(tiers):
        greatest = max(greatest, tier)
        levels.append(greatest)
    yield from _stretches(reversed(levels), 0)


def _shut_in(tiers: Sequence[int], level: int, start: int, stop: int) -> Iterator[Run]:
    below = (tier < level for tier in tiers[start:stop])
    return ((first, last) for small, first, last in _stretches(below, start) if small and last - first > 1)


def _stretches(values: Iterable[int], at: int) -> Iterator[tuple[int, int, int]]:
    for value, group in groupby(values):
        length = sum(1 for _ in group)
        yield value, at, at + length
        at += length


def _packed(sizes: Sequence[int], start: int, stop: int, budget: int) -> Iterator[Run]:
    """Cut a run into the longest ones that a whole budget can pay for."""
    first, total = start, 0
    for at in range(start, stop):
        if total + sizes[at] > budget:
            yield from _if_several(first, at)
            first, total = at, 0
        total += sizes[at]
    yield from _if_several(first, stop)


def _if_several(start: int, stop: int) -> Iterator[Run]:
    if stop - start > 1:
        yield start, stop
