"""A table in columns: of the changes of each key the newest, and what it changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.advance import Advanced
from strandline.kernel.due import DueIndex
from strandline.kernel.frames import changed, constant, framed, kept, no_rows, only, rows_at, stacked
from strandline.kernel.keys import KEY, key_columns
from strandline.kernel.operators.plan import HASH, Mask, OperatorPlan, Taken, no_windows
from strandline.kernel.operators.turn import FOR_EVER, entries
from strandline.kernel.order import arrange
from strandline.kernel.plan import SECOND
from strandline.kernel.preaggregate import Books
from strandline.kernel.schema import polars_schema
from strandline.kernel.state import State
from strandline.model.changelog import DELETES, OP, UPSERTS, unknown_op
from strandline.model.nodes import JoinTableNode, TableNode
from strandline.model.panes import INSERT, RETRACT, TIME, WEIGHT
from strandline.model.ticks import Edge, Tick
from strandline.model.time import Instant, Span
from strandline.model.types import Schema

Array = npt.NDArray[Any]

ROW: Final = "r."  # what the names of a table's columns begin with in the state
SLICES: Final = 8


class Changes:
    """Reads the changes of a table: which rows they make, which of two is the newer, and how long a row lives."""

    def __init__(self, key: Sequence[str], order: str, ttl: Span | None, schema: Schema, named: Sequence[str]) -> None:
        self.key, self.order, self.ttl, self.named = tuple(key), order, ttl, [KEY + name for name in named]
        types = polars_schema(schema)
        self.columns = [name for name in types if name not in self.key and name != OP]
        self.types = {ROW + name: types[name] for name in self.columns}
        self.by_column = order != "offset"
        self.order_type = types[order] if self.by_column else pl.Null()

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns of a version beside its key: its time, whether the row is gone, what it is ordered by, the row."""
        order = {"order": self.order_type} if self.by_column else {}
        return {"at": pl.Int64(), "dead": pl.Boolean(), **order, **self.types}

    def understood(self, rows: pl.DataFrame) -> Mask:
        """Which changes say what they are."""
        if OP not in rows.columns:
            return np.ones(rows.height, np.bool_)
        return rows[OP].is_in([*UPSERTS, *DELETES]).fill_null(True).to_numpy()

    def rejected(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Changes that do not, with the reason."""
        reasons = [unknown_op(op) for op in rows[OP]] if OP in rows.columns else []
        return changed(rows, {"reason": pl.Series(reasons, dtype=pl.String)})

    def versions(self, rows: pl.DataFrame) -> dict[str, Any]:
        """The versions that changes make."""
        keys = key_columns(self.key, rows)
        dead = (
            rows[OP].is_in(DELETES).fill_null(False)
            if OP in rows.columns
            else constant(False, pl.Boolean(), rows.height)
        )
        found: dict[str, Any] = {"hash": rows[HASH], **dict(zip(self.named, keys.get_columns(), strict=True))}
        found |= {"at": rows[TIME].to_numpy(), "dead": dead, **{ROW + name: rows[name] for name in self.columns}}
        return found | ({"order": rows[self.order]} if self.by_column else {})

    def accepted(self, versions: pl.DataFrame, ids: Array) -> Mask:
        """Which versions, given by key and then by arrival, are not older than one of their key before them."""
        if not self.by_column:
            return np.ones(versions.height, np.bool_)
        # Null is less than everything; NaN, as a time of nothing, greater.
        ranked = versions["order"].to_physical().rank("dense").fill_null(0).cast(pl.Int64)
        greatest = pl.DataFrame({"id": ids, "rank": ranked}).select(pl.col("rank").cum_max().over("id")).to_series()
        return np.asarray(ranked.to_numpy() >= greatest.to_numpy())

    def lives(self, versions: pl.DataFrame, ids: Array) -> Array:
        """Until when each version, by key and then by arrival, is remembered: never shorter than those before it."""
        if self.ttl is None:
            return np.full(versions.height, FOR_EVER)
        ends = pl.Series(versions["at"].to_numpy() + int(self.ttl))
        known = pl.Series(versions["window_end"].to_numpy())
        whole = pl.DataFrame({"id": ids, "end": pl.select(pl.max_horizontal(ends, known)).to_series()})
        return whole.select(pl.col("end").cum_max().over("id")).to_series().to_numpy()


class KeepsVersions(OperatorPlan):
    """What a table and a join with one have in common."""

    node: TableNode | JoinTableNode
    changes: Changes

    @property
    def slice_width(self) -> int:
        """Slices of the time that a row lives, so that whole segments are forgotten; else of a day."""
        ttl = self.node.ttl
        return 86_400 * SECOND if ttl is None else max(int(ttl) // SLICES, SECOND)

    def newest(self, versions: pl.DataFrame) -> pl.DataFrame:
        """The last version of each key, of versions from the oldest to the youngest."""
        order, groups = arrange(
            only(versions, self.key_schema), np.zeros(versions.height, np.int64), versions["hash"].to_numpy()
        )
        found: pl.DataFrame = versions[order[groups.starts + groups.lengths - 1]]
        return found

    def by_key(self, table: pl.DataFrame) -> tuple[pl.DataFrame, Array]:
        """Rows by key, those of a key in the order in which they stand; and the number of each row's key."""
        order, groups = arrange(
            only(table, self.key_schema), np.zeros(table.height, np.int64), table["hash"].to_numpy()
        )
        return rows_at(table, order), groups.ids

    def filled(self, columns: dict[str, Any], count: int) -> pl.DataFrame:
        """State rows of these columns; the others are null."""
        rest = {name: dtype for name, dtype in self.state_schema.items() if name not in columns}
        return framed(columns | {name: constant(None, dtype, count) for name, dtype in rest.items()}, self.state_schema)


class TablePlan(KeepsVersions):
    """Keeps the newest version of each key; gives out what each change changes."""

    meaning: ClassVar = ("key", "order", "ttl")
    node: TableNode

    def __init__(self, node: TableNode, inputs: tuple[Schema, ...], lateness: Span) -> None:
        super().__init__(node, inputs, [node.key], lateness)
        self.changes = Changes(node.key, node.order, node.ttl, inputs[0], node.key)

    @property
    def own_columns(self) -> dict[str, pl.DataType]:
        """The version."""
        return self.changes.schema

    def collapse(self, rows: pl.DataFrame, *, oldest: bool, watermark: int) -> pl.DataFrame:
        """Of each key the last version; that a row is gone need not be said where nothing older is left."""
        rows = self.newest(rows)
        if oldest and self.node.ttl is None and not self.changes.by_column:
            rows = kept(rows, ~rows["dead"].to_numpy())
        return self.in_order(rows)

    def upcoming(self, state: State, watermark: int) -> Instant | None:
        """When rows outlive their time."""
        found = [super().upcoming(state, watermark), state.expiries.earliest]
        return min((at for at in found if at is not None), default=None)

    def advance(self, state: State, taken: Taken, edge: Edge, tick: Tick) -> Advanced:
        """Apply changes in order; then let go what has outlived its time."""
        every, understood = taken.ports[0], self.changes.understood(taken.ports[0])
        rows, rejected = kept(every, understood), kept(every, ~understood)
        found = self.changes.versions(rows)
        count = rows.height
        zero = np.zeros(count, np.int64)
        came = self.filled(
            {**found, "window_start": zero, "window_end": zero - FOR_EVER, "kind": zero.astype(np.uint8)}, count
        )
        due = state.expiries.due(edge.come)["hash"].to_numpy()
        stored = self.newest(self.living(state, np.concatenate([came["hash"].to_numpy(), due]), int(edge.before)))
        table, ids = self.by_key(
            stacked([stored.with_columns(__new=pl.lit(False)), came.with_columns(__new=pl.lit(True))])
        )
        accepted = self.changes.accepted(table, ids)
        table, ids = kept(table, accepted), ids[accepted]
        ends = self.changes.lives(table, ids)
        last = np.append(ids[1:] != ids[:-1], True)[: len(ids)]
        # What is over is over by its time to live: that nothing more comes, at the end of time, makes no row older.
        over = last & (ends <= int(edge.come)) & ~table["dead"].to_numpy() & (self.node.ttl is not None)
        standing = self._standing(table, ids)
        shown = self._shown(table, ids, standing, over)
        new, rows_shown = table["__new"].to_numpy(), rows_at(only(table, ["at", *self.changes.types]), standing)
        written = changed(only(table, self.state_schema), {"window_end": ends, **rows_shown.to_dict()})
        fresh = kept(written, last & new & ~over)
        expiries = state.expiries
        if self.node.ttl is not None:
            alive = kept(fresh, ~fresh["dead"].to_numpy())
            expiries = expiries.forget(edge.after).add(
                entries(alive["window_end"].to_numpy(), alive["hash"].to_numpy())
            )
        if edge.after >= Instant.END_OF_TIME:
            expiries = DueIndex()
        return Advanced(
            state=self.stored(replace(state, expiries=expiries), fresh, edge, tick), panes=shown,
            late=no_rows({**self.port_schema(0), "late_by": pl.Duration("us")}),
            rejected=self.changes.rejected(rejected), replaced=no_windows(), hold=None,
            books=Books(rows=every.height, kept=count, rejected=rejected.height),
        )  # fmt: skip

    def _standing(self, table: pl.DataFrame, ids: Array) -> Array:
        """For each version the one that was shown: itself, or, if it changes nothing, that before it."""
        places, dead = np.arange(len(ids)), table["dead"].to_numpy()
        first = np.append(True, ids[1:] != ids[:-1])[: len(ids)]
        before = np.maximum(places - 1, 0)
        changes = first | dead | dead[before] | ~self._same(table, before, places)
        return np.maximum.accumulate(np.where(changes, places, 0))

    def _shown(self, table: pl.DataFrame, ids: Array, standing: Array, over: Mask) -> pl.DataFrame:
        """For each change what stood, taken back, and what stands; and at the end what is over, taken back."""
        count = len(ids)
        dead, new = table["dead"].to_numpy(), table["__new"].to_numpy()
        places = np.arange(count)
        first = np.append(True, ids[1:] != ids[:-1])[:count]
        before = np.maximum(places - 1, 0)
        changes = new & (standing == places)
        takes_back = changes & ~first & ~dead[before]
        inserts = changes & ~dead
        rows = [
            (standing[before[takes_back]], places[takes_back], 0),
            (places[inserts], places[inserts], 1),
            (standing[over], places[over], 2),
        ]
        which, at, step = (
            np.concatenate(parts) for parts in zip(*((w, a, np.full(len(w), n)) for w, a, n in rows), strict=True)
        )
        order = np.lexsort((step, at))
        which, step = which[order], step[order]
        picked, retracts = rows_at(table, which), step != 1
        columns: dict[str, Any] = {}
        for name in self.inputs[0]:
            if name != OP:
                columns[name] = picked[KEY + name] if name in self.node.key else picked[ROW + name]
        columns[OP] = (
            pl.Series([INSERT, RETRACT])[retracts.astype(np.uint32)] if count else constant("", pl.String(), 0)
        )
        return framed({**columns, TIME: picked["at"], WEIGHT: np.where(retracts, -1, 1)})

    def _same(self, table: pl.DataFrame, one: Array, other: Array) -> Mask:
        """Which versions have the same row: there is one zero and one NaN."""
        same = np.ones(len(one), np.bool_)
        for name in self.changes.types:
            column = table[name]
            same &= column[one].eq_missing(column[other]).to_numpy()
        return same
