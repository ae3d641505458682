"""What PostgreSQL makes of each type.

boolean                            boolean
tinyint, smallint                  smallint
int, bigint                        integer, bigint
float, double                      real, double precision; NaN and the infinities are values
decimal(p,s)                       numeric(p,s)
string                             text; the character NUL, which PostgreSQL cannot keep, is refused, or replaced if asked
binary                             bytea
date, timestamp_ntz                date, timestamp
timestamp                          timestamptz
interval day to second             interval, of microseconds alone
array, struct                      jsonb, as `strandline.sinks.plain` says; there the sign of a zero is not kept
"""

from __future__ import annotations

import json
import re
from typing import Final

import polars as pl

from strandline.errors import SinkError
from strandline.model.types import Type

_KINDS: Final = {
    "boolean": "boolean", "tinyint": "smallint", "smallint": "smallint", "int": "integer", "bigint": "bigint",
    "float": "real", "double": "double precision", "string": "text", "binary": "bytea", "date": "date",
    "timestamp": "timestamp with time zone", "timestamp_ntz": "timestamp without time zone",
    "interval day to second": "interval",
}  # fmt: skip
# What may hold every value of a kind without changing it. (varchar(n) would cut spaces off, timestamp(3) digits.)
_FITTING: Final = {
    "smallint": {"integer", "bigint"},
    "integer": {"bigint"},
    "text": {"character varying"},
}
_NUMERIC: Final = re.compile(r"numeric\((\d+),(\d+)\)")
_NUL_IN_JSON: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def kind_of(type: Type) -> str:
    """The type of a column, as PostgreSQL itself says it.

    >>> kind_of(Type.of("decimal(10,2)")), kind_of(Type.of("array<string>"))
    ('numeric(10,2)', 'jsonb')
    """
    if type.name == "decimal":
        return f"numeric({type.precision},{type.scale})"
    return _KINDS.get(type.name, "jsonb")


def fits(kind: str, found: str) -> bool:
    """Whether a column of the type `found` keeps every value of a kind as it is.

    >>> fits("numeric(10,2)", "numeric(12,3)"), fits("numeric(10,2)", "numeric(10,3)"), fits("numeric(10,2)", "numeric")
    (True, False, True)
    """
    if found == kind or found in _FITTING.get(kind, ()):
        return True
    own, other = _NUMERIC.fullmatch(kind), _NUMERIC.fullmatch(found)
    if own is None or other is None:
        return own is not None and found == "numeric"
    (digits, scale), (room, places) = map(int, own.groups()), map(int, other.groups())
    return places >= scale and room - places >= digits - scale


def without_nul(column: pl.Series, type: Type, nul: str | None) -> pl.Series:
    """A column, texts or JSON, in which no NUL stands; SinkError for one, if nothing stands for it."""
    nested = not type.is_scalar
    if type.name != "string" and not nested:
        return column
    found = column.str.contains(r"\u0000" if nested else "\0", literal=True)
    if not found.any() or (nested and not any(_NUL_IN_JSON.search(text) for text in column.filter(found))):
        return column
    if nul is None:
        raise SinkError(
            f"The column {column.name!r} holds the character NUL, which PostgreSQL cannot keep in text.",
            fix="Say what is to stand for it, .write(table, nul='\\ufffd') or nul='', and start again: nothing of the tick "
            "was written. Or take it out of what comes: replace(column, chr(0), '').",
        )
    if not nested:
        return column.str.replace_all("\0", nul, literal=True)
    escaped = json_escaped(nul)
    return column.map_elements(
        lambda text: _NUL_IN_JSON.sub(lambda match: match[1] + escaped, text), return_dtype=pl.String
    )


def json_escaped(text: str) -> str:
    r"""A text as it stands inside a text of JSON.

    >>> print(json_escaped('"'))
    \"
    """
    return json.dumps(text, ensure_ascii=False)[1:-1]
