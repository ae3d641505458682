"""Rows to partials, in the task that read them: one state row per key and window, and the rows that came too late.

For windows that do not merge, whether an event missed a window is decided here, by the watermark before the tick. For
sessions an event that seems late may still touch a living session: it travels raw, and `advance` decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.expressions import evaluate_columns
from strandline.kernel.folds import state_columns
from strandline.kernel.frames import changed, constant, framed, kept, no_rows, only, rows_at
from strandline.kernel.groups import Groups
from strandline.kernel.keys import hashed_keys
from strandline.kernel.merge import arrange_rows
from strandline.kernel.order import arrange
from strandline.kernel.plan import PARTIAL, Plan, once_per_plan
from strandline.kernel.schema import polars_schema, polars_type
from strandline.kernel.sessions import stretches
from strandline.kernel.triggers import born, hit_column, walk
from strandline.kernel.windows import Assigned, assign, hops_of
from strandline.model.masks import mask_of
from strandline.model.panes import HIDDEN, LATE_COLUMNS, TIME, WEIGHT
from strandline.model.ticks import Edge
from strandline.model.time import Instant
from strandline.model.triggers import OnEvent
from strandline.model.windows import Hopping

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """Of the rows that reached a stage: each is kept in some window, late for all of them, or rejected.

    `missed` counts pairs of an event and a window that it came too late for.
    """

    rows: int = 0
    kept: int = 0
    late: int = 0
    rejected: int = 0
    missed: int = 0

    def __add__(self, other: Books) -> Books:
        return Books(**{name: getattr(self, name) + getattr(other, name) for name in Books.__slots__})

    @property
    def balance(self) -> bool:
        """Whether every row is accounted for."""
        return self.rows == self.kept + self.late + self.rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Partials:
    """What one task found: state rows to add, raw rows that may be late, late and rejected rows, and the books.

    `table` has the columns of the state and `round`: 0, or, where events are counted one at a time, the place of the
    event among its key's. It is sorted canonically within each round.
    """

    table: pl.DataFrame
    raw: pl.DataFrame
    late: pl.DataFrame
    rejected: pl.DataFrame
    books: Books = field(default_factory=Books)


def prepare(plan: Plan, rows: pl.DataFrame, now: Instant) -> pl.DataFrame:
    """Add the columns that text expressions of aggregates and triggers ask for; Spark adds them by its own means."""
    missing = {name: e for name, e in plan.masks.items() if name not in rows.columns}
    if not missing:
        return rows
    return changed(rows, {n: evaluate_columns(e, rows, plan.inputs, now).fill_null(False) for n, e in missing.items()})


def preaggregate(plan: Plan, rows: pl.DataFrame, edge: Edge, now: Instant) -> Partials:
    """Turn rows, in order of arrival, into partials."""
    if rows.is_empty():
        return _nothing(plan, rows)
    rows = prepare(plan, rows, now)
    times = rows[TIME].to_numpy()
    assigned = assign(plan.window, rows, times, cell=plan.cell if isinstance(plan.window, Hopping) else None)
    if plan.merging:
        return _merging(plan, rows, times, assigned, edge, now)
    missed = _missed(plan, assigned, edge)
    keep = ~_missed_everywhere(plan, assigned, edge)
    table = fold_rows(plan, rows, times, assigned.row[keep], assigned.start[keep], assigned.end[keep], edge, now)
    if isinstance(plan.window, Hopping) and not plan.sliced:
        table = _expand(plan, table, edge)
    late, books = late_rows(plan, rows, times, edge, missed, _window_counts(plan, assigned, times, missed))
    rejected = rejected_rows(rows, assigned.rejected)
    books += Books(rows=rows.height, kept=_distinct(assigned.row[keep]), rejected=rejected.height)
    return Partials(table=table, raw=rows.clear(), late=late, rejected=rejected, books=books)


def _distinct(row: Array) -> int:
    """How many different rows there are; they stand in order."""
    return int((row[1:] != row[:-1]).sum()) + min(1, len(row))


def _nothing(plan: Plan, rows: pl.DataFrame) -> Partials:
    return Partials(table=_no_partials(plan), raw=rows, late=empty_late(plan), rejected=rejected_rows(rows, {}))


@once_per_plan
def _no_partials(plan: Plan) -> pl.DataFrame:
    return no_rows({**plan.state_schema, "round": pl.Int64()})


def _missed_everywhere(plan: Plan, assigned: Assigned, edge: Edge) -> Mask:
    """Which (row, window) pairs add nothing; for hopping windows, which slices no living window holds."""
    if isinstance(plan.window, Hopping):
        last = (assigned.start - int(plan.window.offset)) // int(plan.window.every) * int(plan.window.every)
        return np.asarray(edge.before >= plan.deadline(last + int(plan.window.offset) + int(plan.window.size)))
    return np.asarray(edge.before >= plan.deadline(assigned.end))


def _missed(plan: Plan, assigned: Assigned, edge: Edge) -> Assigned:
    """The pairs of a row and a window that it came too late for."""
    row, start, end = assigned.row, assigned.start, assigned.end
    if isinstance(plan.window, Hopping):
        # Every window of a slice ends after the slice does, so a slice that ends after this misses nothing.
        old = np.flatnonzero(edge.before >= plan.deadline(end))
        hops = hops_of(plan.window, start[old], end[old])
        row, start, end = row[old][hops.row], hops.start, hops.end
    gone = edge.before >= plan.deadline(end)
    return Assigned(row=row[gone], start=start[gone], end=end[gone], rejected={})


def fold_rows(
    plan: Plan, rows: pl.DataFrame, times: Array, row: Array, start: Array, end: Array, edge: Edge, now: Instant
) -> pl.DataFrame:
    """One partial per (round, key, window) of these (row, window) pairs, in canonical order."""
    if not _everyone(row, rows.height):
        rows, times = rows_at(rows, row), times[row]
    keys, hashes = hashed_keys(plan.stage.keys, rows)
    rounds = _rounds(plan, keys, hashes, row)
    slices = rounds if plan.exact else plan.slices(end)
    # The slices that hopping windows are made of may be narrower than those that their ends are stored by.
    one_each = plan.one_window_per_slice and (not isinstance(plan.window, Hopping) or plan.cell == plan.slice_width)
    windows = () if one_each and not plan.exact else (start, end)
    order, groups = arrange(keys, slices, hashes, *windows, stable=False)
    firsts = order[groups.starts]
    table = _fold_groups(plan, rows, times, order, groups, (start[firsts], end[firsts]), edge, now)
    return _with_keys(plan, table, keys, hashes, firsts, rounds[firsts])


def _everyone(row: Array, count: int) -> bool:
    return len(row) == count and bool((row == np.arange(count)).all())


def _with_keys(
    plan: Plan, found: dict[str, Any], keys: pl.DataFrame, hashes: Array, firsts: Array, rounds: Array
) -> pl.DataFrame:
    own = rows_at(keys, firsts).get_columns() if keys.width else []
    found |= {"hash": hashes[firsts], **{key.name: key for key in own}, "round": rounds}
    return framed(found, _no_partials(plan).schema)


def _fold_groups(
    plan: Plan,
    rows: pl.DataFrame,
    times: Array,
    order: Array,
    groups: Groups,
    window: tuple[Array, Array],
    edge: Edge,
    now: Instant,
) -> dict[str, Any]:
    """The columns of one partial per group, but for its key."""
    # The time too, which every row has: where nothing else is read (a count alone), rows must still be rows.
    rows = rows_at(only(rows, (c for c in rows.columns if c == TIME or c in plan.reads)), order)
    times = times[order]
    start, end = window
    found: dict[str, Any] = {"window_start": start, "window_end": end, "kind": np.full(groups.count, PARTIAL, np.uint8)}
    found |= _own_columns(plan, rows, times, groups, end, edge, now)
    weights = rows[WEIGHT].to_numpy() if plan.taking_back else None
    for name, fold in plan.folds:
        parts = fold.fold(rows, times, weights, groups)
        found |= dict(zip(state_columns(name, fold), parts, strict=True))
    return found


def _rounds(plan: Plan, keys: pl.DataFrame, hashes: Array, row: Array) -> Array:
    """The place of each event among its key's, in order of arrival; 0 for all where that does not matter."""
    found = np.zeros(len(row), np.int64)
    if plan.exact and len(row):
        order, by_key = arrange(keys, found, hashes)
        # An event may stand here once for each of its windows: it has one place all the same.
        another = np.diff(row[order], prepend=row[order[0]]) != 0
        place = np.cumsum(another)
        found[order] = place - by_key.spread(place[by_key.starts])
    return found


def _own_columns(
    plan: Plan, rows: pl.DataFrame, times: Array, groups: Groups, end: Array, edge: Edge, now: Instant
) -> dict[str, Any]:
    weights = rows[WEIGHT].to_numpy() if plan.taking_back else None
    found: dict[str, Any] = {}
    for name, column in plan.columns.items():
        if name in ("new", "net"):
            found[name] = groups.add(weights) if name == "net" and weights is not None else groups.lengths
        elif name in ("earliest", "latest"):
            inserted = times if weights is None else np.where(weights > 0, times, column.initial)
            found[name] = groups.least(inserted) if name == "earliest" else groups.greatest(inserted)
        elif name == "arrived":
            found[name] = np.full(groups.count, int(now))
        elif column.rule != "fold":
            found[name] = constant(column.initial, column.dtype, groups.count)
    for part in walk(plan.trigger):
        if isinstance(part.trigger, OnEvent):
            found[hit_column(part)] = groups.add(rows[mask_of(part.trigger.expression)].to_numpy().astype(np.int64))
    if plan.trigger.column("ended") in found:
        book: dict[str, Any] = {}
        born(plan.trigger, book, end, edge.before)
        found |= book
    return found


def _expand(plan: Plan, table: pl.DataFrame, edge: Edge) -> pl.DataFrame:
    """Slices of hopping windows to the living windows that hold them."""
    assert isinstance(plan.window, Hopping)
    hops = hops_of(plan.window, table["window_start"].to_numpy(), table["window_end"].to_numpy())
    alive = edge.before < plan.deadline(hops.end)
    row, start, end = hops.row[alive], hops.start[alive], hops.end[alive]
    book: dict[str, Any] = {"window_start": start, "window_end": end}
    if plan.trigger.column("ended") in plan.columns:
        born(plan.trigger, book, end, edge.before)
    expanded = changed(rows_at(table, row), book)
    return expanded if plan.exact else arrange_rows(plan, expanded)[0]


def _merging(plan: Plan, rows: pl.DataFrame, times: Array, assigned: Assigned, edge: Edge, now: Instant) -> Partials:
    """Events of windows that merge: those that are surely kept become pieces, the others travel raw."""
    # Where events are taken one at a time all of them travel raw: only together do they have an order of arrival.
    maybe_late = np.zeros(rows.height, np.bool_)
    maybe_late[assigned.row[(edge.before >= plan.deadline(assigned.end)) | plan.exact]] = True
    sure = ~maybe_late[assigned.row]
    pieces = fold_pieces(plan, rows, times, assigned, sure, edge, now)
    raw = kept(rows, maybe_late)
    rejected = rejected_rows(rows, assigned.rejected)
    books = Books(
        rows=rows.height - raw.height, kept=rows.height - raw.height - rejected.height, rejected=rejected.height
    )
    return Partials(table=pieces, raw=raw, late=empty_late(plan), rejected=rejected, books=books)


def fold_pieces(
    plan: Plan, rows: pl.DataFrame, times: Array, assigned: Assigned, chosen: Mask, edge: Edge, now: Instant
) -> pl.DataFrame:
    """One partial per stretch of windows of a key that merge among themselves."""
    row, start, end = assigned.row[chosen], assigned.start[chosen], assigned.end[chosen]
    if plan.exact or not len(row):
        return fold_rows(plan, rows, times, row, start, end, edge, now)
    if not _everyone(row, rows.height):
        rows, times = rows_at(rows, row), times[row]
    keys, hashes = hashed_keys(plan.stage.keys, rows)
    found = stretches(keys, hashes, start, end, inclusive=plan.inclusive)
    columns = _fold_groups(plan, rows, times, found.order, found.groups, (found.start, found.end), edge, now)
    firsts = found.order[found.groups.starts]
    return arrange_rows(plan, _with_keys(plan, columns, keys, hashes, firsts, np.zeros(len(firsts), np.int64)))[0]


def late_rows(
    plan: Plan, rows: pl.DataFrame, times: Array, edge: Edge, missed: Assigned, counts: Array
) -> tuple[pl.DataFrame, Books]:
    """The events that missed windows: which, by how much, and whether another window kept them.

    `counts` says of how many windows each row is.
    """
    if not len(missed.row):
        return empty_late(plan), Books()
    order = np.lexsort((missed.start, missed.row))
    row, start, end = missed.row[order], missed.start[order], missed.end[order]
    groups = Groups.of_ids(row)
    windows = pl.DataFrame({
        "window_start": start, "window_end": end, "late_by": int(edge.before) - plan.deadline(end),
    }).cast({"window_start": pl.Datetime("us", "UTC"), "window_end": pl.Datetime("us", "UTC"), "late_by": pl.Duration("us")})  # fmt: skip
    gathered = windows.select(pl.struct(pl.all()).alias("missed")).with_columns(id=pl.Series(groups.ids))
    lists = gathered.group_by("id", maintain_order=True).agg("missed")["missed"]
    who = row[groups.starts]
    elsewhere = groups.lengths < counts[who]
    late_by = pl.Series(int(edge.before) - times[who]).cast(pl.Duration("us"))
    late = changed(
        rows_at(only(rows, [*plan.inputs, TIME]), who), {"missed": lists, "late_by": late_by, "kept": elsewhere}
    )
    return late, Books(late=int((~elsewhere).sum()), missed=len(row))


def _window_counts(plan: Plan, assigned: Assigned, times: Array, missed: Assigned) -> Array:
    """How many windows each event belongs to; asked only when some were missed."""
    if not len(missed.row):
        return np.zeros(0, np.int64)
    if isinstance(plan.window, Hopping):
        assigned = assign(plan.window, pl.DataFrame(), times)
    return np.bincount(assigned.row, minlength=len(times))


@once_per_plan
def empty_late(plan: Plan) -> pl.DataFrame:
    """No late events, with the columns they would have."""
    extra = {name: polars_type(kind) for name, kind in LATE_COLUMNS}
    return no_rows({**polars_schema(plan.inputs), TIME: pl.Int64(), **extra})


def rejected_rows(rows: pl.DataFrame, rejected: Mapping[int, str]) -> pl.DataFrame:
    """The rows that no window can take, each with the reason."""
    visible = only(rows, (c for c in rows.columns if c == TIME or not c.startswith(HIDDEN)))
    places = sorted(rejected)
    reasons = pl.Series([rejected[p] for p in places], dtype=pl.String)
    return changed(visible[places] if places else visible.clear(), {"reason": reasons})
