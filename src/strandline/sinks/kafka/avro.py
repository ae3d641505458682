"""Rows as Avro with the id of their schema, as Confluent's serialisers write them: a zero, four bytes of id, the record.

The schema is made of the columns, each of which may be null, and registered under `<topic>-value`:

    boolean, int (and shorter), bigint    boolean, int, long
    float, double, string, binary         float, double, string, bytes
    decimal                               bytes, decimal
    date                                  int, date
    timestamp, timestamp_ntz              long, timestamp-micros and local-timestamp-micros
    interval day to second                long, microseconds
    array, struct                         array, record
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from io import BytesIO
from typing import Any, Final, Protocol

import polars as pl

from strandline.errors import RunError, SinkError
from strandline.model.time import Span
from strandline.model.types import Schema, Type
from strandline.sinks.contract import Delivery, Target

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN: Final = {
    "boolean": "boolean", "tinyint": "int", "smallint": "int", "int": "int", "bigint": "long", "float": "float",
    "double": "double", "string": "string", "binary": "bytes", "interval day to second": "long",
}  # fmt: skip
_LOGICAL: Final = {
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}
_PHYSICAL: Final = ("timestamp", "timestamp_ntz", "interval day to second")  # whole microseconds, as Avro has them


class Registers(Protocol):
    """What gives ids to schemas."""

    def register(self, subject: str, schema: str | Mapping[str, Any]) -> int:
        """The id of a schema under a subject."""


def avro_schema(schema: Schema, name: str) -> dict[str, Any]:
    """The Avro schema of rows with these columns.

    >>> avro_schema(Schema.of("user string"), "paid")["fields"]
    [{'name': 'user', 'type': ['null', 'string'], 'default': None}]
    """
    return {"type": "record", "name": name, "fields": [_field(each, kind, name) for each, kind in schema.columns]}


def avro_encoder(schema: Schema, topic: str, target: Target, registry: Registers) -> Callable[..., Sequence[bytes]]:
    """What makes messages of rows; the schema is registered now."""
    try:
        from fastavro import parse_schema, schemaless_writer
    except ImportError:
        raise RunError("Avro is not installed.", fix="Install it: pip install 'strandline[kafka]'.") from None

    _require_names(schema, target)
    described = avro_schema(schema, re.sub(r"\W", "_", f"_{topic}" if topic[0].isdigit() else topic, flags=re.ASCII))
    head = b"\0" + registry.register(f"{topic}-value", described).to_bytes(4, "big")
    parsed = parse_schema(described)

    def encode(table: pl.DataFrame, _: Delivery) -> list[bytes]:
        columns = [_column(table[name], kind) for name, kind in schema.columns]
        names = list(schema)
        out = BytesIO()
        found = []
        for row in zip(*columns, strict=True):
            out.seek(0)
            out.truncate()
            out.write(head)
            schemaless_writer(out, parsed, dict(zip(names, row, strict=True)))
            found.append(out.getvalue())
        return found

    return encode


def _field(name: str, kind: Type, path: str) -> dict[str, Any]:
    return {"name": name, "type": ["null", _avro_type(kind, f"{path}_{name}")], "default": None}


def _avro_type(kind: Type, path: str) -> Any:
    """A type; a record is named by its path, for each name may stand once in a schema."""
    if kind.element is not None:
        return {"type": "array", "items": ["null", _avro_type(kind.element, f"{path}_item")]}
    if kind.name == "struct":
        return {"type": "record", "name": path, "fields": [_field(name, each, path) for name, each in kind.fields]}
    if kind.name == "decimal":
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    return _LOGICAL.get(kind.name) or _PLAIN[kind.name]


def _require_names(columns: Schema | Sequence[tuple[str, Type]], target: Target) -> None:
    for name, kind in columns.columns if isinstance(columns, Schema) else columns:
        if not _NAME.fullmatch(name):
            raise SinkError(
                f"The column {name!r} of {target} can have no such name in Avro.",
                fix="Rename it before the sink, with letters of the alphabet, digits and '_': .select('a as b', ...).",
            )
        _require_names(kind.fields or (kind.element.fields if kind.element is not None else ()), target)


def _column(column: pl.Series, kind: Type) -> list[Any]:
    if kind.name in _PHYSICAL:
        return column.to_physical().to_list()
    values = column.to_list()
    return values if kind.is_scalar else [_value(each, kind) for each in values]


def _value(value: Any, kind: Type) -> Any:
    """A value with parts, its intervals as whole microseconds."""
    if value is None:
        return None
    if kind.element is not None:
        return [_value(each, kind.element) for each in value]
    if kind.name == "struct":
        return {name: _value(value[name], each) for name, each in kind.fields}
    return int(Span.read(value)) if isinstance(value, timedelta) else value
