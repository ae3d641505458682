"""The other decisions about what is shown: retractions, ties, floats, and panes that are aggregated again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import pytest

from strandline.kernel import ask, fire, show, stateful
from strandline.kernel.folds import extremes, sums
from strandline.kernel.groups import Groups
from strandline.model import checks
from strandline.model.aggregates import Merge
from strandline.model.oracle import aggregates as oracle_aggregates
from strandline.model.oracle import stage as oracle_stage
from strandline.model.oracle.stage import StageOracle
from strandline.model.oracle.values import Entry
from strandline.model.panes import TIME, WEIGHT
from strandline.model.ticks import Edge
from strandline.model.time import Instant

Patch: TypeAlias = pytest.MonkeyPatch


def a_retraction_counts_as_a_row(patch: Patch) -> None:
    """The second stage adds what the first one withdraws."""
    fold, arrive = stateful.preaggregate, StageOracle._arrival

    def kernel(compiled: Any, rows: pl.DataFrame, edge: Edge, now: Instant) -> Any:
        return fold(compiled, rows.with_columns(pl.lit(1, pl.Int64).alias(WEIGHT)), edge, now)

    patch.setattr(stateful, "preaggregate", kernel)
    patch.setattr(
        StageOracle, "_arrival",
        lambda self, number, row, *more: arrive(self, number, {**row, WEIGHT: 1}, *more),
    )  # fmt: skip


def counting_twice_is_allowed(patch: Patch) -> None:
    """Nobody asks whether panes are counted again."""
    patch.setattr(checks, "RULES", tuple(rule for rule in checks.RULES if rule is not checks._counted_twice))


def a_retraction_stands_after_its_insert(patch: Patch) -> None:
    """First what is new, then what it replaces."""
    ordered = ask.in_order

    def turned(compiled: Any, parts: list[pl.DataFrame]) -> pl.DataFrame:
        return ordered(compiled, [part.with_columns(__rank=2 - pl.col("__rank")) for part in parts])

    patch.setattr(ask, "in_order", turned)
    in_order = StageOracle._in_order
    patch.setattr(StageOracle, "_in_order", lambda self, shown: in_order(self, shown)[::-1])


def _retracting(patch: Patch, change: Callable[[Any, pl.DataFrame, pl.DataFrame], pl.DataFrame]) -> None:
    """Let withdrawn panes differ from what was shown; `change` gets the plan, the windows that fire, and the panes."""
    retractions = fire.retractions

    def changed(compiled: Any, table: pl.DataFrame, shown: show.Shown) -> pl.DataFrame:
        withdrawn = retractions(compiled, table, shown)
        return change(compiled, table[withdrawn["__owner"].to_numpy()], withdrawn)

    patch.setattr(fire, "retractions", changed)


def a_retraction_has_the_time_of_its_insert(patch: Patch) -> None:
    """The withdrawal is placed where the new pane is."""
    _retracting(patch, lambda p, table, panes: panes.with_columns(show.pane_times(p, table).alias(TIME)))


def a_retraction_has_the_values_of_today(patch: Patch) -> None:
    """The withdrawal is computed from what the window holds now."""
    _retracting(
        patch,
        lambda p, table, panes: panes.with_columns(each.alias(name) for name, each in show.values(p, table).items()),
    )


def ties_stand_by_arrival(patch: Patch) -> None:
    """Of events at one time, the one that came first is first."""

    def as_they_came(column: str, entries: list[Entry]) -> list[Any]:
        found = [(entry.time, entry.row[column]) for entry in entries if entry.row[column] is not None]
        return [value for _, value in sorted(found, key=lambda item: item[0])]

    patch.setattr(oracle_aggregates, "_left_in_time", as_they_came)
    best_rows = extremes.best_rows
    patch.setattr(
        extremes, "best_rows", lambda keys, groups, *, greatest, then=None: best_rows(keys, groups, greatest=greatest)
    )


def floats_are_added_as_they_come(patch: Patch) -> None:
    """Each sum is rounded, so that the order matters."""

    def naive(aggregate: Any, entries: list[Entry], digits: Any, *, exact: bool) -> float:
        total = 0.0
        for entry in entries:
            total += entry.row[aggregate.column]
        return total

    patch.setattr(oracle_aggregates, "sum_of", naive)
    fold = sums.GridSum.fold

    def kernel(self: sums.GridSum, rows: pl.DataFrame, times: Any, weights: Any, groups: Groups) -> Any:
        rounded = np.zeros(rows.height)
        rounded[groups.starts] = np.add.reduceat(rows[self.column].to_numpy(), groups.starts)
        return fold(self, rows.with_columns(pl.Series(self.column, rounded)), times, weights, groups)

    patch.setattr(sums.GridSum, "fold", kernel)


def rolling_up_is_averaging(patch: Patch) -> None:
    """The median of an hour is the mean of its minutes' medians."""
    compute = oracle_stage.compute

    def mean(aggregate: Any, entries: list[Entry], reading: Any) -> Any:
        if not isinstance(aggregate, Merge):
            return compute(aggregate, entries, reading)
        return sum(entry.row[aggregate.column] for entry in entries) / len(entries)

    patch.setattr(oracle_stage, "compute", mean)
