"""Deliveries and targets for the tests of sinks, and rows of every type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import polars as pl
from hypothesis import strategies as st

from strandline.kernel.schema import polars_schema
from strandline.model.time import Instant
from strandline.model.types import Schema, Type
from strandline.sinks.contract import Delivery, Marker, Publisher, Receipt, Sink, Target

TARGET = Target(flow="f", sink="s", incarnation="one", schema=Schema.of("k string, n bigint"))
CHANGES = replace(TARGET, rows="upsert", key=("k",))
LOG = replace(TARGET, rows="changelog")
EVERYTHING = Schema.of(
    "z boolean, i8 tinyint, i16 smallint, i32 int, i64 bigint, f32 float, f64 double, x decimal(38,3), s string, "
    "b binary, d date, t timestamp, tn timestamp_ntz, iv interval, l array<double>, "
    "st struct<x:decimal(5,2),t:timestamp,l:array<struct<b:binary,iv:interval,d:date,n:timestamp_ntz>>>"
)


@dataclass(frozen=True)
class Upserted:
    """A sink that takes upserts alone, given rows that are appended: each is the upsert of its `k`."""

    sink: Sink

    @property
    def guarantee(self) -> str:
        return self.sink.guarantee

    @property
    def takes(self) -> frozenset[str]:
        return self.sink.takes

    def prepare(self, target: Target) -> Publisher:
        return _UpsertedPublisher(self.sink.prepare(replace(target, rows="upsert", key=("k",))))


@dataclass
class _UpsertedPublisher:
    publisher: Publisher

    @property
    def marker(self) -> Marker | None:
        return self.publisher.marker

    def publish(self, delivery: Delivery) -> Receipt:
        def tables() -> Iterator[pl.DataFrame]:
            return (table.with_columns(op=pl.lit("upsert")) for table in delivery.tables())

        return self.publisher.publish(replace(delivery, tables=tables))

    def close(self) -> None:
        self.publisher.close()


def delivery(
    target: Target, tick: int, *rows: Sequence[Any], digest: str | None = None, incarnation: str | None = None
) -> Delivery:
    """A delivery of these rows."""
    schema = polars_schema(target.delivered)
    table = pl.DataFrame(list(rows), schema=schema, orient="row")
    return delivery_of(target, tick, table, digest=digest, incarnation=incarnation)


def delivery_of(
    target: Target, tick: int, *tables: pl.DataFrame, digest: str | None = None, incarnation: str | None = None
) -> Delivery:
    """A delivery of these tables."""
    return Delivery(
        tick=tick,
        incarnation=incarnation or target.incarnation,
        digest=digest or f"digest-of-{tick}",
        now=Instant.of("2026-01-01T12:00:00Z"),
        rows=sum(table.height for table in tables),
        tables=lambda: iter(tables),
    )


def publish(sink: Sink, target: Target, *ticks: list[tuple[Any, ...]], first: int = 1) -> None:
    """Prepare a sink, and deliver these ticks to it."""
    publisher = sink.prepare(target)
    try:
        for number, rows in enumerate(ticks, first):
            publisher.publish(delivery(target, number, *rows))
    finally:
        publisher.close()


_MICROS = st.integers(int(Instant.FIRST_IN_CALENDAR), int(Instant.LAST_IN_CALENDAR))
_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    **{name: st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for name, bits in
       (("tinyint", 8), ("smallint", 16), ("int", 32), ("bigint", 64))},
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": st.text(st.characters(exclude_categories=["Cs"])),
    "binary": st.binary(),
    "date": st.dates(),
    "timestamp": _MICROS.map(lambda each: Instant(each).moment),
    "timestamp_ntz": _MICROS.map(lambda each: Instant(each).moment.replace(tzinfo=None)),
    "interval day to second": st.integers(-(2**63) + 1, 2**63 - 1).map(lambda each: timedelta(microseconds=each)),
}  # fmt: skip


def values(type: Type) -> st.SearchStrategy[Any]:
    """Values of a type, null among them."""
    if type.element is not None:
        some: st.SearchStrategy[Any] = st.lists(values(type.element), max_size=3)
    elif type.name == "struct":
        some = st.fixed_dictionaries({name: values(kind) for name, kind in type.fields})
    elif type.name == "decimal":
        digits = 10 ** (type.precision - type.scale) - 1
        some = st.decimals(-digits, digits, places=type.scale)
    else:
        some = _SCALARS[type.name]
    return st.one_of(st.none(), some)


@st.composite
def tables(draw: st.DrawFn, schema: Schema = EVERYTHING, *, max_size: int = 5) -> pl.DataFrame:
    """Tables with these columns."""
    height = draw(st.integers(1, max_size))
    columns = {name: draw(st.lists(values(kind), min_size=height, max_size=height)) for name, kind in schema.columns}
    return pl.DataFrame(columns, schema=polars_schema(schema))
