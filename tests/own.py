"""What a user may write: windows, an aggregate and a policy, by the names that transcripts use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import strandline as sl
from strandline.model.partitions import PartitionState, PartitionStats
from strandline.model.time import Instant, Span
from strandline.testing.constructors import Constructors

HOUR: Final = Span.of("1h")


class Shift(sl.CustomWindow):
    """Shifts of eight hours from six o'clock; nobody works on a holiday."""

    longest = Span.of("8h")

    def assign(self, time: Instant, row: Mapping[str, Any]) -> Sequence[tuple[int, int]]:
        """The shift that the time lies in."""
        if row["job"] == "holiday":
            return []
        start = (time - 6 * HOUR) // (8 * HOUR) * (8 * HOUR) + 6 * HOUR
        return [(start, start + 8 * HOUR)]


class Busy(sl.CustomWindow):
    """From an event's time on for as long as it says; what overlaps is one window."""

    merging = True

    def assign(self, time: Instant, row: Mapping[str, Any]) -> Sequence[tuple[int, int]]:
        """The seconds that the event takes."""
        return [(time, time + Span.of(f"{row['seconds']}s"))]


class Product(sl.Aggregate):
    """The product of whole numbers, none of them zero, with what was taken back apart: the two merge in any order."""

    result = "bigint"

    def __init__(self, column: str) -> None:
        self.columns = (column,)

    def start(self) -> list[int]:
        """Of nothing: one, of which nothing was taken back."""
        return [1, 1]

    def add(self, accumulator: list[int], *values: Any) -> list[int]:
        """Multiply."""
        return [accumulator[0] * values[0], accumulator[1]]

    def remove(self, accumulator: list[int], *values: Any) -> list[int]:
        """Note what to divide by; the value itself may stand in another accumulator."""
        return [accumulator[0], accumulator[1] * values[0]]

    def merge(self, left: list[int], right: list[int]) -> list[int]:
        """Multiply both sides."""
        return [left[0] * right[0], left[1] * right[1]]

    def output(self, accumulator: list[int]) -> int:
        """The product of what is left."""
        return accumulator[0] // accumulator[1]


class Longest(sl.Aggregate):
    """The length of the longest text; it cannot be taken back."""

    result = "bigint"

    def __init__(self, column: str) -> None:
        self.columns = (column,)

    def start(self) -> int:
        """Of nothing: zero."""
        return 0

    def add(self, accumulator: int, *values: Any) -> int:
        """The greater length."""
        return max(accumulator, len(values[0]))

    def merge(self, left: int, right: int) -> int:
        """The greater length."""
        return max(left, right)

    def output(self, accumulator: int) -> int:
        """The length."""
        return accumulator


class EverySecond(sl.Policy):
    """Trust the greatest time seen at each second event."""

    def remember(self, stats: PartitionStats, memory: Any) -> int:
        """How many events there were."""
        return int(memory or 0) + stats.count

    def update(self, stats: PartitionStats, state: PartitionState) -> Instant:
        """The greatest time, at every second event."""
        return state.greatest if state.memory % 2 == 0 else state.watermark


OWN: Final[Constructors] = {kind.__name__: kind for kind in (Shift, Busy, Product, Longest, EverySecond)}
