"""Ranges of offsets, cut into parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

SMALLEST: Final = 500
"""Offsets below which cutting costs more than it brings."""


class OffsetRange(NamedTuple):
    """The offsets [low, high) of one partition."""

    topic: str
    partition: int
    low: int
    high: int

    @property
    def name(self) -> str:
        """The name of its partition."""
        return f"{self.topic}/{self.partition}"


def cut(ranges: Sequence[OffsetRange], wanted: int) -> list[list[OffsetRange]]:
    """About `wanted` parts with about as many offsets, in the order of the ranges.

    Law: put one after the other, the ranges of the parts are the ranges given.

    >>> cut([OffsetRange("a", 0, 0, 3000), OffsetRange("a", 1, 10, 1010)], 2)
    [[OffsetRange(topic='a', partition=0, low=0, high=2000)],
     [OffsetRange(topic='a', partition=0, low=2000, high=3000), OffsetRange(topic='a', partition=1, low=10, high=1010)]]
    """
    total = sum(each.high - each.low for each in ranges)
    share = max(SMALLEST, -(-total // max(1, wanted)))
    parts: list[list[OffsetRange]] = []
    room = 0
    for each in ranges:
        low = each.low
        while low < each.high:
            if room <= 0:
                parts.append([])
                room = share
            high = min(each.high, low + room)
            if each.high - high < share // 10:  # no part for a few messages
                high = each.high
            parts[-1].append(each._replace(low=low, high=high))
            room -= high - low
            low = high
    return parts
