"""The bucket hash, one value at a time: the definition that every other implementation must match.

The hash places a key in a bucket and orders the rows of state, so it is part of the state's format: version 1 never
changes. All arithmetic is on unsigned 64-bit words and wraps.

    G            = 0x9E3779B97F4A7C15
    mix(z)       = z ^= z >> 30; z *= 0xBF58476D1CE4E5B9; z ^= z >> 27; z *= 0x94D049BB133111EB; z ^= z >> 31
    null         mix(1 * G)
    whole number mix(w ^ 2 * G)   w: 64-bit two's complement. Booleans are 0 and 1, dates days since 1970-01-01,
                                  timestamps microseconds since then (without a zone: as if in UTC), intervals microseconds
    float        mix(w ^ 3 * G)   w: the bits of the double; -0.0 is 0.0, every NaN is 0x7FF8000000000000
    decimal      mix(w ^ 4 * G)   w: unscaled * 10 ** -scale modulo 2**61 - 1 (so that 1.0 and 1.00 are alike)
    bytes        h = (5 + length) * G, then h = mix(h ^ w) for each little-endian 8-byte word w, the last one filled
                                  up with zeros; no bytes count as one word. Strings are their UTF-8 bytes
    columns      the first column's hash h, then h = mix(h * G + c) for the hash c of each further column; no column: 0
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Final

import numpy as np

from strandline.errors import DataError
from strandline.model.time import EPOCH

HASH_VERSION: Final = 1
WORD: Final = 2**64 - 1
GOLDEN: Final = 0x9E3779B97F4A7C15
FIRST_FACTOR: Final = 0xBF58476D1CE4E5B9
SECOND_FACTOR: Final = 0x94D049BB133111EB
DECIMAL_PRIME: Final = 2**61 - 1
ONE_NAN: Final = 0x7FF8000000000000
NULL_SALT, WHOLE_SALT, FLOAT_SALT, DECIMAL_SALT = ((kind * GOLDEN) & WORD for kind in (1, 2, 3, 4))
BYTES_KIND: Final = 5


def mix(word: int) -> int:
    """Scatter a word over all 64 bits (the finaliser of splitmix64). One to one.

    >>> hex(mix(1))
    '0x5692161d100b05e5'
    """
    word = ((word ^ word >> 30) * FIRST_FACTOR) & WORD
    word = ((word ^ word >> 27) * SECOND_FACTOR) & WORD
    return word ^ word >> 31


NULL_HASH: Final = mix(NULL_SALT)


def hash_value(value: object) -> int:
    """The 64-bit hash of one value.

    Law: values that are equal in SQL have the same hash, whatever the width or scale of their type.

    >>> hash_value(Decimal("1.0")) == hash_value(Decimal("1.00"))
    True
    >>> hash_value(-0.0) == hash_value(0.0)
    True
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return NULL_HASH
    if isinstance(value, str):
        return _hash_bytes(value.encode())
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _hash_bytes(bytes(value))
    if isinstance(value, float):
        return mix(_float_word(value) ^ FLOAT_SALT)
    if isinstance(value, Decimal) and value.is_finite():
        return mix(_decimal_word(value) ^ DECIMAL_SALT)
    return mix((_whole(value) & WORD) ^ WHOLE_SALT)


def hash_values(values: Iterable[object]) -> int:
    """The 64-bit hash of a key of several columns, in their order.

    >>> hash_values(["ann", 7]) == hash_values([7, "ann"])
    False
    >>> hash_values(["ann"]) == hash_value("ann")
    True
    """
    hashes = [hash_value(value) for value in values]
    result = hashes[0] if hashes else 0
    for column in hashes[1:]:
        result = mix((result * GOLDEN + column) & WORD)
    return result


def _whole(value: object) -> int:
    if isinstance(value, int):
        return int(value)
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return (aware - EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return value.toordinal() - EPOCH.toordinal()
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    raise DataError(
        f"The value {value!r} cannot be hashed.",
        fix="Use numbers, booleans, text, bytes, dates, timestamps and intervals; take an array or a struct apart first.",
    )


def _float_word(value: float) -> int:
    if value != value:  # noqa: PLR0124 - the test for NaN that every language has
        return ONE_NAN
    return int.from_bytes(struct.pack("<d", value + 0.0), "little")


def _decimal_word(value: Decimal) -> int:
    sign, digits, exponent = value.as_tuple()
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    return unscaled * pow(10, int(exponent), DECIMAL_PRIME) % DECIMAL_PRIME


def _hash_bytes(data: bytes) -> int:
    result = (BYTES_KIND + len(data)) * GOLDEN & WORD
    for at in range(0, max(len(data), 1), 8):
        result = mix(result ^ int.from_bytes(data[at : at + 8], "little"))
    return result
