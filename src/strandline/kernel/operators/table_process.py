"""A user's process that works in columns: ask it, and hold its answers to what was described."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.errors import DataError, did_you_mean
from strandline.kernel.frames import changed, constant, framed, kept, no_rows, only, rows_at, stacked
from strandline.kernel.keys import KEY
from strandline.kernel.operators.join import NOBODY, gathered
from strandline.kernel.operators.plan import Mask
from strandline.kernel.operators.turn import EVENT, FOR_EVER, GONE, KEPT, STATE, entries, of_keys
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

    def __init__(self, process: Any, keys: Sequence[str], inputs: Schema, output: Schema) -> None:
        self.name, self.keys, self.output = process.__name__, list(keys), output
        self.values = {name: each for name, each in kept_of(process).items() if isinstance(each, Value)}
        types = polars_schema(inputs)
        self.state_schema = {key: types[key] for key in keys} | {n: polars_type(v.kind) for n, v in self.values.items()}
        self.process: TableProcess = ask(self.name, process)
        ask(f"{self.name}.open", self.process.open)

    def run(self, events: pl.DataFrame, state: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, Array]:
        """What comes out, the state after it, and for each row of `state` which row of that is its key's, or NOBODY."""
        who = f"{self.name}.on_events"
        answer: Any = ask(who, self.process.on_events, events, state)
        if not (
            isinstance(answer, tuple) and len(answer) == 2 and all(isinstance(each, pl.DataFrame) for each in answer)
        ):
            raise DataError(
                f"{who} gave {answer!r:.100}.", fix="Return two Polars frames: what comes out, and the state."
            )
        shown, after = (
            self._fitting(who, frame, schema)
            for frame, schema in zip(
                answer, ({**polars_schema(self.output), TIME: pl.Int64()}, self.state_schema), strict=True
            )
        )
        return shown, after, self._places(who, state, after)

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
        self.given = self.new = ready.clear()

    def run(self) -> None:
        """Hand all events over, with the state of their keys."""
        if self.ready.is_empty():
            self.given = no_rows({**polars_schema(self.plan.node.output), TIME: pl.Int64()})
            self.new = no_rows(self.plan.state_schema)
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
        self.given, after, places = self.bench.run(
            self._events(order[order >= known] - known), self._state(mine, words, began)
        )
        self.new = self._rows(mine, words, latest, gathered(only(after, self.bench.values), places), places != NOBODY)

    def _events(self, rows: Array) -> pl.DataFrame:
        renamed = {EVENT + name: name for name in self.plan.inputs[0]}
        events = only(self.ready, renamed).rename(renamed)
        return changed(events, {TIME: self.ready["window_start"]})[rows]

    def _state(self, keys: pl.DataFrame, words: Array, began: Array) -> pl.DataFrame:
        """What is remembered of each key when its first event of the tick comes, or the defaults."""
        there = words != NOBODY
        mine = words[there]
        now = self.watermark if self.clock is not None else np.maximum(began[there], self.watermark)
        there[there] = (self.words["window_end"].to_numpy()[mine] > now) & (
            self.words["kind"].to_numpy()[mine] == STATE
        )
        names = [KEPT + name for name in self.bench.values]
        kept_values = gathered(only(self.words, names), np.where(there, words, NOBODY))
        columns = {key.removeprefix(KEY): keys[key] for key in self.plan.key_schema}
        columns |= {name: _or_default(kept_values[KEPT + name], each) for name, each in self.bench.values.items()}
        return framed(columns)

    def _rows(self, keys: pl.DataFrame, words: Array, latest: Array, values: pl.DataFrame, there: Mask) -> pl.DataFrame:
        """State rows of the keys that stay, and word of those that are gone and were known."""
        ttl, known = self.plan.node.ttl, words != NOBODY
        before = np.zeros(len(words), np.int64)
        before[known] = self.words["window_end"].to_numpy()[words[known]]
        end = np.full(len(words), FOR_EVER)
        if ttl is not None:
            end = (latest if self.clock is None else np.full(len(words), self.clock)) + int(ttl.span)
            end = np.where(known, np.maximum(end, before), end)
        columns: dict[str, Any] = {name: keys[name] for name in keys.columns}
        columns |= {"window_start": np.zeros(len(words), np.int64), "window_end": np.where(there, end, before)}
        columns["kind"] = np.where(there, STATE, GONE).astype(np.uint8)
        for name, each in self.bench.values.items():
            kept_value = values[name]
            columns[KEPT + name] = (
                kept_value if each.default is None else kept_value.set(kept_value.eq_missing(each.default), None)
            )
        columns["latest"] = latest
        rest = {name: dtype for name, dtype in self.plan.state_schema.items() if name not in columns}
        columns |= {name: constant(None, dtype, len(words)) for name, dtype in rest.items()}
        return kept(framed(columns, self.plan.state_schema), there | known)

    def shown(self, side: str | None) -> pl.DataFrame:
        """What was given out; it has no sides."""
        return self.given if side is None else no_rows(polars_schema(dict(self.plan.node.sides)[side]))

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
    return column.zip_with(column.is_not_null(), constant(value.default, column.dtype, len(column)))
