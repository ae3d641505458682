"""What is heard from the partitions of a source in a tick, and what is kept of them between ticks.

Stats are made in the task that reads the rows and travel to the driver; states stand in the manifest. Both are plain
data with a version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from strandline.errors import DataError, StateError
from strandline.model.lag import LagHistogram, RecentLags, histogram_from_json
from strandline.model.time import Instant, Span

_VERSION: Final = 1
_START: Final = Span(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStats:
    """What one partition brought in one tick; only accepted rows count.

    `position` is how far it was read and `end` how far there was to read; a source that cannot say leaves both 0.
    `finished` says that `end` is final. `asserted` is the watermark the source itself vouches for.

    Law: stats of rows a merged with stats of rows b are the stats of a and b together.
    """

    now: Instant
    count: int = 0
    least: Instant = Instant.END_OF_TIME
    greatest: Instant = Instant.BEFORE_ALL_TIME
    lags: LagHistogram = field(default_factory=LagHistogram)
    position: int = 0
    end: int = 0
    asserted: Instant | None = None
    finished: bool = False

    def __post_init__(self) -> None:
        if self.count < 0 or (self.count and self.least > self.greatest):
            raise DataError(
                f"Stats of {self.count} rows from {self.least.text} to {self.greatest.text} make no sense.",
                fix="Make them with gather(), or give count, least and greatest of the same rows.",
            )

    @property
    def caught_up(self) -> bool:
        """Whether all there was has been read."""
        return self.position >= self.end

    @property
    def spoke(self) -> bool:
        """Whether the partition brought something, or has something still to be read."""
        return self.count > 0 or self.asserted is not None or not self.caught_up

    def merge(self, other: PartitionStats) -> PartitionStats:
        """The stats of both, as if one task had read all rows."""
        asserted = [a for a in (self.asserted, other.asserted) if a is not None]
        return PartitionStats(
            now=max(self.now, other.now),
            count=self.count + other.count,
            least=min(self.least, other.least),
            greatest=max(self.greatest, other.greatest),
            lags=self.lags + other.lags,
            position=max(self.position, other.position),
            end=max(self.end, other.end),
            asserted=max(asserted, default=None),
            finished=self.finished or other.finished,
        )

    def to_json(self) -> dict[str, Any]:
        """These stats as plain JSON."""
        return {
            "version": _VERSION,
            "now": int(self.now),
            "count": self.count,
            "least": int(self.least),
            "greatest": int(self.greatest),
            "lags": [list(pair) for pair in self.lags.counts],
            "position": self.position,
            "end": self.end,
            "asserted": None if self.asserted is None else int(self.asserted),
            "finished": self.finished,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PartitionStats:
        """Read what `to_json` wrote."""
        fields = _fields(data, "partition stats")
        times = {name: Instant(fields[name]) for name in ("now", "least", "greatest")}
        asserted = None if fields["asserted"] is None else Instant(fields["asserted"])
        return cls(**{**fields, **times, "lags": histogram_from_json(fields["lags"]), "asserted": asserted})


def too_far(times: NDArray[np.int64], now: Instant, max_future: Span | None) -> NDArray[np.bool_]:
    """Which events lie more than `max_future` ahead of processing time: rejected, and deaf to the watermark.

    >>> too_far(np.array([5, 15, 16]), now=Instant(10), max_future=Span(5))
    array([False, False,  True])
    """
    if max_future is None:
        return np.zeros(len(times), dtype=np.bool_)
    return np.asarray(times > now + max_future, dtype=np.bool_)


def gather(
    times: NDArray[np.int64],
    now: Instant,
    *,
    max_future: Span | None = None,
    position: int = 0,
    end: int = 0,
    asserted: NDArray[np.int64] | None = None,
    finished: bool = False,
) -> PartitionStats:
    """The stats of the rows of one partition, given their event times without the nulls.

    Events and assertions too far in the future are left out.

    >>> gather(np.array([3, 9, 99]), Instant(10), max_future=Span(5)).greatest
    Instant('1970-01-01T00:00:00.000009Z')
    """
    rest: dict[str, Any] = {"now": now, "position": position, "end": end, "finished": finished}
    if asserted is not None:
        credible = _near(asserted, now, max_future)
        rest["asserted"] = Instant(credible.max()) if len(credible) else None
    times = _near(times, now, max_future)
    if not len(times):
        return PartitionStats(**rest)
    least, greatest = Instant(times.min()), Instant(times.max())
    return PartitionStats(count=len(times), least=least, greatest=greatest, lags=LagHistogram.of(now - times), **rest)


def _near(times: NDArray[np.int64], now: Instant, max_future: Span | None) -> NDArray[np.int64]:
    far = too_far(times, now, max_future)
    return times[~far] if far.any() else times


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """What is kept of one partition.

    `quiet_since` is the running time at which it last spoke, within the current run. `live` says that the last tick
    read what had just come in, rather than a backlog. `memory` belongs to a user's own policy.
    """

    watermark: Instant = Instant.BEFORE_ALL_TIME
    greatest: Instant = Instant.BEFORE_ALL_TIME
    position: int = 0
    end: int = 0
    quiet_since: Span = _START
    idle: bool = False
    live: bool = False
    lags: RecentLags = field(default_factory=RecentLags)
    memory: Any = field(default=None, hash=False)

    @property
    def caught_up(self) -> bool:
        """Whether all there was has been read."""
        return self.position >= self.end

    @property
    def finished(self) -> bool:
        """Whether nothing can come any more."""
        return self.watermark >= Instant.END_OF_TIME

    def to_json(self) -> dict[str, Any]:
        """This state as plain JSON."""
        return {
            "version": _VERSION,
            "watermark": int(self.watermark),
            "greatest": int(self.greatest),
            "position": self.position,
            "end": self.end,
            "quiet_since": int(self.quiet_since),
            "idle": self.idle,
            "live": self.live,
            "lags": self.lags.to_json(),
            "memory": self.memory,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PartitionState:
        """Read what `to_json` wrote."""
        fields = _fields(data, "a partition's state")
        times = {name: Instant(fields[name]) for name in ("watermark", "greatest")}
        quiet_since, lags = Span(fields["quiet_since"]), RecentLags.from_json(fields["lags"])
        return cls(**{**fields, **times, "quiet_since": quiet_since, "lags": lags})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """What is kept of a source: its watermark, its partitions by name, and the run that last moved it.

    `seen` is the greatest event time that it ever brought, also from partitions that are gone.
    """

    watermark: Instant = Instant.BEFORE_ALL_TIME
    seen: Instant = Instant.BEFORE_ALL_TIME
    partitions: Mapping[str, PartitionState] = field(default_factory=dict, hash=False)
    run: str = ""

    def to_json(self) -> dict[str, Any]:
        """This state as plain JSON."""
        partitions = {name: state.to_json() for name, state in self.partitions.items()}
        times = {"watermark": int(self.watermark), "seen": int(self.seen)}
        return {"version": _VERSION, **times, "partitions": partitions, "run": self.run}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SourceState:
        """Read what `to_json` wrote."""
        fields = _fields(data, "a source's state")
        partitions = {name: PartitionState.from_json(state) for name, state in fields["partitions"].items()}
        seen = Instant(fields.get("seen", Instant.BEFORE_ALL_TIME))  # a manifest that was written before has none
        return cls(watermark=Instant(fields["watermark"]), seen=seen, partitions=partitions, run=fields["run"])


def finish(state: SourceState) -> SourceState:
    """The source when nothing more will be read from it: a drain, or the end of a batch."""
    end = Instant.END_OF_TIME
    partitions = {name: replace(kept, watermark=end, idle=False) for name, kept in state.partitions.items()}
    return replace(state, watermark=end, partitions=partitions)


def _fields(data: Mapping[str, Any], kind: str) -> dict[str, Any]:
    version = data.get("version")
    if version != _VERSION:
        raise StateError(
            f"Here is {kind} of version {version!r}, which cannot be read.",
            fix=f"This Strandline reads version {_VERSION}; use the one that wrote it.",
        )
    return {name: value for name, value in data.items() if name != "version"}
