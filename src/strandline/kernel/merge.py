"""State rows of one window, or of windows that became one, to a single row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.folds import state_columns
from strandline.kernel.folds.lists import list_lengths, to_lists
from strandline.kernel.frames import constant, framed, kept, only, rows_at
from strandline.kernel.groups import Groups
from strandline.kernel.order import arrange
from strandline.kernel.plan import GONE, PARTIAL, WHOLE, Plan
from strandline.kernel.triggers import born, hit_column, observe, walk
from strandline.model.triggers import OnEvent

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Union:
    """For groups of windows that became one: the window, and whether it is a new one."""

    start: Array
    end: Array
    new: Mask
    before: int


def arrange_rows(plan: Plan, table: pl.DataFrame) -> tuple[pl.DataFrame, Groups]:
    """Put state rows in canonical order, rows of one window together, older before younger."""
    start, end = table["window_start"].to_numpy(), table["window_end"].to_numpy()
    windows = () if plan.one_window_per_slice else (start, end)
    order, groups = arrange(only(table, plan.keys), plan.slices(end), table["hash"].to_numpy(), *windows)
    return rows_at(table, order), groups


def newest(plan: Plan, table: pl.DataFrame) -> tuple[pl.DataFrame, Groups]:
    """Arrange rows given from the oldest to the youngest, without those that a later whole row replaced."""
    table, groups = arrange_rows(plan, table)
    kind = table["kind"].to_numpy()
    if groups.all_single or not (kind != PARTIAL).any():
        return table, groups
    place = np.arange(len(kind))
    last_whole = groups.greatest(np.where(kind != PARTIAL, place, -1))
    valid = place >= groups.spread(last_whole)
    left, _ = groups.keep(valid)
    return kept(table, valid), left


def combine(
    plan: Plan, table: pl.DataFrame, groups: Groups, *, settle: bool, union: Union | None = None
) -> pl.DataFrame:
    """One row for each group.

    A whole row comes first, additions after it. `settle` lets the trigger count what was added, and makes the rows
    whole: it is done when a window is asked. `union` says what windows that merged became.
    """
    if groups.all_single and not settle:
        return table
    kind = table["kind"].to_numpy()
    firsts = _firsts(plan, table, groups)
    found: dict[str, Any] = {name: firsts[name] for name in ("hash", *plan.keys)}
    found["window_start"] = firsts["window_start"] if union is None else union.start
    found["window_end"] = firsts["window_end"] if union is None else union.end
    found["kind"] = np.full(groups.count, WHOLE, np.uint8) if settle else groups.greatest(kind)
    whole = found["kind"] != PARTIAL
    found |= _plain_columns(plan, table, groups, firsts, union)
    found |= _merged_folds(plan, table, groups)
    if plan.trigger.column("ended") in plan.columns and whole.any():
        found |= _counted(plan, table, groups, found, kind, whole)
    return framed(found, plan.state_schema)


def _firsts(plan: Plan, table: pl.DataFrame, groups: Groups) -> pl.DataFrame:
    """Of each group the first row, with those of its columns that are taken from there."""
    first = [name for name, column in plan.columns.items() if column.rule == "first"]
    rows = only(table, ["hash", *plan.keys, "window_start", "window_end", *first])
    return rows if groups.all_single else rows_at(rows, groups.starts)


def _plain_columns(
    plan: Plan, table: pl.DataFrame, groups: Groups, firsts: pl.DataFrame, union: Union | None
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, column in plan.columns.items():
        if column.rule == "fold":
            continue
        if column.rule == "shown":
            found[name] = _joined_lists(table[name], groups)
        elif column.rule == "first":
            value = firsts[name]
            found[name] = value if union is None else np.where(union.new, column.initial, value.to_numpy())
        elif groups.all_single:
            found[name] = table[name]
        else:
            values = table[name].to_numpy()
            how = {"sum": groups.add, "least": groups.least, "greatest": groups.greatest, "any": groups.any_bits}
            found[name] = how[column.rule](values)
    if union is not None and plan.trigger.column("ended") in plan.columns:
        fresh: dict[str, Any] = {}
        born(plan.trigger, fresh, union.end, union.before)
        found |= {name: np.where(union.new, value, np.asarray(found[name])) for name, value in fresh.items()}
    return found


def _merged_folds(plan: Plan, table: pl.DataFrame, groups: Groups) -> Mapping[str, pl.Series]:
    found: dict[str, pl.Series] = {}
    for name, fold in plan.folds:
        columns = state_columns(name, fold)
        parts = [table[column] for column in columns]
        merged = parts if groups.all_single else fold.merge(parts, groups)
        found |= dict(zip(columns, merged, strict=True))
    return found


def _counted(
    plan: Plan, table: pl.DataFrame, groups: Groups, found: dict[str, Any], kind: Array, whole: Mask
) -> dict[str, Any]:
    """Let the trigger of whole rows count what was added to them, and forget that it is still to be counted."""
    book = {name: np.asarray(found[name]) for name, c in plan.columns.items() if name.startswith("t")}
    added = np.where(kind == PARTIAL, table["new"].to_numpy(), 0)
    arrivals = {"rows": groups.add(added)}
    hits = [hit_column(part) for part in walk(plan.trigger) if isinstance(part.trigger, OnEvent)]
    pending = [*hits, *(["arrived"] if "arrived" in plan.columns else [])]
    arrivals |= {name: np.asarray(found[name]) for name in pending}
    observe(plan.trigger, book, arrivals, whole)
    for name in pending:
        book[name] = np.where(whole, plan.columns[name].initial, arrivals[name])
    return book


def _joined_lists(lists: pl.Series, groups: Groups) -> pl.Series:
    if groups.all_single:
        return lists
    nothing = constant(None, lists.dtype, 1)
    lengths = list_lengths(lists)
    filled = np.flatnonzero(lengths)
    if not len(filled):
        return nothing.new_from_index(0, groups.count)
    held = groups.add(lengths)
    there = held > 0
    joined = to_lists(lists[filled].explode(), held[there]).cast(lists.dtype).extend(nothing)
    return joined[np.where(there, np.cumsum(there) - 1, len(joined) - 1)]


def alive(table: pl.DataFrame) -> Mask:
    """Which rows are windows, and not word that one merged away."""
    return np.asarray(table["kind"].to_numpy() != GONE)
