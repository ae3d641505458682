"""A user's process that works in columns: ask it, and hold its answers to what was described."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from strandline.errors import DataError, did_you_mean
from strandline.kernel.frames import changed, constant, framed, kept, no_rows, only, rows_at, stacked
from strandline.kernel.keys import KEY
from strandline.kernel.operators.join import NOBODY, gathered
from strandline.kernel.operators.plan import Mask
from strandline.kernel.operators.turn import EVENT, EXPIRES, FOR_EVER, GONE, KEPT, STATE, entries, of_keys
from strandline.kernel.order import arrange
from strandline.kernel.schema import polars_schema, polars_type
from strandline.model.panes import TIME
from strandline.model.process import TableProcess, Value, kept_of
from strandline.model.ticks import Edge, Tick
from strandline.model.types import Schema
from strandline.model.users import ask

if TYPE_CHECKING:
    from strandline.kernel.operators.process import ProcessPlan

Array = npt.NDArray[Any]


class TableBench:
    """One instance of the user's class."""

    def __init__(
        self, process: Any, keys: Sequence[str], inputs: Schema, output: Schema, sides: Mapping[str, Schema]
    ) -> None:
        self.name, self.keys = process.__name__, list(keys)
        schemas: dict[str | None, Schema] = {None: output}
        schemas.update(sides.items())
        self.schemas = {side: {**polars_schema(schema), TIME: pl.Int64()} for side, schema in schemas.items()}
        self.values = {name: each for name, each in kept_of(process).items() if isinstance(each, Value)}
        types = polars_schema(inputs)
        self.state_schema = {key: types[key] for key in keys} | {n: polars_type(v.kind) for n, v in self.values.items()}
        self.process: TableProcess = ask(self.name, process)
        ask(f"{self.name}.open", self.process.open)

    def run(
        self, events: pl.DataFrame, state: pl.DataFrame
    ) -> tuple[dict[str | None, pl.DataFrame], pl.DataFrame, Array]:
        """What comes out by side, the state after it, and for each row of `state` which row of that is its key's, or NOBODY."""
        who = f"{self.name}.on_events"
        given = (events, state) if self.process.tables == "polars" else (events.to_arrow(), state.to_arrow())
        shown, after, sides = self._parts(who, ask(who, self.process.on_events, *given))
        frames: dict[str | None, pl.DataFrame] = {None: shown}
        frames.update(sides.items())
        fitting = {side: self._fitting(who, frames[side], schema) for side, schema in self.schemas.items()}
        after = self._fitting(who, after, self.state_schema)
        return fitting, after, self._places(who, state, after)

    def _parts(self, who: str, answer: Any) -> tuple[pl.DataFrame, pl.DataFrame, dict[str, pl.DataFrame]]:
        """An answer as frames; a side that is not named gets nothing."""
        parts = [*answer] if isinstance(answer, tuple) else []
        sides = parts.pop() if len(parts) == 3 else {}
        tables = [*parts, *sides.values()] if isinstance(sides, Mapping) else []
        if len(parts) != 2 or not tables or not all(isinstance(each, pl.DataFrame | pa.Table) for each in tables):
            kind = "Polars frames" if self.process.tables == "polars" else "Arrow tables"
            raise DataError(
                f"{who} gave {answer!r:.100}.",
                fix=f"Return two {kind}: what comes out, and the state; then, for sides, a mapping of their names to such.",
            )
        for side in sides:
            if side is None or side not in self.schemas:
                names = [str(each) for each in self.schemas if each is not None]
                raise DataError(f"{who} gives rows to the side {side!r}.", fix=did_you_mean(str(side), names))
        nothing = {str(side): no_rows(schema) for side, schema in self.schemas.items() if side is not None}
        shown, after = map(_frame, parts)
        return shown, after, {**nothing, **{side: _frame(each) for side, each in sides.items()}}

    def _places(self, who: str, state: pl.DataFrame, after: pl.DataFrame) -> Array:
        asked, given = only(state, self.keys), only(after, self.keys)
        if given.equals(asked) and after.height == state.height:
            return np.arange(state.height)
        if after.height > 1 and (not self.keys or given.is_duplicated().any()):
            raise DataError(f"{who} gave two rows of state for one key.", fix="Give one row for each key, or none.")
        if not self.keys:
            return np.full(state.height, NOBODY)  # there is one key, and nothing was given for it
        numbered = given.with_row_index("__at")
        found = asked.join(numbered, on=self.keys, how="left", nulls_equal=True, maintain_order="left")["__at"]
        if len(found) - found.null_count() != given.height:
            raise DataError(f"{who} gave state for a key that no event had.", fix="Keep only keys that are in `state`.")
        return found.cast(pl.Int64).fill_null(NOBODY).to_numpy()

    def _fitting(self, who: str, frame: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
        for name in schema:
            if name not in frame.columns:
                raise DataError(
                    f"{who} gave a frame without the column {name!r}.",
                    fix=f"Carry the time of events along: {TIME}."
                    if name == TIME
                    else did_you_mean(name, frame.columns),
                )
        try:
            return frame.select(pl.col(name).cast(dtype) for name, dtype in schema.items())
        except pl.exceptions.PolarsError as error:
            raise DataError(
                f"{who} gave columns of other types: {error}", fix="Cast them as they are described."
            ) from None


def _frame(table: Any) -> pl.DataFrame:
    """A table as a Polars frame."""
    if isinstance(table, pl.DataFrame):
        return table
    found = pl.from_arrow(table)
    assert isinstance(found, pl.DataFrame)
    return found


class TableTurn:
    """The keys that are woken in a tick, all at once."""

    def __init__(
        self, plan: ProcessPlan, words: pl.DataFrame, ready: pl.DataFrame, left: pl.DataFrame, edge: Edge, tick: Tick
    ) -> None:
        assert plan.table_bench is not None
        self.plan, self.bench, self.left = plan, plan.table_bench, left
        self.clock = int(tick.now) if plan.by_clock else None
        self.watermark = int(edge.before) if self.clock is None else self.clock
        self.words, self.ready = words, ready
        self.given = {side: no_rows(schema) for side, schema in self.bench.schemas.items()}
        self.new = no_rows(plan.state_schema)

    def run(self) -> None:
        """Hand all events over, with the state of their keys."""
        if self.ready.is_empty():
            return
        known, columns = self.words.height, ["hash", *self.plan.key_schema]
        table = stacked([only(self.words, columns), only(self.ready, columns)])
        keys, hashes = only(table, self.plan.key_schema), table["hash"].to_numpy()
        # Rows of a key: its word, if there is one, then its events by arrival, or by time if they waited for that.
        times = np.concatenate([np.full(known, -FOR_EVER), self.ready["window_start"].to_numpy()])
        order, groups = arrange(keys, np.zeros(len(hashes), np.int64), hashes, *((times,) if self.plan.waits else ()))
        groups = of_keys(keys, hashes, order) if self.plan.waits else groups
        firsts, latest = order[groups.starts], groups.greatest(times[order])
        met = latest > -FOR_EVER  # of a key whose hash alone was asked for no event came
        firsts, latest, starts = firsts[met], latest[met], groups.starts[met]
        words = np.where(firsts < known, firsts, NOBODY)
        mine, began = rows_at(table, firsts), times[order[starts + (firsts < known)]]
        seen = np.where(self._seen(words, began), words, NOBODY)
        self.given, after, places = self.bench.run(self._events(order[order >= known] - known), self._state(mine, seen))
        values = self._kept(gathered(only(after, self.bench.values), places))
        there = np.zeros(len(words), np.bool_)  # where all is as at first there is nothing to remember
        for each in values.values():
            there |= each.is_not_null().to_numpy()
        self.new = self._rows(mine, words, self._ends(words, seen, latest, values), latest, values, there)

    def _events(self, rows: Array) -> pl.DataFrame:
        renamed = {EVENT + name: name for name in self.plan.inputs[0]}
        events = only(self.ready, renamed).rename(renamed)
        return changed(events, {TIME: self.ready["window_start"]})[rows]

    def _seen(self, words: Array, began: Array) -> Mask:
        """Which keys are remembered when their first event of the tick comes."""
        there: Mask = words != NOBODY
        mine = words[there]
        now = self.watermark if self.clock is not None else np.maximum(began[there], self.watermark)
        there[there] = (self.words["kind"].to_numpy()[mine] == STATE) & (self._expires()[mine] > now)
        return there

    def _expires(self) -> Array:
        """Until when each word's key is remembered."""
        if self.plan.node.ttl is None:
            return np.full(self.words.height, FOR_EVER)
        return self.words[EXPIRES].fill_null(0).to_numpy()

    def _state(self, keys: pl.DataFrame, seen: Array) -> pl.DataFrame:
        """What is remembered of each key, or the defaults."""
        kept_values = gathered(only(self.words, [KEPT + name for name in self.bench.values]), seen)
        columns = {key.removeprefix(KEY): keys[key] for key in self.plan.key_schema}
        columns |= {name: _or_default(kept_values[KEPT + name], each) for name, each in self.bench.values.items()}
        return framed(columns)

    def _kept(self, values: pl.DataFrame) -> dict[str, pl.Series]:
        """Values as they are kept: null stands for the default."""
        return {name: _without_default(values[name], each) for name, each in self.bench.values.items()}

    def _ends(self, words: Array, seen: Array, latest: Array, values: Mapping[str, pl.Series]) -> Array:
        """When each key is forgotten; with since="write" one that is as it was is not remembered for longer."""
        ttl, same = self.plan.node.ttl, seen != NOBODY
        if ttl is None:
            return np.full(len(words), FOR_EVER)
        before = np.zeros(len(words), np.int64)
        before[same] = self._expires()[seen[same]]
        end = (latest if self.clock is None else np.full(len(words), self.clock)) + int(ttl.span)
        end = np.where(same, np.maximum(end, before), end)
        if ttl.since == "read":
            return end
        for name, each in values.items():
            same &= gathered(only(self.words, [KEPT + name]), seen)[KEPT + name].eq_missing(each).to_numpy()
        return np.where(same, before, end)

    def _before(self, words: Array) -> Array:
        """When each key that was known would have been forgotten."""
        known = words != NOBODY
        before = np.zeros(len(words), np.int64)
        before[known] = self.words["window_end"].to_numpy()[words[known]]
        return before

    def _rows(
        self, keys: pl.DataFrame, words: Array, ends: Array, latest: Array, values: Mapping[str, pl.Series], there: Mask
    ) -> pl.DataFrame:
        """State rows of the keys that stay, and word of those that are gone and were known."""
        columns: dict[str, Any] = {name: keys[name] for name in keys.columns}
        columns["window_start"] = np.zeros(len(words), np.int64)
        columns["window_end"] = np.where(there, np.maximum(ends, self._before(words)), self._before(words))
        columns[EXPIRES] = pl.Series(ends).set(pl.Series(~there), None)
        columns["kind"] = np.where(there, STATE, GONE).astype(np.uint8)
        columns |= {KEPT + name: each for name, each in values.items()}
        columns["latest"] = latest
        rest = {name: dtype for name, dtype in self.plan.state_schema.items() if name not in columns}
        columns |= {name: constant(None, dtype, len(words)) for name, dtype in rest.items()}
        return kept(framed(columns, self.plan.state_schema), there | (words != NOBODY))

    def shown(self, side: str | None) -> pl.DataFrame:
        """What was given out."""
        return self.given[side]

    def written(self) -> pl.DataFrame:
        """State rows that are new, and the events that go on waiting."""
        return stacked([self.new, only(self.left, self.plan.state_schema)])

    def due(self, clock: str, now: int) -> pl.DataFrame:
        """When keys must be woken: for events that wait."""
        whole = entries(self.left["window_start"].to_numpy() + 1, self.left["hash"].to_numpy())
        return whole if clock == "event" else whole.clear()


def _or_default(column: pl.Series, value: Value) -> pl.Series:
    if value.default is None or not column.null_count():
        return column
    return column.zip_with(column.is_not_null(), _defaults(column, value))


def _without_default(column: pl.Series, value: Value) -> pl.Series:
    if value.default is None:
        return column
    same = column.eq_missing(_defaults(column, value))
    return column.zip_with(~same, constant(None, column.dtype, len(column))) if same.any() else column


def _defaults(column: pl.Series, value: Value) -> pl.Series:
    return pl.Series([value.default], dtype=column.dtype).new_from_index(0, len(column))
