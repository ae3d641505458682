"""Rows for an example: a value for each column, and, where a condition asks for it, one that it holds for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import islice, product
from typing import Any, Final

from strandline.errors import StrandlineError
from strandline.model.evaluate import evaluate
from strandline.model.expressions import Expression
from strandline.model.syntax import Call, Cast, Literal, Node
from strandline.model.time import Instant
from strandline.model.types import Schema, Type

_NUMBERS: Final = (5, 3, 4, 9, 2, 7, 6, 8)
_NAMES: Final = ("ann", "kim", "joe")
_PEOPLE: Final = ("user", "customer", "name", "player", "account", "person", "member")
_MOST_TRIED: Final = 400


def made_row(
    schema: Schema,
    number: int,
    time: Instant,
    *,
    keys: Collection[str] = (),
    key: int = 0,
    conditions: Sequence[Expression] = (),
) -> dict[str, Any]:
    """The row of this number in an example: all rows have the key of number `key`, and other values of their own.

    >>> made_row(Schema.of("user string, n int, at timestamp"), 1, Instant(0), keys=["user"])["user"]
    'ann'
    """
    row = {name: _value(kind, key if name in keys else number, time) for name, kind in schema.columns}
    row |= {name: _key(name, key) for name in keys if name in schema and schema[name].name == "string"}
    return holding(row, schema, conditions)


def _key(name: str, number: int) -> str:
    if any(person in name.lower() for person in _PEOPLE):
        return _NAMES[number % len(_NAMES)]
    return f"{name}{number + 1}"


def _value(kind: Type, number: int, time: Instant) -> Any:
    if kind.element is not None:
        return [_value(kind.element, number, time)]
    if kind.name == "struct":
        return {name: _value(part, number, time) for name, part in kind.fields}
    made = _MADE.get(kind.name)
    many = _NUMBERS[number % len(_NUMBERS)]
    return made(kind, number, many, time) if made is not None else many


_Make = Callable[[Type, int, int, Instant], Any]
_MADE: Final[Mapping[str, _Make]] = {
    "boolean": lambda kind, number, many, time: True,
    "string": lambda kind, number, many, time: chr(ord("a") + number % 26),
    "binary": lambda kind, number, many, time: bytes([number % 256]),
    "date": lambda kind, number, many, time: time.moment.date(),
    "timestamp": lambda kind, number, many, time: time.moment,
    "timestamp_ntz": lambda kind, number, many, time: time.moment.replace(tzinfo=None),
    "interval day to second": lambda kind, number, many, time: timedelta(minutes=10),
    "decimal": lambda kind, number, many, time: Decimal(many % 10 ** max(kind.precision - kind.scale, 0)),
    "float": lambda kind, number, many, time: float(many),
    "double": lambda kind, number, many, time: float(many),
}


def holding(row: dict[str, Any], schema: Schema, conditions: Sequence[Expression]) -> dict[str, Any]:
    """The row with other values, so that the conditions hold for it; as it is, where none are found.

    >>> from strandline.model.expressions import parse
    >>> holding({"status": "a", "n": 1}, Schema.of("status string, n int"), [parse("status = 'paid' and n > 100")])
    {'status': 'paid', 'n': 101}
    """
    if not conditions or all(_holds(each, row, schema) for each in conditions):
        return row
    asked = sorted({name for each in conditions for name in each.references if name in schema})
    literals = [value for each in conditions for value in _literals(each.root)]
    choices = [[row[name], *_tried(schema[name], literals, row[name])] for name in asked]
    for values in islice(product(*choices), _MOST_TRIED):
        changed = {**row, **dict(zip(asked, values, strict=True))}
        if all(_holds(each, changed, schema) for each in conditions):
            return changed
    return row


def _holds(condition: Expression, row: dict[str, Any], schema: Schema) -> bool:
    try:
        return evaluate(condition, row, schema=schema, now=Instant(0)) is True
    except StrandlineError:
        return False


def _tried(kind: Type, literals: list[Any], now: Any) -> Iterator[Any]:
    """Values near those that conditions compare with, of this type."""
    if kind.name == "boolean":
        yield not now
    for value in literals:
        if kind.name == "string" and isinstance(value, str):
            yield from (value, value.replace("%", "").replace("_", "x"), f"{value}x")
        elif isinstance(value, int | float | Decimal) and not isinstance(value, bool) and kind.is_number:
            for near in (value, value + 1, value - 1):
                yield _number(kind, near)
    yield None


def _number(kind: Type, value: Any) -> Any:
    if kind.is_float:
        return float(value)
    return Decimal(value) if kind.name == "decimal" else int(value)


def _literals(node: Node) -> Iterator[Any]:
    if isinstance(node, Literal):
        yield node.value
    elif isinstance(node, Call):
        for part in node.args:
            yield from _literals(part)
    elif isinstance(node, Cast):
        yield from _literals(node.arg)


def plain(value: Any) -> Any:
    """A value as JSON can say it."""
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value.isoformat() if isinstance(value, datetime) else str(value)
