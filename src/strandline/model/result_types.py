"""The type of what an aggregate shows, given the columns that it reads."""

from __future__ import annotations

from strandline.errors import DescriptionError
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
from strandline.model.types import Schema, Type


def result_type(aggregate: AnyAggregate, schema: Schema) -> Type:
    """The type of what an aggregate shows; a DescriptionError when it cannot take its column's type.

    `Merge` has the type of what it merges, which only the flow knows; ask `strandline.model.lineage`.
    """
    name = type(aggregate).__name__
    if isinstance(aggregate, Aggregate):
        for column in _own_columns(aggregate):
            schema.require(column, name)
        return Type.of(aggregate.result)
    types = [schema.require(c, name) for c in columns_of(aggregate)]
    if isinstance(aggregate, Count):
        return Type.of("bigint")
    if isinstance(aggregate, Merge):
        raise DescriptionError("Merge has the type of what it merges.", fix="Ask the stage for its schema.")
    kind = types[0]
    for each, column in zip(types, columns_of(aggregate), strict=True):
        if not each.is_scalar:
            raise DescriptionError(
                f"{name}({column!r}) cannot take {each.text}.", fix="Take a part of it first, with .with_column()."
            )
    if isinstance(aggregate, Sum | Mean | Variance | StdDev | Quantile | Ewma) and not kind.is_number:
        raise DescriptionError(
            f"{name}({aggregate.column!r}) needs a number, not {kind.text}.",
            fix="Aggregate a numeric column, or convert it first: .with_column('n', 'cast(... as double)').",
        )
    return _shown(aggregate, kind, types[-1])


def _own_columns(aggregate: Aggregate) -> tuple[str, ...]:
    columns = getattr(aggregate, "columns", None)
    named = isinstance(columns, tuple | list) and all(isinstance(column, str) for column in columns)
    if not named or not isinstance(getattr(aggregate, "result", None), str):
        raise DescriptionError(
            f"{type(aggregate).__name__} does not say which columns it reads, or the type of its result.",
            fix="Set columns = ('amount',), with its comma, and result = 'double' on the class.",
        )
    return tuple(columns)  # type: ignore[arg-type]


def _shown(aggregate: BuiltIn, kind: Type, by: Type) -> Type:
    if isinstance(aggregate, Sum):
        if kind.name == "decimal":
            return Type.decimal(kind.precision + 10, kind.scale)
        return Type.of("bigint" if kind.is_integer else "double")
    if isinstance(aggregate, Mean) and kind.name == "decimal":
        return Type.decimal(kind.precision + 4, kind.scale + 4)
    if isinstance(aggregate, Distinct | ApproxDistinct):
        return Type.of("bigint")
    if isinstance(aggregate, Min | Max | First | Last):
        return kind
    if isinstance(aggregate, Collect):
        return Type(name="array", element=kind)
    if isinstance(aggregate, TopK):
        second = ("by", by) if aggregate.by is not None else ("count", Type.of("bigint"))
        return Type(name="array", element=Type(name="struct", fields=(("value", kind), second)))
    if isinstance(aggregate, Quantile) and isinstance(aggregate.q, tuple):
        return Type(name="array", element=Type.of("double"))
    return Type.of("double")
