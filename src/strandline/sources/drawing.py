"""Drawing rows by number: chance that depends on the number alone, so that any row can be drawn anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

if TYPE_CHECKING:
    from strandline.sources.generator import Generator

_KEY, _VALUE, _DISORDER, _FATE = range(4)
_GOLDEN: Final = 0x9E3779B97F4A7C15
_MASK: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Pace:
    """When the rows of one partition have their turn, in microseconds from the start.

    Law: `before(t)` is the number of rows whose turn is before t.
    """

    step: float
    every: int
    first: int
    idle_from: int
    idle_to: int

    @classmethod
    def of(cls, source: Generator, partition: int) -> Pace:
        """The pace of a partition."""
        idle = dict(source.idle).get(partition, (0, 0))
        return cls(1e6 / source.rate, source.partitions, partition, int(idle[0]), int(idle[1]))

    def turns(self, low: int, high: int) -> NDArray[np.int64]:
        """The turns of the rows low to high."""
        turns: NDArray[np.int64] = np.floor((np.arange(low, high) * self.every + self.first) * self.step).astype(
            np.int64
        )
        turns[turns >= self.idle_from] += self.idle_to - self.idle_from
        return turns

    def before(self, elapsed: int) -> int:
        """How many rows have their turn before so much time has gone by."""
        if elapsed > self.idle_from:
            elapsed = max(self.idle_from, elapsed - (self.idle_to - self.idle_from))
        count = max(0, int((elapsed / self.step - self.first) / self.every) - 1)
        while self._plain_turn(count) < elapsed:
            count += 1
        while count and self._plain_turn(count - 1) >= elapsed:
            count -= 1
        return count

    def _plain_turn(self, number: int) -> int:
        return int(np.floor((number * self.every + self.first) * self.step))


def draw(source: Generator, start: int, partition: int, low: int, high: int) -> tuple[pl.DataFrame, pl.Series]:
    """The rows low to high of a partition, and which of them are malformed."""
    numbers = np.arange(low, high, dtype=np.uint64)
    fate = _uniform(source.seed, partition, _FATE, numbers)
    late = (fate >= source.malformed_share) & (fate < source.malformed_share + source.late_share)
    at = start + Pace.of(source, partition).turns(low, high) - int(dict(source.slow).get(partition, 0))
    if source.disorder:
        at -= (_uniform(source.seed, partition, _DISORDER, numbers) * int(source.disorder)).astype(np.int64)
    at -= late * int(source.late_by)
    rows = pl.DataFrame({
        "key": pl.Series(_keys(source, _uniform(source.seed, partition, _KEY, numbers))).cast(pl.String()),
        "value": np.floor(_uniform(source.seed, partition, _VALUE, numbers) * 10_000) / 100,
        "n": numbers.astype(np.int64),
        "at": pl.Series(at).cast(pl.Datetime("us", "UTC")),
        "partition": pl.repeat(partition, high - low, dtype=pl.Int32(), eager=True),
    })  # fmt: skip
    return rows.with_columns(pl.concat_str(pl.lit("k"), "key").alias("key")), pl.Series(fate < source.malformed_share)


def _keys(source: Generator, chance: NDArray[np.float64]) -> NDArray[Any]:
    if not source.skew:
        return np.floor(chance * source.keys).astype(np.int64)
    return np.searchsorted(_zipf(source.keys, source.skew), chance, side="right")


@lru_cache(maxsize=4)
def _zipf(keys: int, exponent: float) -> NDArray[np.float64]:
    """The chance of a key up to each: key k has a weight of 1 / (k + 1) ** exponent."""
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -exponent
    total = np.cumsum(weights)
    total /= total[-1]
    total[-1] = 1.0
    return total


def _uniform(seed: int, partition: int, stream: int, numbers: NDArray[np.uint64]) -> NDArray[np.float64]:
    """A number from 0 up to 1 for each row: splitmix64 of (seed, partition, stream) and the row's number."""
    origin = np.uint64(_mix(_mix(_mix(seed) ^ partition) ^ stream))
    with np.errstate(over="ignore"):
        z = origin + (numbers + np.uint64(1)) * np.uint64(_GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(value: int) -> int:
    """One step of splitmix64, of a single number."""
    z = (value + _GOLDEN) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)
