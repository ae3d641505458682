"""Rows as messages of Kafka: their keys, values and headers, made in columns.

value   json       the row as an object, as `strandline.sinks.plain` says
        csv        the row as one line, without a header
        text       the one column of text that is neither key nor header
        bytes      the same of a binary column
        debezium   an envelope: before, after, op (c, u, d), ts_ms, source
        avro       `strandline.sinks.kafka.avro`
key     one column as text (binary: its bytes); several as a JSON object. A null alone is no key.

With rows="upsert" every row needs a key: there a null alone is the JSON object {"column":null}, and so is text that begins
like one; the value of a row that is gone is null, a tombstone. Keys that are equal have equal bytes: 0.0 and -0.0, every NaN.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import polars as pl

from strandline.errors import SinkError
from strandline.kernel.changes import DELETE
from strandline.model.panes import RETRACT
from strandline.model.types import Schema, Type
from strandline.sinks.contract import OP, Delivery, Target
from strandline.sinks.formats import FORMATS
from strandline.sinks.plain import json_text, plain_column

Headers: TypeAlias = "list[tuple[str, str | bytes | None]]"
Message: TypeAlias = tuple["bytes | None", "bytes | None", "Headers | None"]
Values: TypeAlias = "Sequence[bytes | None]"
Encode: TypeAlias = Callable[[pl.DataFrame, Delivery], Values]

ONE_COLUMN: Final = {"text": "string", "bytes": "binary"}


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages in order: the columns of a batch, as bytes."""

    keys: Values
    values: Values
    headers: Sequence[Headers | None]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Message]:
        return zip(self.keys, self.values, self.headers, strict=True)

    def __getitem__(self, number: int) -> Message:
        return self.keys[number], self.values[number], self.headers[number]


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How the rows of a target become messages."""

    target: Target
    key: tuple[str, ...]
    headers: tuple[tuple[str, str], ...]
    values: Encode

    def messages(self, table: pl.DataFrame, delivery: Delivery) -> Messages:
        """The messages of some rows of a delivery."""
        schema = self.target.delivered
        keys = keys_of(table, schema, self.key, required=self.target.rows == "upsert")
        headers: Sequence[Headers | None] = [None] * table.height
        if self.headers:
            names = [header for header, _ in self.headers]
            columns = (texts_of(table[column], schema, column) for _, column in self.headers)
            headers = [list(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return Messages(keys, self.values(table, delivery), headers)


def encoding(
    target: Target, *, format: str, key: Sequence[str], headers: Mapping[str, str], avro: Encode | None = None
) -> Encoding:
    """How the rows of a target become messages of a format."""
    schema = value_schema(target, format)
    makers: dict[str, Callable[[], Encode]] = {
        "json": lambda: lambda table, _: json_lines(table, schema),
        "csv": lambda: lambda table, _: csv_lines(table, schema),
        "debezium": lambda: _envelopes(target, schema),
    }
    if format in ONE_COLUMN:
        values = _one_column(target, format, {*key, *headers.values()})
    elif avro is not None:
        values = avro
    else:
        values = makers[format]()
    if target.rows == "upsert" and format != "debezium":
        values = _with_tombstones(values)
    return Encoding(target=target, key=tuple(key), headers=tuple(headers.items()), values=values)


def value_schema(target: Target, format: str) -> Schema:
    """The columns of a value: `op` is one of a changelog only, but that an envelope has it by itself."""
    if target.rows == "append" or (target.rows == "changelog" and format != "debezium"):
        return target.delivered
    return Schema(tuple((name, kind) for name, kind in target.delivered.columns if name != OP))


def json_lines(table: pl.DataFrame, schema: Schema) -> list[bytes]:
    """Rows as JSON objects: the same text as in a file of JSON."""
    (data,) = FORMATS["json"].encode([table.select(list(schema))], schema)
    return bytes(data).split(b"\n")[:-1]  # in JSON the end of a line stands in no text


def csv_lines(table: pl.DataFrame, schema: Schema) -> list[bytes]:
    """Rows as lines of CSV, without their ends."""
    plain = pl.DataFrame([plain_column(table[name], kind).alias(name) for name, kind in schema.columns])
    lines = _csv(plain).split(b"\n")[:-1]
    # Text may hold the end of a line; then each row is written by itself.
    return lines if len(lines) == table.height else [_csv(row)[:-1] for row in plain.iter_slices(1)]


def _csv(plain: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    plain.write_csv(out, include_header=False)
    return out.getvalue()


def _one_column(target: Target, format: str, taken: set[str]) -> Encode:
    left = [(name, kind) for name, kind in target.schema.columns if name not in taken and name != OP]
    if len(left) != 1 or left[0][1].name != ONE_COLUMN[format]:
        found = ", ".join(f"{name} {kind}" for name, kind in left) or "no column"
        raise SinkError(
            f"With format={format!r} {target} takes one {ONE_COLUMN[format]} column that is neither key nor header; there is "
            f"{found}.",
            fix="Choose it with .sink(..., columns=[...]), and name others in headers={'header': 'column'} or key=.",
        )
    ((name, _),) = left
    return lambda table, _: texts_of(table[name], target.delivered, name)


def _with_tombstones(values: Encode) -> Encode:
    def encode(table: pl.DataFrame, delivery: Delivery) -> Values:
        gone = (table[OP] == DELETE).to_list()
        if not any(gone):
            return values(table, delivery)
        kept = iter(values(table.filter(pl.col(OP) != DELETE), delivery))
        return [None if each else next(kept) for each in gone]

    return encode


def _envelopes(target: Target, schema: Schema) -> Encode:
    """Debezium's envelopes. What is upserted may have been there before or not: it is an update, and what was is not known."""
    source = json.dumps({"connector": "strandline", "name": target.flow, "table": target.sink}).encode()
    there = b"u" if target.rows == "upsert" else b"c"

    def encode(table: pl.DataFrame, delivery: Delivery) -> Values:
        end = b',"source":%b,"ts_ms":%d}' % (source, delivery.now // 1000)
        shown = b'{"before":null,"after":%%b,"op":"%b"' % there
        lines = json_lines(table, schema)
        if target.rows == "append":
            return [shown % line + end for line in lines]
        gone = table[OP].is_in([DELETE, RETRACT]).to_list()
        taken = b'{"before":%b,"after":null,"op":"d"'
        return [(taken if less else shown) % line + end for line, less in zip(lines, gone, strict=True)]

    return encode


def keys_of(table: pl.DataFrame, schema: Schema, key: Sequence[str], *, required: bool) -> Values:
    """The key of each message."""
    if not key:
        return [None] * table.height
    kinds = Schema(tuple((name, schema[name]) for name in key))
    table = table.select(_one_zero(name) if kind.is_float else pl.col(name) for name, kind in kinds.columns)
    if len(key) > 1:
        return _objects(table, kinds)
    (name,) = key
    texts = texts_of(table[name], schema, name)
    if not required:
        return texts
    begins = _objects(table.clear(1), kinds)[0].removesuffix(b"null}")
    if not any(text is None or text.startswith(begins) for text in texts):
        return texts
    objects = _objects(table, kinds)
    return [
        other if text is None or text.startswith(begins) else text for text, other in zip(texts, objects, strict=True)
    ]


def _one_zero(name: str) -> pl.Expr:
    return pl.when(pl.col(name) == 0).then(pl.col(name).abs()).otherwise(pl.col(name)).alias(name)


def _objects(table: pl.DataFrame, kinds: Schema) -> list[bytes]:
    """Keys as JSON objects. A number is written the same way whatever stands beside it, which a file need not do."""
    if not any(kind.is_float for kind in kinds.values()):
        return json_lines(table, kinds)
    whole = Type(name="struct", fields=kinds.columns)
    return [json_text(row, whole).encode() for row in table.iter_rows(named=True)]


def texts_of(column: pl.Series, schema: Schema, name: str) -> Values:
    """Values as text, in UTF-8; binary ones as they are."""
    kind = schema[name]
    if kind.name == "binary":
        return column.to_list()
    if kind.is_float:
        return [None if each is None else json_text(each, kind).strip('"').encode() for each in column.to_list()]
    return plain_column(column, kind).cast(pl.String).cast(pl.Binary).to_list()
