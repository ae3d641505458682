"""Deduplication in columns: of rows that are equal in some columns, the first one passes."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.advance import Advanced
from strandline.kernel.frames import changed, framed, kept, no_rows, only, rows_at, stacked, without
from strandline.kernel.keys import key_columns
from strandline.kernel.operators.plan import HASH, Mask, OperatorPlan, Taken, late_by, no_windows
from strandline.kernel.operators.ranges import ranges
from strandline.kernel.order import arrange
from strandline.kernel.plan import SECOND
from strandline.kernel.preaggregate import Books
from strandline.kernel.state import State
from strandline.model.nodes import DedupeNode
from strandline.model.panes import TIME
from strandline.model.ticks import Edge, Tick
from strandline.model.time import Span
from strandline.model.types import Schema

Array = npt.NDArray[Any]

ROUNDS: Final = 8
"""In a round the first row of each key passes. Keys of which more pass in one tick are gone through row by row."""
SLICES: Final = 4


class DedupePlan(OperatorPlan):
    """Keeps, of each row that passed, its key and its time, until no row that is not late can repeat it."""

    meaning: ClassVar = ("on", "within")
    node: DedupeNode

    def __init__(self, node: DedupeNode, inputs: tuple[Schema, ...], lateness: Span) -> None:
        super().__init__(node, inputs, [node.on], lateness)
        self.within = int(node.within)

    @property
    def own_columns(self) -> dict[str, pl.DataType]:
        """Nothing but the key and the time."""
        return {}

    @property
    def slice_width(self) -> int:
        """A few slices for the time that a row is remembered: each costs a look at it for every row that comes."""
        return max(self.within // SLICES, SECOND)

    def advance(self, state: State, taken: Taken, edge: Edge, tick: Tick) -> Advanced:
        """Let the first of equal rows pass, in order of arrival."""
        (rows,) = taken.ports
        late = self.late(rows[TIME].to_numpy(), edge)
        behind, rows = kept(rows, late), kept(rows, ~late)
        passed, fresh = self._passed(state, rows, int(edge.before))
        return Advanced(
            state=self.stored(state, fresh, edge, tick), panes=without(passed, [HASH]),
            late=changed(behind, {"late_by": late_by(behind[TIME].to_numpy(), edge)}),
            rejected=no_rows({**self.port_schema(0), "reason": pl.String()}), replaced=no_windows(), hold=None,
            books=Books(rows=rows.height + behind.height, kept=rows.height, late=behind.height),
        )  # fmt: skip

    def _passed(self, state: State, rows: pl.DataFrame, before: int) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The rows that pass, by key and then by arrival; and what is remembered of them."""
        keys, hashes = key_columns(self.keys[0], rows), rows[HASH].to_numpy()
        stored = self.living(state, hashes, before)
        both = stacked([only(stored, self.key_schema), keys])
        times = np.concatenate([stored["window_start"].to_numpy(), rows[TIME].to_numpy()])
        known = stored.height
        order, groups = arrange(
            both, np.zeros(len(times), np.int64), np.concatenate([stored["hash"].to_numpy(), hashes])
        )
        # Most rows are the only one of their key, and pass. Of the others those that are known stand before those that came.
        passes = groups.spread(groups.lengths == 1)
        several = np.flatnonzero(~passes)
        ids, mine = groups.ids[several], order[several]
        old, new = mine < known, mine >= known
        by_arrival = np.argsort(mine[new])
        at = several[new][by_arrival]
        passes[at] = _first_of_each(
            ids[old], times[mine[old]], ids[new][by_arrival], times[mine[new]][by_arrival], self.within
        )
        chosen = order[passes & (order >= known)] - known
        passed = rows_at(rows, chosen)
        start = passed[TIME].to_numpy()
        keys = key_columns(self.keys[0], passed)
        remembered: dict[str, Any] = {
            "hash": passed[HASH], **{name: keys[name] for name in keys.columns}, "window_start": start,
            "window_end": start + (self.within + int(self.lateness)), "kind": np.zeros(len(chosen), np.uint8),
        }  # fmt: skip
        return passed, framed(remembered, self.state_schema)


def _first_of_each(known: Array, known_times: Array, ids: Array, times: Array, within: int) -> Mask:
    """Which rows pass, given by key and time in order of arrival: none that is less than `within` from one that has."""
    passes = np.zeros(len(ids), np.bool_)
    left = np.arange(len(ids))
    for _ in range(ROUNDS):
        order = np.lexsort((known_times, known))
        known, known_times = known[order], known_times[order]
        low, high = times[left] - (within - 1), times[left] + (within - 1)
        left = left[ranges(known, known_times, ids[left], low, high)[1] == 0]
        if not len(left):
            return passes
        firsts = left[np.unique(ids[left], return_index=True)[1]]
        passes[firsts] = True
        known, known_times = np.concatenate([known, ids[firsts]]), np.concatenate([known_times, times[firsts]])
        left = left[~passes[left]]
    return _row_by_row(passes, left, known, known_times, ids, times, within)


def _row_by_row(
    passes: Mask, left: Array, known: Array, known_times: Array, ids: Array, times: Array, within: int
) -> Mask:
    mine = np.isin(known, ids[left])
    passed: dict[int, list[int]] = {}
    for key, time in sorted(zip(known[mine].tolist(), known_times[mine].tolist(), strict=True)):
        passed.setdefault(key, []).append(time)
    for row, key, time in zip(left.tolist(), ids[left].tolist(), times[left].tolist(), strict=True):
        near = passed.setdefault(key, [])
        at = bisect_left(near, time - (within - 1))
        if at == len(near) or near[at] > time + (within - 1):
            insort(near, time)
            passes[row] = True
    return passes
