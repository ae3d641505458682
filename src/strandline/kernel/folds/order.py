"""The order of values as whole numbers: whatever the type, equal codes mean equal values, and lesser codes lesser ones."""

from __future__ import annotations

import numpy as np
import polars as pl

from strandline.kernel.folds.numbers import decimal_words
from strandline.kernel.groups import Array

_LOWER_63 = np.int64(2**63 - 1)
_SIGN = np.uint64(1 << 63)
_RANKED = (pl.String, pl.Binary)


def canonical(values: pl.Series) -> pl.Series:
    """Values with one zero and one NaN; other types as they are."""
    if not values.dtype.is_float():
        return values
    array = values.to_numpy() + np.float32(0)
    nan = np.isnan(array)
    if nan.any():
        array[nan] = np.nan
    return pl.Series(values.name, array, dtype=values.dtype)


def codes(values: pl.Series) -> list[Array]:
    """Arrays of int64 that, compared from the first to the last, order canonical values without nulls.

    NaN is greater than every number; text is ordered by code point, binary by byte.

    >>> codes(pl.Series(["b", "a", "b"]))
    [array([2, 1, 2])]
    """
    if isinstance(values.dtype, pl.Decimal):
        low, high = decimal_words(values)
        return [low] if values.dtype.precision <= 18 else [high, (low.view(np.uint64) ^ _SIGN).view(np.int64)]
    if isinstance(values.dtype, _RANKED):
        return [values.rank("dense").to_numpy().astype(np.int64)]
    if values.dtype.is_float():
        bits = values.to_numpy().astype(np.float64).view(np.int64)
        return [bits ^ ((bits >> 63) & _LOWER_63)]
    return [physical(values).astype(np.int64, copy=False)]


def physical(values: pl.Series) -> Array:
    """Values without nulls as the numbers that Polars holds them by."""
    return (values if values.dtype.is_numeric() else values.to_physical()).to_numpy()
