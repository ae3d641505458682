"""What a user may write: windows, an aggregate, a policy, processes and lookups, by the names that transcripts use."""

from __future__ import annotations

import asyncio
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


class Counting(sl.Process):
    """Numbers the events of a key."""

    count = sl.Value("bigint", 0)

    def on_event(self, event: Mapping[str, Any], out: Any) -> None:
        """The event with its number."""
        self.count += 1
        out.emit(out.key, n=self.count, v=event["v"])


class Silence(sl.Process):
    """Tells when a key has been silent for ten minutes; a v of 0 says that it will be."""

    last = sl.Value("bigint")
    silent = sl.Timer("10m")

    def on_event(self, event: Mapping[str, Any], out: Any) -> None:
        """Wait anew."""
        self.last = event["v"]
        if event["v"] == 0:
            self.silent.clear()
        else:
            self.silent.set(after="10m")

    def on_timer(self, timer: str, out: Any) -> None:
        """Nothing came."""
        out.emit(out.key, v=self.last, at=out.time)


class Reminder(sl.Process):
    """Tells by the clock that a key came, and lets those of more than 9 out at the side too."""

    most = sl.Value("bigint", 0)
    values = sl.List("bigint")
    counts = sl.Map("bigint", "bigint")
    mean = sl.Running(sl.Mean("v"))
    due = sl.Timer("1h", clock="processing")

    def on_event(self, event: Mapping[str, Any], out: Any) -> None:
        """Remember, and wait."""
        self.most = max(self.most, event["v"])
        self.values.append(event["v"])
        self.counts[event["v"]] = self.counts.get(event["v"], 0) + 1
        self.mean.add(event)
        self.due.set(after="30s")
        if event["v"] > 9:
            out.side("great", out.key, v=event["v"])

    def on_timer(self, timer: str, out: Any) -> None:
        """Tell all of it."""
        often = max(self.counts, key=lambda value: (self.counts[value], value))
        out.emit(out.key, most=self.most, values=self.values, often=often, mean=self.mean.result)


class Streak(sl.Process):
    """Counts until a v of 0 comes; then there is nothing to remember."""

    count = sl.Value("bigint", 0)

    def on_event(self, event: Mapping[str, Any], out: Any) -> None:
        """The count so far."""
        self.count = self.count + 1 if event["v"] else 0
        out.emit(out.key, n=self.count)


class Nudge(sl.Process):
    """Tells by the clock how many events there were, half a minute after the last; a v of 0 lets it forget them."""

    count = sl.Value("bigint", 0)
    due = sl.Timer("30s", clock="processing")

    def on_event(self, event: Mapping[str, Any], out: Any) -> None:
        """Count, and wait."""
        if event["v"] == 0:
            self.count = 0
            self.due.clear()
        else:
            self.count += 1
            self.due.set(after="30s")

    def on_timer(self, timer: str, out: Any) -> None:
        """Tell."""
        out.emit(out.key, n=self.count)


class Basket(sl.Process):
    """Changes all that it remembers where it stands."""

    seen = sl.Value("array<bigint>", [])
    steps = sl.List("struct<v:bigint,often:bigint>")
    by_value = sl.Map("bigint", "struct<often:bigint>")

    def on_event(self, event: Mapping[str, Any], out: Any) -> None:
        """A number is put into the list, and counted in what stands for it."""
        value = event["v"]
        self.seen.append(value)
        if not self.steps:
            self.steps.append({"v": value, "often": 0})
        self.steps[0]["often"] += 1
        self.by_value.setdefault(value, {"often": 0})["often"] += 1
        out.emit(out.key, seen=self.seen, first=self.steps[0]["often"], often=self.by_value[value]["often"])


class Telling(sl.Process):
    """Gives a list out, and goes on with it."""

    seen = sl.List("bigint")

    def on_event(self, event: Mapping[str, Any], out: Any) -> None:
        """What was there before, and then what is there now."""
        out.emit(out.key, seen=self.seen)
        self.seen.append(event["v"])
        out.emit(out.key, seen=self.seen)


class Breaking(sl.Process):
    """Cannot divide by zero."""

    def on_event(self, event: Mapping[str, Any], out: Any) -> None:
        """One over the value."""
        out.emit(n=1 // event["v"])


TIERS: Final = {"ann": "gold", "bob": "silver"}


async def tier_of(user: str) -> str | None:
    """A tier; eve has been thrown out, and whoever is not known has none."""
    if user == "eve":
        raise PermissionError(f"{user} has been thrown out")
    return TIERS.get(user)


async def patient_tier_of(user: str) -> str | None:
    """The same of a service that never answers for eve."""
    if user == "eve":
        await asyncio.Event().wait()
    return TIERS.get(user)


async def numbered_tier_of(user: str) -> object:
    """The same of a service that takes bob's for a number."""
    return 2 if user == "bob" else TIERS.get(user)


def discount_of(shop: str, n: int) -> Mapping[str, Any] | None:
    """Percents, and until when; of an ordinary function."""
    return {"percent": 2.5 * n, "until": "2026-02-01T00:00:00Z"} if shop == "here" else {"percent": 0.5}


def inverse_of(x: float) -> float:
    """One over a number, of which there is one zero and one NaN."""
    return 1 / x


class Flaky(sl.Lookup):
    """Fails when it is first asked for a key."""

    def open(self) -> None:
        """Nobody has asked yet."""
        self.asked: set[str] = set()

    async def ask(self, *key: Any) -> str | None:
        """The tier, when asked again."""
        (user,) = key
        if user not in self.asked:
            self.asked.add(user)
            raise ConnectionError("the line is dead")
        return TIERS.get(user)


class TiersTogether(sl.BatchLookup):
    """Is asked for two at a time, and knows better than to answer for eve."""

    batch = 2

    async def open(self) -> None:
        """Load what is known."""
        self.tiers = dict(TIERS)

    def ask(self, keys: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The tiers, in their order."""
        return [PermissionError("not her") if user == "eve" else self.tiers.get(user) for (user,) in keys]


_LOOKUPS: Final = (tier_of, patient_tier_of, numbered_tier_of, discount_of, inverse_of, Flaky, TiersTogether)
_OTHERS: Final = (Shift, Busy, Product, Longest, EverySecond)
OWN: Final[Constructors] = {
    kind.__name__: kind
    for kind in (*_OTHERS, Counting, Silence, Reminder, Streak, Nudge, Basket, Telling, Breaking, *_LOOKUPS)
}
