"""A join with a table in columns: the version that stands now, or that stood at a row's time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.advance import Advanced
from strandline.kernel.due import DueIndex
from strandline.kernel.frames import changed, framed, kept, only, stacked
from strandline.kernel.keys import any_null, key_columns
from strandline.kernel.operators.join import NOBODY, gathered
from strandline.kernel.operators.places import Places
from strandline.kernel.operators.plan import HASH, Taken, late_by, no_windows
from strandline.kernel.operators.ranges import ranges
from strandline.kernel.operators.table import ROW, Changes, KeepsVersions
from strandline.kernel.operators.turn import FOR_EVER, entries
from strandline.kernel.preaggregate import Books
from strandline.kernel.schema import polars_schema
from strandline.kernel.state import State
from strandline.model.nodes import JoinTableNode
from strandline.model.operators import table_names
from strandline.model.panes import TIME
from strandline.model.salting import BROADCAST
from strandline.model.ticks import Edge, Tick
from strandline.model.time import Instant, Span
from strandline.model.types import Schema

Array = npt.NDArray[Any]

EVENT: Final = "e."
VERSION, WAITING, DONE = 0, 1, 2  # what a row is: of the table, of the stream, or word that it did not wait any longer


class JoinTablePlan(KeepsVersions):
    """Keeps the newest version of each key; or, as of a time, all that may still be asked for, and the rows that wait."""

    meaning: ClassVar = ("keys", "other_keys", "order", "ttl", "as_of", "broadcast")
    node: JoinTableNode

    def __init__(self, node: JoinTableNode, inputs: tuple[Schema, ...], lateness: Span) -> None:
        super().__init__(node, inputs, [node.keys, node.other_keys], lateness)
        self.changes = Changes(node.other_keys, node.order, node.ttl, inputs[1], node.keys)
        self.names = table_names(node, *inputs)
        if node.broadcast:
            self.places = Places.over(BROADCAST, 0, inputs[0])

    @property
    def own_columns(self) -> dict[str, pl.DataType]:
        """A version; and the columns of rows that wait, with the time of day at which they came."""
        waiting = {EVENT + name: dtype for name, dtype in polars_schema(self.inputs[0]).items()} | {
            "arrived": pl.Int64()
        }
        return self.changes.schema | (waiting if self.node.as_of else {})

    def collapse(self, rows: pl.DataFrame, *, oldest: bool, watermark: int) -> pl.DataFrame:
        """What may still be asked for."""
        if not self.node.as_of:
            return self.in_order(self.newest(rows))
        kinds, living = rows["kind"].to_numpy(), rows["window_end"].to_numpy() > watermark
        waiting, versions = kept(rows, (kinds != VERSION) & living), kept(rows, (kinds == VERSION) & living)
        versions, ids = self._in_time(versions)
        # A version is over when the next one of its key begins before every time that may still be asked for.
        begins = versions["window_start"].to_numpy()
        next_begins = np.append(np.where(ids[1:] == ids[:-1], begins[1:], FOR_EVER), FOR_EVER)[: len(ids)]
        return self.in_order(stacked([kept(versions, next_begins > watermark - int(self.lateness)), waiting]))

    def upcoming(self, state: State, watermark: int) -> Instant | None:
        """When rows are over, or complete."""
        found = [super().upcoming(state, watermark), state.expiries.earliest]
        return min((at for at in found if at is not None), default=None)

    def advance(self, state: State, taken: Taken, edge: Edge, tick: Tick) -> Advanced:
        """Changes first, then rows."""
        rows, table_rows = taken.ports
        late = self.late(rows[TIME].to_numpy(), edge) & self.node.as_of
        behind, events = kept(rows, late), kept(rows, ~late)
        understood = self.changes.understood(table_rows)
        rejected = kept(table_rows, ~understood & self.own(1, table_rows))
        came = self._versions(kept(table_rows, understood))
        due = [events[HASH], came["hash"], state.expiries.due(edge.after)["hash"], state.timers.due(tick.now)["hash"]]
        stored = self.living(state, np.concatenate([each.to_numpy() for each in due]), int(edge.before))
        if self.node.as_of:
            shown, fresh, state = self._as_of(state, stored, came, events, edge, tick)
        else:
            shown, fresh = self._now(stored, came, events, edge)
        after, count = self.stored(state, fresh, edge, tick), self.count(taken)
        return Advanced(
            state=after, panes=shown, hold=None, replaced=no_windows(),
            late=changed(behind, {"late_by": late_by(behind[TIME].to_numpy(), edge)}),
            rejected=self.changes.rejected(rejected),
            books=Books(
                rows=count, kept=count - behind.height - rejected.height, late=behind.height, rejected=rejected.height
            ),
        )  # fmt: skip

    def _versions(self, rows: pl.DataFrame) -> pl.DataFrame:
        found, count = self.changes.versions(rows), rows.height
        start, end = np.zeros(count, np.int64), np.full(count, -FOR_EVER)
        if self.node.as_of:
            start = found["at"]
            end = (
                np.full(count, FOR_EVER) if self.node.ttl is None else start + (int(self.node.ttl) + int(self.lateness))
            )
        return self.filled(
            {**found, "window_start": start, "window_end": end, "kind": np.full(count, VERSION, np.uint8)}, count
        )

    # What stands now.

    def _now(
        self, stored: pl.DataFrame, came: pl.DataFrame, events: pl.DataFrame, edge: Edge
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        known = self.newest(stored)
        table, ids = self.by_key(
            stacked([known.with_columns(__new=pl.lit(False)), came.with_columns(__new=pl.lit(True))])
        )
        accepted = self.changes.accepted(table, ids)
        table, ids = kept(table, accepted), ids[accepted]
        table = changed(table, {"window_end": self.changes.lives(table, ids)})
        last = np.append(ids[1:] != ids[:-1], True)[: len(ids)]
        standing = kept(table, last)
        which, order = self._matched(standing, events)
        ends = np.append(standing["window_end"].to_numpy(), 0)[which]
        visible = ends > np.maximum(events[TIME].to_numpy()[order], int(edge.before))
        shown = self._rows(standing, only(events, [*self.inputs[0], TIME])[order], np.where(visible, which, NOBODY))
        return shown, only(kept(standing, standing["__new"].to_numpy()), self.state_schema)

    def _matched(self, standing: pl.DataFrame, events: pl.DataFrame) -> tuple[Array, Array]:
        """For each event, by key and then by arrival, the version of its key; and the order of the events."""
        both, ids, order = self._together(standing, events)
        found = np.full(len(both), NOBODY)
        versions = order < standing.height
        found[versions] = order[versions]
        first = np.append(True, ids[1:] != ids[:-1])[: len(ids)]
        # Each key's version, if it has one, stands before its events.
        head = np.where(first, found, 0)
        spread = head[np.maximum.accumulate(np.where(first, np.arange(len(ids)), 0))] if len(ids) else head
        mine = ~versions
        return spread[mine], order[mine] - standing.height

    def _together(self, versions: pl.DataFrame, events: pl.DataFrame) -> tuple[Array, Array, Array]:
        """Versions and events by key, versions first: the hashes, the number of each key, and which row it is."""
        named = dict(zip(self.key_schema, key_columns(self.keys[0], events).get_columns(), strict=True))
        keys = framed({"hash": events[HASH], **named})
        both = stacked([only(versions, keys.columns), keys]) if versions.height else keys
        at = framed({"__at": np.arange(both.height)})["__at"]
        table, ids = self.by_key(both.with_columns(at))
        return table["hash"].to_numpy(), ids, table["__at"].to_numpy()

    # What stood at a time.

    def _as_of(
        self, state: State, stored: pl.DataFrame, came: pl.DataFrame, events: pl.DataFrame, edge: Edge, tick: Tick
    ) -> tuple[pl.DataFrame, pl.DataFrame, State]:
        kinds = stored["kind"].to_numpy()
        arrived = self._waiting(events, tick)
        waiting = stacked([self._still(stored, kinds), arrived])
        new = np.arange(waiting.height) >= waiting.height - arrived.height
        times = waiting["window_start"].to_numpy()
        complete = (times < int(edge.after)) & (new | (times >= int(edge.before)))
        tired = np.zeros(len(times), np.bool_)
        if self.node.max_wait is not None:
            tired = waiting["arrived"].to_numpy() + int(self.node.max_wait) <= int(tick.now)
        ready = kept(waiting, complete | tired)
        versions = stacked([kept(stored, kinds == VERSION), came])
        shown = self._stood(versions, ready)
        left = kept(waiting, ~(complete | tired) & new)
        gone = kept(waiting, tired & ~complete)
        done = changed(gone, {"kind": np.full(gone.height, DONE, np.uint8)})
        state = self._noted(state, left, edge, tick)
        return shown, stacked([came, left, done]), state

    def _still(self, stored: pl.DataFrame, kinds: Array) -> pl.DataFrame:
        """The rows that go on waiting: not those of which word says that they did not."""
        waiting, done = kept(stored, kinds == WAITING), kept(stored, kinds == DONE)
        if done.is_empty():
            return waiting
        same = ["hash", *self.key_schema, "window_start", "arrived"]
        return waiting.join(done.select(same).unique(), on=same, how="anti", nulls_equal=True, maintain_order="left")

    def _waiting(self, events: pl.DataFrame, tick: Tick) -> pl.DataFrame:
        times = events[TIME].to_numpy()
        named = dict(zip(self.key_schema, key_columns(self.keys[0], events).get_columns(), strict=True))
        columns: dict[str, Any] = {"hash": events[HASH], **named, "window_start": times}
        columns |= {"window_end": times + 1 + int(self.lateness), "kind": np.full(len(times), WAITING, np.uint8)}
        columns |= {EVENT + name: events[name] for name in self.inputs[0]} | {
            "arrived": np.full(len(times), int(tick.now))
        }
        return self.filled(columns, len(times))

    def _stood(self, versions: pl.DataFrame, ready: pl.DataFrame) -> pl.DataFrame:
        """Rows with the version that stood at their time, by key and then by time."""
        table, _ = self._in_time(versions)
        rows, _ = self.by_key(ready.sort("window_start", maintain_order=True))
        ids = self._numbers(table, rows)
        mine, asked = ids[: table.height], ids[table.height :]
        times = rows["window_start"].to_numpy()
        first, counts = ranges(mine, table["window_start"].to_numpy(), asked, np.full(len(times), -FOR_EVER), times)
        which = np.where(counts > 0, first + counts - 1, NOBODY)
        if self.node.ttl is not None and table.height:
            begins = table["window_start"].to_numpy()
            which = np.where((which >= 0) & (begins[which] + int(self.node.ttl) <= times), NOBODY, which)
        renamed = {EVENT + name: name for name in self.inputs[0]}
        events = only(rows, renamed).rename(renamed).with_columns(rows["window_start"].alias(TIME))
        return self._rows(table, events, which)

    def _in_time(self, versions: pl.DataFrame) -> tuple[pl.DataFrame, Array]:
        """Versions by key, then by time; of one moment the newest stands last, and of equals the one that came last."""
        by = ["window_start", *(["order"] if self.changes.by_column else [])]
        return self.by_key(versions.sort(by, maintain_order=True))  # null is the least, NaN the greatest

    def _numbers(self, table: pl.DataFrame, rows: pl.DataFrame) -> Array:
        """The number of each row's key, over versions and rows alike, growing with the order of both."""
        columns = ["hash", *self.key_schema]
        both = stacked([only(table, columns), only(rows, columns)])
        at = framed({"__at": np.arange(both.height)})["__at"]
        ordered, ids = self.by_key(both.with_columns(at))
        numbers = np.empty(both.height, np.int64)
        numbers[ordered["__at"].to_numpy()] = ids
        return numbers

    def _noted(self, state: State, left: pl.DataFrame, edge: Edge, tick: Tick) -> State:
        """When rows that wait are complete, and when they wait no longer."""
        if edge.after >= Instant.END_OF_TIME:
            return replace(state, expiries=DueIndex(), timers=DueIndex())
        times, hashes = left["window_start"].to_numpy(), left["hash"].to_numpy()
        expiries = state.expiries.forget(edge.after).add(entries(times + 1, hashes))
        timers = state.timers
        if self.node.max_wait is not None:
            timers = timers.forget(tick.now).add(entries(left["arrived"].to_numpy() + int(self.node.max_wait), hashes))
        return replace(state, expiries=expiries, timers=timers)

    # How rows look.

    def _rows(self, table: pl.DataFrame, events: pl.DataFrame, which: Array) -> pl.DataFrame:
        dead = np.append(table["dead"].to_numpy(), True)
        which = np.where(any_null(only(events, self.keys[0])) | dead[which], NOBODY, which)
        beside = gathered(only(table, self.changes.types), which)
        found = changed(events, {called: beside[ROW + name] for name, called in self.names.items()})
        ordered = only(found, [*self.inputs[0], *self.names.values(), TIME])
        return ordered if self.node.how == "left" else kept(ordered, which != NOBODY)
