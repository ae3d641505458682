"""How a reader of bytes says that it cannot read them."""

from __future__ import annotations


def why(error: BaseException) -> str:
    r"""The reason alone: what follows the first line is advice on how to call the reader.

    >>> why(ValueError("no such type\nYou might want to try ..."))
    'no such type'
    """
    return str(error).split("\n", 1)[0]
