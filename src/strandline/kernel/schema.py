"""Types in columns: which Polars type holds each of Spark's."""

from __future__ import annotations

from typing import Final, cast

import polars as pl

from strandline.errors import DescriptionError
from strandline.model.types import Schema, Type

_SCALARS: Final[dict[str, pl.DataType]] = {
    "boolean": pl.Boolean(),
    "tinyint": pl.Int8(),
    "smallint": pl.Int16(),
    "int": pl.Int32(),
    "bigint": pl.Int64(),
    "float": pl.Float32(),
    "double": pl.Float64(),
    "string": pl.String(),
    "binary": pl.Binary(),
    "date": pl.Date(),
    "timestamp": pl.Datetime("us", "UTC"),
    "timestamp_ntz": pl.Datetime("us"),
    "interval day to second": pl.Duration("us"),
}


def polars_type(type: Type) -> pl.DataType:
    """The Polars type that holds a column of this type.

    >>> polars_type(Type.of("array<decimal(10,2)>"))
    List(Decimal(precision=10, scale=2))
    """
    if type.name == "decimal":
        return pl.Decimal(type.precision, type.scale)
    if type.element is not None:
        return pl.List(polars_type(type.element))
    if type.name == "struct":
        return pl.Struct({name: polars_type(field) for name, field in type.fields})
    if type.name not in _SCALARS:
        raise DescriptionError(
            f"The type {type.text} has no columns.", fix="Use one of Spark's scalar types, an array or a struct."
        )
    return _SCALARS[type.name]


def type_name(dtype: pl.DataType) -> str:
    """What the type of a column is called in a schema.

    >>> type_name(pl.Datetime("us", "UTC")), type_name(pl.Decimal(10, 2)), type_name(pl.List(pl.Int64()))
    ('timestamp', 'decimal(10,2)', 'array<bigint>')
    """
    if isinstance(dtype, pl.Decimal):
        return f"decimal({dtype.precision},{dtype.scale})"
    if isinstance(dtype, pl.List):
        return f"array<{type_name(cast('pl.DataType', dtype.inner))}>"
    return next((name for name, scalar in _SCALARS.items() if scalar == dtype), str(dtype))


def polars_schema(schema: Schema) -> dict[str, pl.DataType]:
    """The Polars type of each column, in order.

    >>> polars_schema(Schema.of("user string, at timestamp"))
    {'user': String, 'at': Datetime(time_unit='us', time_zone='UTC')}
    """
    return {name: polars_type(type) for name, type in schema.columns}
