"""An operator, compiled: what all of them have in common, and what each says for itself.

An operator takes rows at one port or several, sent to the bucket of their key's hash, and keeps rows of its own making in
segments like those of windows. A state row lives for a span of event time, from `window_start` up to `window_end`:
when the watermark has come there, no row that is not late can concern it any more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.frames import changed, framed, kept, no_rows, only, rows_at, stacked, without
from strandline.kernel.keys import KEY, hashed_keys
from strandline.kernel.operators.places import Places
from strandline.kernel.order import arrange, sorted_unique
from strandline.kernel.plan import Plan
from strandline.kernel.schema import polars_schema
from strandline.model.nodes import OperatorNode
from strandline.model.panes import TIME
from strandline.model.ticks import Edge, Tick
from strandline.model.time import Instant, Span
from strandline.model.types import Schema

if TYPE_CHECKING:
    from strandline.kernel.advance import Advanced
    from strandline.kernel.state import State

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

HASH: Final = "__hash"
"""The column with the hash of a row's key, while it is on its way to its bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What tasks found for an operator: the rows of each port, in order of arrival, with the hash of their key."""

    ports: tuple[pl.DataFrame, ...]


class OperatorPlan(ABC):
    """A compiled operator: the same for every bucket and tick.

    `meaning` names the options that its state depends on: state is taken up only by an operator that has them all.
    One that `keeps` nothing from tick to tick takes up anything.
    """

    meaning: ClassVar[tuple[str, ...]]
    places: Places | None = None  # where the rows of a key are spread over several
    keeps: ClassVar[bool] = True

    def __init__(
        self, node: OperatorNode, inputs: Sequence[Schema], keys: Sequence[Sequence[str]], lateness: Span
    ) -> None:
        self.node = node
        self.inputs = tuple(inputs)
        self.keys = tuple(tuple(names) for names in keys)  # of each port
        self.lateness = lateness

    @property
    def name(self) -> str:
        """The operator's name, by which its state is known."""
        return self.node.name

    def said(self) -> dict[str, Any]:
        """The options that its state depends on."""
        return {name: getattr(self.node, name) for name in self.meaning}

    # What an operator keeps.

    @property
    @abstractmethod
    def own_columns(self) -> dict[str, pl.DataType]:
        """The columns that it keeps beside a row's key and its time."""

    @property
    @abstractmethod
    def slice_width(self) -> int:
        """The width of an event-time slice: state rows whose lives end in one are stored, and forgotten, together."""

    @property
    def key_schema(self) -> dict[str, pl.DataType]:
        """The key columns of the state: under the names that the first port has."""
        types = polars_schema(self.inputs[0])
        return {KEY + name: types[name] for name in self.keys[0]}

    @property
    def state_schema(self) -> dict[str, pl.DataType]:
        """The columns of a state row, in order."""
        life: dict[str, pl.DataType] = {"window_start": pl.Int64(), "window_end": pl.Int64(), "kind": pl.UInt8()}
        return {"hash": pl.UInt64(), **self.key_schema, **life, **self.own_columns}

    def slices(self, end: Any) -> Any:
        """The number of the slice in which rows are stored whose lives end there."""
        return (end - 1) // self.slice_width

    def collapse(self, rows: pl.DataFrame, *, oldest: bool, watermark: int) -> pl.DataFrame:
        """Rows of several segments of one slice as one: all that live, in canonical order."""
        return self.in_order(kept(rows, self.lasting(rows["window_end"].to_numpy(), watermark)))

    def lasting(self, ends: Array, now: int) -> Mask:
        """Which rows must stay in the state, by their ends: those that later ticks still look at."""
        return np.asarray(ends > now)

    def upcoming(self, state: State, watermark: int) -> Instant | None:
        """The least watermark, above this one, at which the operator has something to do without input."""
        ends = [(number + 1) * self.slice_width for number in state.slices]
        return Instant(min([int(Instant.END_OF_TIME), *(end for end in ends if end > watermark)]))

    # What comes in.

    def port_schema(self, port: int) -> dict[str, pl.DataType]:
        """The columns of rows on their way to a port."""
        return {**polars_schema(self.inputs[port]), TIME: pl.Int64(), HASH: pl.UInt64()}

    def take(self, port: int, rows: pl.DataFrame, now: Instant) -> Taken:
        """Rows for one port, with the hash of their key; what else they carried unseen is left behind."""
        mine = self.prepared(port, rows, now)
        found = changed(mine, {HASH: hashed_keys(self.keys[port], mine)[1]})
        found = found if self.places is None else self.places.sent(port, found, HASH)
        return Taken(ports=tuple(found if at == port else each for at, each in enumerate(self.nothing().ports)))

    def prepared(self, port: int, rows: pl.DataFrame, now: Instant) -> pl.DataFrame:
        """The columns of rows that the operator needs."""
        return only(rows, [*self.inputs[port], TIME])

    def nothing(self) -> Taken:
        """No rows at any port."""
        return Taken(ports=tuple(no_rows(self.port_schema(port)) for port in range(len(self.inputs))))

    # What a tick does.

    @abstractmethod
    def advance(self, state: State, taken: Taken, edge: Edge, tick: Tick) -> Advanced:
        """Move a set of buckets from one tick to the next. Pure: same arguments, same bytes."""

    def promise(self, after: Instant, hold: Instant | None) -> Instant:
        """How far the output may be promised when the input is complete up to `after`."""
        return after if hold is None else min(after, hold)

    # What all of them do.

    def own(self, port: int, rows: pl.DataFrame) -> Mask:
        """Which rows count, and are put aside when they are late: copies do not."""
        if self.places is None:
            return np.ones(rows.height, np.bool_)
        return ~self.places.are_copies(port, rows[HASH].to_numpy())

    def hashes_of_keys(self, rows: pl.DataFrame) -> Array:
        """One number for the rows of a key, in whatever place they are."""
        hashes = rows[HASH].to_numpy()
        return hashes if self.places is None else hashes << np.uint64(self.places.bits)

    def aside(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows that are put aside, by the hash of their key as all rows are; those of a key as they stand.

        Where rows are spread over places, or are of another port, they carry the hash that they came with.
        """
        if not rows.height:
            return without(rows, [name for name in (HASH,) if name in rows.columns])
        if HASH not in rows.columns:
            rows = changed(rows, {HASH: hashed_keys(self.keys[0], rows)[1]})
        return without(rows_at(rows, np.argsort(rows[HASH].to_numpy(), kind="stable")), [HASH])

    def count(self, taken: Taken) -> int:
        """How many rows came, copies left out."""
        return int(sum(self.own(port, rows).sum() for port, rows in enumerate(taken.ports)))

    def late(self, times: Array, edge: Edge) -> Mask:
        """Which rows came behind the watermark, and behind what lateness allows."""
        return np.asarray(times < int(edge.before) - int(self.lateness))

    def in_order(self, rows: pl.DataFrame) -> pl.DataFrame:
        """State rows in canonical order; those of one key and time stay in the order in which they stand."""
        slices = self.slices(rows["window_end"].to_numpy())
        order, _ = arrange(
            only(rows, self.key_schema), slices, rows["hash"].to_numpy(), rows["window_start"].to_numpy()
        )
        return rows_at(rows, order)

    def living(self, state: State, hashes: Array, after: int) -> pl.DataFrame:
        """The rows of the state with these hashes that live past a watermark, from the oldest to the youngest."""
        wanted = sorted_unique(hashes)
        found = state.find(dict.fromkeys(sorted(state.slices), wanted), self.state_schema)
        return kept(found, found["window_end"].to_numpy() > after)

    def clock(self, edge: Edge, tick: Tick) -> int:
        """The time by which rows of state are forgotten: the watermark after the tick, if nothing else is said."""
        return int(edge.after)

    def stored(self, state: State, rows: pl.DataFrame, edge: Edge, tick: Tick) -> State:
        """The state with more rows, without what is over, and with fewer segments where there were many."""
        if edge.after >= Instant.END_OF_TIME:
            return state.without(list(state.slices))
        now = self.clock(edge, tick)
        fresh = self.in_order(kept(rows, self.lasting(rows["window_end"].to_numpy(), now)))
        touched = sorted_unique(self.slices(fresh["window_end"].to_numpy())).tolist()
        over = state.between(int(Instant.BEFORE_ALL_TIME), now // self.slice_width - 1)
        return state.without(over).add(self, fresh, tick.number).merged(self, touched, watermark=now)


AnyPlan: TypeAlias = Plan | OperatorPlan


def unite_taken(parts: Sequence[Taken]) -> Taken:
    """What several tasks found, given in order of (source, task)."""
    return (
        parts[0] if len(parts) == 1 else Taken(ports=tuple(map(stacked, zip(*(p.ports for p in parts), strict=True))))
    )


def share_taken(taken: Taken, least: int, greatest: int) -> Taken:
    """The part that belongs to the keys with these hashes."""
    return Taken(ports=tuple(kept(rows, _within(rows, least, greatest)) for rows in taken.ports))


def _within(rows: pl.DataFrame, least: int, greatest: int) -> Mask:
    hashes = rows[HASH].to_numpy()
    return np.asarray((hashes >= np.uint64(least)) & (hashes <= np.uint64(greatest)))


def late_by(times: Array, edge: Edge) -> pl.Series:
    """How far behind the watermark rows of these times came."""
    return pl.Series(int(edge.before) - times).cast(pl.Duration("us"))


def no_windows() -> pl.DataFrame:
    """No windows that others replaced: only windows that merge have any."""
    return framed({})
