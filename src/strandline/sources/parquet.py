"""Parquet files to columns: by name, in the types of the schema, where that loses nothing.

Whole numbers may be narrower or wider than their column, and so may floats and decimals. A row with a value that does
not fit, or is of another kind altogether, is not understood; the rows of other files are. A timestamp without a zone is
in UTC; what is finer than a microsecond is cut off. A time or a day in a year that no calendar has does not fit. A
column that the file does not have is null; columns that are not asked for are not read.
"""

from __future__ import annotations

from typing import Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from strandline.kernel.schema import polars_schema
from strandline.model.types import Schema, Type
from strandline.sources.far_times import far_columns
from strandline.sources.misfits import without_misfits
from strandline.sources.understood import Understood
from strandline.sources.unreadable import UNREADABLE, why

_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


class DamagedFile(Exception):
    """A file that is no readable parquet file; its text says why."""


def row_groups(path: str) -> list[tuple[int, int]]:
    """Rows and bytes of each row group; none when the file cannot be read, which is told when it is."""
    try:
        about = pq.read_metadata(path)
    except (OSError, ValueError, pa.ArrowException):  # a name that is no text is a ValueError
        return []
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    return [(group.num_rows, group.total_byte_size) for group in groups]


def read_parquet(path: str, schema: Schema, first: int, count: int | None) -> Understood:
    """So many rows from the row `first` on, or all that follow, in the columns of the schema."""
    try:
        lazy = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        there = lazy.collect_schema()
        found = [name for name in schema if name in there]
        if found:
            table = lazy.select(found).slice(first, count).collect()
        else:
            height = lazy.select(pl.len()).slice(0).collect().item() - first
            table = pl.DataFrame({"": pl.repeat(None, height if count is None else count, eager=True)})
    except UNREADABLE as error:
        raise DamagedFile(why(error)) from None
    wanted = polars_schema(schema)
    far = far_columns(table.select(found))
    near = table.with_columns(pl.when(~where).then(name).alias(name) for name, where in far.items())
    columns = [_read(near[name], schema[name], wanted[name]) if name in found
               else pl.repeat(None, table.height, dtype=wanted[name], eager=True).alias(name) for name in schema]  # fmt: skip
    rows = pl.DataFrame(columns)
    unfit = {name: bad for name in found if (bad := _misfits(near[name], rows[name])) is not None}
    for name, where in far.items():
        unfit[name] = unfit[name] | where if name in unfit else where
    return without_misfits(table, rows, unfit, schema) if unfit else Understood(rows)


def _misfits(there: pl.Series, values: pl.Series) -> pl.Series | None:
    """Which of a file's values are not what they were any more as values of the column; None if there are none."""
    if there.dtype == values.dtype:
        return None
    bad = there.is_not_null() & values.is_null()
    if there.dtype.is_numeric() and values.dtype.is_numeric():
        bad |= values.cast(there.dtype, strict=False).ne_missing(there)
    return bad if bad.any() else None


def _fits(found: pl.DataType, kind: Type) -> bool:
    """Whether values of a file's type may be values of a column's, each to be checked where they are cast."""
    if found == pl.Null():
        return True
    if kind.element is not None:
        return isinstance(found, pl.List) and _fits(found.inner, kind.element)  # type: ignore[arg-type]
    if kind.name == "struct":
        fields = {field.name: field.dtype for field in found.fields} if isinstance(found, pl.Struct) else None
        return fields is not None and all(_fits(fields[n], t) for n, t in kind.fields if n in fields)  # type: ignore[arg-type]
    if kind.name in _NUMBERS:
        return found.is_numeric() and (kind.is_float or kind.name == "decimal" or not found.is_float())
    if kind.name in ("timestamp", "timestamp_ntz"):
        zone = isinstance(found, pl.Datetime) and found.time_zone is not None
        return isinstance(found, pl.Datetime) and not (zone and kind.name == "timestamp_ntz")
    if kind.name == "string":
        return isinstance(found, pl.String | pl.Categorical | pl.Enum)
    return isinstance(found, {"boolean": pl.Boolean, "binary": pl.Binary, "date": pl.Date}.get(kind.name, pl.Duration))


def _read(column: pl.Series, kind: Type, wanted: pl.DataType) -> pl.Series:
    """The values in the type of the column, or near it; null where one cannot be."""
    if column.dtype == wanted:
        return column
    if not _fits(column.dtype, kind):
        return pl.repeat(None, len(column), dtype=wanted, eager=True).alias(column.name)
    if isinstance(column.dtype, pl.Datetime):
        moments = column.dt.cast_time_unit("us")
        if kind.name == "timestamp_ntz":
            return moments
        local = column.dtype.time_zone is None
        return moments.dt.replace_time_zone("UTC") if local else moments.dt.convert_time_zone("UTC")
    if kind.is_scalar:
        return column.cast(wanted, strict=False)
    try:
        return column.cast(wanted)
    except UNREADABLE:  # which says not whose part it is that does not fit
        return pl.concat([_read_parts(column[at : at + 1], wanted) for at in range(len(column))])


def _read_parts(one: pl.Series, wanted: pl.DataType) -> pl.Series:
    try:
        return one.cast(wanted)
    except UNREADABLE:
        return pl.Series(one.name, [None], dtype=wanted)
