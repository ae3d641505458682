"""The key of rows in columns, and its hash."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.folds.order import canonical
from strandline.kernel.frames import framed
from strandline.kernel.hashing import hash_columns

Array = npt.NDArray[Any]

KEY: Final = "k."
"""What the names of key columns begin with in the state."""


def hashed_keys(names: Sequence[str], rows: pl.DataFrame) -> tuple[pl.DataFrame, Array]:
    """The key of each row, as the state names it, and its hash."""
    keys = key_columns(names, rows)
    return keys, hash_columns(keys) if keys.width else np.zeros(rows.height, np.uint64)


def key_columns(names: Sequence[str], rows: pl.DataFrame) -> pl.DataFrame:
    """The key of each row, as the state names it."""
    return framed({KEY + key: _canonical(rows[key]) for key in names})


def any_null(keys: pl.DataFrame) -> npt.NDArray[np.bool_]:
    """Which keys have a null in them: in a join they meet nobody.

    >>> any_null(pl.DataFrame({"k.a": [1, None], "k.b": ["x", "y"]}))
    array([False,  True])
    """
    found = np.zeros(keys.height, np.bool_)
    for key in keys.get_columns():
        if key.null_count():
            found |= key.is_null().to_numpy()
    return found


def _canonical(key: pl.Series) -> pl.Series:
    """One bit pattern for keys that are equal: one zero, one NaN. Null is a key too."""
    if not key.dtype.is_float():
        return key
    numbers = canonical(key.fill_null(0.0))
    return numbers.set(key.is_null(), None) if key.null_count() else numbers
