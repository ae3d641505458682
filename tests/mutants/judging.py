"""The other decisions about lateness: when an event is late, when a window is complete, when it is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import pytest

from strandline.kernel import expire, fire, gather, judge, merge, plan, preaggregate, stage, stateful
from strandline.model import oracles
from strandline.model.nodes import StageNode
from strandline.model.oracle import windows as oracle_windows
from strandline.model.oracle.stage import StageOracle
from strandline.model.panes import CAME_FROM, TIME
from strandline.model.ticks import Edge
from strandline.model.time import Instant

Patch: TypeAlias = pytest.MonkeyPatch
Change: TypeAlias = Callable[[Edge], Edge]


def _judge_by(patch: Patch, change: Change) -> None:
    """Let lateness be judged by another edge; everything else keeps the real one."""
    fold, judged = stateful.preaggregate, StageOracle._judge
    patch.setattr(stateful, "preaggregate", lambda p, rows, edge, now: fold(p, rows, change(edge), now))
    patch.setattr(StageOracle, "_judge", lambda self, rows, edge: judged(self, rows, change(edge)))


def _work_by(patch: Patch, change: Callable[[Edge, bool], Edge]) -> None:
    """Let stages work by another edge; `change` also learns whether the rows are panes of a stage."""
    in_columns, one_by_one = stage.StageKernel.tick, StageOracle.tick

    def kernel(self: stage.StageKernel, ports: list[pl.DataFrame], edge: Edge, now: Instant) -> stage.Outcome:
        return in_columns(self, ports, change(edge, CAME_FROM[0] in ports[0].columns), now)

    def oracle(self: Any, rows: list[dict[str, Any]], edge: Edge, now: Instant) -> Any:
        return one_by_one(self, rows, change(edge, any(CAME_FROM[0] in row for row in rows)), now)

    patch.setattr(stage.StageKernel, "tick", kernel)
    patch.setattr(StageOracle, "tick", oracle)


def _lowered(edge: Edge) -> Edge:
    return Edge(before=Instant(edge.before - 1), after=Instant(edge.after - 1))


def a_window_is_complete_only_after_its_end(patch: Patch) -> None:
    """Complete iff watermark > end."""
    _work_by(patch, lambda edge, _: _lowered(edge))


def events_are_judged_by_the_watermark_after_the_tick(patch: Patch) -> None:
    """The watermark moves first, and closes windows to the tick's own events."""
    _judge_by(patch, lambda edge: Edge(before=edge.after, after=edge.after))


def panes_are_judged_by_the_watermark_after_the_tick(patch: Patch) -> None:
    """A second stage sees the panes of the first only when its own windows are over."""
    _work_by(patch, lambda edge, panes: Edge(before=edge.after, after=edge.after) if panes else edge)


def nothing_is_ever_late(patch: Patch) -> None:
    """Old events open their windows anew."""
    _judge_by(patch, lambda edge: Edge(before=Instant.BEFORE_ALL_TIME, after=edge.after))


def late_only_after_the_deadline(patch: Patch) -> None:
    """Dropped iff watermark > end + lateness."""
    _judge_by(patch, _lowered)


def lateness_is_not_inherited(patch: Patch) -> None:
    """A stage grants what it says itself, whatever the stage before it may still correct."""

    def own(node: StageNode) -> Any:
        return node.lateness

    patch.setattr(plan, "lateness_of", own)
    patch.setattr(oracles, "lateness_of", own)


def an_event_late_for_one_window_is_dropped(patch: Patch) -> None:
    """Late is said of an event, and not of an event and a window."""
    patch.setattr(
        preaggregate,
        "_missed_everywhere",
        lambda p, assigned, edge: np.isin(assigned.row, preaggregate._missed(p, assigned, edge).row),
    )
    patch.setattr(
        preaggregate, "_window_counts",
        lambda p, assigned, times, missed: np.bincount(missed.row, minlength=len(times)),
    )  # fmt: skip
    judged = StageOracle._judge

    def oracle(self: StageOracle, arrivals: list[Any], edge: Edge) -> None:
        judged(self, arrivals, edge)
        for arrival in arrivals:
            arrival.windows = [] if arrival.missed else arrival.windows

    patch.setattr(StageOracle, "_judge", oracle)


def an_event_late_for_one_window_is_booked_as_late(patch: Patch) -> None:
    """The books call an event late that some window kept."""
    fold = stateful.preaggregate

    def booked(*args: Any) -> preaggregate.Partials:
        partials = fold(*args)
        late = partials.late.height
        moved = late - partials.books.late
        return replace(partials, books=replace(partials.books, late=late, kept=partials.books.kept - moved))

    patch.setattr(stateful, "preaggregate", booked)


def sessions_are_judged_before_they_merge(patch: Patch) -> None:
    """An old event is late even if a living session would take it."""
    patch.setattr(judge, "_merged_windows", lambda p, stored, pieces, raw, assigned: (assigned.start, assigned.end))

    def oracle(self: StageOracle, arrivals: list[Any], edge: Edge) -> None:
        for arrival in arrivals:
            for start, end in [*arrival.windows]:
                alone = oracle_windows.Component(start, end, [arrival])
                if self._is_gone(alone, edge):
                    self._miss(alone)

    patch.setattr(StageOracle, "_judge", oracle)


def every_event_moves_the_watermark(patch: Patch) -> None:
    """An event is judged by the events before it in its own tick, so that no cut matters and more is lost."""
    fold = stateful.preaggregate

    def one_by_one(compiled: Any, rows: pl.DataFrame, edge: Edge, now: Instant) -> preaggregate.Partials:
        if rows.height < 2:
            return fold(compiled, rows, edge, now)
        times = rows[TIME].to_numpy()
        behind = times.max() - edge.after
        reached = [max(edge.before, times[:n].max() - behind) if n else edge.before for n in range(len(times))]
        parts = [
            fold(compiled, rows[n : n + 1], Edge(before=Instant(before), after=edge.after), now)
            for n, before in enumerate(reached)
        ]
        return preaggregate.Partials(
            table=merge.arrange_rows(compiled, pl.concat([part.table for part in parts]))[0],
            raw=pl.concat([part.raw for part in parts]),
            late=pl.concat([part.late for part in parts]),
            rejected=pl.concat([part.rejected for part in parts]),
            books=sum((part.books for part in parts), preaggregate.Books()),
        )

    patch.setattr(stateful, "preaggregate", one_by_one)


def forgotten_only_after_the_deadline(patch: Patch) -> None:
    """State goes when watermark > end + lateness."""
    closing = fire.closing
    for module in (fire, gather, expire):
        patch.setattr(module, "closing", lambda p, table, watermark: closing(p, table, watermark - 1))
    deadline = StageOracle._deadline
    patch.setattr(StageOracle, "_deadline", lambda self, window: deadline(self, window) + 1)
