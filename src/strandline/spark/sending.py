"""Send what a task found to those who need it: packed by where it goes, and small or in files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from strandline.kernel.shares import shares
from strandline.kernel.stateful import united
from strandline.spark.parcels import Parcel, pack, pack_input, settle
from strandline.spark.program import Outgoing, Work
from strandline.store.storage import Storage


def send(
    work: Work, outgoing: Iterable[Outgoing], storage: Storage, tick: int, order: tuple[int, ...], tasks: int
) -> list[Parcel]:
    """The parcels of one task, ready to travel; those for stages are cut for so many tasks where they are big."""
    found: dict[int, list[Outgoing]] = {}
    for each in outgoing:
        found.setdefault(each.target, []).append(each)
    ready = [parcel for target, mine in found.items() for parcel in _packed(work, target, mine, tasks)]
    return settle(ready, storage, tick, order, work.sinks)


def _packed(work: Work, target: int, found: Sequence[Outgoing], tasks: int) -> list[Parcel]:
    """What several turns of one task found for a node."""
    inputs = [each.found for each in found if each.found is not None]
    if inputs:
        plan = work.plan(target)
        return pack_input(plan, target, united(plan, inputs), shares(work.flow.buckets, tasks))
    rows = pl.concat([each.rows for each in found if each.rows is not None])
    return [pack(target, [rows])] if rows.height else []
