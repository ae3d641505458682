"""Decimals as Spark 4 counts them: the types of results, and rounding half up."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Final

from strandline.errors import DataError
from strandline.model.types import Type

EXACT: Final = Context(prec=400, rounding=ROUND_HALF_UP)
"""Wide enough that no sum, product or remainder of two decimals, and no double, is ever rounded by it."""
_DIGITS: Final = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
MAX_DIGITS: Final = 38
LEAST_SCALE: Final = 6


def as_decimal_type(type: Type) -> Type:
    """The decimal type that holds every value of a whole-number type."""
    return type if type.name == "decimal" else Type.decimal(_DIGITS[type.name], 0)


def decimal_of_literal(value: int) -> Type:
    """The least decimal type that holds a whole number."""
    return Type.decimal(len(str(abs(value))), 0)


def _bounded(precision: int, scale: int) -> Type:
    """Spark's rule beyond 38 digits: whole digits first, but keep six behind the point if there were as many."""
    if precision <= MAX_DIGITS:
        return Type.decimal(precision, scale)
    whole = precision - scale
    return Type.decimal(MAX_DIGITS, max(MAX_DIGITS - whole, min(scale, LEAST_SCALE)))


def wider_decimal(left: Type, right: Type) -> Type:
    """The decimal type that holds both."""
    scale = max(left.scale, right.scale)
    return Type.decimal(max(left.precision - left.scale, right.precision - right.scale) + scale, scale)


def difference_type(left: Type, right: Type) -> Type:
    """The type of a sum or a difference."""
    scale = max(left.scale, right.scale)
    return _bounded(max(left.precision - left.scale, right.precision - right.scale) + scale + 1, scale)


def product_type(left: Type, right: Type) -> Type:
    """The type of a product."""
    return _bounded(left.precision + right.precision + 1, left.scale + right.scale)


def quotient_type(left: Type, right: Type) -> Type:
    """The type of a quotient."""
    scale = max(LEAST_SCALE, left.scale + right.precision + 1)
    return _bounded(left.precision - left.scale + right.scale + scale, scale)


def remainder_type(left: Type, right: Type) -> Type:
    """The type of a remainder."""
    scale = max(left.scale, right.scale)
    return _bounded(min(left.precision - left.scale, right.precision - right.scale) + scale, scale)


def rounded_type(type: Type, digits: int) -> Type:
    """The type of round(decimal, digits)."""
    scale = min(type.scale, digits)
    return Type.decimal(type.precision - type.scale + 1 + scale, scale)


def fit(value: Decimal, type: Type) -> Decimal:
    """The value in a decimal type, rounded half up; a DataError when it has too many digits.

    >>> fit(Decimal("2.345"), Type.decimal(5, 2))
    Decimal('2.35')
    """
    rounded = value.quantize(Decimal(1).scaleb(-type.scale), context=EXACT)
    if rounded.copy_abs() >= Decimal(10).scaleb(type.precision - type.scale - 1):
        raise DataError(
            f"{value} does not fit into {type.text}.", fix="Cast the operands to a wider type, or filter such rows."
        )
    return rounded or rounded.copy_abs()  # Spark's decimals know no negative zero


def divide(left: Decimal, right: Decimal, type: Type) -> Decimal:
    """The quotient, rounded once. The divisor is not zero."""
    shifted = Fraction(left) / Fraction(right) * 10**type.scale
    whole = int(abs(shifted) + Fraction(1, 2))
    return fit(Decimal(whole if shifted >= 0 else -whole).scaleb(-type.scale, context=EXACT), type)
