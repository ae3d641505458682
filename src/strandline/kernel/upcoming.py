"""When a stage must be stepped again although nothing comes: from the bounds of its blocks, without reading rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from strandline.kernel.hopping import ends_of_slices, last_end
from strandline.kernel.operators.plan import AnyPlan, OperatorPlan
from strandline.kernel.plan import Plan
from strandline.kernel.state import State
from strandline.kernel.windows import hops_of
from strandline.model.time import Instant, Span
from strandline.model.windows import Global, Hopping


def upcoming(plan: AnyPlan, state: State, watermark: int) -> Instant | None:
    """The least watermark, above this one, at which a window may fire or be forgotten; None if there is nothing to wait for.

    Law: a stage that stands at `watermark`, gets no input and whose timers do not ring, shows nothing and keeps all its
    windows in every tick until its watermark comes there.
    """
    if not state.slices or watermark >= Instant.END_OF_TIME:
        return None
    if isinstance(plan, OperatorPlan):
        return plan.upcoming(state, watermark)
    if isinstance(plan.window, Global):
        earliest = state.expiries.earliest
        return Instant.END_OF_TIME if earliest is None else min(Instant.END_OF_TIME, earliest)
    waiting = _of_slices(plan, state, watermark) if plan.sliced else _of_windows(plan, state, watermark)
    return Instant(min([int(Instant.END_OF_TIME), *waiting]))


def _of_windows(plan: Plan, state: State, watermark: int) -> Iterator[int]:
    """For each block the next time that the watermark passes the end of a window in it, or its deadline."""
    waits = [plan.lateness] if plan.closes_once else [Span(0), plan.lateness]
    for number, segments in state.slices.items():
        over = (number + 1) * plan.slice_width + plan.lateness
        if over > watermark:
            yield over
        for block in (block for segment in segments for block in segment.blocks):
            for wait in waits:
                if block.least_time + wait > watermark:
                    yield block.least_time + wait
                elif block.greatest_time + wait > watermark:
                    yield watermark + 1  # somewhere in the block; who wants to know where has to read it


def _of_slices(plan: Plan, state: State, watermark: int) -> Iterator[int]:
    """The same for hopping windows that are put together from slices when they fire."""
    assert isinstance(plan.window, Hopping)
    numbers = np.array(sorted(state.slices))
    ends = ends_of_slices(plan, numbers)
    hops = hops_of(plan.window, ends - plan.cell, ends)
    fires = plan.deadline(hops.end) if plan.has_close else hops.end
    over = np.array([plan.deadline(last_end(plan, number)) for number in numbers.tolist()])
    yield from (int(times[times > watermark].min()) for times in (fires, over) if (times > watermark).any())
