"""Whole numbers of 128 bits to the nearest double, in columns.

A total is `high * 2**64 + low`, high signed (int64), low unsigned (uint64).
"""

from __future__ import annotations

import numpy as np

from strandline.kernel.groups import Array

MASK32 = np.int64(0xFFFFFFFF)
# No double lies farther out; an exponent beyond it only says zero or infinity.
_FAR = 1 << 14


def from_slices(s0: Array, s1: Array, s2: Array) -> tuple[Array, Array]:
    """The total s0 * 2**64 + s1 * 2**32 + s2 of signed slices as (high, low)."""
    s1 = s1 + (s2 >> 32)
    high = s0 + (s1 >> 32)
    low = ((s1 & MASK32).astype(np.uint64) << np.uint64(32)) | (s2 & MASK32).astype(np.uint64)
    return high, low


def nearest(high: Array, low: Array) -> tuple[Array, Array]:
    """The double m and exponent e with m * 2**e nearest to the total, ties to even; |m| < 2**64.

    >>> nearest(np.array([-1]), np.array([2**64 - 3], dtype=np.uint64))
    (array([-3.]), array([0]))
    """
    negative = high < 0
    low = np.where(negative, -low, low)
    high = np.where(negative, ~high + (low == 0), high).astype(np.uint64)
    size = _bit_length(high)
    rest = (np.uint64(64) - size) & np.uint64(63)
    # `high` moved up to its 64th bit, bits of `low` moved in; a last bit stands for all that is left, so that
    # the one rounding to 53 bits, which the conversion does, sees on which side of a tie the total lies.
    joined = np.where(rest == 0, high, (high << rest) | ((low >> np.uint64(1)) >> (np.uint64(63) - rest)))
    sticky = (low << rest) != 0
    magnitude = np.where(size == 0, low, joined | sticky).astype(np.float64)
    return np.where(negative, -magnitude, magnitude), size.astype(np.int64)


def scaled(mantissa: Array, exponent: Array) -> Array:
    """The double mantissa * 2**exponent; an infinity beyond the greatest."""
    with np.errstate(over="ignore", under="ignore"):
        result: Array = np.ldexp(mantissa, np.clip(exponent, -_FAR, _FAR).astype(np.int32))
    return result


def _bit_length(values: Array) -> Array:
    # Clearing the bit behind the first keeps the conversion from rounding up to the next power of two.
    _, exponent = np.frexp((values & ~(values >> np.uint64(1))).astype(np.float64))
    size: Array = exponent.astype(np.uint64)
    return size
