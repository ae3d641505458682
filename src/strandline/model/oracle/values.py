"""Values as the oracle compares and shows them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Context, Decimal
from typing import Any, NamedTuple

from strandline.model.evaluate import evaluate
from strandline.model.expressions import parse
from strandline.model.panes import HIDDEN
from strandline.model.time import EPOCH, Instant
from strandline.model.types import FLOATS, Schema, Type

Row = Mapping[str, Any]
NAN = float("nan")
# Enough digits that nothing is ever rounded behind our back: the default context has only 28.
EXACT = Context(prec=200)


class Entry(NamedTuple):
    """An event in a window: its time, its weight (-1 takes back), its columns, and when it came."""

    time: int
    weight: int
    row: Row
    now: Instant


def canonical(value: Any, kind: Type | None) -> Any:
    """A value as its type holds it: one zero, one NaN, every digit behind a decimal's point.

    >>> canonical(-0.0, None), canonical(Decimal("1.5"), Type.of("decimal(5,2)"))
    (0.0, Decimal('1.50'))
    """
    if value is None:
        return None
    if kind is not None and kind.name in FLOATS:
        value = float(value)
    if kind is not None and kind.name == "decimal":
        return Decimal(value).quantize(Decimal(1).scaleb(-kind.scale), context=EXACT)
    if isinstance(value, float):
        return NAN if math.isnan(value) else value + 0.0
    return value


def rank(value: Any) -> tuple[int, Any]:
    """What values are sorted and told apart by: null first, NaN equal to itself and greater than every number.

    >>> sorted([NAN, 1.0, float("inf")], key=rank)
    [1.0, inf, nan]
    """
    if value is None:
        return (0, 0)
    if isinstance(value, float) and math.isnan(value):
        return (2, 0)
    return (1, value)


def same(one: Any, other: Any) -> bool:
    """Whether two values look the same: there is one zero and one NaN, inside of structs and lists too.

    >>> same({"x": [0.0, NAN]}, {"x": [-0.0, NAN]}), same(None, [None]), same(0.0, None)
    (True, False, False)
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return rank(one) == rank(other)


def visible(row: Row) -> dict[str, Any]:
    """The columns that a user sees."""
    return {name: value for name, value in row.items() if not name.startswith(HIDDEN)}


def holds(condition: str, entry: Entry, schema: Schema | None) -> bool:
    """Whether a text expression is true, and not false or null, of an event."""
    return evaluate(parse(condition), visible(entry.row), schema=schema, now=entry.now) is True


def shown_instant(instant: int) -> datetime | None:
    """An instant as it is shown; the ends of the one window of all time have no date, and are null."""
    if not Instant.BEFORE_ALL_TIME < instant < Instant.END_OF_TIME:
        return None
    return EPOCH + timedelta(microseconds=int(instant))
