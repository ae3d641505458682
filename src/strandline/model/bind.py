"""Give every part of an expression its type, as Spark 4 would: the conversions it leaves unsaid are said here.

Both evaluators run what comes out, so neither decides a type. Text never becomes a number by itself, nor a number text;
only text that stands in the expression becomes a date or a timestamp where it is compared with one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from typing import Final

from strandline.errors import DataError, ExpressionError, did_you_mean
from strandline.model.cast import can_cast, cast_value
from strandline.model.coerce import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    NTZ,
    STRING,
    TEMPORAL,
    TIMESTAMP,
    Bound,
    convert,
    decimal_of,
    mismatch,
    need,
    together,
    wider,
    wider_number,
)
from strandline.model.decimals import difference_type, product_type, quotient_type, remainder_type, rounded_type
from strandline.model.like import like_pattern
from strandline.model.syntax import VOID, Cast, ColumnRef, Foreign, Literal, Node, OutsideSubset
from strandline.model.types import Schema, Type

TRUNCATIONS: Final = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=", "<=>")


def bind_node(node: Node, schema: Schema) -> Bound:
    """The typed tree of a syntax tree over rows of a schema."""
    if isinstance(node, Literal):
        return Bound("literal", (), node.type, node.value)
    if isinstance(node, ColumnRef):
        return Bound("column", (), schema[node.name], node.name)
    if isinstance(node, Foreign):
        raise OutsideSubset(f"{node.what} cannot be run without Spark.", fix=node.hint or _named_like(node.what))
    if isinstance(node, Cast):
        return _explicit_cast(bind_node(node.arg, schema), node.type)
    args = tuple(bind_node(a, schema) for a in node.args)
    return RULES[node.name](node.name, args)


def _named_like(what: str) -> str:
    """For an unknown function: a likely misspelling, and Spark as the other way out."""
    found = re.fullmatch(r"the function (\w+)\(\)", what)
    if not found:
        return ""
    near = did_you_mean(found[1], (n for n in RULES if n.isidentifier()))
    return 'Use runner="spark" if Spark knows it.' + (" " + near if near.startswith("Did") else "")


def _explicit_cast(arg: Bound, type: Type) -> Bound:
    if not can_cast(arg.type, type):
        raise OutsideSubset(f"cast from {arg.type.text} to {type.text} cannot be run without Spark.")
    if arg.op == "literal" and arg.type == STRING:
        return _read_literal(arg, type)
    return convert(arg, type)


def _read_literal(arg: Bound, type: Type) -> Bound:
    """Text that stands in the expression is converted once, so that a slip shows before the start."""
    try:
        return Bound("literal", (), type, cast_value(arg.value, STRING, type))
    except DataError as error:
        raise ExpressionError(error.what, fix=error.fix) from None


def _arithmetic(name: str, args: tuple[Bound, ...]) -> Bound:
    left, right = args
    if VOID in (left.type, right.type):
        left, right = together(name, args)
    if left.type.is_number and right.type.is_number:
        return _on_numbers(name, left, right)
    if {left.type, right.type} & {*TEMPORAL, INTERVAL}:
        return _on_times(name, left, right)
    if left.type == VOID:
        return _on_numbers(name, convert(left, INT), convert(right, INT))
    raise mismatch(name, args)


def _on_numbers(name: str, left: Bound, right: Bound) -> Bound:
    if name == "div":
        return _on_integers(name, left, right)
    common = wider_number(left.type, right.type) if left.type != right.type else left.type
    if common.name == "decimal":
        left, right = decimal_of(left), decimal_of(right)
        return Bound(name, (left, right), _DECIMAL_RESULTS[name](left.type, right.type))
    common = DOUBLE if name == "/" else common
    return Bound(name, (convert(left, common), convert(right, common)), common)


def _on_integers(name: str, left: Bound, right: Bound) -> Bound:
    if not (left.type.is_integer and right.type.is_integer):
        raise OutsideSubset(f"div of {left.type.text} and {right.type.text} cannot be run without Spark.")
    return Bound(name, (convert(left, BIGINT), convert(right, BIGINT)), BIGINT)


_DECIMAL_RESULTS: Final[dict[str, Callable[[Type, Type], Type]]] = {
    "+": difference_type, "-": difference_type, "*": product_type, "/": quotient_type, "%": remainder_type,
}  # fmt: skip


def _on_times(name: str, left: Bound, right: Bound) -> Bound:
    types = (left.type, right.type)
    if name == "+" and types[0] == INTERVAL and types[1] in (TIMESTAMP, NTZ):
        left, right, types = right, left, types[::-1]
    if name in "+-" and types[0] in (TIMESTAMP, NTZ, INTERVAL) and types[1] == INTERVAL:
        return Bound(name, (left, right), types[0])
    if name == "-" and types[0] == types[1] != DATE:
        return Bound(name, (left, right), INTERVAL)
    raise OutsideSubset(f"{types[0].text} {name} {types[1].text} cannot be run without Spark.")


def _compare(name: str, args: tuple[Bound, ...]) -> Bound:
    left, right = _comparable(name, args)
    return Bound(name, (left, right), BOOLEAN)


def _comparable(name: str, args: tuple[Bound, ...]) -> tuple[Bound, ...]:
    """All arguments in one type that has an order; literal text is read as the date or timestamp it is held against."""
    moments = [a.type for a in args if a.type in TEMPORAL]
    if moments:
        kind = reduce(lambda a, b: wider(a, b) or a, moments)
        args = tuple(_read_literal(a, kind) if a.op == "literal" and a.type == STRING else a for a in args)
    if any(not a.type.is_scalar and a.type != VOID for a in args):
        raise OutsideSubset(f"{name} of types with parts cannot be run without Spark.")
    if (
        name not in ("greatest", "least")
        and {a.type.name for a in args} & {"decimal"}
        and not any(a.type.is_float for a in args)
    ):
        args = tuple(decimal_of(a) if a.type.is_integer else a for a in args)
    args = together(name, args)
    return tuple(convert(a, BOOLEAN) for a in args) if args[0].type == VOID else args


def _logic(name: str, args: tuple[Bound, ...]) -> Bound:
    return Bound(name, tuple(need(name, a, BOOLEAN) for a in args), BOOLEAN)


def _is_null(name: str, args: tuple[Bound, ...]) -> Bound:
    return Bound(name, args, BOOLEAN)


def _in(name: str, args: tuple[Bound, ...]) -> Bound:
    return Bound(name, _comparable(name, args), BOOLEAN)


def _like(name: str, args: tuple[Bound, ...]) -> Bound:
    return Bound(name, (need(name, args[0], STRING),), BOOLEAN, like_pattern(args[1].value, args[2].value))


def _case(name: str, args: tuple[Bound, ...]) -> Bound:
    values = together(name, (*args[1:-1:2], args[-1]))
    conditions = [need("case when", a, BOOLEAN) for a in args[:-1:2]]
    branches = [part for pair in zip(conditions, values[:-1], strict=True) for part in pair]
    return Bound("case", (*branches, values[-1]), values[-1].type)


def _nullif(name: str, args: tuple[Bound, ...]) -> Bound:
    return _case(name, (_compare("=", args), Bound("literal", (), VOID), args[0]))


def _same_type(name: str, args: tuple[Bound, ...]) -> Bound:
    args = together(name, args)
    return Bound(name, args, args[0].type)


def _extreme(name: str, args: tuple[Bound, ...]) -> Bound:
    if len(args) < 2:
        raise ExpressionError(f"{name} needs two arguments or more.", fix=f"Write {name}(a, b).")
    args = _comparable(name, args)
    return Bound(name, args, args[0].type)


def _one_number(name: str, args: tuple[Bound, ...]) -> Bound:
    arg = convert(args[0], INT) if args[0].type == VOID else args[0]
    if not arg.type.is_number and not (name == "negate" and arg.type == INTERVAL):
        raise mismatch({"negate": "-"}.get(name, name), args)
    if name in ("negate", "abs"):
        return Bound(name, (arg,), arg.type)
    if arg.type.name == "decimal":
        p, s = arg.type.precision, arg.type.scale
        return Bound(name, (arg,), Type.decimal(p - s + 1, 0) if s else arg.type)
    return convert(arg, BIGINT) if arg.type.is_integer else Bound(name, (convert(arg, DOUBLE),), BIGINT)


def _round(name: str, args: tuple[Bound, ...]) -> Bound:
    arg, digits = args
    if digits.op != "literal" or not isinstance(digits.value, int) or not 0 <= digits.value <= 38:
        raise OutsideSubset(
            "round() to anything but a literal number of digits from 0 to 38 cannot be run without Spark."
        )
    if arg.type == VOID:
        arg = convert(arg, INT)
    if not arg.type.is_number:
        raise mismatch(name, args)
    if arg.type.is_integer:
        return arg
    kind = rounded_type(arg.type, digits.value) if arg.type.name == "decimal" else arg.type
    return Bound(name, (arg,), kind, digits.value)


def _text(name: str, args: tuple[Bound, ...]) -> Bound:
    return Bound(name, (need(name, args[0], STRING),), STRING)


def _length(name: str, args: tuple[Bound, ...]) -> Bound:
    return Bound(name, (need(name, args[0], STRING, Type.of("binary")),), INT)


def _substring(name: str, args: tuple[Bound, ...]) -> Bound:
    places = [convert(need(name, a, INT, Type.of("smallint"), Type.of("tinyint")), INT) for a in args[1:]]
    return Bound(name, (need(name, args[0], STRING), *places), STRING)


def _concat(name: str, args: tuple[Bound, ...]) -> Bound:
    """`||` takes text only: beside + it binds differently in Spark than in the reader, and types tell them apart."""
    if name == "||":
        return Bound("concat", tuple(need(name, a, STRING) for a in args), STRING)
    return Bound(name, tuple(_explicit_cast(a, STRING) if a.type != STRING else a for a in args), STRING)


def _moment(name: str, arg: Bound, *wanted: Type) -> Bound:
    """A timestamp, or what becomes one by itself."""
    found = need(name, arg, TIMESTAMP, NTZ, DATE)
    return found if found.type in wanted else convert(found, TIMESTAMP)


def _field(name: str, args: tuple[Bound, ...]) -> Bound:
    whole_days = (DATE,) if name in ("year", "month", "day") else ()
    return Bound(name, (_moment(name, args[0], NTZ, *whole_days),), INT)


def _unix_micros(name: str, args: tuple[Bound, ...]) -> Bound:
    return Bound(name, (_moment(name, args[0]),), BIGINT)


def _date_trunc(name: str, args: tuple[Bound, ...]) -> Bound:
    unit = args[0].value
    if unit not in TRUNCATIONS:
        raise OutsideSubset(f"date_trunc({unit!r}) cannot be run without Spark.")
    return Bound(name, (_moment(name, args[1]),), TIMESTAMP, unit)


def _now(name: str, args: tuple[Bound, ...]) -> Bound:
    return Bound("now", (), TIMESTAMP)


RULES: Final[dict[str, Callable[[str, tuple[Bound, ...]], Bound]]] = {
    **dict.fromkeys(("+", "-", "*", "/", "%", "div"), _arithmetic),
    **dict.fromkeys(COMPARISONS, _compare),
    **dict.fromkeys(("and", "or", "not"), _logic),
    "is null": _is_null, "in": _in, "like": _like, "case": _case, "nullif": _nullif, "coalesce": _same_type,
    **dict.fromkeys(("greatest", "least"), _extreme),
    **dict.fromkeys(("negate", "abs", "floor", "ceil"), _one_number),
    "round": _round,
    **dict.fromkeys(("upper", "lower", "trim", "ltrim", "rtrim"), _text),
    "length": _length, "substring": _substring, "concat": _concat, "||": _concat,
    **dict.fromkeys(("year", "month", "day", "hour", "minute", "second"), _field),
    "unix_micros": _unix_micros, "date_trunc": _date_trunc, "current_timestamp": _now,
}  # fmt: skip
