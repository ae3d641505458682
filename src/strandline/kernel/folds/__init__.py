"""Aggregates in columns: each description becomes a fold."""

from __future__ import annotations

import polars as pl

from strandline.errors import DescriptionError
from strandline.kernel.folds.approximate import ApproxDistinctFold
from strandline.kernel.folds.cells import ExactSum
from strandline.kernel.folds.counts import CountFold
from strandline.kernel.folds.ewma import EwmaFold
from strandline.kernel.folds.extremes import Edge, Extreme
from strandline.kernel.folds.fold import Choosing, Fields, Fold, Parts, Weighable, state_columns
from strandline.kernel.folds.moments import VarianceFold
from strandline.kernel.folds.multisets import (
    CollectFold,
    DistinctFold,
    KeptEdge,
    KeptExtreme,
    TopByColumn,
    TopByCount,
)
from strandline.kernel.folds.quantiles import QuantileFold
from strandline.kernel.folds.rollup import Rollup
from strandline.kernel.folds.sums import GridSum, WholeSum
from strandline.kernel.folds.user import UserFold
from strandline.kernel.schema import polars_type
from strandline.model.aggregates import (
    Aggregate,
    AnyAggregate,
    ApproxDistinct,
    BuiltIn,
    Collect,
    Count,
    Distinct,
    Ewma,
    First,
    Last,
    Max,
    Mean,
    Merge,
    Min,
    Quantile,
    StdDev,
    Sum,
    TopK,
    Variance,
    columns_of,
)
from strandline.model.result_types import result_type
from strandline.model.types import Schema

__all__ = ["Fields", "Fold", "Parts", "Weighable", "compile_fold", "state_columns"]


def compile_fold(
    aggregate: AnyAggregate, schema: Schema, *, taking_back: bool, mask: str | None, earlier: Fold | None = None
) -> Fold:
    """The fold of an aggregate over rows of this schema.

    `taking_back` says that rows may come with weight -1; `mask` names the boolean column that `where=` became;
    `earlier` is the fold that a `Merge` rolls up, as the earlier stage compiled it.
    """
    if isinstance(aggregate, Merge):
        if earlier is None:
            raise DescriptionError(
                f"Merge({aggregate.column!r}) has no earlier aggregate.", fix="Name an aggregate of the stage before."
            )
        # What the earlier stage chose is in its accumulators already.
        merged = earlier.inner if isinstance(earlier, Choosing) else earlier
        return _choosing(Rollup(aggregate.column, merged), (), mask)
    output = polars_type(result_type(aggregate, schema))
    if isinstance(aggregate, Aggregate):
        return _choosing(UserFold(aggregate, output), columns_of(aggregate), mask)
    inputs = tuple(polars_type(schema[c]) for c in columns_of(aggregate))
    return _choosing(_built_in(aggregate, inputs, output, taking_back), columns_of(aggregate), mask)


def _choosing(inner: Fold, columns: tuple[str, ...], mask: str | None) -> Fold:
    return Choosing(inner, columns, mask) if columns or mask is not None else inner


def _built_in(aggregate: BuiltIn, inputs: tuple[pl.DataType, ...], output: pl.DataType, taking_back: bool) -> Fold:
    if isinstance(aggregate, Count):
        return CountFold()
    if isinstance(aggregate, Sum | Mean | Variance | StdDev | Quantile | Ewma):
        return _numeric(aggregate, inputs[0], output, taking_back)
    if isinstance(aggregate, Min | Max | First | Last):
        return _extreme(aggregate, inputs[0], output, taking_back)
    if isinstance(aggregate, ApproxDistinct):
        return ApproxDistinctFold(aggregate.column, aggregate.precision)
    if isinstance(aggregate, Distinct):
        return DistinctFold(aggregate.column, inputs[0], output, taking_back)
    if isinstance(aggregate, Collect):
        return CollectFold(aggregate.column, inputs[0], output)
    assert isinstance(aggregate, TopK)
    if aggregate.by is None:
        return TopByCount(aggregate.column, inputs[0], output, aggregate.k)
    return TopByColumn(aggregate.column, inputs[0], output, aggregate.k, aggregate.by, inputs[1], taking_back)


def _numeric(
    aggregate: Sum | Mean | Variance | StdDev | Quantile | Ewma,
    taken: pl.DataType,
    output: pl.DataType,
    taking_back: bool,
) -> Fold:
    column = aggregate.column
    if isinstance(aggregate, Quantile):
        return QuantileFold.of(column, aggregate.q, aggregate.error)
    if isinstance(aggregate, Ewma):
        return EwmaFold(column, aggregate.half_life)
    if isinstance(aggregate, Variance | StdDev):
        scale = taken.scale if isinstance(taken, pl.Decimal) else 0
        return VarianceFold(column, scale, aggregate.population, isinstance(aggregate, StdDev))
    mean = isinstance(aggregate, Mean)
    if not taken.is_float():
        return WholeSum(column, taken, output, mean)
    exact = taking_back or (isinstance(aggregate, Sum) and aggregate.exact)
    return ExactSum(column, mean) if exact else GridSum(column, mean)


def _extreme(aggregate: Min | Max | First | Last, taken: pl.DataType, output: pl.DataType, taking_back: bool) -> Fold:
    column, greatest = aggregate.column, isinstance(aggregate, Max | Last)
    if isinstance(aggregate, Min | Max):
        return KeptExtreme(column, taken, output, greatest) if taking_back else Extreme(column, output, greatest)
    return KeptEdge(column, taken, output, greatest) if taking_back else Edge(column, output, greatest)
