"""How a reader of bytes says that it cannot read them."""

from __future__ import annotations

from typing import Final

import polars as pl

UNREADABLE: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""What Polars raises over bytes that it cannot read. A panic is no `Exception`, though damage in a file is all it means
here; what Polars prints of it stands in the worker's log."""


def why(error: BaseException) -> str:
    r"""The reason alone: what follows the first line is advice on how to call the reader.

    >>> why(ValueError("no such type\nYou might want to try ..."))
    'no such type'
    """
    return str(error).split("\n", 1)[0]
