"""Values of a key as a person types them: in the words in which they are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any, Final

import polars as pl

from strandline.errors import DescriptionError, StateError
from strandline.kernel.schema import type_name
from strandline.model.time import Instant, Span

_READ: Final[Mapping[str, Callable[[str], Any]]] = {
    "boolean": lambda text: {"true": True, "false": False}[text.lower()],
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), lambda text: int(text.replace(",", ""))),
    "binary": bytes.fromhex,
    "date": date.fromisoformat,
    "timestamp": lambda text: Instant.of(text).moment,
    "timestamp_ntz": lambda text: datetime.fromisoformat(text.removesuffix("Z")),
    "interval day to second": lambda text: timedelta(microseconds=Span.of(text)),
}
"""Types whose text Polars does not read as it is shown."""


def key_value(name: str, text: str | None, dtype: pl.DataType) -> pl.Series:
    """A value of a column of the key; None is null. StateError says which is none of its type.

    >>> key_value("id", "1,234", pl.Int64()).to_list(), key_value("day", None, pl.Date()).to_list()
    ([1234], [None])
    >>> key_value("day", "noon", pl.Date())
    Traceback (most recent call last):
        ...
    strandline.errors.StateError: The key 'day' is a date, and 'noon' is none.
      fix: Give a value as inspect shows it.
    """
    kind = type_name(dtype)
    try:
        if text is None or kind not in _READ:
            return pl.Series([text], dtype=pl.String).cast(dtype)
        return pl.Series([_READ[kind](text)], dtype=dtype)
    except (pl.exceptions.PolarsError, DescriptionError, ValueError, KeyError, OverflowError) as error:
        fix = "Give a value as inspect shows it."
        raise StateError(f"The key {name!r} is a {kind}, and {text!r} is none.", fix=fix) from error
