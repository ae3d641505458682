"""What an entry of Redis is called, and what it holds.

The name is the prefix, which ends with a colon, and behind it the values of the key's columns with commas between them:

    value of a column   as text, with %25 for a percent sign, %3A for a colon and %2C for a comma
    null                %null
    -0.0                as 0.0; NaN is one value

No value holds a colon or a comma then, and none is %null, so that a name can be read back.

Law: two names are the same text if and only if prefix and keys are equal (null to null, NaN to NaN).

An entry is a HASH with a field for each column that is not null: text as `strandline.sinks.plain` writes it, "true" or
"false" for a boolean, the bytes themselves for binary. The field `_version` grows with every change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from strandline.errors import SinkError
from strandline.kernel.schema import polars_type
from strandline.model.types import Schema, Type
from strandline.sinks.contract import Target
from strandline.sinks.plain import plain_column
from strandline.sinks.zeros import with_one_zero

VERSION: Final = "_version"
NULL: Final = "%null"
PRESENT: Final = "="
"""Stands before every value that is sent, so that null (the empty text) is none of them."""
_ESCAPED: Final = (("%", "%25"), (":", "%3A"), (",", "%2C"))


def entry_name(prefix: str, schema: str | Schema, *values: Any) -> str:
    """The name of the entry with this key, for whoever reads it. `schema` has the key's columns, as the sink's key= has them.

    >>> entry_name("features:", "user string, shop bigint", "ann:1", None)
    'features:ann%3A1,%null'
    """
    columns = Schema.of(schema).columns
    rows = pl.DataFrame(
        [pl.Series(name, [each], polars_type(kind)) for (name, kind), each in zip(columns, values, strict=True)]
    )
    return prefix + str(key_texts(rows, columns)[0])


def key_texts(rows: pl.DataFrame, columns: Sequence[tuple[str, Type]]) -> pl.Series:
    """The keys of rows, as they stand behind the prefix."""
    keys = with_one_zero(rows, [name for name, _ in columns], Schema(tuple(columns)))
    texts = pl.DataFrame([_key_text(keys[name], kind) for name, kind in columns])
    return texts.select(key=pl.concat_str(pl.all(), separator=","))["key"]


def sent_values(column: pl.Series, kind: Type) -> list[str | bytes]:
    """The values of a column as they are sent: the empty text for null, else the value behind `PRESENT`.

    >>> sent_values(pl.Series([1, None, 3]), Type.of("bigint"))
    ['=1', '', '=3']
    """
    if kind.name == "binary":
        return [b"" if each is None else PRESENT.encode() + each for each in column.to_list()]
    sent: list[str | bytes] = (PRESENT + text_column(column, kind)).fill_null("").to_list()
    return sent


def text_column(column: pl.Series, kind: Type) -> pl.Series:
    """The values of a column as text."""
    if kind.is_float:
        texts = column.cast(pl.String)
        return texts.replace({"inf": "Infinity", "-inf": "-Infinity"}).alias(column.name)
    return plain_column(column, kind).cast(pl.String)


def require_fitting(target: Target) -> None:
    """SinkError for columns that an entry cannot hold, or be called by."""
    if VERSION in target.schema:
        raise SinkError(
            f"{target} delivers a column {VERSION!r}, which the entries need for themselves.".replace("the", "The", 1),
            fix="Rename it with .select().",
        )
    for name in target.key:
        if not target.schema[name].is_scalar:
            raise SinkError(
                f"The key of {target} has the column {name!r} of the type {target.schema[name].text}, which makes no name.",
                fix="Take the parts of it that tell rows apart as columns of their own, with .select().",
            )


def _key_text(column: pl.Series, kind: Type) -> pl.Series:
    texts = text_column(column, kind)
    for character, escaped in _ESCAPED:
        texts = texts.str.replace_all(character, escaped, literal=True)
    return texts.fill_null(NULL)
