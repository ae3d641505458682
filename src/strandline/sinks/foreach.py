"""Rows given to a function of the user's, as a Spark DataFrame, tick by tick."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import polars as pl

from strandline.errors import DescriptionError, SinkError, name_of, raised_by, told
from strandline.kernel.schema import polars_schema
from strandline.model.options import require_boolean
from strandline.model.time import Instant
from strandline.model.types import Type
from strandline.sinks.contract import (
    ALL_ROWS,
    SKIPPED,
    Delivery,
    Marker,
    Receipt,
    Target,
    delivered_tables,
    judge_marker,
    require_rows,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TickIdentity:
    """Which tick a function is given.

    After a crash the function may be given the same tick again, with an equal identity and the same rows: one that
    keeps (incarnation, tick) where its rows go, in the same transaction, can tell, and does nothing.
    """

    flow: str
    sink: str
    incarnation: str
    tick: int
    digest: str
    now: Instant


@dataclass(frozen=True, slots=True)
class ForeachTick:
    """Call `function(df, tick)` for each tick with rows: `df` is a Spark DataFrame, `tick` a `TickIdentity`.

    `exactly_once=True` says that the function uses the identity so that a tick given twice has its effect once;
    nobody can check that for you.

    >>> ForeachTick(lambda df, tick: df.show()).guarantee
    'at least once: after a crash the function is given the last tick again'
    """

    function: Callable[[Any, TickIdentity], Any]
    _: KW_ONLY
    exactly_once: bool = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise DescriptionError(
                f"ForeachTick takes a function of a DataFrame and a tick, not {told(self.function)}.",
                fix="Write ForeachTick(lambda df, tick: ...), without calling it.",
            )
        try:
            inspect.signature(self.function).bind(None, None)
        except ValueError:
            pass  # built in, and does not say what it takes
        except TypeError as error:
            raise DescriptionError(
                f"{name_of(self.function)} cannot be called with a DataFrame and a tick: {error}.",
                fix="Give it two arguments: def write(df, tick): ...",
            ) from None
        require_boolean("exactly_once", self.exactly_once)

    @property
    def guarantee(self) -> str:
        """What is promised, and on which conditions."""
        if self.exactly_once:
            return "exactly once, if the function does nothing for a tick identity that it has dealt with, as it says"
        return "at least once: after a crash the function is given the last tick again"

    @property
    def takes(self) -> frozenset[str]:
        """Every kind of rows."""
        return ALL_ROWS

    def prepare(self, target: Target) -> ForeachPublisher:
        """Check that there is a Spark session to make DataFrames with."""
        require_rows(target, self.takes)
        if target.spark is None:
            raise SinkError(
                f"{target} gives ticks as Spark DataFrames, and there is no Spark here.".replace("the", "The", 1),
                fix="Run the flow with flow.run(); in tests use sl.Memory().",
            )
        return ForeachPublisher(self.function, target, target.spark)


class ForeachPublisher:
    """A function, open for deliveries."""

    def __init__(self, function: Callable[[Any, TickIdentity], Any], target: Target, spark: Callable[[], Any]) -> None:
        self.function, self.target, self.spark = function, target, spark
        self.marker = target.last

    def publish(self, delivery: Delivery) -> Receipt:
        """Call the function with the rows of a tick."""
        if judge_marker(self.marker, delivery, self.target, kept=False) == "skip":
            return SKIPPED
        empty = pl.DataFrame(schema=polars_schema(self.target.delivered))
        rows = pl.concat([empty, *delivered_tables(self.target, delivery)])
        # Without a schema Spark takes a timestamp_ntz for a timestamp of the session's zone.
        table = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
        df = self.spark().createDataFrame(table, schema=_ddl(self.target.delivered.columns, " "))
        identity = TickIdentity(
            flow=self.target.flow, sink=self.target.sink, incarnation=delivery.incarnation, tick=delivery.tick,
            digest=delivery.digest, now=delivery.now,
        )  # fmt: skip
        try:
            self.function(df, identity)
        except Exception as error:
            raise SinkError(
                f"In tick {delivery.tick} of {self.target}, {raised_by(self.function, error)}",
                fix="Mend the function, and start the flow again: it will be given the same tick again.",
            ) from error
        self.marker = Marker.of(delivery)
        return Receipt(rows=rows.height)

    def close(self) -> None:
        """Nothing is open."""


def _ddl(columns: Iterable[tuple[str, Type]], between: str) -> str:
    """Columns as Spark reads them, whatever stands in their names.

    >>> _ddl([("k", Type.of("string")), ("s", Type.of("struct<a:array<bigint>>"))], " ")
    '`k` string,`s` struct<`a`:array<bigint>>'
    """
    return ",".join(f"`{name.replace('`', '``')}`{between}{_ddl_type(type)}" for name, type in columns)


def _ddl_type(type: Type) -> str:
    if type.element is not None:
        return f"array<{_ddl_type(type.element)}>"
    return f"struct<{_ddl(type.fields, ':')}>" if type.name == "struct" else type.text
