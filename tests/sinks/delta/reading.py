"""What a reader of a Delta table sees."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from deltalake import DeltaTable


def rows_of(table: DeltaTable | Path | str) -> pl.DataFrame:
    """All rows of a table, or of the version of it that is open."""
    opened = table if isinstance(table, DeltaTable) else DeltaTable(str(table))
    found = pl.from_arrow(opened.to_pyarrow_table())
    assert isinstance(found, pl.DataFrame)
    return found


def sorted_rows(table: DeltaTable | Path | str) -> list[tuple[object, ...]]:
    return sorted(rows_of(table).rows(), key=repr)
