"""Parquet files to columns: by name, in the types of the schema, where that loses nothing.

Whole numbers may be narrower or wider than their column, and so may floats and decimals. A row with a value that does
not fit, or is of another kind altogether, is not understood; the rows of other files are. A timestamp without a zone is
in UTC; what is finer than a microsecond is cut off. A time or a day in a year that no calendar has does not fit. All
this holds for the parts of arrays and structs too. A column, or a field of a struct, that the file does not have is
null; those that are not asked for are passed over.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from strandline.kernel.schema import polars_type
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
        lazy = pl.scan_parquet(_source(path), glob=False, hive_partitioning=False)
        there = lazy.collect_schema()
        found = [name for name in schema if name in there]
        if found:
            table = lazy.select(found).slice(first, count).collect()
        else:
            height = lazy.select(pl.len()).slice(0).collect().item() - first
            table = pl.DataFrame({"": pl.repeat(None, height if count is None else count, eager=True)})
    except UNREADABLE as error:
        raise DamagedFile(why(error)) from None
    far = far_columns(table.select(found))
    near = table.with_columns(pl.when(~where).then(name).alias(name) for name, where in far.items())
    missing = _everywhere(None, table.height)
    columns = {name: _read(near[name] if name in found else missing, kind) for name, kind in schema.columns}
    unfit = {name: bad for name, (_, bad) in columns.items() if bad.any()}
    for name, where in far.items():
        unfit[name] = unfit[name] | where if name in unfit else where
    rows = pl.DataFrame([values.alias(name) for name, (values, _) in columns.items()])
    return without_misfits(table, rows, unfit, schema) if unfit else Understood(rows)


def _source(path: str) -> str | bytes:
    """What Polars reads: a file by its name, or its bytes where the name is no UTF-8 text, which Polars does not take."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return Path(path).read_bytes()
    return path


def _read(column: pl.Series, kind: Type) -> tuple[pl.Series, pl.Series]:
    """The values in the type of the column, and which of them, or of their parts, are not what they were any more."""
    if column.dtype == polars_type(kind):
        return column, _everywhere(False, len(column))
    if column.dtype == pl.Null() or not _fits(column.dtype, kind):
        return _everywhere(None, len(column)).cast(polars_type(kind)), column.is_not_null()
    if kind.element is not None:
        return _read_lists(column, kind.element)
    if kind.name == "struct":
        return _read_structs(column, kind)
    values = _cast(column, kind)
    bad = column.is_not_null() & values.is_null()
    if column.dtype.is_numeric() and values.dtype.is_numeric():
        bad |= values.cast(column.dtype, strict=False).ne_missing(column)
    return values, bad


def _read_lists(column: pl.Series, element: Type) -> tuple[pl.Series, pl.Series]:
    """Lists whose parts are read as one column."""
    if isinstance(column.dtype, pl.Array):
        column = column.arr.to_list()
    lists = column.to_arrow(compat_level=pl.CompatLevel.oldest())
    parts, bad = _read(pl.Series(lists.values), element)
    ends = lists.offsets.to_numpy()
    so_far = np.concatenate([[0], np.cumsum(bad.to_numpy())])
    values = pa.LargeListArray.from_arrays(
        pa.array(ends), parts.to_arrow(compat_level=pl.CompatLevel.oldest()), mask=lists.is_null()
    )
    return pl.Series(values), pl.Series(so_far[ends[1:]] > so_far[ends[:-1]]) & column.is_not_null()


def _read_structs(column: pl.Series, kind: Type) -> tuple[pl.Series, pl.Series]:
    """Structs whose fields are read by name; one that the file does not have is null."""
    there, known = column.struct.fields, column.is_not_null()
    fields, bad = {}, _everywhere(False, len(column))
    missing = _everywhere(None, len(column))
    for name, field in kind.fields:
        fields[name], wrong = _read(column.struct.field(name) if name in there else missing, field)
        bad |= wrong
    values = pl.DataFrame(fields).to_struct()
    return values.zip_with(known, _everywhere(None, len(column)).cast(values.dtype)), bad & known


def _everywhere(value: bool | None, count: int) -> pl.Series:
    return pl.repeat(value, count, dtype=pl.Null() if value is None else pl.Boolean(), eager=True)


def _fits(found: pl.DataType, kind: Type) -> bool:
    """Whether values of a file's type may be values of a column's, each to be checked where it is read."""
    if kind.element is not None:
        return isinstance(found, pl.List | pl.Array)
    if kind.name == "struct":
        return isinstance(found, pl.Struct)
    if kind.name in _NUMBERS:
        return found.is_numeric() and (kind.is_float or kind.name == "decimal" or not found.is_float())
    if kind.name in ("timestamp", "timestamp_ntz"):
        zone = isinstance(found, pl.Datetime) and found.time_zone is not None
        return isinstance(found, pl.Datetime) and not (zone and kind.name == "timestamp_ntz")
    if kind.name == "string":
        return isinstance(found, pl.String | pl.Categorical | pl.Enum)
    return isinstance(found, {"boolean": pl.Boolean, "binary": pl.Binary, "date": pl.Date}.get(kind.name, pl.Duration))


def _cast(column: pl.Series, kind: Type) -> pl.Series:
    """The values in the type of the column, or near it; null where one cannot be."""
    if isinstance(column.dtype, pl.Datetime):
        moments = column.dt.cast_time_unit("us")
        if kind.name == "timestamp_ntz":
            return moments
        local = column.dtype.time_zone is None
        return moments.dt.replace_time_zone("UTC") if local else moments.dt.convert_time_zone("UTC")
    return column.cast(polars_type(kind), strict=False)
