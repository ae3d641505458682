"""Messages of Avro with the id of their schema, as Confluent's serialisers write them: a zero, four bytes of id, the value.

Each message is read by the schema it was written with, and its fields go to columns by name: a field that the writer did
not have is null, one that no column is named for is passed over. Whole numbers widen (and a `long` goes into an `int` where
it fits), whole numbers and floats into doubles, enums and uuids into text, bytes into text if they are; a plain `long` is
microseconds in a timestamp, as in JSON. So old and new schemas may stand side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from io import BytesIO
from typing import Any, Final, Protocol
from uuid import UUID

import numpy as np
import polars as pl

from strandline.clients.registry import UnknownSchema
from strandline.errors import RunError, StrandlineError
from strandline.kernel.schema import polars_schema, polars_type
from strandline.model.time import EPOCH, Instant
from strandline.model.types import Schema, Type
from strandline.model.values import checked_value
from strandline.sources.conversion import misfit
from strandline.sources.kafka.decoding import NULL, Decoded, Value

_HEAD: Final = 5


class Schemas(Protocol):
    """What knows schemas by their ids."""

    def schema(self, id: int) -> Any:  # noqa: A002 - the registry's word
        """The parsed schema; UnknownSchema if there is none."""


def decode_avro(values: Sequence[Value], schema: Schema, schemas: Schemas) -> Decoded:
    """The values of some messages as rows."""
    _require_fastavro()
    records: dict[int, Mapping[str, Any]] = {}
    refused: dict[int, str] = {}
    writers: dict[int, Any] = {}
    for place, value in enumerate(values):
        try:
            records[place] = _record(value, schemas, writers)
        except ValueError as error:  # noqa: PERF203 - each message by itself
            refused[place] = str(error)
    columns, bad = _columns(records, schema)
    refused |= bad
    good = np.array([place for place in records if place not in bad], dtype=np.int64)
    return Decoded(pl.DataFrame(columns, schema=polars_schema(schema)), good, dict(sorted(refused.items())))


def _record(value: Value, schemas: Schemas, writers: dict[int, Any]) -> Mapping[str, Any]:
    """One message as its writer meant it; ValueError says why it is no record."""
    from fastavro import schemaless_reader

    if value is None:
        raise ValueError(NULL)
    if len(value) < _HEAD or value[0] != 0:
        raise ValueError("no Avro with the id of its schema: it does not begin with a zero and four bytes")
    writer = _writer(int.from_bytes(value[1:_HEAD], "big"), schemas, writers)
    stream = BytesIO(value)
    stream.seek(_HEAD)
    try:
        found = schemaless_reader(stream, writer, None)
    except Exception as error:  # fastavro raises what its bytes lead it to: EOFError, IndexError, OverflowError, ...
        raise ValueError(f"no value of its schema: {type(error).__name__}: {str(error)[:200]}") from None
    if stream.tell() != len(value):
        raise ValueError(f"{len(value) - stream.tell()} bytes more than its schema says")
    if not isinstance(found, dict):
        raise ValueError("no record: its schema is that of a single value")
    return found


def _writer(number: int, schemas: Schemas, writers: dict[int, Any]) -> Any:
    if number not in writers:
        try:
            writers[number] = schemas.schema(number)
        except UnknownSchema as error:
            writers[number] = error
    if isinstance(writers[number], UnknownSchema):
        raise ValueError(str(writers[number]))
    return writers[number]


def _columns(records: Mapping[int, Mapping[str, Any]], schema: Schema) -> tuple[dict[str, pl.Series], dict[int, str]]:
    """The records in columns, without those in which a value does not fit; these with the reason."""
    fitted: dict[str, dict[int, Any]] = {}
    bad: dict[int, str] = {}
    for name, kind in schema.columns:
        fit, column = _fits(kind), {}
        for place, record in records.items():
            value = record.get(name)
            try:
                column[place] = None if value is None else fit(value)
            except (StrandlineError, TypeError, ValueError, ArithmeticError):
                bad.setdefault(place, misfit(name, value, kind))
        fitted[name] = column
    return {
        name: pl.Series(name, [v for place, v in column.items() if place not in bad], dtype=polars_type(schema[name]))
        for name, column in fitted.items()
    }, bad


def _fits(kind: Type) -> Callable[[Any], Any]:
    """What makes of a value that fastavro read one of a column's type; it raises where the value does not fit."""
    if kind.element is not None:
        return _list_of(_fits(kind.element))
    if kind.name == "struct":
        return _struct_of({name: _fits(field) for name, field in kind.fields})
    special = _SPECIAL.get(kind.name)
    if special is None:
        return lambda value: checked_value(kind, value, "it")
    return lambda value: checked_value(kind, special(value), "it")


def _list_of(fit: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def fitted(value: Any) -> Any:
        if not isinstance(value, list):
            raise TypeError
        return [None if each is None else fit(each) for each in value]

    return fitted


def _struct_of(fits: Mapping[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def fitted(value: Any) -> Any:
        if not isinstance(value, dict):
            raise TypeError
        return {name: None if value.get(name) is None else fit(value[name]) for name, fit in fits.items()}

    return fitted


def _text(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    return value.decode() if isinstance(value, bytes) else value


def _bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _moment(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | datetime):
        raise TypeError
    if isinstance(value, datetime):
        return value
    if not Instant(value).in_calendar:
        raise ValueError
    return EPOCH + timedelta(microseconds=value)


def _local(value: Any) -> Any:
    moment = _moment(value)
    return moment.astimezone(timezone.utc).replace(tzinfo=None) if isinstance(value, int) else moment


def _day(value: Any) -> Any:
    if isinstance(value, datetime) or not isinstance(value, date):
        raise TypeError
    return value


def _span(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return timedelta(microseconds=value)


def _number(value: Any) -> Any:
    if not isinstance(value, int | Decimal) or isinstance(value, bool):
        raise TypeError
    return value


_SPECIAL: Final[dict[str, Callable[[Any], Any]]] = {
    "string": _text,
    "binary": _bytes,
    "timestamp": _moment,
    "timestamp_ntz": _local,
    "date": _day,
    "interval day to second": _span,
    "decimal": _number,
}


def _require_fastavro() -> None:
    try:
        import fastavro  # noqa: F401 - asked for, not used
    except ImportError:
        raise RunError("fastavro is not installed.", fix="Install it: pip install 'strandline[kafka]'.") from None
