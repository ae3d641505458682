"""One line of JSON, read by Python: why it is no row, and the values in it that Polars cannot read."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from strandline.model.cast import BITS
from strandline.model.types import Schema, Type
from strandline.sources.conversion import NO_NUMBERS, misfit, read_value

_DIRECT: Final = ("boolean", "int", "bigint", "float", "double", "string")
# Half a character: Polars would take it for the character 0. Escaped backslashes may look like one; then a line is
# looked at in vain, no more.
_HALF: Final = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]")


class TooDeep(ValueError):
    """A line whose parts lie deeper in each other than Python follows. Polars goes further, and says where it ends."""


def is_direct(kind: Type) -> bool:
    """Whether Polars reads this type from JSON, and refuses what does not fit."""
    if kind.element is not None:
        return is_direct(kind.element)
    return all(is_direct(field) for _, field in kind.fields) if kind.fields else kind.name in _DIRECT


def is_read_by_polars(kind: Type) -> bool:
    """Whether Polars reads a column, if need be as text that is converted; text does not do for what has parts."""
    return kind.is_scalar or is_direct(kind)


def may_have_half_characters(text: bytes) -> bool:
    r"""Whether a look at the single characters is needed.

    >>> may_have_half_characters(rb'"\ud83d\ude00"'), may_have_half_characters(rb'"\ud83d"')
    (False, True)
    """
    # Most text has no backslash at all, which is seen a hundred times faster than the rest.
    return b"\\" in text and (b"\\ud" in text or b"\\uD" in text) and _HALF.search(text) is not None


def exact_values(line: bytes) -> dict[str, Any]:
    """The fields of a line that is an object, with all digits of its numbers; ValueError says why it is none."""
    return _parse(line, _EXACTLY)


def no_object(line: bytes) -> str | None:
    """Why a line is no object; None if it is one, or only Polars can tell."""
    try:
        _parse(line, _PLAIN)
    except TooDeep:
        return None
    except ValueError as error:
        return str(error)
    return None


def why_not(line: bytes, schema: Schema) -> str | None:
    """Why a line is no row, as far as it can be seen without Polars; None if nothing is seen."""
    try:
        found = _parse(line, _ORDERED)
    except TooDeep:
        return None
    except ValueError as error:
        return str(error)
    for name, kind in schema.columns:
        value = found.get(name)
        if value is not None and not _may_be(value, kind):
            return misfit(name, value, kind)
    return None


def by_hand(line: bytes, schema: Schema) -> dict[str, Any]:
    r"""The values of a line that Polars cannot read, by column; ValueError says which does not fit.

    These are numbers that JSON has only words for, and arrays and structs of types that Polars does not take from JSON.

    >>> by_hand(b'{"a": "NaN", "b": 1}', Schema.of("a double, b double"))
    {'a': nan}
    """
    try:
        found, values = exact_values(line), {}
    except TooDeep:
        if all(is_read_by_polars(kind) for kind in schema.values()):
            return {}
        raise
    for name, kind in schema.columns:
        value = found.get(name)
        if not is_read_by_polars(kind) or _has_no_number(value, kind):
            try:
                values[name] = read_value(value, kind)
            except ValueError as error:
                raise ValueError(f"column {name!r}: {error}") from None
    return values


def _has_no_number(value: Any, kind: Type) -> bool:
    """Whether a word stands for a number in a value."""
    if kind.element is not None and isinstance(value, list):
        return any(_has_no_number(part, kind.element) for part in value)
    if kind.name == "struct" and isinstance(value, dict):
        return any(_has_no_number(value.get(name), field) for name, field in kind.fields)
    return kind.is_float and value in NO_NUMBERS


def _may_be(value: Any, kind: Type) -> bool:
    """Whether a value may be of a plain type; those that are read from text are looked at when they are converted."""
    if kind.name == "boolean":
        return isinstance(value, bool)
    if kind.is_float:
        return (isinstance(value, int | float) and not isinstance(value, bool)) or value in NO_NUMBERS
    if kind.is_integer:
        return (
            isinstance(value, int)
            and not isinstance(value, bool)
            and -1 << BITS[kind.name] <= value < 1 << BITS[kind.name]
        )
    return True


def _no_constant(word: str) -> Any:
    raise ValueError(f"no JSON: {word}")


def _first_counts(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))


def _all_digits(number: str) -> Decimal | float:
    try:
        return Decimal(number)
    except InvalidOperation:  # an exponent beyond all reason, which is zero or refused as Polars has it
        return float(number)


# Of two equal names the first counts, as Polars has it; the third keeps all digits of numbers too.
_PLAIN: Final = json.JSONDecoder(parse_constant=_no_constant)
_ORDERED: Final = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_first_counts)
_EXACTLY: Final = json.JSONDecoder(
    parse_constant=_no_constant, object_pairs_hook=_first_counts, parse_float=_all_digits
)


def _parse(line: bytes, decoder: json.JSONDecoder) -> dict[str, Any]:
    """A line as an object; ValueError says why it is none."""
    try:
        found = decoder.decode(line.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"no UTF-8 text: byte {error.start + 1} is {line[error.start]:#04x}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise TooDeep("no JSON that can be read: too deep") from None
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    if may_have_half_characters(line):
        _require_characters(found)
    return found


def _require_characters(found: dict[str, Any]) -> None:
    try:
        json.dumps(found, default=str, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("half a character (a lone surrogate)") from None
