"""Spark 4's unsaid conversions: the least type that holds several values, and the steps that bring them there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from strandline.errors import ExpressionError
from strandline.model.decimals import as_decimal_type, decimal_of_literal, wider_decimal
from strandline.model.syntax import VOID
from strandline.model.types import INTEGERS, Type

BOOLEAN: Final = Type.of("boolean")
INT: Final = Type.of("int")
BIGINT: Final = Type.of("bigint")
DOUBLE: Final = Type.of("double")
STRING: Final = Type.of("string")
DATE: Final = Type.of("date")
TIMESTAMP: Final = Type.of("timestamp")
NTZ: Final = Type.of("timestamp_ntz")
INTERVAL: Final = Type.of("interval day to second")
TEMPORAL: Final = (DATE, TIMESTAMP, NTZ)


@dataclass(frozen=True, slots=True)
class Bound:
    """One typed step. `value` is a literal's value, a column's name, or what a step needs besides its arguments."""

    op: str
    args: tuple[Bound, ...]
    type: Type
    value: Any = None


def convert(arg: Bound, type: Type) -> Bound:
    """A step in another type."""
    if arg.type == type:
        return arg
    return Bound("literal", (), type) if arg.type == VOID else Bound("cast", (arg,), type)


def wider(left: Type, right: Type) -> Type | None:
    """The least type that holds both sides, or None."""
    if right in (left, VOID):
        return left
    if left == VOID:
        return right
    if left.is_number and right.is_number:
        return wider_number(left, right)
    if left in TEMPORAL and right in TEMPORAL:
        return TIMESTAMP if TIMESTAMP in (left, right) else NTZ
    return None


def wider_number(left: Type, right: Type) -> Type:
    """The type in which two kinds of number meet."""
    if left.is_float or right.is_float:
        return DOUBLE  # a float and a whole number, too: Spark will not lose digits
    if left.is_integer and right.is_integer:
        return Type.of(max(left.name, right.name, key=INTEGERS.index))
    return wider_decimal(as_decimal_type(left), as_decimal_type(right))


def together(name: str, args: Sequence[Bound]) -> tuple[Bound, ...]:
    """All arguments in their common type."""
    common: Type = VOID
    for arg in args:
        found = wider(common, arg.type)
        if found is None:
            raise mismatch(name, args)
        common = found
    return tuple(convert(a, common) for a in args)


def mismatch(name: str, args: Sequence[Bound]) -> ExpressionError:
    """What to say when types do not go together."""
    types = ", ".join(a.type.text for a in args)
    return ExpressionError(f"{name} does not take ({types}).", fix="Convert one side, such as cast(... as double).")


def need(name: str, arg: Bound, *wanted: Type) -> Bound:
    """The argument, which must have one of these types; null has any."""
    if arg.type == VOID:
        return convert(arg, wanted[0])
    if arg.type not in wanted:
        raise ExpressionError(
            f"{name} takes {' or '.join(t.text for t in wanted)}, not {arg.type.text}.",
            fix=f"Convert it: cast(... as {wanted[0].text}).",
        )
    return arg


def decimal_of(arg: Bound) -> Bound:
    """A number as a decimal; a whole literal gets no more digits than it has."""
    if arg.type.name == "decimal":
        return arg
    if arg.op == "literal" and arg.value is not None:
        return convert(arg, decimal_of_literal(arg.value))
    return convert(arg, as_decimal_type(arg.type))
