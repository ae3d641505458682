"""Between Polars and Spark: frames as Arrow that Spark takes, and what Spark gives as the types that stand in a schema."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from strandline.errors import RunError, StrandlineError
from strandline.model.panes import HIDDEN
from strandline.model.types import Schema, Type


def to_arrow(frame: pl.DataFrame) -> pa.Table:
    """A frame in the Arrow types that Spark knows: no views and no large offsets."""
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    return table.cast(pa.schema([pa.field(f.name, _plain(f.type), f.nullable) for f in table.schema]))


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _plain(f.type), f.nullable) for f in kind])
    return kind


def spark_schema(types: dict[str, pl.DataType]) -> StructType:
    """The Spark schema of frames with these columns."""
    empty = to_arrow(pl.DataFrame(schema=types))
    return from_arrow_schema(empty.schema, prefer_timestamp_ntz=True)


def from_batches(batches: Iterable[pa.RecordBatch], types: dict[str, pl.DataType]) -> pl.DataFrame | None:
    """What Spark gives a task, as a frame with these columns in this order; None if there was nothing.

    Columns that travel unseen come behind them, as they are.
    """
    found = [batch for batch in batches if batch.num_rows]
    if not found:
        return None
    frame = pl.from_arrow(pa.Table.from_batches(found))
    assert isinstance(frame, pl.DataFrame), "a table, and not an array, went in"
    hidden = [name for name in frame.columns if name.startswith(HIDDEN) and name not in types]
    return frame.select(*(_as(name, frame.schema[name], kind) for name, kind in types.items()), *hidden)


def _as(name: str, there: pl.DataType, kind: pl.DataType) -> pl.Expr:
    column = pl.col(name)
    if isinstance(there, pl.Datetime) and isinstance(kind, pl.Datetime) and there.time_zone and kind.time_zone:
        column = column.dt.convert_time_zone(kind.time_zone)  # Spark gives the session's zone, at the same instant
    return column.cast(kind)


def require_plain_names(names: Iterable[str], whose: str) -> None:
    """Refuse columns that PySpark cannot hand to Python: it asks for them by name, as an expression."""
    found = [name for name in names if "." in name or "`" in name]
    if found:
        raise RunError(
            f"{whose} gives the column {found[0]!r}: PySpark takes a dot in a name for a field of a struct.",
            fix="Rename it there: withColumnRenamed, or selectExpr('`a.b` AS a_b').",
        )


def schema_of_spark(found: StructType, whose: str) -> Schema:
    """A Spark schema as Strandline writes it; RunError names a type that cannot be used."""
    columns = []
    for field in found.fields:
        text = field.dataType.simpleString()
        try:
            columns.append((field.name, Type.of(text)))
        except StrandlineError as error:
            raise RunError(
                f"{whose} gives the column {field.name!r} of type {text}, which Strandline does not know.",
                fix="Cast it in the transform: to string, a number, a timestamp, or a struct or array of such.",
            ) from error
    return Schema(tuple(columns))
