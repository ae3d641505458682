"""The other decisions about watermarks: of partitions, of sources, and of what a stage promises."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

import pytest

from strandline.kernel import advance
from strandline.model import progress
from strandline.model.oracle.stage import StageOracle
from strandline.model.partitions import PartitionState
from strandline.model.ticks import Edge
from strandline.model.time import Instant
from strandline.model.watermarks import Policy
from strandline.testing import source

Patch: TypeAlias = pytest.MonkeyPatch


def the_first_watermark_is_1970(patch: Patch) -> None:
    """A flow that has seen nothing stands at 1970, as one that counts from the epoch does."""
    patch.setattr(Edge, "first", classmethod(lambda cls: cls(before=Instant(0), after=Instant(0))))


def the_greatest_partition_counts(patch: Patch) -> None:
    """The source is as far as its fastest partition."""

    def greatest(policy: Policy, partitions: Iterable[PartitionState]) -> Instant:
        return max(p.watermark for p in partitions)

    patch.setattr(progress, "_joined", greatest)


def a_partition_that_never_spoke_does_not_hold(patch: Patch) -> None:
    """Only partitions that brought something are waited for."""
    joined = progress._joined

    def spoken(policy: Policy, partitions: Iterable[PartitionState]) -> Instant | None:
        return joined(policy, [p for p in partitions if p.watermark > Instant.BEFORE_ALL_TIME])

    patch.setattr(progress, "_joined", spoken)


def silence_is_a_promise(patch: Patch) -> None:
    """When all partitions are idle the watermark goes on by itself."""
    joined = progress._joined

    def going_on(policy: Policy, partitions: Iterable[PartitionState]) -> Instant | None:
        known = list(partitions)
        return joined(policy, [replace(p, idle=False) for p in known if not p.idle] or known[:1])

    patch.setattr(progress, "_joined", lambda policy, parts: going_on(policy, parts) or max(p.watermark for p in parts))


def clocks_are_believed(patch: Patch) -> None:
    """An event from the far future is an event."""
    gather = source.gather
    patch.setattr(source.PlayedSource, "_too_far", lambda self, time: None)
    patch.setattr(source, "gather", lambda times, now, **options: gather(times, now, **{**options, "max_future": None}))


def nothing_holds_the_output(patch: Patch) -> None:
    """A stage promises its input's watermark, whatever it may still show."""
    patch.setattr(advance, "hold", lambda plan, state, *rest: (state, None))
    patch.setattr(StageOracle, "_holds", lambda self: [])
