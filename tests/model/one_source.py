"""A source in the middle of a run, for tests of watermarks."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from strandline.model.partitions import PartitionStats, SourceState, gather
from strandline.model.progress import advance_source
from strandline.model.time import Instant, Span
from strandline.model.watermarks import Policy

NOON = Instant.of("2026-01-01T12:00:00Z")


def at(text: str) -> Instant:
    return Instant(NOON + Span.of(text))


@dataclass
class Source:
    """A source in the middle of a run: each call is one tick, ten seconds after the one before."""

    policy: Policy
    state: SourceState = field(default_factory=SourceState)
    now: Instant = NOON
    running: Span = Span(0)
    run: str = "first run"

    def tick(self, after: str = "10s", **partitions: PartitionStats | list[str]) -> Instant:
        self.now, self.running = Instant(self.now + Span.of(after)), Span(self.running + Span.of(after))
        stats = {n: p if isinstance(p, PartitionStats) else self.rows(*p) for n, p in partitions.items()}
        self.state = advance_source(self.policy, self.state, stats, now=self.now, running=self.running, run=self.run)
        return self.state.watermark

    def rows(self, *times: str, **more: object) -> PartitionStats:
        numbers = np.array([at(time) for time in times], dtype=np.int64)
        return gather(numbers, self.now, max_future=self.policy.max_future, **more)

    def restart(self) -> None:
        self.run, self.running = self.run + " again", Span(0)


@dataclass(frozen=True)
class Halfway(Policy):
    """Go half the way to the greatest time, `every` so many ticks; keeps a tuple, which JSON makes a list."""

    every: int = 1

    def remember(self, stats, memory):
        return ((memory or [0])[0] + 1,)

    def update(self, stats, state):
        return Instant(state.greatest // 2) if state.memory[0] % self.every == 0 else state.watermark
