"""The bucket hash in columns: the same values as `strandline.model.hashing`, a column at a time.

Buckets are ranges of the hash, in order: rows sorted by hash are sorted by bucket, and a bucket is one run of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from strandline.errors import DataError
from strandline.model import hashing as plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint64]

_GOLDEN: Final = np.uint64(plain.GOLDEN)
_FIRST: Final = np.uint64(plain.FIRST_FACTOR)
_SECOND: Final = np.uint64(plain.SECOND_FACTOR)
_PRIME: Final = np.uint64(plain.DECIMAL_PRIME)
_NULL: Final = np.uint64(plain.NULL_HASH)
_LOW_HALF: Final = np.uint64(2**32 - 1)
_HALF: Final = np.uint64(32)
_BATCH: Final = 8_192
_FIRST_BYTES: Final = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)


def hash_columns(columns: Sequence[pl.Series] | pl.DataFrame) -> Words:
    """The hash of each row, over all the columns in their order.

    Law: equal to `model.hashing.hash_values` of the row.

    >>> hash_columns([pl.Series(["ann", None])])
    array([ 6250424016150555389, 16294208416658607535], dtype=uint64)
    """
    series = columns.get_columns() if isinstance(columns, pl.DataFrame) else list(columns)
    if not series:
        return np.zeros(columns.height if isinstance(columns, pl.DataFrame) else 0, np.uint64)
    result = hash_series(series[0])
    for column in series[1:]:
        result *= _GOLDEN
        result += hash_series(column)
        _mix(result)
    return result


def hash_series(column: pl.Series) -> Words:
    """The hash of each value of one column; the array is the caller's to change."""
    if column.dtype == pl.Null:
        return np.full(len(column), _NULL)
    result = _hash_present(column)
    if column.null_count():
        result[column.is_null().to_numpy()] = _NULL
    return result


def bucket_of(hashes: Words, buckets: int) -> NDArray[np.int64]:
    """The bucket of each hash: `hash * buckets >> 64`, so a bucket is a range of hashes and the order is kept.

    >>> bucket_of(np.array([0, 2**63, 2**64 - 1], np.uint64), 64)
    array([ 0, 32, 63])
    """
    count = np.uint64(buckets)
    carry = (hashes & _LOW_HALF) * count >> _HALF
    buckets_of_rows: NDArray[np.int64] = (((hashes >> _HALF) * count + carry) >> _HALF).astype(np.int64)
    return buckets_of_rows


def hash_range(bucket: int, buckets: int) -> tuple[int, int]:
    """The least and the greatest hash of a bucket, both its own.

    >>> hash_range(0, 2) == (0, 2**63 - 1)
    True
    """
    return -(-(bucket << 64) // buckets), -(-((bucket + 1) << 64) // buckets) - 1


def _hash_present(column: pl.Series) -> Words:
    """Hash as if nothing were null; where something is, any value will do."""
    dtype = column.dtype
    if dtype in (pl.Categorical, pl.Enum):
        return _hash_bytes(column.cast(pl.String))
    if dtype in (pl.String, pl.Binary):
        return _hash_bytes(column)
    if dtype.is_float():
        return _salted(_float_words(column), plain.FLOAT_SALT)
    if isinstance(dtype, pl.Decimal):
        return _salted(_decimal_words(column, dtype.scale), plain.DECIMAL_SALT)
    return _salted(_whole_words(column), plain.WHOLE_SALT)


def _mix(words: Words) -> Words:
    """`model.hashing.mix`, in place."""
    words ^= words >> np.uint64(30)
    words *= _FIRST
    words ^= words >> np.uint64(27)
    words *= _SECOND
    words ^= words >> np.uint64(31)
    return words


def _salted(words: Words, salt: int) -> Words:
    return _mix(words ^ np.uint64(salt))


def _whole_words(column: pl.Series) -> Words:
    dtype = column.dtype
    if isinstance(dtype, (pl.Datetime, pl.Duration)):
        column = column.dt.cast_time_unit("us").to_physical()
    elif dtype == pl.Date:
        column = column.to_physical()
    elif not (dtype.is_integer() or dtype == pl.Boolean):
        raise DataError(
            f"The column {column.name!r} of type {dtype} cannot be hashed.",
            fix="Use numbers, booleans, text, bytes, dates, timestamps and intervals; take an array or a struct apart first.",
        )
    if dtype != pl.UInt64:
        column = column.cast(pl.Int64)
    return _filled(column, 0).view(np.uint64)


def _float_words(column: pl.Series) -> Words:
    numbers = _filled(column.cast(pl.Float64), 0.0) + 0.0  # -0.0 + 0.0 is 0.0
    words = numbers.view(np.uint64)
    words[np.isnan(numbers)] = plain.ONE_NAN
    return words


def _decimal_words(column: pl.Series, scale: int) -> Words:
    """Each value modulo the prime, from the two halves of its 128 bits; 2**64 is 8 there."""
    array = column.rechunk().to_arrow()
    halves = np.frombuffer(array.buffers()[1], np.uint64)[2 * array.offset : 2 * (array.offset + len(array))]
    high = halves[1::2]
    negative = high >> np.uint64(63)  # read as unsigned, a negative value is 2**128 too great, which is 64 here
    unscaled = _reduced(_reduced(_reduced(high) << np.uint64(3)) + _reduced(halves[0::2]))
    unscaled = _reduced(unscaled + negative * (_PRIME - np.uint64(64)))
    return _times(unscaled, pow(10, -scale, plain.DECIMAL_PRIME))


def _times(words: Words, factor: int) -> Words:
    """`words * factor` modulo the prime, by schoolbook multiplication of 32-bit halves."""
    low_factor, high_factor = np.uint64(factor & 0xFFFFFFFF), np.uint64(factor >> 32)
    low, high = words & _LOW_HALF, words >> _HALF
    cross_a, cross_b = low * high_factor, high * low_factor
    middle = (low * low_factor >> _HALF) + (cross_a & _LOW_HALF) + (cross_b & _LOW_HALF)
    upper = high * high_factor + (cross_a >> _HALF) + (cross_b >> _HALF) + (middle >> _HALF)
    lower = words * np.uint64(factor)
    return _reduced((upper << np.uint64(3)) + _reduced(lower))


def _reduced(words: Words) -> Words:
    """`words` modulo the prime 2**61 - 1, without a division: what is above 61 bits is added below."""
    folded: Words = (words & _PRIME) + (words >> np.uint64(61))
    folded -= _PRIME * (folded >= _PRIME)
    return folded


def _filled(column: pl.Series, filler: float) -> NDArray[Any]:
    if column.null_count():
        column = column.fill_null(filler)
    return column.to_numpy()


def _hash_bytes(column: pl.Series) -> Words:
    """Word by word over many strings at once, never string by string.

    The words are loaded where they lie, unaligned, from the one Arrow buffer that holds all the text. A batch of
    strings is small enough that its arrays stay in the cache and need no fresh pages: twice as fast as all at once.
    """
    starts, lengths, words = _byte_words(column)
    result = np.empty(len(column), np.uint64)
    for first in range(0, len(column), _BATCH):
        batch = slice(first, first + _BATCH)
        result[batch] = _hash_batch(starts[batch], lengths[batch], words)
    return result


def _hash_batch(starts: NDArray[np.int64], left: NDArray[np.int64], words: Words) -> Words:
    result: Words = (left + plain.BYTES_KIND).astype(np.uint64) * _GOLDEN
    _absorb(result, words[starts], left)
    going = np.flatnonzero(left > 8)
    starts, left = starts[going], left[going]
    while going.size:
        starts, left = starts + 8, left - 8
        result[going] = _absorb(result[going], words[starts], left)
        longer = left > 8
        going, starts, left = going[longer], starts[longer], left[longer]
    return result


def _absorb(state: Words, words: Words, left: NDArray[np.int64]) -> Words:
    """Mix one word of each string in; only its first `left` bytes belong to the string."""
    words &= _FIRST_BYTES.take(left, mode="clip")
    state ^= words
    return _mix(state)


def _byte_words(column: pl.Series) -> tuple[NDArray[np.int64], NDArray[np.int64], Words]:
    """Where each string starts, how long it is, and the word that begins at every byte."""
    array = column.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets_buffer, data = array.buffers()
    if offsets_buffer is None or not len(array):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(1, np.uint64)
    offsets = np.frombuffer(offsets_buffer, np.int64)[array.offset : array.offset + len(array) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    padded = np.zeros(last - first + 8, np.uint8)
    if last > first:
        padded[: last - first] = np.frombuffer(data, np.uint8)[first:last]
    words: Words = np.ndarray((last - first + 1,), np.dtype("<u8"), buffer=padded.data, strides=(1,))
    return offsets[:-1] - first, np.diff(offsets), words
