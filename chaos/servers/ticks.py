"""The ticks that publishers of the matrix deliver, and what they amount to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import polars as pl

from chaos.judging import Rows
from strandline.kernel.schema import polars_schema
from strandline.model.time import Instant
from strandline.model.types import Schema
from strandline.sinks.contract import Delivery, Target

ROWS: Final = 24  # of an appended tick
KEYS: Final = 5
APPENDED: Final = Target(flow="chaos", sink="rows", incarnation="one", schema=Schema.of("k string, n bigint"))
UPSERTED: Final = replace(APPENDED, rows="upsert", key=("k",))


def delivery(target: Target, tick: int, now: Instant) -> Delivery:
    """The rows of a tick, the same whenever it is delivered."""
    rows = list(_appended(tick) if target.rows == "append" else _upserted(tick))
    table = pl.DataFrame(rows, schema=polars_schema(target.delivered), orient="row")
    return Delivery(
        tick=tick, incarnation=target.incarnation, digest=f"digest-of-{tick}", now=now, rows=table.height,
        tables=lambda: iter([table[: table.height // 2], table[table.height // 2 :]]),
        after=tick - 1 if tick > 1 else None,
    )  # fmt: skip


def _appended(tick: int) -> Iterator[tuple[Any, ...]]:
    """Numbers that grow, over a few keys."""
    for number in range(tick * ROWS, (tick + 1) * ROWS):
        yield f"k{number % KEYS}", number


def _upserted(tick: int) -> Iterator[tuple[Any, ...]]:
    """A new value for each key but one, which goes."""
    for key in range(KEYS):
        gone = key == tick % KEYS
        yield f"k{key}", None if gone else tick * KEYS + key, "delete" if gone else "upsert"


def amounts_to(target: Target, last: int) -> Rows:
    """What is there when all ticks up to this one are published."""
    if target.rows == "append":
        return Counter(row for tick in range(1, last + 1) for row in _appended(tick))
    return Counter((key, value) for key, value, op in _upserted(last) if op == "upsert") if last else Counter()
