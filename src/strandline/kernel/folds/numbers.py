"""Columns of numbers as doubles, and as limbs: whole numbers cut into 32 bits each, that add without wrapping.

The limbs l0, l1, ... of a whole number say l0 + l1 * 2**32 + ...; the last has the sign. A decimal is its digits as a whole number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from strandline.errors import DataError
from strandline.kernel.folds.rounding import MASK32, nearest, scaled
from strandline.kernel.groups import Array

_SHIFT = np.uint64(32)
_EXACT_POWERS_OF_TEN = 22


def limb_count(type: pl.DataType) -> int:
    """How many limbs values of this type need, so that 2**31 of them can be added."""
    if isinstance(type, pl.Decimal):
        return 2 if type.precision <= 18 else 4
    return 2 if type == pl.Int64() else 1


def limbs(values: pl.Series) -> list[Array]:
    """The limbs of whole numbers or decimals without nulls."""
    count = limb_count(values.dtype)
    if count == 1:
        return [values.to_numpy().astype(np.int64)]
    low, high = decimal_words(values) if isinstance(values.dtype, pl.Decimal) else (values.to_numpy(), None)
    if count == 2 or high is None:
        return [low & MASK32, low >> 32]
    unsigned = low.view(np.uint64)
    return [low & MASK32, (unsigned >> _SHIFT).astype(np.int64), high & MASK32, high >> 32]


def decimal_words(values: pl.Series) -> tuple[Array, Array]:
    """The low and the high 64 bits of decimals without nulls."""
    array = values.rechunk().to_arrow()
    words = np.frombuffer(array.buffers()[1], dtype=np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    return np.ascontiguousarray(words[0::2]), np.ascontiguousarray(words[1::2])


def words(parts: Sequence[Array]) -> tuple[Array, Array, Array]:
    """Sums of limbs as (low 64 bits unsigned, high 64 bits signed, whether 128 bits hold it)."""
    carry: Array = np.zeros(len(parts[0]), dtype=np.int64)
    out = []
    for i in range(4):
        limb = carry + parts[i] if i < len(parts) else carry
        out.append(limb)
        carry = limb >> 32
    fits = (out[3] >= -(2**31)) & (out[3] < 2**31)
    low = (out[0] & MASK32).astype(np.uint64) | ((out[1] & MASK32).astype(np.uint64) << _SHIFT)
    return low, (out[2] & MASK32) | (out[3] << 32), fits


def to_integers(parts: Sequence[Array]) -> list[int]:
    """Sums of limbs as Python's whole numbers."""
    columns = [part.tolist() for part in parts]
    return [sum(limb << (32 * i) for i, limb in enumerate(row)) for row in zip(*columns, strict=True)]


def to_doubles(parts: Sequence[Array]) -> Array:
    """Sums of limbs as the nearest doubles."""
    low, high, fits = words(parts)
    result = scaled(*nearest(high, low))
    for i in np.flatnonzero(~fits):
        result[i] = float(to_integers([part[i : i + 1] for part in parts])[0])
    return result


def to_bigints(parts: Sequence[Array], what: str) -> pl.Series:
    """Sums of limbs as bigints; a DataError when one does not fit."""
    low, high, fits = words(parts)
    signed = low.view(np.int64)
    if not (fits & (high == (signed >> 63))).all():
        raise DataError(f"{what} is outside of bigint.", fix="Convert to decimal first: cast(... as decimal(38,0)).")
    return pl.Series(signed)


def to_decimals(parts: Sequence[Array], type: pl.Decimal, what: str) -> pl.Series:
    """Sums of limbs as decimals; a DataError when one has more digits than the type."""
    low, high, fits = words(parts)
    bound = 10**type.precision
    greatest, least = divmod(bound - 1, 1 << 64), divmod(1 - bound, 1 << 64)
    over = (high > greatest[0]) | ((high == greatest[0]) & (low > np.uint64(greatest[1])))
    under = (high < least[0]) | ((high == least[0]) & (low < np.uint64(least[1])))
    if (over | under | ~fits).any():
        raise too_many_digits(what, type)
    return _decimals(np.column_stack([low.view(np.int64), high]).tobytes(), len(low), type)


def integers_to_decimals(digits: Sequence[int], type: pl.Decimal, what: str) -> pl.Series:
    """Whole numbers as the digits of decimals; a DataError when one has more digits than the type."""
    bound = 10**type.precision
    if not all(-bound < d < bound for d in digits):
        raise too_many_digits(what, type)
    return _decimals(b"".join(d.to_bytes(16, "little", signed=True) for d in digits), len(digits), type)


def too_many_digits(what: str, type: pl.Decimal) -> DataError:
    """The error of a decimal that its type cannot hold."""
    return DataError(
        f"{what} is outside of decimal({type.precision},{type.scale}).",
        fix="Convert to fewer digits behind the point, or to double, first: cast(... as double).",
    )


def _decimals(buffer: bytes, count: int, type: pl.Decimal) -> pl.Series:
    arrow = pa.decimal128(type.precision, type.scale)
    result = pl.from_arrow(pa.Array.from_buffers(arrow, count, [None, pa.py_buffer(buffer)]))
    assert isinstance(result, pl.Series)
    return result.cast(type) if result.dtype != type else result


def doubles(values: pl.Series) -> Array:
    """Numbers without nulls as the nearest doubles."""
    if not isinstance(values.dtype, pl.Decimal):
        return values.to_numpy().astype(np.float64, copy=False)
    low, high = decimal_words(values)
    small = (high == low >> 63) & (np.abs(low) <= 2**53)
    if small.all() and values.dtype.scale <= _EXACT_POWERS_OF_TEN:
        return low.astype(np.float64) / 10.0**values.dtype.scale
    power = 10**values.dtype.scale
    return np.array([d / power for d in to_integers(limbs(values))], dtype=np.float64)
