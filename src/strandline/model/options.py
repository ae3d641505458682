"""What an option or a name may be, where its type alone would let a slip through: `"no"` is true."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from strandline.errors import DescriptionError, told
from strandline.model.time import Span

Until = Literal["forever", "caught_up", "end"]
"""How far a run goes."""


def batch_interval_of(given: str | timedelta | Span) -> Span:
    """The least time from tick to tick, as it was given.

    >>> batch_interval_of("10s")
    Span('10s')
    """
    interval = Span.of(given)
    if interval < 0:
        raise DescriptionError(f"The batch interval {interval.text} is negative.", fix="Give such as '1s'.")
    return interval


def require_boolean(option: str, value: object) -> None:
    """Refuse what is neither True nor False, such as the text "no".

    >>> require_boolean("exact", True)
    """
    if not isinstance(value, bool):
        raise DescriptionError(
            f"{option}={told(value)} is neither True nor False.", fix=f"Write {option}=True, or leave it out."
        )


def require_count(option: str, value: object, *, least: int) -> None:
    """Refuse what is no whole number, or too small a one.

    >>> require_count("retain", 10, least=2)
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise DescriptionError(f"{option}={value!r} is no number of them.", fix=f"Give a whole number from {least}.")


def require_column(option: str, value: object) -> None:
    """Refuse what cannot be the name of a column; None is no column, and fine.

    >>> require_column("gap_column", "gap")
    """
    if value is not None and not (isinstance(value, str) and value):
        raise DescriptionError(f"{option}={told(value)} names no column.", fix=f"Name it as text: {option}='a_column'.")


def require_name(what: str, name: object) -> None:
    """Refuse what cannot name a flow, a source, a stage or a sink.

    >>> require_name("stage", "per_user")
    """
    if not isinstance(name, str) or not name.replace("_", "").replace("-", "").isalnum():
        raise DescriptionError(
            f"{name!r} cannot be the name of a {what}.",
            fix="Use letters, digits, '_' and '-': it names state and files.",
        )
