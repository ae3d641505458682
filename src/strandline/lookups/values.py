"""Values as servers give them, as the columns of an answer hold them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

from strandline.model.types import Type
from strandline.sinks.plain import span_of

_BOOLEANS: Final = {"true": True, "false": False, 0: False, 1: True}


def from_plain(kind: Type, value: Any) -> Any:
    """A value of JSON, of SQLite, or a text, as its column has it: what `strandline.sinks.plain` writes is read back.

    What cannot be read so is left as it is; whoever holds answers to their types says what is wrong with it.

    >>> from_plain(Type.of("bigint"), "3"), from_plain(Type.of("boolean"), 1), from_plain(Type.of("array<double>"), "[1.5]")
    (3, True, [1.5])
    """
    with suppress(ValueError, TypeError, ArithmeticError):
        return _read(kind, value)
    return value


def _read(kind: Type, value: Any) -> Any:
    if isinstance(value, str) and not kind.is_scalar:
        value = json.loads(value, parse_float=Decimal)
    if kind.element is not None and isinstance(value, list):
        return [from_plain(kind.element, each) for each in value]
    if kind.name == "struct" and isinstance(value, Mapping):
        return {name: from_plain(field, value.get(name)) for name, field in kind.fields}
    match kind.name:
        case "boolean" if not isinstance(value, bool | float):
            return _BOOLEANS.get(value, value)
        case "tinyint" | "smallint" | "int" | "bigint" if isinstance(value, str):
            return int(value)
        case "float" | "double" if isinstance(value, str | Decimal):
            return float(value)
        case "interval day to second" if isinstance(value, str):
            return timedelta(microseconds=span_of(value))
        case "binary" if isinstance(value, str):
            return base64.b64decode(value, validate=True)
    return value
