"""File formats: tables to bytes and back, and the bytes of several files as those of one.

parquet   every type as it is; intervals are whole microseconds for readers that know no Arrow schema
json      one object a line, as `strandline.sinks.plain` says
csv       a header, then one row a line; arrays and structs are JSON text, the rest is as in json, but for "inf".
          Null is an empty field, empty text is "".
"""

from __future__ import annotations

import io
import json
from codecs import BOM_UTF8
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from strandline.kernel.schema import polars_schema
from strandline.model.types import Schema
from strandline.sinks.plain import column_of, plain_column, plain_type, plain_value, value_of


class Format(Protocol):
    """How tables are written.

    Laws: decode(encode(tables)) are the tables; decode(join(parts)) are the tables of the parts, in order.
    """

    def encode(self, tables: Iterable[pl.DataFrame], schema: Schema) -> list[Any]:
        """The bytes of one file with all these rows, in pieces."""

    def decode(self, data: Any, schema: Schema) -> pl.DataFrame:
        """The rows of a file."""

    def join(self, parts: Sequence[Any], schema: Schema) -> list[Any]:
        """The bytes of one file with the rows of several."""


class Parquet:
    """Parquet, compressed with zstd; one or more row groups for each table."""

    def encode(self, tables: Iterable[pl.DataFrame], schema: Schema) -> list[Any]:
        """The bytes of one file."""
        out = pa.BufferOutputStream()
        arrow = _arrow(pl.DataFrame(schema=polars_schema(schema))).schema
        with pq.ParquetWriter(out, arrow, compression="zstd") as writer:
            for table in tables:
                writer.write_table(_arrow(table))
        return [out.getvalue()]

    def decode(self, data: Any, schema: Schema) -> pl.DataFrame:
        """The rows of a file."""
        return pl.read_parquet(io.BytesIO(data)).cast(pl.Schema(polars_schema(schema)))

    def join(self, parts: Sequence[Any], schema: Schema) -> list[Any]:
        """One file in place of several."""
        return self.encode((self.decode(part, schema) for part in parts), schema)


class Json:
    """JSON, one object a line."""

    def encode(self, tables: Iterable[pl.DataFrame], schema: Schema) -> list[Any]:
        """The bytes of one file."""
        return [
            _fast_json(table, schema) if _is_simple(table, schema) else _any_json(table, schema) for table in tables
        ]

    def decode(self, data: Any, schema: Schema) -> pl.DataFrame:
        """The rows of a file."""
        data = bytes(data)
        if not data:
            return pl.DataFrame(schema=polars_schema(schema))
        nested = any(not kind.is_scalar for kind in schema.values())
        floats = any(kind.is_float for kind in schema.values())
        if nested or (floats and (b'"NaN"' in data or b'Infinity"' in data)):
            rows = [json.loads(line) for line in data.split(b"\n") if line]
            found = {name: [value_of(row.get(name), kind) for row in rows] for name, kind in schema.columns}
            return pl.DataFrame(found, schema=polars_schema(schema))
        # Polars reads no whole numbers of fewer than 32 bits from JSON.
        types = {name: pl.Int64() if kind.is_integer else plain_type(kind) for name, kind in schema.columns}
        return _read(pl.read_ndjson(io.BytesIO(data), schema=types), schema)

    def join(self, parts: Sequence[Any], schema: Schema) -> list[Any]:
        """One file in place of several: lines behind lines."""
        return list(parts)


class Csv:
    """Comma-separated values with a header."""

    def encode(self, tables: Iterable[pl.DataFrame], schema: Schema) -> list[Any]:
        """The bytes of one file."""
        header = _csv(pl.DataFrame(schema=dict.fromkeys(schema, pl.String())), header=True)
        return [header, *(_csv(_plain(table, schema), header=False) for table in tables)]

    def decode(self, data: Any, schema: Schema) -> pl.DataFrame:
        """The rows of a file."""
        # Polars does not undo the quotes of names in a header, so it is taken off before.
        header = self.encode([], schema)[0]
        data = bytes(data)
        if not data.startswith(header):
            raise ValueError(f"its header is not {header.decode()!r}")
        if len(data) == len(header):
            return pl.DataFrame(schema=polars_schema(schema))
        types = {name: plain_type(kind) for name, kind in schema.columns}
        # Polars passes over a mark, which there is none; so one that the first text begins with stands behind another.
        lines = io.BytesIO(BOM_UTF8 + data[len(header) :])
        return _read(pl.read_csv(lines, schema=types, has_header=False), schema)

    def join(self, parts: Sequence[Any], schema: Schema) -> list[Any]:
        """One file in place of several: one header, lines behind lines."""
        header = self.encode([], schema)[0]
        return [header, *(bytes(part)[len(header) :] for part in parts)]


FORMATS: Final[dict[str, Format]] = {"parquet": Parquet(), "json": Json(), "csv": Csv()}


def _arrow(table: pl.DataFrame) -> pa.Table:
    # Without views: other readers of Arrow, Spark among them, do not all know them.
    return table.to_arrow(compat_level=pl.CompatLevel.oldest())


def _plain(table: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    return pl.DataFrame([plain_column(table[name], kind).alias(name) for name, kind in schema.columns])


def _read(plain: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    return pl.DataFrame([column_of(plain[name], kind).alias(name) for name, kind in schema.columns])


def _csv(table: pl.DataFrame, *, header: bool) -> bytes:
    out = io.BytesIO()
    table.write_csv(out, include_header=header)
    return out.getvalue()


def _is_simple(table: pl.DataFrame, schema: Schema) -> bool:
    """Whether Polars itself writes these columns as they should be: no values with parts, no NaN that would become null."""
    return all(
        kind.is_scalar and (not kind.is_float or bool(table[name].is_finite().all()))
        for name, kind in schema.columns
    )  # fmt: skip


def _fast_json(table: pl.DataFrame, schema: Schema) -> bytes:
    out = io.BytesIO()
    _plain(table, schema).write_ndjson(out)
    return out.getvalue()


def _any_json(table: pl.DataFrame, schema: Schema) -> bytes:
    columns = [[plain_value(each, kind) for each in table[name].to_list()] for name, kind in schema.columns]
    names = list(schema)
    lines = [
        json.dumps(dict(zip(names, row, strict=True)), separators=(",", ":"), ensure_ascii=False)
        for row in zip(*columns, strict=True)
    ]
    return "".join(f"{line}\n" for line in lines).encode()
