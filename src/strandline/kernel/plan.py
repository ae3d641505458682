"""A stage, compiled: what preaggregate and advance need to know of it, and the columns of its state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from math import gcd
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl

from strandline.errors import DescriptionError
from strandline.kernel.folds import Fold, compile_fold, state_columns
from strandline.kernel.frames import no_rows
from strandline.kernel.keys import KEY
from strandline.kernel.schema import polars_type
from strandline.kernel.triggers import COUNTERS, NOT_YET, Part, columns, compile_trigger, hit_column, walk
from strandline.model.aggregates import Merge, columns_of
from strandline.model.checks import asked_columns
from strandline.model.expressions import Expression, parse
from strandline.model.firing import fires_once, with_late_panes
from strandline.model.lineage import base_of, lateness_of, merging, retracts, schema_of
from strandline.model.masks import mask_of, masks_of
from strandline.model.nodes import StageNode
from strandline.model.panes import WEIGHT, accumulator
from strandline.model.time import Instant, Span
from strandline.model.triggers import (
    AfterClose,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    OnEvent,
    When,
)  # fmt: skip
from strandline.model.types import Schema
from strandline.model.windows import Calendar, Global, Hopping, Session, Tumbling, Window

T = TypeVar("T")

PARTIAL, WHOLE, GONE = 0, 1, 2  # what a state row is: an addition, a window as a whole, or word that it merged away

DAY: Final = 86_400_000_000
MINUTE: Final = 60_000_000
SECOND: Final = 1_000_000
MOST_CELLS: Final = 16  # of one hop: beyond this, windows cost less than the slices that they are made of


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the state: its type, how a window starts, and how rows of one window combine."""

    dtype: pl.DataType
    initial: Any
    rule: str  # "sum", "least", "greatest", "any", "first", "shown" or "fold"


@dataclass(frozen=True, kw_only=True, eq=False)  # no slots: what every tick asks is worked out once
class Plan:
    """A compiled stage. Pure data: the same for every bucket and tick."""

    stage: StageNode
    inputs: Schema
    lateness: Span
    trigger: Part
    folds: tuple[tuple[str, Fold], ...]
    carry: tuple[str, ...]
    masks: Mapping[str, Expression]
    asked: Schema
    columns: Mapping[str, Column]
    taking_back: bool
    single: bool

    @property
    def name(self) -> str:
        """The stage's name, by which its state is known."""
        return self.stage.name

    @cached_property
    def window(self) -> Window:
        """The shape of its windows."""
        return self.stage.window

    @cached_property
    def keys(self) -> list[str]:
        """The names of the key columns in the state."""
        return [KEY + key for key in self.stage.keys]

    @cached_property
    def reads(self) -> frozenset[str]:
        """The columns of input rows that aggregates and triggers read."""
        folds = dict(self.folds)
        columns = {c for _, a in self.stage.aggregates for c in columns_of(a)}
        inner = {
            accumulator(a.column, suffix)
            for name, a in self.stage.aggregates if isinstance(a, Merge) for suffix, _ in folds[name].fields
        }  # fmt: skip
        return frozenset({*columns, *inner, *self.masks, WEIGHT})

    @cached_property
    def merging(self) -> bool:
        """Whether windows of a key merge."""
        return merging(self.window)

    @cached_property
    def inclusive(self) -> bool:
        """Whether windows that only touch merge too."""
        return isinstance(self.window, Session) and self.window.inclusive

    @cached_property
    def exact(self) -> bool:
        """Whether events are counted one at a time."""
        return _counts_exactly(self.trigger)

    @cached_property
    def lazy(self) -> bool:
        """Whether rows that come before their window's end can wait unread: nothing could fire before it, or be noted."""
        root = self.trigger.trigger
        on_time_only = isinstance(root, AfterClose) or (isinstance(root, AfterWatermark) and root.early is None)
        notes = any(isinstance(part.trigger, When) and part.trigger.crossing for part in walk(self.trigger))
        # Events that are counted one at a time are in the order of their rounds, and not in that of the state.
        return not (not on_time_only or notes or self.exact or self.merging or isinstance(self.window, Global))

    @cached_property
    def closes_once(self) -> bool:
        """Whether windows wait, unread, for the one pane when they are forgotten."""
        return self.lazy and isinstance(self.trigger.trigger, AfterClose)

    @cached_property
    def sliced(self) -> bool:
        """Whether hopping windows are put together from slices when they fire: each is shown once and then over."""
        if not isinstance(self.window, Hopping) or int(self.window.every) > MOST_CELLS * self.cell:
            return False
        # Where panes carry the time of an event, a window must be known before it fires: it holds the output watermark.
        return self.single and self.lazy and self.stage.timestamp == "end"

    @cached_property
    def cell(self) -> int:
        """The width of the slices that hopping windows are made of."""
        assert isinstance(self.window, Hopping)
        return gcd(self.window.size, self.window.every)

    @cached_property
    def slice_width(self) -> int:
        """The width of an event-time slice: state rows whose windows end in one slice are stored together.

        A slice costs something in each tick that touches it, so very short windows share one.
        """
        if isinstance(self.window, Global):
            return 2**63 - 1
        if self.sliced:
            return self.cell
        if isinstance(self.window, Tumbling):
            return DAY if isinstance(self.window.size, Calendar) else max(int(self.window.size), SECOND)
        if isinstance(self.window, Hopping):
            return max(int(self.window.every), SECOND)
        if isinstance(self.window, Session) and self.window.gap is not None:
            return max(int(self.window.gap), SECOND)
        return MINUTE

    @cached_property
    def one_window_per_slice(self) -> bool:
        """Whether all windows of a slice are the same."""
        if isinstance(self.window, Tumbling):
            return not isinstance(self.window.size, Calendar) and self.window.size >= SECOND
        return (
            isinstance(self.window, Global)
            or self.sliced
            or (isinstance(self.window, Hopping) and self.window.every >= SECOND)
        )

    def slices(self, end: Any) -> Any:
        """The number of the slice in which windows with this end are stored."""
        return (end - 1) // self.slice_width

    @cached_property
    def has_timers(self) -> bool:
        """Whether the trigger waits for processing time."""
        return any(isinstance(p.trigger, AfterProcessingTime) for p in walk(self.trigger))

    @cached_property
    def has_close(self) -> bool:
        """Whether the trigger waits for the window to be forgotten."""
        return any(isinstance(p.trigger, AfterClose) for p in walk(self.trigger))

    @cached_property
    def ttl(self) -> int | None:
        """How long a global window outlives its key's events, with the lateness in which they may be corrected."""
        if not isinstance(self.window, Global) or self.window.ttl is None:
            return None
        return int(self.window.ttl) + int(self.lateness)

    @cached_property
    def state_schema(self) -> dict[str, pl.DataType]:
        """The columns of a state row, in order."""
        keys = {KEY + key: polars_type(self.inputs[key]) for key in self.stage.keys}
        own = {name: column.dtype for name, column in self.columns.items()}
        return {
            "hash": pl.UInt64(), **keys, "window_start": pl.Int64(), "window_end": pl.Int64(), "kind": pl.UInt8(), **own,
        }  # fmt: skip

    def deadline(self, end: Any) -> Any:
        """When windows with this end are forgotten."""
        grace = end + int(self.lateness)
        # A single number may lie beyond what a column can hold: the end of the one slice of a global window does.
        return (
            min(grace, int(Instant.END_OF_TIME))
            if isinstance(grace, int)
            else np.minimum(grace, int(Instant.END_OF_TIME))
        )


def once_per_plan(make: Callable[[Plan], T]) -> Callable[[Plan], T]:
    """Make something of a plan when it is first asked for, and keep it as long as the plan."""
    made: WeakKeyDictionary[Plan, T] = WeakKeyDictionary()

    @wraps(make)
    def remembered(plan: Plan) -> T:
        if plan not in made:
            made[plan] = make(plan)
        return made[plan]

    return remembered


@once_per_plan
def no_state(plan: Plan) -> pl.DataFrame:
    """No rows of state, with the columns they would have."""
    return no_rows(plan.state_schema)


def plan_stage(stage: StageNode, *, carry: tuple[str, ...] = ()) -> Plan:
    """Compile a stage; `carry` names the aggregates whose inner state travels with the panes."""
    inputs = schema_of(stage.parent)
    if inputs is None:
        raise DescriptionError(
            f"The columns before stage {stage.name!r} are known to Spark alone.", fix='Use runner="spark".'
        )
    lateness, taking_back = lateness_of(stage), retracts(stage.parent)
    trigger = compile_trigger(with_late_panes(stage.trigger, lateness))
    masks = {name: parse(condition) for name, condition in masks_of(stage).items()}
    folds = tuple((name, _fold(stage, name, inputs, taking_back)) for name, _ in stage.aggregates)
    single = fires_once(trigger.trigger, lateness)
    asked = asked_columns(stage, inputs)
    return Plan(
        stage=stage, inputs=inputs, lateness=lateness, trigger=trigger, folds=folds, carry=carry, masks=masks, asked=asked,
        columns=_columns(stage, trigger, dict(folds), carry, taking_back, single),
        taking_back=taking_back, single=single,
    )  # fmt: skip


def _fold(stage: StageNode, name: str, inputs: Schema, taking_back: bool) -> Fold:
    aggregate = dict(stage.aggregates)[name]
    mask = None if aggregate.where is None else mask_of(aggregate.where)
    if not isinstance(aggregate, Merge):
        return compile_fold(aggregate, inputs, taking_back=taking_back, mask=mask)
    origin, base = base_of(stage, aggregate)
    before = schema_of(origin.parent)
    assert before is not None
    original = compile_fold(base, before, taking_back=retracts(origin.parent), mask=None)
    return compile_fold(aggregate, inputs, taking_back=taking_back, mask=mask, earlier=original)


def _columns(
    stage: StageNode, trigger: Part, folds: dict[str, Fold], carry: tuple[str, ...], taking_back: bool, single: bool
) -> dict[str, Column]:  # fmt: skip
    whole, count = pl.Int64(), Column(pl.Int64(), 0, "sum")
    found = {"new": count}
    if taking_back:
        found["net"] = count
    if stage.timestamp == "earliest":
        found["earliest"] = Column(whole, NOT_YET, "least")
    if stage.timestamp == "latest" or isinstance(stage.window, Global):
        found["latest"] = Column(whole, -NOT_YET, "greatest")
    # Where a window fires once and is over, its trigger's answers need no memory: nothing came before.
    if not (single and isinstance(trigger.trigger, AfterWatermark | AfterClose)):
        found |= _trigger_columns(trigger)
        found["index"] = Column(whole, 0, "first")
    if stage.coalesce and stage.mode == "accumulating" and _counts_exactly(trigger):
        found["pending"] = Column(pl.Boolean(), False, "first")  # a pane of this tick that a later one may stand for
    for name, fold in folds.items():
        types = (dtype for _, dtype in fold.fields)
        found |= {
            column: Column(dtype, None, "fold") for column, dtype in zip(state_columns(name, fold), types, strict=True)
        }
    if not single and (stage.mode == "retracting" or (stage.mode == "accumulating" and merging(stage.window))):
        found["shown"] = Column(pl.List(pl.Struct(shown_fields(stage, folds, carry))), None, "shown")
    return found


def _counts_exactly(trigger: Part) -> bool:
    return any(isinstance(part.trigger, AfterCount) and part.trigger.exact for part in walk(trigger))


def _trigger_columns(trigger: Part) -> dict[str, Column]:
    found: dict[str, Column] = {}
    for name, (dtype, initial) in columns(trigger).items():
        found[name] = Column(dtype, initial, COUNTERS.get(name.split(".")[1], "first"))
    for part in walk(trigger):
        if isinstance(part.trigger, OnEvent):
            found[hit_column(part)] = Column(pl.Int64(), 0, "sum")
        if isinstance(part.trigger, AfterProcessingTime):
            found["arrived"] = Column(pl.Int64(), NOT_YET, "least")
    return found


def shown_fields(stage: StageNode, folds: Mapping[str, Fold], carry: tuple[str, ...]) -> dict[str, pl.DataType]:
    """What is remembered of a pane that was shown: enough to withdraw it exactly."""
    window: dict[str, pl.DataType] = {"window_start": pl.Int64(), "window_end": pl.Int64()}
    if stage.mode != "retracting":
        return window
    values = {name: fold.output for name, fold in folds.items()}
    inner = {accumulator(name, suffix): dtype for name in carry for suffix, dtype in folds[name].fields}
    return {
        **window, **values, "pane_timing": pl.String(), "pane_index": pl.Int64(), "pane_is_last": pl.Boolean(),
        "__time": pl.Int64(), **inner,
    }  # fmt: skip
