"""Text to moments, a column at a time: ISO dates and times, as logs and services write them.

Texts of one length and one form are digits in the same places, so a column of them is arithmetic on its bytes; that is
some twenty times faster than reading one text after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from strandline.errors import DataError
from strandline.model.cast import cast_value, micros_of
from strandline.model.time import Instant
from strandline.model.types import Type

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]

_DIGITS: Final = (0, 1, 2, 3, 5, 6, 8, 9)
_CLOCK_DIGITS: Final = (11, 12, 14, 15, 17, 18)
_DAY: Final = 86_400_000_000
_MONTH_LENGTHS: Final = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], dtype=np.int64)
_LONGEST: Final = 35  # 2026-01-01T00:00:00.123456789+00:00
_STRING: Final = Type.of("string")


def read_moments(text: pl.Series, kind: Type) -> pl.Series:
    """A column of text as whole microseconds since 1970; null where a text is no such moment.

    A `timestamp` without a zone is in UTC, and a whole number is taken for microseconds since 1970. A `timestamp_ntz`
    has no zone: one that has is not read. Digits beyond the microsecond are cut off.

    >>> at = pl.Series(["2026-01-01T00:00:00Z", "2026-01-01 01:00:00.5+01:00", "soon", None])
    >>> read_moments(at, Type.of("timestamp")).to_list()
    [1767225600000000, 1767225600500000, None, None]
    """
    zoned = kind.name == "timestamp"
    micros, known = _by_layout(text, zoned)
    places = np.flatnonzero(~known & text.is_not_null().to_numpy())
    if zoned and len(places):
        places = _read_numbers(text.gather(places), places, micros, known)
    if len(places):
        _read_singly(text.gather(places), kind, zoned, places, micros, known)
    known &= (micros >= Instant.FIRST_IN_CALENDAR) & (micros <= Instant.LAST_IN_CALENDAR)
    return pl.Series(text.name, micros).zip_with(
        pl.Series(known), pl.repeat(None, len(text), dtype=pl.Int64(), eager=True)
    )


def read_days(text: pl.Series) -> pl.Series:
    """A column of text as dates; null where a text is none.

    >>> read_days(pl.Series(["2026-02-28", "2026-02-30"])).to_list()
    [datetime.date(2026, 2, 28), None]
    """
    only_days = text.set(text.str.len_bytes() != 10, None)
    micros, known = _by_layout(only_days, zoned=False)
    days = pl.Series(text.name, micros // _DAY).zip_with(
        pl.Series(known), pl.repeat(None, len(text), dtype=pl.Int64(), eager=True)
    )
    return days.cast(pl.Int32()).cast(pl.Date())


def _read_numbers(text: pl.Series, places: NDArray[np.intp], micros: Numbers, known: Mask) -> NDArray[np.intp]:
    """Whole numbers, of so many digits as 64 bits always hold; the places of the texts that are none are left."""
    numbers = text.set(~text.str.contains(r"^-?[0-9]{1,18}$"), None).cast(pl.Int64())
    are_numbers: Mask = numbers.is_not_null().to_numpy()
    micros[places[are_numbers]], known[places[are_numbers]] = numbers.drop_nulls().to_numpy(), True
    return places[~are_numbers]


def _read_singly(
    text: pl.Series, kind: Type, zoned: bool, places: NDArray[np.intp], micros: Numbers, known: Mask
) -> None:
    """What has no common layout, one text at a time: the rarer forms that Spark reads."""
    found: dict[str, int | None] = {}
    for place, value in zip(places.tolist(), text.to_list(), strict=True):
        if value not in found:
            found[value] = _single(value, kind, zoned)
        moment = found[value]
        if moment is not None:
            micros[place], known[place] = moment, True


def _single(value: str, kind: Type, zoned: bool) -> int | None:
    if value.removeprefix("-").isdecimal():  # a number, which is read before or is none here: no year
        return None
    if not zoned and (value[-1:] == "Z" or value[-3:] == "UTC" or value[-6:-5] in ("+", "-")):
        return None
    try:
        return micros_of(cast_value(value, _STRING, kind))
    except DataError:
        return None


def _by_layout(text: pl.Series, zoned: bool) -> tuple[Numbers, Mask]:
    micros, known = np.zeros(len(text), np.int64), np.zeros(len(text), np.bool_)
    for rows, columns in _of_one_length(text):
        found, fits = _read_block(columns, zoned)
        micros[rows], known[rows] = found, fits
    return micros, known


def _of_one_length(text: pl.Series) -> Iterator[tuple[Any, Bytes]]:
    """Rows whose texts have one length, with their bytes: the first of all, the second of all, and so on."""
    array = text.to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets, data = array.buffers()
    if data is None or not len(text):
        return
    starts = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(text) + 1]
    values = np.frombuffer(data, np.uint8)
    lengths = np.diff(starts)
    length = int(lengths[0])
    if (lengths == length).all():
        if 10 <= length <= _LONGEST:
            block = values[starts[0] : starts[-1]].reshape(len(text), length)
            yield slice(None), np.ascontiguousarray(block.T)
        return
    for length in np.flatnonzero(np.bincount(np.minimum(lengths, _LONGEST + 1))[: _LONGEST + 1]).tolist():
        if length >= 10:
            rows = np.flatnonzero(lengths == length)
            yield rows, values[starts[rows] + np.arange(length)[:, None]]


def _read_block(columns: Bytes, zoned: bool) -> tuple[Numbers, Mask]:
    micros, known = _dates(columns)
    length = len(columns)
    if length == 10:
        return micros, known
    if length < 19:
        return micros, np.zeros_like(known)
    clock, on_clock = _clocks(columns)
    known &= on_clock
    micros += clock
    tail = np.zeros_like(known)
    for zone in _zones(length) if zoned else [0]:
        missing = ~tail
        if missing.any():
            added, fits = _tails(columns, zone)
            micros += np.where(missing & fits, added, 0)
            tail |= fits
    return micros, known & tail


def _zones(length: int) -> list[int]:
    """How many bytes a zone may take at the end of texts of this length: none, Z, +00:00, or +0000."""
    return [size for size in (1, 6, 5, 0) if length >= 19 + size]


def _dates(columns: Bytes) -> tuple[Numbers, Mask]:
    known = _are_digits(columns, _DIGITS) & (columns[4] == ord("-")) & (columns[7] == ord("-"))
    year = _number(columns[0:4])
    month, day = _number(columns[5:7]), _number(columns[8:10])
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    month_fits = (month >= 1) & (month <= 12)
    longest = _MONTH_LENGTHS[np.where(month_fits, month, 0)] + (leap & (month == 2))
    known &= month_fits & (day >= 1) & (day <= longest) & (year >= 1)
    # Days since 1970 of the proleptic Gregorian calendar, with years that begin in March.
    shifted = year - (month <= 2)
    era, of_era = shifted // 400, shifted % 400
    of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    days = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    return days * _DAY, known


def _clocks(columns: Bytes) -> tuple[Numbers, Mask]:
    hour, minute, second = _number(columns[11:13]), _number(columns[14:16]), _number(columns[17:19])
    known = _are_digits(columns, _CLOCK_DIGITS) & (columns[13] == ord(":")) & (columns[16] == ord(":"))
    known &= ((columns[10] == ord("T")) | (columns[10] == ord(" "))) & (hour < 24) & (minute < 60) & (second < 60)
    return ((hour * 60 + minute) * 60 + second) * 1_000_000, known


def _tails(columns: Bytes, zone: int) -> tuple[Numbers, Mask]:
    """What follows the seconds: a fraction, perhaps, and a zone of so many bytes."""
    length, count = columns.shape
    end = length - zone
    micros, known = np.zeros(count, np.int64), np.ones(count, np.bool_)
    if end > 19:
        digits = range(20, end)
        if not 1 <= len(digits) <= 9:
            return micros, ~known
        known &= (columns[19] == ord(".")) & _are_digits(columns, digits)
        micros += _number(columns[20 : min(end, 26)]) * 10 ** max(0, 6 - len(digits))
    if zone == 1:
        known &= columns[end] == ord("Z")
    elif zone:
        sign, hour, minute = columns[end], _number(columns[end + 1 : end + 3]), _number(columns[-2:])
        known &= ((sign == ord("+")) | (sign == ord("-"))) & (columns[-3] == ord(":") if zone == 6 else True)
        known &= _are_digits(columns, (end + 1, end + 2, -2, -1)) & (hour <= 18) & (minute < 60)
        micros += np.where(sign == ord("-"), 1, -1) * (hour * 60 + minute) * 60_000_000
    return micros, known


def _are_digits(columns: Bytes, places: Any) -> Mask:
    known = np.ones(columns.shape[1], np.bool_)
    for place in places:
        known &= (columns[place] - np.uint8(48)) < 10
    return known


def _number(columns: Bytes) -> Numbers:
    value = np.zeros(columns.shape[1], np.int64)
    for digits in columns:
        value = value * 10 + (digits - np.uint8(48))
    return value
