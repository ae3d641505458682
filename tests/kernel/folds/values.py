"""Values of every scalar type, few enough that they meet again."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.kernel.folds.reference import Row

_DOUBLES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    1e-300,
    -1e300,
    5e-324,
    2.0**53 + 2,
    2.0**31,
    2.0**-32,
    math.nan,
    math.inf,
    -math.inf,
]
_DECIMALS = [Decimal(0), Decimal("1.25"), Decimal("-1.25"), Decimal("99999999.99"), Decimal("0.01")]
_WIDE = [Decimal(0), Decimal("1e22"), Decimal("-3.1415926535"), Decimal("9" * 20 + "." + "9" * 10), Decimal(2**63)]
_MOMENT = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)

POOLS: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [0, 1, -1, 127, -128],
    "smallint": [0, 1, -1, 32767, -32768],
    "int": [0, 1, -1, 2**31 - 1, -(2**31)],
    "bigint": [0, 1, -1, 2**40, -(2**40), 2**59, -(2**59)],  # 15 of them are still a bigint
    "float": [float(np.float32(x)) for x in (0.0, -0.0, 1.5, 0.1, -1e-40, 3e38, math.nan, math.inf, -math.inf)],
    "double": _DOUBLES,
    "decimal(10,2)": _DECIMALS,
    "decimal(38,10)": _WIDE,
    "string": ["", "a", "ä", "b", "\U0001f600", "zz"],
    "binary": [b"", b"a", b"\xff", b"\x00\x01"],
    "date": [date(1970, 1, 1), date(2026, 2, 28), date(1900, 1, 1)],
    "timestamp": [_MOMENT, _MOMENT + timedelta(microseconds=1), datetime(1960, 1, 1, tzinfo=timezone.utc)],
    "timestamp_ntz": [_MOMENT.replace(tzinfo=None), datetime(1960, 1, 1)],  # noqa: DTZ001  a wall clock has no zone
    "interval day to second": [timedelta(0), timedelta(days=-1, microseconds=1), timedelta(days=400)],
}
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)", "decimal(38,10)")


def values(type: str) -> st.SearchStrategy[Any]:
    pool = st.sampled_from(POOLS[type])
    if type == "double":
        return pool | st.floats() | st.floats(-100, 100)
    return pool | st.floats(width=32) if type == "float" else pool


def rows(type: str, *, by: str | None = None, most: int = 14) -> st.SearchStrategy[list[Row]]:
    return st.lists(
        st.builds(
            Row,
            group=st.integers(0, 2),
            time=st.sampled_from([-5, 0, 7, 10**15, 10**15 + 3]) | st.integers(-(10**9), 10**9),
            v=st.none() | values(type) | values(type),
            by=st.none() | values(by) if by else st.none(),
            keep=st.sampled_from([True, True, True, False, None]),
        ),
        max_size=most,
    )
