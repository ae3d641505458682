"""Upserts of a million rows to PostgreSQL: ours must be at least three times as fast as `executemany` of VALUES.

    python -m benchmarks.postgres_upsert [--quick] [--server postgresql://user@host:5432/database]

The server is that of --server, or one of its own. Both write the same rows to tables of the same columns on
the same server, in turns: into a table that is empty; then rows of which half are there; then rows that are all there. The
one in the middle is what an upsert is for, and has the limit. The peer upserts 1,000 rows a statement, in one transaction,
guarded by the tick as ours is; its table is as CREATE TABLE with a primary key makes it, and it leaves out the marker. Its
rows are made into Python values beforehand, which is not counted. In the end both tables must hold the same. The time is
the clock's: most of the work is the server's.
"""

from __future__ import annotations

import argparse
import sys
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl
import psycopg
from psycopg import sql

from benchmarks.verdicts import Verdict, conclude
from strandline.model.time import Instant
from strandline.model.types import Schema
from strandline.sinks.contract import Delivery, Publisher, Target
from strandline.sinks.database import DatabaseSink
from tests.servers import own_postgres

ROWS, QUICK_ROWS, AT_A_TIME = 1_000_000, 50_000, 1_000
SCHEMA = Schema.of("user string, window_start timestamp, orders bigint, revenue double")
KEY = ("user", "window_start")
ALL = tuple(SCHEMA)


TICKS = {1: ("all new", 0), 2: ("half of them there", 0.5), 3: ("all of them there", 0.5)}
"""What the rows of each tick are to the table, and with which part of its rows' number its keys begin."""


def changes(rows: int, tick: int) -> pl.DataFrame:
    """A row for each key, in no order; all values are others than those of another tick."""
    random = np.random.default_rng(tick)
    keys = random.permutation(rows) + int(rows * TICKS[tick][1])
    return pl.DataFrame(
        {
            "user": pl.Series(keys // 10).cast(pl.String).str.zfill(9),
            "window_start": pl.Series((keys % 10) * 60_000_000 + 1_767_225_600_000_000).cast(pl.Datetime("us", "UTC")),
            "orders": random.integers(0, 1000, rows),
            "revenue": random.random(rows) * 1000,
            "op": ["upsert"] * rows,
        }
    )


@dataclass
class Server:
    """A schema of the measurement's own."""

    url: str
    schema: str = field(default_factory=lambda: f"strandline_bench_{uuid.uuid4().hex[:8]}")

    def __enter__(self) -> Server:
        self.tell(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self.schema)))
        return self

    def __exit__(self, *_: object) -> None:
        self.tell(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(self.schema)))

    def table(self, name: str) -> sql.Identifier:
        return sql.Identifier(self.schema, name)

    def tell(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)

    def sums(self, name: str) -> tuple[Any, ...]:
        """What a table holds, as one line that any difference would change."""
        question = sql.SQL("SELECT count(*), sum(hashtextextended(({})::text, 0)) FROM {}")
        with psycopg.connect(self.url) as connection:
            columns = sql.SQL(", ").join(map(sql.Identifier, (*ALL, "_tick")))
            found = connection.execute(question.format(columns, self.table(name))).fetchone()
        assert found is not None
        return found


def ours(server: Server, name: str) -> tuple[Publisher, Callable[[pl.DataFrame, int], float]]:
    target = Target(flow="bench", sink=name, incarnation="i", schema=SCHEMA, rows="upsert", key=KEY)
    publisher = DatabaseSink(server.url, f"{server.schema}.{name}").prepare(target)

    def write(rows: pl.DataFrame, tick: int) -> float:
        given = Delivery(
            tick=tick, incarnation="i", digest=str(tick), now=Instant(0), rows=rows.height, tables=lambda: iter([rows])
        )
        started = perf_counter()
        assert publisher.publish(given).rows == rows.height
        return perf_counter() - started

    return publisher, write


def peer(server: Server, name: str) -> Callable[[pl.DataFrame, int], float]:
    columns = sql.SQL(
        '"user" text, window_start timestamptz, orders bigint, revenue double precision, _tick bigint, '
        'PRIMARY KEY ("user", window_start)'
    )
    server.tell(sql.SQL("CREATE TABLE {} ({})").format(server.table(name), columns))
    row = sql.SQL("({})").format(sql.SQL(", ").join([sql.Placeholder()] * (len(ALL) + 1)))
    statement = sql.SQL(
        'INSERT INTO {} AS kept VALUES {} ON CONFLICT ("user", window_start) DO UPDATE SET orders = excluded.orders, '
        "revenue = excluded.revenue, _tick = excluded._tick WHERE kept._tick <= excluded._tick"
    ).format(server.table(name), sql.SQL(", ").join([row] * AT_A_TIME))

    def write(rows: pl.DataFrame, tick: int) -> float:
        plain = rows.drop("op").with_columns(_tick=pl.lit(tick)).iter_slices(AT_A_TIME)
        given = [[value for each in piece.rows() for value in each] for piece in plain]
        with psycopg.connect(server.url) as connection, connection.cursor() as cursor:
            started = perf_counter()
            cursor.executemany(statement, given)
            connection.commit()
            return perf_counter() - started

    return write


def rounds(server: Server, rows: int, count: int) -> dict[str, list[float]]:
    """The seconds of each tick, round by round; what is loaded once was loaded by a small round before."""
    one_round(server, AT_A_TIME, "warm_up")
    every = [one_round(server, rows, str(number)) for number in range(count)]
    return {name: [each[name] for each in every] for name in every[0]}


def one_round(server: Server, rows: int, name: str) -> dict[str, float]:
    publisher, write = ours(server, f"ours_{name}")
    writers = {"ours": write, "executemany": peer(server, f"peer_{name}")}
    found: dict[str, float] = {}
    try:
        for tick, (what, _) in TICKS.items():
            delivered = changes(rows, tick)
            for who, each in writers.items():
                found[f"{who}, {what}"] = each(delivered, tick)
    finally:
        publisher.close()
    assert server.sums(f"ours_{name}") == server.sums(f"peer_{name}"), "the tables differ"
    return found


def verdicts(found: dict[str, list[float]], rows: int) -> list[Verdict]:
    best = {name: min(times) for name, times in found.items()}
    told = []
    for tick, (what, _) in TICKS.items():
        ratio = best[f"executemany, {what}"] / best[f"ours, {what}"]
        limit = 3 if tick == 2 else None
        told.append(Verdict(what=f"times as fast as executemany: {what}", measured=ratio, at_least=limit))
    told += [
        Verdict(what=name, measured=seconds, unit="s", notes=f"{rows / seconds:,.0f} rows/s")
        for name, seconds in best.items()
    ]
    return told


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.postgres_upsert", description="Measure upserts.")
    parser.add_argument("--quick", action="store_true", help="does it run?")
    parser.add_argument("--server", help="a url of PostgreSQL; a server of its own if none is named")
    asked = parser.parse_args()
    rows = QUICK_ROWS if asked.quick else ROWS
    with ExitStack() as stack:
        address = asked.server or stack.enter_context(own_postgres()).address
        server = stack.enter_context(Server(address))
        found = rounds(server, rows, 1 if asked.quick else 3)
    about = f"upserts of {rows:,} rows of four columns to PostgreSQL, best of {len(next(iter(found.values())))}"
    return conclude("postgres_upsert", about, verdicts(found, rows), {"seconds": found}, quick=asked.quick)


if __name__ == "__main__":
    sys.exit(main())
