"""Features in columns: each event looks back over the events of its key, found by binary search."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.advance import Advanced
from strandline.kernel.due import DueIndex
from strandline.kernel.expressions import evaluate_columns
from strandline.kernel.folds import Fold, compile_fold
from strandline.kernel.frames import changed, constant, framed, kept, no_rows, only, rows_at, stacked, without
from strandline.kernel.keys import key_columns
from strandline.kernel.operators.plan import HASH, Mask, OperatorPlan, Taken, late_by, no_windows
from strandline.kernel.operators.ranges import ranges
from strandline.kernel.operators.stretches import Stretches, show_stretches
from strandline.kernel.operators.turn import entries
from strandline.kernel.order import arrange
from strandline.kernel.plan import SECOND
from strandline.kernel.preaggregate import Books
from strandline.kernel.schema import polars_schema
from strandline.kernel.state import State
from strandline.model.aggregates import Aggregate, columns_of, within_of
from strandline.model.expressions import parse
from strandline.model.masks import mask_of, masks_of
from strandline.model.nodes import OverNode
from strandline.model.panes import INSERT, RETRACT, TIME, WEIGHT
from strandline.model.ticks import Edge, Tick
from strandline.model.time import Instant, Span
from strandline.model.types import Schema

Array = npt.NDArray[Any]

EVENT: Final = "e."
SLICES: Final = 8


class OverPlan(OperatorPlan):
    """Keeps events as long as one that is not late may look back at them."""

    meaning: ClassVar = ("keys", "features", "emit", "include_current")
    node: OverNode

    def __init__(self, node: OverNode, inputs: tuple[Schema, ...], lateness: Span) -> None:
        super().__init__(node, inputs, [node.keys], lateness)
        self.masks = masks_of(node)
        self.waits = node.emit == "watermark"
        self.reach = max(int(within_of(aggregate) or 0) for _, aggregate in node.features)

    @cached_property
    def folds(self) -> list[tuple[str, int, list[str], Fold]]:
        """Each feature: its name, how far it looks back, at which columns, and how rows become it."""
        found = []
        for name, aggregate in self.node.features:
            mask = None if aggregate.where is None else mask_of(aggregate.where)
            fold = compile_fold(aggregate, self.inputs[0], taking_back=False, mask=mask)
            # A user's aggregate may read no column, and yet must know how many rows there are.
            read = columns_of(aggregate) or [*self.inputs[0]][: isinstance(aggregate, Aggregate)]
            columns = [*dict.fromkeys((*read, *([] if mask is None else [mask])))]
            found.append((name, int(within_of(aggregate) or 0), columns, fold))
        return found

    @property
    def own_columns(self) -> dict[str, pl.DataType]:
        """The columns of events, and what was asked of them."""
        columns = {EVENT + name: dtype for name, dtype in polars_schema(self.inputs[0]).items()}
        return columns | dict.fromkeys((EVENT + mask for mask in self.masks), pl.Boolean())

    @property
    def slice_width(self) -> int:
        """A few slices for the time that an event is looked back at."""
        return max(self.reach // SLICES, SECOND)

    def upcoming(self, state: State, watermark: int) -> Instant | None:
        """When events are forgotten, or complete."""
        found = [super().upcoming(state, watermark), state.expiries.earliest]
        return min((at for at in found if at is not None), default=None)

    def port_schema(self, port: int) -> dict[str, pl.DataType]:
        """With what is asked of events."""
        return {**super().port_schema(port), **dict.fromkeys(self.masks, pl.Boolean())}

    def prepared(self, port: int, rows: pl.DataFrame, now: Instant) -> pl.DataFrame:
        """Ask the conditions of features; Spark may have asked those that only it understands."""
        missing = {name: text for name, text in self.masks.items() if name not in rows.columns}
        asked = {n: evaluate_columns(parse(t), rows, self.inputs[0], now).fill_null(False) for n, t in missing.items()}
        return only(changed(rows, asked), [*self.inputs[port], TIME, *self.masks])

    def take(self, port: int, rows: pl.DataFrame, now: Instant) -> Taken:
        """In the order of the port's columns."""
        taken = super().take(port, rows, now)
        return Taken(ports=tuple(only(each, self.port_schema(at)) for at, each in enumerate(taken.ports)))

    # The tick.

    def advance(self, state: State, taken: Taken, edge: Edge, tick: Tick) -> Advanced:
        """Take events, and show those that are new, changed or complete."""
        (rows,) = taken.ports
        late = self.late(rows[TIME].to_numpy(), edge)
        behind, came = kept(rows, late), self._fresh(kept(rows, ~late))
        hashes = np.concatenate([came["hash"].to_numpy(), state.expiries.due(edge.after)["hash"].to_numpy()])
        stored = self.living(state, hashes, int(edge.before))
        shown = _Look(self, stored, came, edge).shown()
        state = self._noted(state, came, edge)
        after = self.stored(state, came, edge, tick)
        return Advanced(
            state=after, panes=shown, rejected=no_rows({**self.port_schema(0), "reason": pl.String()}), replaced=no_windows(),
            late=changed(without(behind, self.masks), {"late_by": late_by(behind[TIME].to_numpy(), edge)}),
            hold=None, books=Books(rows=rows.height, kept=came.height, late=behind.height),
        )  # fmt: skip

    def _noted(self, state: State, came: pl.DataFrame, edge: Edge) -> State:
        """When events that wait are complete."""
        if not self.waits:
            return state
        if edge.after >= Instant.END_OF_TIME:
            return replace(state, expiries=DueIndex())
        times = came["window_start"].to_numpy()
        waiting = times >= int(edge.after)
        times, hashes = times[waiting], came["hash"].to_numpy()[waiting]
        expiries = state.expiries.forget(edge.after).add(entries(times + 1, hashes))
        return replace(state, expiries=expiries)

    def _fresh(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Events as they are kept."""
        times = rows[TIME].to_numpy()
        keys = {key.name: key for key in key_columns(self.keys[0], rows).get_columns()}
        columns: dict[str, Any] = {"hash": rows[HASH], **keys, "window_start": times}
        columns |= {"window_end": times + (self.reach + 1 + int(self.lateness)), "kind": np.zeros(len(times), np.uint8)}
        columns |= {EVENT + name: rows[name] for name in (*self.inputs[0], *self.masks)}
        return framed(columns, self.state_schema)


class _Look:
    """The events of a tick's keys, kept and fresh: by key, then by time, then by age."""

    def __init__(self, plan: OverPlan, stored: pl.DataFrame, came: pl.DataFrame, edge: Edge) -> None:
        self.plan, self.edge = plan, edge
        table = stacked([stored, came])
        new = np.arange(table.height) >= stored.height
        keys, hashes = only(table, plan.key_schema), table["hash"].to_numpy()
        order, _ = arrange(keys, np.zeros(len(hashes), np.int64), hashes, table["window_start"].to_numpy())
        by_key, groups = arrange(keys, np.zeros(len(hashes), np.int64), hashes)
        ids = np.empty(len(hashes), np.int64)
        ids[by_key] = groups.ids
        self.groups, self.new = ids[order], new[order]
        self.times = table["window_start"].to_numpy()[order]
        names = (*plan.inputs[0], *plan.masks)
        self.rows = only(table, (EVENT + name for name in names))[order].rename({EVENT + name: name for name in names})

    def shown(self) -> pl.DataFrame:
        """What the stage shows in this tick, by key, then by time."""
        everyone = np.ones(len(self.times), np.bool_)
        if self.plan.waits:
            complete = (self.times < int(self.edge.after)) & (self.new | (self.times >= int(self.edge.before)))
            targets = np.flatnonzero(complete)
            return self._rows(targets, self._features(targets, everyone), None)
        fresh = np.flatnonzero(self.new)
        old = self._looking_back_at(fresh)
        before, after = self._features(old, ~self.new), self._features(old, everyone)
        differs = np.zeros(len(old), np.bool_)
        for name in before:
            differs |= before[name].ne_missing(after[name]).to_numpy()
        corrected = old[differs]
        parts = [
            (corrected, {name: each.filter(pl.Series(differs)) for name, each in before.items()}, RETRACT),
            (corrected, {name: each.filter(pl.Series(differs)) for name, each in after.items()}, INSERT),
            (fresh, self._features(fresh, everyone), INSERT),
        ]
        places = np.concatenate([targets for targets, _, _ in parts])
        ranks = np.concatenate([np.full(len(targets), at) for at, (targets, _, _) in enumerate(parts)])
        whole = stacked([self._rows(targets, features, op) for targets, features, op in parts])
        return whole[np.lexsort((ranks, places))]

    def _looking_back_at(self, fresh: Array) -> Array:
        """The events that were there before and look back at one that is new."""
        old = np.flatnonzero(~self.new)
        low = self.times[old] - self.plan.reach
        _, counts = ranges(self.groups[fresh], self.times[fresh], self.groups[old], low, self.times[old])
        return old[counts > 0]

    def _features(self, targets: Array, among: Mask) -> dict[str, pl.Series]:
        """The features of some events over those that are chosen."""
        seen = np.flatnonzero(among)
        groups, times = self.groups[seen], self.times[seen]
        found: dict[str, pl.Series] = {}
        for name, within, columns, fold in self.plan.folds:
            low = self.times[targets] - within
            first, counts = ranges(groups, times, self.groups[targets], low, self.times[targets])
            stretches = Stretches(np.arange(len(targets)), first, counts, len(targets))
            if not self.plan.node.include_current:
                stretches = _without(stretches, seen.searchsorted(targets), among[targets])
            rows = only(self.rows, columns)
            rows = rows if len(seen) == len(among) else rows_at(rows, seen)
            found[name] = show_stretches(fold, rows, times, stretches).alias(name)
        return found

    def _rows(self, targets: Array, features: dict[str, pl.Series], op: str | None) -> pl.DataFrame:
        own = only(self.rows, self.plan.inputs[0])[targets]
        columns: dict[str, Any] = {**features}
        if op is not None:
            columns["op"] = constant(op, pl.String(), len(targets))
        columns[TIME] = self.times[targets]
        if op is not None:
            columns[WEIGHT] = np.full(len(targets), -1 if op == RETRACT else 1)
        return changed(own, columns)


def _without(stretches: Stretches, places: Array, there: Mask) -> Stretches:
    """Each stretch without the row at one place, if it is there: the part before it, and the part behind."""
    first, end = stretches.first, stretches.first + stretches.counts
    cut = there & (first <= places) & (places < end)
    middle, behind = np.where(cut, places, end), np.where(cut, places + 1, end)
    return Stretches(
        np.repeat(stretches.owner, 2), np.stack([first, behind], 1).ravel(),
        np.stack([middle - first, end - behind], 1).ravel(), stretches.shown,
    )  # fmt: skip
