"""Move the watermark of a source from one tick to the next."""

from __future__ import annotations

import json
import operator
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from strandline.errors import DataError
from strandline.model.lag import LagHistogram, RecentLags
from strandline.model.partitions import PartitionState, PartitionStats, SourceState
from strandline.model.time import Instant, Span
from strandline.model.users import ask
from strandline.model.watermarks import Policy


def advance_source(
    policy: Policy, state: SourceState, stats: Mapping[str, PartitionStats], *, now: Instant, running: Span, run: str
) -> SourceState:
    """The source after a tick, from what its partitions brought. Pure.

    `running` is how long the run with the id `run` has been running and not blocked; it starts at 0 with each run.
    A partition that `stats` does not name brought nothing and has not moved.

    Laws: no watermark moves backwards; the order of partitions does not matter; a tick in which nothing came can be
    split in two.

    >>> from strandline.model.watermarks import Bounded
    >>> noon = Instant.of("2026-01-01T12:00:50Z")
    >>> heard = PartitionStats(now=noon, count=1, least=noon, greatest=noon)
    >>> advance_source(Bounded("20s"), SourceState(), {"p": heard}, now=noon, running=Span(0), run="r").watermark
    Instant('2026-01-01T12:00:30Z')
    """
    step = _Step(policy=policy, now=now, running=running, same_run=run == state.run)
    names = sorted({*state.partitions, *stats})
    partitions = {name: step.advance(state.partitions.get(name), stats.get(name)) for name in names}
    reached = _joined(policy, partitions.values())
    watermark = state.watermark if reached is None else max(state.watermark, reached)
    seen = max([state.seen, *(heard.greatest for heard in stats.values())])
    return SourceState(watermark=watermark, seen=seen, partitions=partitions, run=run)


def _joined(policy: Policy, partitions: Collection[PartitionState]) -> Instant | None:
    """The least of those that may still bring events; of those that were the last to, if all are idle. None: hold.

    A finished partition says nothing about the others, so that one which is only idle is not carried to the end.
    """
    unfinished = [p for p in partitions if not p.finished]
    if partitions and not unfinished:
        return Instant.END_OF_TIME
    if active := [p.watermark for p in unfinished if not p.idle]:
        return min(active)
    if policy.advance_when_idle or not unfinished:
        return max((p.watermark for p in unfinished), default=None)
    # Those that fell silent last were the only active ones then, whether a tick was made at that moment or not.
    last = max(p.quiet_since for p in unfinished)
    return min(p.watermark for p in unfinished if p.quiet_since == last)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    policy: Policy
    now: Instant
    running: Span
    same_run: bool

    def advance(self, kept: PartitionState | None, heard: PartitionStats | None) -> PartitionState:
        state = kept or PartitionState(quiet_since=self.running)
        silence = PartitionStats(now=self.now, position=state.position, end=state.end)
        stats = replace(heard or silence, now=self.now)
        known = self._take_in(state, stats, live=kept is not None and self.same_run)
        moved = replace(known, watermark=self._watermark(stats, known))
        return self._rest(moved, spoke=stats.spoke)

    def _take_in(self, state: PartitionState, stats: PartitionStats, *, live: bool) -> PartitionState:
        # Rows are live if the partition was caught up before the tick and is again: they came in between.
        live = live and state.caught_up and stats.caught_up
        return replace(
            state,
            greatest=max(state.greatest, stats.greatest),
            position=stats.position,
            end=stats.end,
            live=live,
            lags=self._lags(state, stats, live=live),
            memory=self._memory(state, stats),
        )

    def _memory(self, state: PartitionState, stats: PartitionStats) -> Any:
        who = f"{type(self.policy).__name__}.remember"
        return _plain(who, ask(who, self.policy.remember, stats, state.memory))

    def _lags(self, state: PartitionState, stats: PartitionStats, *, live: bool) -> RecentLags:
        over = self.policy.keeps_lags_over
        if over is None:
            return RecentLags()
        return state.lags.observe(stats.lags if live else LagHistogram(), now=self.now, over=over)

    def _watermark(self, stats: PartitionStats, state: PartitionState) -> Instant:
        if state.finished or (stats.finished and stats.caught_up):
            return Instant.END_OF_TIME
        return min(max(state.watermark, _instant(self.policy, stats, state)), Instant.END_OF_TIME)

    def _rest(self, state: PartitionState, *, spoke: bool) -> PartitionState:
        """Count how long it has been quiet. The count starts with each run: a stopped flow hears nobody."""
        since = self.running if spoke or not self.same_run else state.quiet_since
        after = self.policy.idle_after
        idle = after is not None and not spoke and not state.finished and self.running - since >= after
        return replace(state, quiet_since=since, idle=idle)


def _instant(policy: Policy, stats: PartitionStats, state: PartitionState) -> Instant:
    who = f"{type(policy).__name__}.update"
    answer: object = ask(who, policy.update, stats, state)
    try:
        return Instant(operator.index(answer))  # type: ignore[arg-type]
    except TypeError:
        raise DataError(
            f"{who} gave {answer!r}, which is no instant.",
            fix="Return an Instant; state.watermark to leave the watermark where it is.",
        ) from None


def _plain(who: str, memory: object) -> Any:
    # Through JSON at every tick and not only at a crash: a tuple that would come back as a list is a list at once.
    if memory is None:
        return None
    try:
        return json.loads(json.dumps(memory, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{who} gave what JSON cannot say: {error}.",
            fix="Keep numbers, text, lists and dictionaries with text keys.",
        ) from None
