"""Zero and zero below: two ways to write one number, which keys must not tell apart."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from strandline.model.types import Schema


def with_one_zero(rows: pl.DataFrame, names: Iterable[str], schema: Schema) -> pl.DataFrame:
    """The rows with 0.0 for -0.0 in those of the named columns that are floating point.

    >>> rows = pl.DataFrame({"f": [-0.0, 1.5, None, float("nan")]})
    >>> with_one_zero(rows, ["f"], Schema.of("f double"))["f"].to_list()
    [0.0, 1.5, None, nan]
    """
    # Not by adding 0.0, which Polars passes over.
    return rows.with_columns(
        pl.when(pl.col(name) == 0).then(pl.lit(0.0, rows.schema[name])).otherwise(pl.col(name)).alias(name)
        for name in names
        if schema[name].is_float
    )
