"""The keys that are woken in a tick, one after the other: events and timers are handed to a user's process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.errors import DataError, DescriptionError
from strandline.kernel.frames import constant, framed, kept, only, rows_at, stacked
from strandline.kernel.groups import Groups
from strandline.kernel.order import arrange
from strandline.kernel.schema import polars_type
from strandline.kernel.users import python_rows
from strandline.model.panes import TIME
from strandline.model.processing import Bench, KeyState, Moment
from strandline.model.ticks import Edge, Tick
from strandline.model.time import Instant
from strandline.model.types import Schema, Type
from strandline.model.values import checked_value

if TYPE_CHECKING:
    from strandline.kernel.operators.process import ProcessPlan

Array = npt.NDArray[Any]

STATE, GONE, WAITING = 0, 1, 2  # what a row is: a key's state, word that there is none, or an event that waits
KEPT, SET, EVENT = "s.", "t.", "e."  # what the names of its columns begin with
EXPIRES: Final = (
    "expires"  # until when a key is remembered; its row may have to outlive what was said of the key before
)
FOR_EVER: Final = int(Instant.END_OF_TIME)
# The Python types that Polars takes for a column as they are.
_AS_THEY_ARE: Final[dict[str, type]] = {"bigint": int, "double": float, "string": str, "boolean": bool, "binary": bytes}


@dataclass(slots=True)
class _Given:
    """What is given out at one side, column by column: to keep each row until the end would have Python look after it."""

    columns: dict[str, list[Any]]
    times: list[int] = field(default_factory=list)

    def add(self, row: Mapping[str, Any], time: int) -> None:
        for name, values in self.columns.items():
            values.append(row.get(name))
        self.times.append(time)


class _Words:
    """What a tick leaves of keys, column by column: the state of each, or that there is none any more."""

    def __init__(self, plan: ProcessPlan) -> None:
        self.rows: list[int] = []  # of each a row of the turn's table with the key
        self.ends: list[int] = []
        self.kinds: list[int] = []
        self.latest: list[int | None] = []
        self.expires: list[int | None] = []
        self.values: dict[str, list[Any]] = {name: [] for name in plan.values}
        self.timers: dict[str, list[int | None]] = {name: [] for name in plan.timers}

    def add(self, row: int, state: KeyState | None, end: int) -> None:
        self.rows.append(row)
        self.ends.append(end)
        self.kinds.append(GONE if state is None else STATE)
        self.latest.append(None if state is None else state.latest)
        self.expires.append(None if state is None else state.expires)
        for name, values in self.values.items():
            values.append(None if state is None else state.values[name])
        for name, rings in self.timers.items():
            rings.append(None if state is None else state.timers.get(name))


class Turn:
    """The keys that are woken in a tick, one after the other by their hash."""

    def __init__(
        self, plan: ProcessPlan, words: pl.DataFrame, ready: pl.DataFrame, left: pl.DataFrame, edge: Edge, tick: Tick
    ) -> None:
        self.plan, self.edge, self.now, self.left = plan, edge, tick.now, left
        columns = ["hash", *plan.key_schema]
        self.table = stacked([only(words, columns), only(ready, columns)])
        self.words, self.ready, self.known = words, ready, words.height
        schemas: dict[str | None, Schema] = {None: plan.node.output}
        schemas.update(plan.node.sides)
        self.given = {side: _Given({name: [] for name in schema}) for side, schema in schemas.items()}
        self.left_behind = _Words(plan)

    @property
    def bench(self) -> Bench:
        """The user's class at work."""
        return self.plan.bench

    def run(self) -> None:
        """Hand everything over."""
        keys, hashes = only(self.table, self.plan.key_schema), self.table["hash"].to_numpy()
        # Rows of a key: its word, if there is one, then its events by arrival, or by time if they waited for that.
        times = np.concatenate([np.full(self.known, -FOR_EVER), self.ready["window_start"].to_numpy()])
        by = (times,) if self.plan.waits else ()
        order, groups = arrange(keys, np.zeros(len(hashes), np.int64), hashes, *by)
        groups = of_keys(keys, hashes, order) if by else groups
        firsts, came = order[groups.starts], order >= self.known
        known = firsts < self.known
        # What is handed over is made on the way: to hold the rows of a great tick as Python values costs more than time.
        states, events = self._states(order[~came]), self._events(order[came] - self.known)
        names = list(self.plan.keys[0])
        values = python_rows(rows_at(self.table, firsts), keys.columns)
        for row, there, count, key in zip(
            firsts.tolist(), known.tolist(), (groups.lengths - known).tolist(), values, strict=True
        ):
            state = next(states) if there else None
            after = self._run_key(dict(zip(names, key, strict=True)), state, islice(events, count))
            if after is not state:
                self.left_behind.add(row, after, self._end(row, after))

    def _states(self, rows: Array) -> Iterator[KeyState | None]:
        """What is remembered of each key that has a word, in this order."""
        plan, words = self.plan, self.words[rows]
        kept_values = python_rows(words, [KEPT + name for name in plan.values])
        timers = python_rows(words, [SET + name for name in plan.timers])
        ends = words[EXPIRES].to_list() if plan.node.ttl is not None else [None] * words.height
        rest = zip(words["kind"].to_list(), ends, words["latest"].to_list(), strict=True)
        for values, rings, (kind, expires, latest) in zip(kept_values, timers, rest, strict=True):
            if kind == GONE:
                yield None
                continue
            pending = {name: at for name, at in zip(plan.timers, rings, strict=True) if at is not None}
            yield KeyState(dict(zip(plan.values, values, strict=True)), pending, expires, latest)

    def _events(self, rows: Array) -> Iterator[tuple[int, Any]]:
        """The events in this order, each with its time."""
        names, ready = list(self.plan.inputs[0]), self.ready[rows]
        columns = python_rows(ready, [EVENT + name for name in names])
        for time, row in zip(ready["window_start"].to_list(), columns, strict=True):
            yield time, dict(zip(names, row, strict=True))

    # One key.

    def _run_key(
        self, key: dict[str, Any], state: KeyState | None, events: Iterable[tuple[int, Any]]
    ) -> KeyState | None:
        bench, before, now, waits = self.bench, self.edge.before, self.now, self.plan.waits
        for time, row in events:
            if waits:
                state = self._ring(key, state, until=time)
            if state is not None and state.expires is not None:
                state = self._met(key, state, max(time, int(before)))
            bench.take_up(state)
            bench.event(key, row, Moment(time, before, now))
            state = self._after(state, time, read=True)
        return self._ring(key, state, until=None)

    def _met(self, key: dict[str, Any], state: KeyState | None, time: int) -> KeyState | None:
        """The state that an event finds; one that has expired lets the timers ring first that were due before it did."""
        while state is not None and self._visible(state, time) is None:
            due = min(((at, name) for name, at in state.timers.items() if self._overdue(state, name, at)), default=None)
            if due is None:
                return None
            state = self._ring_one(key, state, due[1], due[0])
        return state

    def _overdue(self, state: KeyState, name: str, at: int) -> bool:
        clock = self.edge.after if self.plan.timers[name].clock == "event" else self.now
        return at <= clock and self._outlives(state, name, at)

    def _outlives(self, state: KeyState, name: str, at: int) -> bool:
        """Whether a key is still remembered at the time for which a timer of its was set."""
        ttl = self.plan.node.ttl
        return (
            ttl is None or state.expires is None or (ttl.clock == self.plan.timers[name].clock and at < state.expires)
        )

    def _ring(self, key: dict[str, Any], state: KeyState | None, *, until: int | None) -> KeyState | None:
        """Let the timers ring that are due, the earliest first."""
        if state is None or not state.timers:
            return state
        latest = state.latest if until is None and self.edge.after >= Instant.END_OF_TIME else None
        while state is not None and (due := self._due(state, until, latest)) is not None:
            state = self._ring_one(key, state, due[1], due[0])
        return state

    def _due(self, state: KeyState, until: int | None, latest: int | None) -> tuple[int, str] | None:
        """The next timer to ring. When time ends, it goes on for as long as a timer may wait behind the `latest` moment."""
        found = []
        for name, at in state.timers.items():
            timer = self.plan.timers[name]
            if timer.clock == "event":
                due = at <= self.edge.after and (until is None or at <= until)
                due = due and (latest is None or at <= latest + timer.longest)
            else:
                due = until is None and at <= self.now
            if due:
                found.append((at, name))
        return min(found, default=None)

    def _ring_one(self, key: dict[str, Any], state: KeyState, name: str, at: int) -> KeyState | None:
        by_event = self.plan.timers[name].clock == "event"
        # By the clock no event time has come; the key's latest one is the best that is known.
        time = max(at if by_event else state.latest, int(self.edge.before))
        if not self._outlives(state, name, at):
            return None
        self.bench.take_up(state)
        self.bench.ring(key, name, Moment(time, self.edge.before, self.now))
        return self._after(state, time, read=False)

    def _visible(self, state: KeyState | None, time: int) -> KeyState | None:
        """The state, unless it has expired."""
        if state is None or state.expires is None:
            return state
        return state if state.expires > (int(self.now) if self.plan.by_clock else time) else None

    def _after(self, before: KeyState | None, time: int, *, read: bool) -> KeyState | None:
        """What is to be remembered after an event or a timer."""
        bench, ttl = self.bench, self.plan.node.ttl
        if bench.rows:
            for side, row, at in bench.take_rows():
                self.given[side].add(row, at)
        values, timers = bench.state(), dict(bench.timers)
        if not timers and [*values.values()].count(None) == len(values):
            return None
        changed_since = before is None or before.values != values or before.timers != timers
        expires = None if before is None else before.expires
        if ttl is not None and (changed_since or (read and ttl.since == "read")):
            clock = int(self.now) if self.plan.by_clock else time
            expires = max(clock + int(ttl.span), clock if expires is None else expires)
        latest = time if before is None else max(before.latest, time)
        if before is not None and not changed_since and (expires, latest) == (before.expires, before.latest):
            return before
        return KeyState(values, timers, expires, latest)

    # What a turn leaves.

    def shown(self, side: str | None) -> pl.DataFrame:
        """What was given out, by key."""
        schema = self.plan.node.output if side is None else dict(self.plan.node.sides)[side]
        mine, who = self.given[side], f"What {self.plan.node.process.__name__} gives out"
        columns = {
            name: column_of(kind, mine.columns[name], f"{who}, column {name!r}") for name, kind in schema.columns
        }
        return framed({**columns, TIME: np.array(mine.times, np.int64)})

    def written(self) -> pl.DataFrame:
        """The words that are new, and the events that go on waiting."""
        plan, words = self.plan, self.left_behind
        own = self.table[np.array(words.rows, np.int64)] if words.rows else self.table.clear()
        columns: dict[str, Any] = {name: own[name] for name in own.columns}
        columns["window_start"] = np.zeros(own.height, np.int64)
        columns["window_end"] = np.array(words.ends, np.int64)
        columns["kind"] = np.array(words.kinds, np.uint8)
        columns |= {
            KEPT + name: pl.Series(words.values[name], dtype=polars_type(each.kind))
            for name, each in plan.values.items()
        }
        columns |= {SET + name: pl.Series(rings, dtype=pl.Int64) for name, rings in words.timers.items()}
        columns["latest"] = pl.Series(words.latest, dtype=pl.Int64)
        columns[EXPIRES] = pl.Series(words.expires, dtype=pl.Int64)
        rest = {name: dtype for name, dtype in plan.state_schema.items() if name not in columns}
        columns |= {name: constant(None, dtype, own.height) for name, dtype in rest.items()}
        made = framed(columns, plan.state_schema)
        return stacked([made, only(self.left, plan.state_schema)])

    def _end(self, row: int, state: KeyState | None) -> int:
        """Until when a word counts: no word of a key may be outlived by an older one."""
        before = int(self.words["window_end"][row]) if row < self.known else 0
        if state is None:
            return before
        return FOR_EVER if state.expires is None else max(state.expires, before)

    def due(self, clock: str, now: int) -> pl.DataFrame:
        """When keys must be woken: for timers of this clock, and for events that wait."""
        parts = []
        for name, timer in self.plan.timers.items():
            if timer.clock == clock:
                words = self.left_behind
                mine = [(at, row) for at, row in zip(words.timers[name], words.rows, strict=True) if at is not None]
                parts.append(entries([at for at, _ in mine], self.table["hash"].to_numpy()[[row for _, row in mine]]))
        if clock == "event" and self.left.height:
            parts.append(entries(self.left["window_start"].to_numpy() + 1, self.left["hash"].to_numpy()))
        whole = stacked(parts) if parts else entries([], [])
        return kept(whole, whole["due"].to_numpy() > now)


def entries(due: Any, hashes: Any) -> pl.DataFrame:
    """When to wake the keys with these hashes, as an index of what is due has it."""
    zeros = np.zeros(len(due), np.int64)
    return framed({
        "due": np.asarray(due, np.int64), "hash": np.asarray(hashes, np.uint64), "window_start": zeros, "window_end": zeros,
    })  # fmt: skip


def of_keys(keys: pl.DataFrame, hashes: Array, order: Array) -> Groups:
    """The groups of rows of one key, which stand together in this order."""
    if not len(order):
        return Groups(np.zeros(0, np.int64), 0)
    by_key, groups = arrange(keys, np.zeros(len(hashes), np.int64), hashes)
    ids = np.empty(len(order), np.int64)
    ids[by_key] = groups.ids
    return Groups.of_ids(ids[order])


def column_of(kind: Type, values: list[Any], place: str) -> pl.Series:
    """Values that a user gave out as a column of a type; DataError says which does not fit."""
    dtype, wanted = polars_type(kind), _AS_THEY_ARE.get(kind.name)
    if wanted is not None and {*map(type, values)} <= {wanted, type(None)}:
        try:
            return pl.Series(values, dtype=dtype)
        except (TypeError, OverflowError, pl.exceptions.PolarsError):
            pass  # said below, with the value
    try:
        return pl.Series([checked_value(kind, value, place) for value in values], dtype=dtype)
    except DescriptionError as error:
        raise DataError(error.what, fix=error.fix) from None
