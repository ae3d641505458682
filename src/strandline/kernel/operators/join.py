"""A join in columns: rows of both sides are kept as long as a match may come, and paired by binary search.

What is decided by the watermark (that a row has no match, or which match is the first) is found by looking again at what
is kept: the rows of either side live until every row that they match is decided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.advance import Advanced
from strandline.kernel.frames import changed, constant, framed, kept, only, rows_at, stacked
from strandline.kernel.keys import KEY, any_null, key_columns
from strandline.kernel.operators.places import Places
from strandline.kernel.operators.plan import HASH, Mask, OperatorPlan, Taken, late_by, no_windows
from strandline.kernel.operators.ranges import ranges, spread
from strandline.kernel.order import arrange
from strandline.kernel.plan import SECOND
from strandline.kernel.preaggregate import Books
from strandline.kernel.schema import polars_schema
from strandline.kernel.state import State
from strandline.kernel.windows import LEAVES, assign
from strandline.model.intervals import Interval
from strandline.model.keeping import decided_sides, held_back, lives_of
from strandline.model.nodes import JoinNode
from strandline.model.operators import LEFT_ONLY, right_names
from strandline.model.panes import SIDE, TIME
from strandline.model.ticks import Edge, Tick
from strandline.model.time import Instant, Span
from strandline.model.types import Schema

Array = npt.NDArray[Any]

LEFT, RIGHT = 0, 1
SIDES: Final = ("left", "right")
OURS: Final = ("l.", "r.")  # what the names of each side's columns begin with in the state
WINDOW: Final = ("w.start", "w.end")
NOBODY: Final = -1
SLICES: Final = 8


class JoinPlan(OperatorPlan):
    """Keeps the rows of both sides; `kind` says which."""

    meaning: ClassVar = ("keys", "other_keys", "within", "match", "how", "salt")
    node: JoinNode

    def __init__(self, node: JoinNode, inputs: tuple[Schema, ...], lateness: Span) -> None:
        super().__init__(node, inputs, [node.keys, node.other_keys], lateness)
        left, right = inputs
        self.names = right_names(node, left, right)
        self.interval = node.within if isinstance(node.within, Interval) else None
        self.windows = None if isinstance(node.within, Interval) else node.within.window
        if node.salt is not None:
            spread = RIGHT if node.how == "right" else LEFT  # the side of which rows without a match are shown
            self.places = Places.over(node.salt, spread, inputs[spread])

    @cached_property
    def values(self) -> tuple[list[str], list[str]]:
        """The columns of each side that are kept beside the key."""
        left, right = (
            [name for name in schema if name not in keys] for schema, keys in zip(self.inputs, self.keys, strict=True)
        )
        return left, right

    @property
    def own_columns(self) -> dict[str, pl.DataType]:
        """The columns of both sides; those of a row's other side are null."""
        sides = zip(OURS, self.values, map(polars_schema, self.inputs), strict=True)
        columns = {prefix + name: types[name] for prefix, names, types in sides for name in names}
        return {**columns, **({name: pl.Int64() for name in WINDOW} if self.windows else {})}

    @property
    def slice_width(self) -> int:
        """A few slices for the time that a row lives."""
        if self.interval is None:
            return 3_600 * SECOND
        return max((int(self.interval.high) - int(self.interval.low)) // SLICES, SECOND)

    def upcoming(self, state: State, watermark: int) -> Instant | None:
        """When rows are over, or decided."""
        found = [super().upcoming(state, watermark), state.expiries.earliest]
        return min((at for at in found if at is not None), default=None)

    def promise(self, after: Instant, hold: Instant | None) -> Instant:
        """A row that waits for its match, or for word that there is none, comes out with its own time."""
        if self.interval is None or after >= Instant.END_OF_TIME:
            return after
        return Instant(int(after) - int(held_back(self.node)))

    # The tick.

    def advance(self, state: State, taken: Taken, edge: Edge, tick: Tick) -> Advanced:
        """Take rows of both sides, pair them with what is kept, and decide what the watermark decides."""
        sides = [self._judged(port, rows, edge) for port, rows in enumerate(taken.ports)]
        fresh = stacked([side.fresh for side in sides])
        due = state.expiries.due(edge.after)
        hashes = np.concatenate([fresh["hash"].to_numpy(), due["hash"].to_numpy()])
        meeting = _Meeting(self, self.living(state, hashes, int(edge.before)), fresh, edge)
        expiries = state.expiries.forget(edge.after).add(self._decisions(fresh, int(edge.after)))
        after = self.stored(replace(state, expiries=expiries), fresh, edge, tick)
        late, rejected = (stacked([getattr(side, name) for side in sides]) for name in ("late", "rejected"))
        rows = self.count(taken)
        return Advanced(
            state=after, panes=meeting.shown(), late=late, rejected=rejected, replaced=no_windows(), hold=None,
            books=Books(rows=rows, kept=rows - late.height - rejected.height, late=late.height, rejected=rejected.height),
        )  # fmt: skip

    def _judged(self, port: int, rows: pl.DataFrame, edge: Edge) -> _Side:
        times = rows[TIME].to_numpy()
        start, end, outside = self._windows_of(rows, times)
        late = (self.late(times, edge) if self.windows is None else self.late(end - 1, edge)) & ~outside
        good, own = ~late & ~outside, self.own(port, rows)
        late, outside = late & own, outside & own
        reasons = constant(LEAVES, pl.String(), int(outside.sum()))
        return _Side(
            fresh=self._fresh(port, kept(rows, good), times[good], start[good], end[good]),
            late=changed(self._alone(port, kept(rows, late)), {"late_by": late_by(times[late], edge)}),
            rejected=changed(self._alone(port, kept(rows, outside)), {"reason": reasons}),
        )

    def _windows_of(self, rows: pl.DataFrame, times: Array) -> tuple[Array, Array, Mask]:
        """The window of each row, and which rows have none that a calendar could show."""
        start, end, outside = times, times, np.zeros(len(times), np.bool_)
        if self.windows is not None:
            found = assign(self.windows, rows, times)
            start, end = times.copy(), times.copy()
            start[found.row], end[found.row] = found.start, found.end
            outside[list(found.rejected)] = True
        return start, end, outside

    def _fresh(self, port: int, rows: pl.DataFrame, times: Array, start: Array, end: Array) -> pl.DataFrame:
        """Rows of a side as they are kept."""
        keys = key_columns(self.keys[port], rows)
        named = dict(zip(self.key_schema, keys.get_columns(), strict=True))
        columns: dict[str, Any] = {
            "hash": rows[HASH],
            **named,
            "window_start": times,
            "window_end": self._life(port, times, end),
        }
        columns["kind"] = np.full(len(times), port, np.uint8)
        columns |= {OURS[port] + name: rows[name] for name in self.values[port]}
        if self.windows is not None:
            columns |= dict(zip(WINDOW, (start, end), strict=True))
        others = {name: dtype for name, dtype in self.state_schema.items() if name not in columns}
        columns |= {name: constant(None, dtype, len(times)) for name, dtype in others.items()}
        return framed(columns, self.state_schema)

    def _life(self, port: int, times: Array, end: Array) -> Array:
        """Until when rows may be needed: for a match that comes, or to know that another row has had one."""
        grace = int(self.lateness)
        if self.interval is None:
            return _not_beyond_time(end + grace)
        return _not_beyond_time(times + int(lives_of(self.node)[port]) + 1 + grace)

    def decided_at(self, rows: pl.DataFrame) -> Array:
        """The watermark at which it is known that no match of a row can come any more."""
        if self.interval is None:
            return rows["window_end"].to_numpy()
        times = rows["window_start"].to_numpy()
        reach = np.where(rows["kind"].to_numpy() == LEFT, int(self.interval.high), -int(self.interval.low))
        return _not_beyond_time(times + reach + 1 + int(self.lateness))

    def decides(self, rows: pl.DataFrame) -> Mask:
        """Of which rows something is shown when they are decided."""
        return np.asarray(np.where(rows["kind"].to_numpy() == LEFT, *decided_sides(self.node)))

    def _decisions(self, fresh: pl.DataFrame, after: int) -> pl.DataFrame:
        """When to look at rows again, as the index has it."""
        due = self.decided_at(fresh)
        entries = framed({"due": due, **{name: fresh[name] for name in ("hash", "window_start", "window_end")}})
        return kept(entries, self.decides(fresh) & (due > after))

    # How rows look.

    def _alone(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows that are put aside, as rows without a match."""
        left, right = self.inputs
        keys = dict(zip(self.keys[LEFT], key_columns(self.keys[port], rows).get_columns(), strict=True))
        columns: dict[str, Any] = {}
        for name, dtype in polars_schema(left).items():
            columns[name] = (
                keys[name] if name in keys else rows[name] if port == LEFT else constant(None, dtype, rows.height)
            )
        types = polars_schema(right)
        theirs = dict(zip(self.keys[RIGHT], keys.values(), strict=True))
        for name, called in self.names.items():
            mine = theirs.get(name, rows[name]) if port == RIGHT else constant(None, types[name], rows.height)
            columns[called] = mine
        return framed(
            {**columns, SIDE: constant(SIDES[port], pl.String(), rows.height), TIME: rows[TIME], HASH: rows[HASH]}
        )

    def row(self, table: pl.DataFrame, left: Array, right: Array) -> pl.DataFrame:
        """Pairs of rows of a table as they are shown; NOBODY is null."""
        some = np.where(left == NOBODY, right, left)
        mine = gathered(only(table, [OURS[LEFT] + name for name in self.values[LEFT]]), left)
        either = gathered(only(table, [*self.key_schema, *(WINDOW if self.windows else ())]), some)
        columns: dict[str, Any] = {}
        for name in self.inputs[LEFT]:
            columns[name] = either[KEY + name] if name in self.keys[LEFT] else mine[OURS[LEFT] + name]
        if self.node.how not in LEFT_ONLY:
            keys = dict(zip(self.keys[RIGHT], self.key_schema, strict=True))
            called = {name: keys.get(name, OURS[RIGHT] + name) for name in self.names}
            theirs = gathered(only(table, dict.fromkeys(called.values())), right)
            columns |= {self.names[name]: theirs[stored] for name, stored in called.items()}
        times = table["window_start"].to_numpy()
        shown_at = np.maximum(times[some], times[np.where(right == NOBODY, some, right)])
        if self.windows is not None:
            stamp = pl.Datetime("us", "UTC")
            columns |= {f"window_{name[2:]}": either[name].cast(stamp) for name in WINDOW}
            shown_at = either[WINDOW[1]].to_numpy() - 1
        return framed({**columns, TIME: shown_at})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """The rows of one side in a tick: those that are taken, and those that are put aside."""

    fresh: pl.DataFrame
    late: pl.DataFrame
    rejected: pl.DataFrame


class _Meeting:
    """The rows of a tick, kept and fresh, in the order in which they are paired: by key, then by time, then by age."""

    def __init__(self, plan: JoinPlan, stored: pl.DataFrame, fresh: pl.DataFrame, edge: Edge) -> None:
        self.plan, self.edge = plan, edge
        table = stacked([stored, fresh])
        new = np.arange(table.height) >= stored.height
        keys = only(table, plan.key_schema)
        windows = () if plan.windows is None else (table[WINDOW[0]].to_numpy(),)
        order, _ = arrange(
            keys, np.zeros(table.height, np.int64), table["hash"].to_numpy(), *windows, table["window_start"].to_numpy()
        )
        self.table, self.new = rows_at(table, order), new[order]
        self.times = self.table["window_start"].to_numpy()
        self.keys = _ids_of_keys(self.table, plan)
        self.groups = self.keys if plan.windows is None else _within_keys(self.keys, self.table[WINDOW[0]].to_numpy())
        self.left = self.table["kind"].to_numpy() == LEFT
        self.joins = ~any_null(only(self.table, plan.key_schema))

    def shown(self) -> pl.DataFrame:
        """What the join shows in this tick, by key, then by the left row, then by the right one."""
        left, right = (np.concatenate(parts) for parts in zip(*self._pairs(), *self._decided(), strict=True))
        # The order of the table is by key first; of one key, rows of the right side alone stand behind.
        keys = self.keys[np.where(left == NOBODY, right, left)]
        order = np.lexsort((right, left, left == NOBODY, keys) if (left == NOBODY).any() else (right, left))
        return self.plan.row(self.table, left[order], right[order])

    def _pairs(self) -> list[tuple[Array, Array]]:
        """Pairs of which one row is fresh: those that are shown at once."""
        node = self.plan.node
        if node.match != "all" or node.how == "anti":
            return [_none()]
        lefts, rights = (np.flatnonzero(side & self.joins) for side in (self.left, ~self.left))
        fresh = self._matches(lefts[self.new[lefts]], rights)
        again = self._matches(lefts[~self.new[lefts]], rights[self.new[rights]])
        if node.how != "semi":
            return [fresh, again]
        # A left row is shown when its first match comes: not if it has an older one.
        old = np.unique(again[0])
        before, _ = self._matches(old, rights[~self.new[rights]])
        first = np.concatenate([np.unique(fresh[0]), np.setdiff1d(old, before)])
        return [(first, np.full(len(first), NOBODY))]

    def _matches(self, lefts: Array, rights: Array) -> tuple[Array, Array]:
        """All pairs of these rows that fit."""
        first, counts = self._ranges(lefts, rights)
        which, places = spread(first, counts)
        return lefts[which], rights[places]

    def _ranges(self, lefts: Array, rights: Array) -> tuple[Array, Array]:
        interval, times = self.plan.interval, self.times[lefts]
        low, high = (times + int(interval.low), times + int(interval.high)) if interval else (times * 0, times * 0)
        there = self.times[rights] if interval else self.times[rights] * 0
        return ranges(self.groups[rights], there, self.groups[lefts], low, high)

    def _decided(self) -> list[tuple[Array, Array]]:
        """Rows for which this tick says that no match can come any more, and what is shown of them."""
        if not any(decided_sides(self.plan.node)):
            return [_none()]
        at = self.plan.decided_at(self.table)
        due = (at <= int(self.edge.after)) & ((at > int(self.edge.before)) | self.new) & self.plan.decides(self.table)
        return [
            *self._decided_left(np.flatnonzero(due & self.left)),
            *self._decided_right(np.flatnonzero(due & ~self.left)),
        ]

    def _decided_left(self, lefts: Array) -> list[tuple[Array, Array]]:
        node, found = self.plan.node, []
        rights = self._by_value(np.flatnonzero(~self.left & self.joins))
        first, counts = self._ranges(lefts, rights)
        matched = (counts > 0) & self.joins[lefts]
        if node.match != "all":
            chosen = first if node.match == "first" else first + counts - 1
            found.append((lefts[matched], rights[chosen[matched]]))
        if node.how in ("left", "full", "anti"):
            alone = lefts[~matched]
            found.append((alone, np.full(len(alone), NOBODY)))
        return found

    def _by_value(self, rights: Array) -> Array:
        """Right rows of a key and time in the order of their values, where that chooses among them."""
        if self.plan.node.match == "all" or len(rights) < 2:
            return rights
        columns = self.plan.inputs[RIGHT].columns
        scalar = [OURS[RIGHT] + name for name, kind in columns if kind.is_scalar and name not in self.plan.keys[RIGHT]]
        place = framed(
            {"__group": self.groups[rights], "__time": self.times[rights], "__place": np.arange(len(rights))}
        )
        sorted_rows = place.hstack(rows_at(self.table, rights).select(scalar)).sort(
            "__group", "__time", *scalar, "__place", nulls_last=False
        )
        return np.asarray(rights[sorted_rows["__place"].to_numpy()])

    def _decided_right(self, rights: Array) -> list[tuple[Array, Array]]:
        lefts = np.flatnonzero(self.left & self.joins)
        interval, times = self.plan.interval, self.times[rights]
        low, high = (times - int(interval.high), times - int(interval.low)) if interval else (times * 0, times * 0)
        there = self.times[lefts] if interval else self.times[lefts] * 0
        _, counts = ranges(self.groups[lefts], there, self.groups[rights], low, high)
        alone = rights[(counts == 0) | ~self.joins[rights]]
        return [(np.full(len(alone), NOBODY), alone)]


def _not_beyond_time(watermarks: Array) -> Array:
    return np.asarray(np.minimum(watermarks, int(Instant.END_OF_TIME)))


def _none() -> tuple[Array, Array]:
    return np.zeros(0, np.int64), np.zeros(0, np.int64)


def _ids_of_keys(table: pl.DataFrame, plan: JoinPlan) -> Array:
    """The number of each row's key; rows of a key stand together."""
    hashes = table["hash"].to_numpy()
    another = hashes[1:] != hashes[:-1]
    for name in plan.key_schema:
        key = table[name]
        another |= key[1:].ne_missing(key[:-1]).to_numpy()
    return _numbered(another, table.height)


def _within_keys(keys: Array, starts: Array) -> Array:
    """The number of each row's key and window; rows of one stand together."""
    return _numbered((keys[1:] != keys[:-1]) | (starts[1:] != starts[:-1]), len(keys))


def _numbered(another: Mask, rows: int) -> Array:
    numbers = np.zeros(rows, np.int64)
    np.cumsum(another, out=numbers[1:])
    return numbers


def gathered(table: pl.DataFrame, rows: Array) -> pl.DataFrame:
    """Rows by their places; NOBODY is a row of nulls."""
    places = pl.Series(rows, dtype=pl.Int64)
    if (rows == NOBODY).any():
        places = places.set(pl.Series(rows == NOBODY), None)
    return table.select(pl.all().gather(places))
