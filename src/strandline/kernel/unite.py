"""Put together what several tasks found in their rows of one tick."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from strandline.kernel.frames import changed, stacked, without
from strandline.kernel.merge import arrange_rows, combine
from strandline.kernel.plan import Plan
from strandline.kernel.preaggregate import Books, Partials


def unite(plan: Plan, parts: Sequence[Partials]) -> Partials:
    """The partials of several tasks as one, given in order of (source, task).

    Law: it is what one task would have found in all their rows, one task's after the other's; and where events are
    not counted one at a time, the order of the tasks changes nothing that is shown.
    """
    if len(parts) == 1:
        return parts[0]
    # A task that read nothing has not prepared its columns either.
    raw = [part.raw for part in parts if part.raw.height] or [parts[0].raw]
    return Partials(
        table=_in_turn(plan, parts) if plan.exact else _added_up(plan, parts),
        raw=stacked(raw),
        late=stacked([part.late for part in parts]),
        rejected=stacked([part.rejected for part in parts]),
        books=sum((part.books for part in parts), Books()),
    )


def _added_up(plan: Plan, parts: Sequence[Partials]) -> pl.DataFrame:
    """One partial per window of a key, in canonical order."""
    table = stacked([part.table for part in parts])
    if table.is_empty():
        return table
    rows = combine(plan, *arrange_rows(plan, without(table, ["round"])), settle=False)
    return changed(rows, {"round": np.zeros(rows.height, np.int64)})


def _in_turn(plan: Plan, parts: Sequence[Partials]) -> pl.DataFrame:
    """The rounds of each task begin, for each key, after those of the tasks before it."""
    key = ["hash", *plan.keys]
    united = parts[0].table
    for part in parts[1:]:
        rounds = united.group_by(key).agg(__before=pl.col("round").max() + 1)
        later = part.table.join(rounds, on=key, how="left", nulls_equal=True, maintain_order="left")
        moved = later.with_columns(round=pl.col("round") + pl.col("__before").fill_null(0)).drop("__before")
        united = pl.concat([united, moved.select(united.columns)])
    return united
