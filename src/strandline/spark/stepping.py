"""Step a share of a stage: open what is needed of its state, advance it, write state, and lead the panes on.

The same function runs in the driver's process for a small tick and in a task of Spark's for a great one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import polars as pl

from strandline.errors import StateError
from strandline.kernel.advance import Advanced
from strandline.kernel.operators.plan import AnyPlan
from strandline.kernel.preaggregate import Books
from strandline.kernel.shares import Share
from strandline.kernel.stateful import Input, hottest_keys, nothing_for, united
from strandline.kernel.stateful import step as advance
from strandline.model.panes import INSERT, RETRACT
from strandline.model.ticks import Edge, Tick
from strandline.model.time import Instant
from strandline.spark.parcels import Parcel, open_input
from strandline.spark.program import Outgoing, Work
from strandline.spark.sending import send
from strandline.store.manifests import StageRecord
from strandline.store.opened import OPENED
from strandline.store.state_files import StatePart, open_state, write_state
from strandline.store.storage import Storage, storage_at

HOTTEST: Final = 3
ROWS: Final = "rows"
Hot = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a share of a stage needs to be moved one tick on."""

    stage: int
    name: str
    tick: int
    now: Instant
    edge: Edge
    output_before: Instant
    record: StageRecord | None
    parcels: tuple[Parcel, ...]
    shares: tuple[Share, ...]
    storage: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a share has done: its part of the state, its books, what it still holds back, what it showed.

    `panes` counts windows' panes by timing, those taken back apart, and what other stages give as rows; `hottest` are the
    keys that brought most rows, with their number, and `met` is how many all keys brought; both count a row once for each
    window that it is in.
    """

    share: int
    state: StatePart
    books: Books
    hold: Instant | None
    panes: Mapping[str, int]
    hottest: tuple[Hot, ...]
    met: int

    def to_row(self) -> tuple[str, bytes]:
        """The receipt as a row of Spark's."""
        told = {"share": self.share, "state": self.state.to_json(), "books": asdict(self.books), "panes": self.panes}
        hold = None if self.hold is None else int(self.hold)
        return json.dumps({"receipt": {**told, "hold": hold, "hottest": self.hottest, "met": self.met}}), b""

    @classmethod
    def from_row(cls, told: Mapping[str, Any]) -> Receipt:
        """Read what `to_row` wrote."""
        hold = None if told["hold"] is None else Instant(told["hold"])
        state, books = StatePart.from_json(told["state"]), Books(**told["books"])
        hottest = tuple((key, rows) for key, rows in told["hottest"])
        return cls(
            share=told["share"], state=state, books=books, hold=hold, panes=told["panes"], hottest=hottest,
            met=told["met"],
        )  # fmt: skip


def step(work: Work, task: Step, share: int) -> tuple[Receipt, list[Parcel]]:
    """Move one share of a stage; give the receipt, and the parcels for what stands behind the stage."""
    storage = storage_at(task.storage)
    try:
        return _step(work, task, share, storage)
    except StateError:
        OPENED.forget(storage)  # a file that is damaged may be put back before this is tried again
        raise


def _step(work: Work, task: Step, share: int, storage: Storage) -> tuple[Receipt, list[Parcel]]:
    plan = work.plan(task.stage)
    least, greatest = task.shares[share]
    found = _input(plan, task, share, storage)
    state = open_state(plan, storage, task.record, least, greatest)
    tick = Tick(number=task.tick, now=task.now, edges={task.name: task.edge})
    moved = advance(plan, state, found, task.edge, tick)
    written = write_state(
        plan, storage, task.name, task.tick, moved.state, least, greatest, watermark=int(task.edge.after)
    )
    hottest, met = _hottest(plan, found)
    receipt = Receipt(
        share=share, state=written, books=moved.books, hold=moved.hold, panes=_counted(moved.panes),
        hottest=hottest, met=met,
    )  # fmt: skip
    order = (task.stage, share)
    return receipt, send(work, _led_on(work, task, moved), storage, task.tick, order, len(task.shares))


def _input(plan: AnyPlan, task: Step, share: int, storage: Storage) -> Input:
    mine = [parcel for parcel in task.parcels if parcel.share is None or parcel.share == share]
    parts = [open_input(plan, p, storage, task.shares, share) for p in sorted(mine, key=lambda p: p.order)]
    return united(plan, parts) if parts else nothing_for(plan)


def _led_on(work: Work, task: Step, moved: Advanced) -> Iterator[Outgoing]:
    """Panes and side outputs on their way."""
    yield from work.follow(task.stage, moved.panes, task.output_before, task.now, moved.replaced)
    aside = {"late": moved.late, "rejected": moved.rejected, "replaced": moved.replaced, **moved.sides}
    for side, rows in aside.items():
        if rows.height:
            for at in work.sides(task.stage, side):
                yield from work.follow(at, rows, task.output_before, task.now)


def _counted(panes: pl.DataFrame) -> dict[str, int]:
    """How many panes there are of each timing, and how many are taken back; rows of other stages are just rows.

    >>> _counted(pl.DataFrame({"pane_timing": ["early", "early", "late"], "op": ["insert", "retract", "insert"]}))
    {'early': 1, 'late': 1, 'retract': 1}
    """
    if "pane_timing" not in panes.columns:
        return {ROWS: panes.height} if panes.height else {}
    timings, ops = panes["pane_timing"].to_list(), panes["op"].to_list()
    found = Counter(timing if op == INSERT else RETRACT for timing, op in zip(timings, ops, strict=True))
    return dict(sorted(found.items()))


def _hottest(plan: AnyPlan, found: Input) -> tuple[tuple[Hot, ...], int]:
    """The keys with most rows, and how many rows all keys have."""
    counted: list[Hot] = []
    met = 0
    for each in hottest_keys(plan, found, HOTTEST):
        names = (", ".join(map(str, key)) for key in each.keys.iter_rows())
        counted += zip(names, each.counts.tolist(), strict=True)
        met += each.total
    return hottest_of(counted), met


def hottest_of(found: Iterable[Hot]) -> tuple[Hot, ...]:
    """The keys with most rows, the first of equals by name; the rows of a key that is there twice are added up.

    >>> hottest_of([("ann", 2), ("bob", 5), ("cid", 3), ("ann", 1)])
    (('bob', 5), ('ann', 3), ('cid', 3))
    """
    counted: Counter[str] = Counter()
    for key, rows in found:
        counted[key] += rows
    return tuple(sorted(counted.items(), key=lambda hot: (-hot[1], hot[0]))[:HOTTEST])


def touched(record: StageRecord | None, parcels: Sequence[Parcel], edge: Edge, now: Instant) -> bool:
    """Whether a stage has anything to do in a tick: something came, or something is due."""
    if parcels:
        return True
    if record is None:
        return False
    event, processing = record.due.get("event"), record.due.get("processing")
    if event is not None and edge.after > edge.before and edge.after >= event:
        return True
    return processing is not None and now >= processing
