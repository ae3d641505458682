"""A user's process in a step: rows are found and kept in columns, and handed over key by key."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.advance import Advanced
from strandline.kernel.due import DueIndex
from strandline.kernel.frames import changed, constant, framed, kept, no_rows, only, stacked, without
from strandline.kernel.keys import key_columns
from strandline.kernel.operators.plan import HASH, OperatorPlan, Taken, late_by, no_windows
from strandline.kernel.operators.table_process import TableBench, TableTurn
from strandline.kernel.operators.turn import EVENT, EXPIRES, GONE, KEPT, SET, WAITING, Turn
from strandline.kernel.order import arrange
from strandline.kernel.plan import SECOND
from strandline.kernel.preaggregate import Books
from strandline.kernel.schema import polars_schema, polars_type
from strandline.kernel.state import State
from strandline.model.nodes import ProcessNode
from strandline.model.panes import TIME
from strandline.model.process import Process, kept_of, timers_of
from strandline.model.processing import Bench
from strandline.model.ticks import Edge, Tick
from strandline.model.time import Instant, Span
from strandline.model.types import Schema

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

SLICES: Final = 8


class ProcessPlan(OperatorPlan):
    """Keeps a row for each key; and, where events are handed over by event time, those that wait."""

    meaning: ClassVar = ("keys", "order", "ttl")
    node: ProcessNode

    def __init__(self, node: ProcessNode, inputs: tuple[Schema, ...], lateness: Span) -> None:
        super().__init__(node, inputs, [node.keys], lateness)
        self.values, self.timers = kept_of(node.process), timers_of(node.process)
        self.waits = node.order == "event_time"
        self.by_clock = node.ttl is not None and node.ttl.clock == "processing"

    @cached_property
    def bench(self) -> Bench:
        """The user's class at work, made when it is first needed: once in each process."""
        assert issubclass(self.node.process, Process)
        return Bench(self.node.process, self.node.output, dict(self.node.sides))

    @cached_property
    def table_bench(self) -> TableBench | None:
        """The same for one that works in columns."""
        if issubclass(self.node.process, Process):
            return None
        return TableBench(self.node.process, self.node.keys, self.inputs[0], self.node.output, dict(self.node.sides))

    @property
    def turning(self) -> type[Turn] | type[TableTurn]:
        """How the keys that are woken take their turn."""
        return Turn if issubclass(self.node.process, Process) else TableTurn

    @property
    def own_columns(self) -> dict[str, pl.DataType]:
        """What is remembered, when timers ring, the greatest event time, until when; and the columns of events that wait."""
        columns = {KEPT + name: polars_type(each.kind) for name, each in self.values.items()}
        columns |= {SET + name: pl.Int64() for name in self.timers} | {"latest": pl.Int64()}
        columns |= {} if self.node.ttl is None else {EXPIRES: pl.Int64()}
        return columns | ({EVENT + n: t for n, t in polars_schema(self.inputs[0]).items()} if self.waits else {})

    @property
    def slice_width(self) -> int:
        """Slices of the time for which a key is remembered, so that whole segments are forgotten; else of a day."""
        return 86_400 * SECOND if self.node.ttl is None else max(int(self.node.ttl.span) // SLICES, SECOND)

    def clock(self, edge: Edge, tick: Tick) -> int:
        """Keys may be forgotten by the clock."""
        return int(tick.now) if self.by_clock else int(edge.after)

    def lasting(self, ends: Array, now: int) -> Mask:
        """By the clock expired words are looked at, too, so the last one of a key must stay as long as any before it."""
        if not self.by_clock:
            return super().lasting(ends, now)
        return np.asarray(self.slices(ends) >= now // self.slice_width)

    def collapse(self, rows: pl.DataFrame, *, oldest: bool, watermark: int) -> pl.DataFrame:
        """Of each key the last word, and all events that wait."""
        rows = super().collapse(rows, oldest=oldest, watermark=watermark)
        events, words = (kept(rows, (rows["kind"].to_numpy() == WAITING) == each) for each in (True, False))
        words = self._newest(words)
        if oldest and self.node.ttl is None:
            words = kept(words, words["kind"].to_numpy() != GONE)
        return self.in_order(stacked([words, events]))

    def _newest(self, words: pl.DataFrame) -> pl.DataFrame:
        """The last row of each key, of rows from the oldest to the youngest."""
        order, groups = arrange(
            only(words, self.key_schema), np.zeros(words.height, np.int64), words["hash"].to_numpy()
        )
        newest: pl.DataFrame = words[order[groups.starts + groups.lengths - 1]]
        return newest

    def upcoming(self, state: State, watermark: int) -> Instant | None:
        """When keys are forgotten, timers ring, or events are complete."""
        ends = None if self.by_clock else super().upcoming(state, watermark)
        found = [at for at in (ends, state.expiries.earliest) if at is not None]
        return min(found, default=None)

    # The tick.

    def advance(self, state: State, taken: Taken, edge: Edge, tick: Tick) -> Advanced:
        """Hand over what came, or what is complete; let timers ring; write down what is to be remembered."""
        (rows,) = taken.ports
        late = self.late(rows[TIME].to_numpy(), edge) & self.waits
        behind, fresh = kept(rows, late), kept(rows, ~late)
        woken = [fresh[HASH], state.expiries.due(edge.after)["hash"], state.timers.due(tick.now)["hash"]]
        # By the clock a key may have expired since the last tick, with a timer that was due before it did.
        clock = int(Instant.BEFORE_ALL_TIME) if self.by_clock else int(edge.before)
        stored = self.living(state, np.concatenate([each.to_numpy() for each in woken]), clock)
        turn = self._turn(stored, fresh, edge, tick)
        expiries = state.expiries.forget(edge.after).add(turn.due("event", int(edge.after)))
        timers = state.timers.forget(tick.now).add(turn.due("processing", int(tick.now)))
        after = self.stored(replace(state, expiries=expiries, timers=timers), turn.written(), edge, tick)
        if edge.after >= Instant.END_OF_TIME:
            after = replace(after, expiries=DueIndex(), timers=DueIndex())
        return Advanced(
            state=after, panes=turn.shown(None), sides={name: turn.shown(name) for name, _ in self.node.sides},
            late=changed(without(behind, [HASH]), {"late_by": late_by(behind[TIME].to_numpy(), edge)}),
            rejected=no_rows({**self.port_schema(0), "reason": pl.String()}), replaced=no_windows(),
            hold=None,  # an event that waits is not before the watermark
            books=Books(rows=rows.height, kept=fresh.height, late=behind.height),
        )  # fmt: skip

    def _turn(self, stored: pl.DataFrame, fresh: pl.DataFrame, edge: Edge, tick: Tick) -> Turn | TableTurn:
        kinds = stored["kind"].to_numpy()
        waiting, words = kept(stored, kinds == WAITING), kept(stored, kinds != WAITING)
        came = self._waiting(fresh)
        ready, left = came, came.clear()
        if self.waits:
            events = stacked([waiting, came])
            ready = kept(events, events["window_start"].to_numpy() < int(edge.after))
            left = kept(came, came["window_start"].to_numpy() >= int(edge.after))
        turn = self.turning(self, self._newest(words), ready, left, edge, tick)
        turn.run()
        return turn

    def _waiting(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Events as they wait, or would."""
        times = rows[TIME].to_numpy()
        columns: dict[str, Any] = {"hash": rows[HASH], **_named(key_columns(self.keys[0], rows))}
        columns |= {
            "window_start": times,
            "window_end": times + 1 + int(self.lateness),
            "kind": np.full(len(times), WAITING, np.uint8),
        }
        columns |= {EVENT + name: rows[name] for name in self.inputs[0]}
        schema = {**self.state_schema, **{EVENT + n: t for n, t in polars_schema(self.inputs[0]).items()}}
        columns |= {name: constant(None, dtype, len(times)) for name, dtype in schema.items() if name not in columns}
        return framed(columns, schema)


def _named(keys: pl.DataFrame) -> dict[str, pl.Series]:
    return {key.name: key for key in keys.get_columns()}
