"""Times and days that no calendar has: years before 1 or after 9999, in columns that can hold them.

Text of such a time is not read in the first place; files and frames with types of their own may carry it as a number.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from strandline.model.time import Instant

_MICROS: Final = {"us": 1, "ms": 1_000}  # 64 bits of nanoseconds do not reach the ends of the calendar
_DAY: Final = 86_400_000_000


def far_columns(rows: pl.DataFrame) -> dict[str, pl.Series]:
    """The columns that have such times, each with the rows in which it has them."""
    return {column.name: where for column in rows if (where := far_times(column)) is not None}


def far_times(column: pl.Series) -> pl.Series | None:
    """Where a value is, or has in it, a time outside of the calendar; None if that is nowhere.

    >>> far_times(pl.Series([0, 2**61, None]).cast(pl.Datetime("us"))).to_list()
    [False, True, False]
    """
    far = _far(pl.lit(column), column.dtype)
    if far is None:
        return None
    found = pl.select(far.fill_null(value=False)).to_series()
    return found if found.any() else None


def _far(values: pl.Expr, kind: pl.DataType) -> pl.Expr | None:
    """The question put to values of a type, or to their parts; None where there is nothing to ask."""
    if isinstance(kind, pl.List):
        inside = _far(pl.element(), kind.inner)  # type: ignore[arg-type]
        return None if inside is None else values.list.eval(inside).list.any()
    if isinstance(kind, pl.Struct):
        fields = [_far(values.struct.field(field.name), field.dtype) for field in kind.fields]  # type: ignore[arg-type]
        asked = [field for field in fields if field is not None]
        return pl.any_horizontal(asked) if asked else None
    unit = _DAY if isinstance(kind, pl.Date) else _MICROS.get(kind.time_unit) if isinstance(kind, pl.Datetime) else None
    if unit is None:
        return None
    return ~values.to_physical().is_between(Instant.FIRST_IN_CALENDAR // unit, Instant.LAST_IN_CALENDAR // unit)
