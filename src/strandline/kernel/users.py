"""Rows as a user's own code gets them: plain Python values, the same that the oracle gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timezone
from typing import Any

import polars as pl


def python_rows(rows: pl.DataFrame, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The values of these columns, row by row: there is one zero, and UTC is `timezone.utc`.

    >>> list(python_rows(pl.DataFrame({"n": [-0.0, None], "m": [1, 2]}), ["n", "m"]))
    [(0.0, 1), (None, 2)]
    """
    if not columns:
        return iter([()] * rows.height)
    return zip(*(_values(rows[column]) for column in columns), strict=True)


def _values(column: pl.Series) -> list[Any]:
    if column.dtype.is_float():
        return column.set(column == 0, 0.0).to_list()
    if isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone is not None:
        moments = column.dt.replace_time_zone(None).to_list()
        return [None if moment is None else moment.replace(tzinfo=timezone.utc) for moment in moments]
    return column.to_list()
