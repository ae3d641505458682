"""Spark = kernel = oracle where all operators stand in one flow; and such a flow, stopped and started, goes on."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from pyspark.sql import SparkSession

import strandline as sl
from strandline.store.journal import records
from strandline.store.storage import storage_at
from strandline.testing import Crash, Events, Tick, play
from tests.laws.comparing import differences

pytestmark = pytest.mark.slow

NOON = "2026-01-01T12:{:02}:{:02}Z"
CLICKS = "id string, user string, page string, at timestamp"
ORDERS = "user string, amount bigint, currency string, at timestamp"
RATES = "currency string, rate bigint, op string, at timestamp"


class Streak(sl.Process):
    """Numbers the rows of a user, and tells when one has been silent for two minutes."""

    count = sl.Value("bigint", 0)
    silent = sl.Timer("2m")

    def on_event(self, event: Any, out: Any) -> None:
        """The row with its number."""
        self.count += 1
        self.silent.set(after="2m")
        out.emit(user=event["user"], value=event["value"], n_2m=event["n_2m"], number=self.count)

    def on_timer(self, timer: str, out: Any) -> None:
        """Silence."""
        out.emit(out.key, number=-self.count)
        self.count = 0


def flow_of(clicks: Any, orders: Any, rates: Any) -> tuple[sl.Flow, Any, Any]:
    """Clicks, each once, meet orders, which are priced by the rates of their time; features, a process, windows, a table."""
    flow = sl.Flow("everything")
    late = sl.Bounded("30s")
    clicked = flow.source("clicks", clicks, time="at", watermark=late).dedupe("once", on="id", within="10m")
    ordered = flow.source("orders", orders, time="at", watermark=late)
    table = flow.table("rates", flow.source("rates_in", rates, time="at", watermark=late), key="currency")
    paid = clicked.key_by("user").join("paid", ordered.key_by("user"), within=sl.After("3m"), how="left")
    priced = paid.join_table("priced", table, on="currency", as_of=True)
    valued = priced.with_column("value", "amount * rate")
    features = valued.key_by("user").over("features", n_2m=sl.Count(within="2m"), emit="watermark")
    streaks = features.key_by("user").process(
        "streaks", Streak, output="user string, value bigint, n_2m bigint, number bigint", order="event_time"
    )
    sums = (
        streaks.key_by("user")
        .window(sl.Tumbling("5m"))
        .aggregate("sums", n=sl.Count(), most=sl.Max("number"), total=sl.Sum("value"))
    )
    return flow, streaks, sums


def rows_of(tick: int) -> dict[str, list[dict[str, Any]]]:
    """What a tick brings: repeated clicks, orders in another order, rates that change."""
    users, clock = ("ann", "bob", "cid"), 4 * tick
    clicks = [
        {"id": f"{tick}-{n // 2}", "user": users[n % 3], "page": f"p{n}", "at": NOON.format(clock + n % 4, 7 * n % 60)}
        for n in range(8)
    ]
    orders = [
        {
            "user": users[n % 2],
            "amount": n,
            "currency": ("eur", "usd")[n % 2],
            "at": NOON.format(clock + (5 - n) % 4, 11 * n % 60),
        }
        for n in range(5)
    ]
    rates = [
        {
            "currency": c,
            "rate": tick + 2 * n,
            "op": "delete" if (tick, n) == (2, 1) else None,
            "at": NOON.format(clock + n, 30),
        }
        for n, c in enumerate(("eur", "usd"))
    ]
    return {"clicks": clicks, "orders": orders, "rates_in": rates}


def steps(ticks: int) -> list[Any]:
    """The ticks, each with a watermark that some rows of the next are behind, and crashes among them."""
    made: list[Any] = []
    for tick in range(ticks):
        rows = rows_of(tick)
        if tick:
            rows["clicks"].append(
                {"id": f"late {tick}", "user": "ann", "page": "old", "at": NOON.format(4 * tick - 4, 30)}
            )
        events = [Events(each, source=name) for name, each in rows.items()]
        made.append(Tick(events, watermark=NOON.format(4 * tick + 1, 0)))
        if tick % 2:
            made.append(Crash())
    return [*made, Tick(watermark=2**62)]


@pytest.mark.parametrize("tasks", [1, 3])
def test_all_operators_in_one_flow_agree_on_every_runner(spark: SparkSession, tasks: int) -> None:
    empty = [sl.Rows(schema=schema) for schema in (CLICKS, ORDERS, RATES)]
    _, streaks, sums = flow_of(*empty)
    for stream in (streaks, sums):
        oracle = play(stream, steps(5), runner="oracle")
        kernel = play(stream, steps(5), runner="kernel", buckets=16, tasks=tasks)
        engine = play(stream, steps(5), runner="spark", spark=spark, buckets=16, tasks=tasks)
        assert sum(map(len, oracle)) > 3
        assert sum(map(len, oracle.late)) > 0
        assert differences(stream, oracle, kernel) == []
        assert differences(stream, kernel, engine) == []


def spread_flow(orders: Any, rates: Any) -> sl.Stage:
    """Orders with the rates of their time, from a table that is broadcast, and with orders like them, spread by salt."""
    flow = sl.Flow("spread")
    ordered = flow.source("orders", orders, time="at")
    known = flow.table("rates", flow.source("rates_in", rates, time="at"), key="currency", broadcast=True)
    priced = ordered.join_table("priced", known, as_of=True)
    return priced.key_by("user").join("met", priced.key_by("user"), within=sl.After("4m"), how="left", salt=4)


def test_rows_that_are_spread_agree_on_every_runner(spark: SparkSession) -> None:
    stream = spread_flow(sl.Rows(schema=ORDERS), sl.Rows(schema=RATES))
    given = [
        Tick(
            [Events(rows, source=name) for name, rows in rows_of(tick).items() if name != "clicks"],
            watermark=NOON.format(4 * tick + 1, 0),
        )
        for tick in range(4)
    ]
    given = [*given[:2], Crash(), *given[2:], Tick(watermark=2**62)]
    oracle = play(stream, given, runner="oracle")
    kernel = play(stream, given, runner="kernel", buckets=16, tasks=3)
    engine = play(stream, given, runner="spark", spark=spark, buckets=16, tasks=3)
    assert sum(map(len, oracle)) > 10
    assert differences(stream, oracle, kernel) == []
    assert differences(stream, kernel, engine) == []


def test_the_journal_names_the_hottest_keys_of_an_operator_with_their_share(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Copies of a broadcast table's rows do not count."""
    flow = sl.Flow("hot")
    at = NOON.format(1, 0)
    orders = [{"user": "ann", "amount": n, "currency": "eur" if n < 6 else "usd", "at": at} for n in range(8)]
    rates = [{"currency": each, "rate": 2, "at": at} for each in ("eur", "usd")]
    known = flow.table(
        "rates", flow.source("rates_in", sl.Rows(rates, schema=RATES), time="at"), key="currency", broadcast=True
    )
    priced = flow.source("orders", sl.Rows(orders, schema=ORDERS), time="at").join_table("priced", known, on="currency")
    priced.sink("out", sl.Memory())
    flow.run(spark=spark, state=tmp_path, until="caught_up")
    (found,) = (each["hottest"]["priced"] for each in records(storage_at(tmp_path)) if each["rows"])
    assert found == [{"key": "eur", "rows": 7, "share": 0.7}, {"key": "usd", "rows": 3, "share": 0.3}]


def files(folder: Path, tick: int) -> None:
    """Write what a tick brings as files."""
    for name, rows in rows_of(tick).items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        pl.DataFrame(rows).write_ndjson(folder / name / f"{tick}.json")


def test_a_flow_of_all_operators_that_was_stopped_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """In four runs, or in one, the table in the end is the same; nothing came twice, and nothing was lost."""
    tables = []
    for name, runs in (("one", [range(4)]), ("four", [range(n, n + 1) for n in range(4)])):
        folder = tmp_path / name
        for ticks in runs:
            for tick in ticks:
                files(folder / "data", tick)
            _flow(folder).run(spark=spark, state=folder / "state", until="caught_up")
        run = _flow(folder).run(spark=spark, state=folder / "state", wait=False)
        run.drain()
        run.wait()
        with sqlite3.connect(folder / "out.db") as database:
            tables.append(
                database.execute("select user, window_start, n, most, total from sums order by 1, 2").fetchall()
            )
    one, four = tables
    assert len(one) > 6
    assert one == four


def test_read_to_the_end_joins_are_what_sql_says(spark: SparkSession, tmp_path: Path) -> None:
    for tick in (2, 0, 3, 1):
        files(tmp_path, tick)
    flow = sl.Flow("whole")
    clicks, orders = (
        flow.source(name, sl.Files(tmp_path / name).read(format="json", schema=schema), time="at")
        for name, schema in (("clicks", CLICKS), ("orders", ORDERS))
    )
    shown = {how: sl.Memory(how) for how in ("full", "left", "right")}
    for how, memory in shown.items():
        met = clicks.key_by("user").join(
            how,
            orders.key_by("user"),
            within=sl.Between("-1m", "3m"),
            how=how,
            salt=None if how == "full" else 4,  # type: ignore[arg-type]
        )
        met.sink(how, memory)
    flow.run(spark=spark, state=tmp_path / "state", until="end")
    sides = {name: [row for tick in range(4) for row in rows_of(tick)[name]] for name in ("clicks", "orders")}
    with duckdb.connect() as database:
        for name, rows in sides.items():
            plain = [{**row, "at": _moment(row["at"])} for row in rows]
            database.register(name, pl.DataFrame(plain).to_arrow())
        for how, memory in shown.items():
            expected = database.execute(
                "select coalesce(a.user, b.user), a.id, a.page, b.amount, a.at, b.at "
                f"from clicks a {how} join orders b on a.user = b.user "
                "and b.at - a.at between -60000000 and 180000000"
            ).fetchall()
            found = [
                (row["user"], row["id"], row["page"], row["amount"], *map(_moment, (row["at"], row["at_right"])))
                for row in memory.rows
            ]
            assert len(found) > 30
            assert Counter(found) == Counter(expected)


@pytest.mark.parametrize("until", ["end", "caught_up"])
def test_when_the_input_ends_a_table_with_a_ttl_leaves_what_the_last_event_has_not_outlived(
    spark: SparkSession, tmp_path: Path, until: Any
) -> None:
    changes = (("eur", 1, 0), ("usd", 2, 20), ("gbp", 3, 16), ("eur", 4, 5), ("chf", 5, 30))
    rates = [{"currency": name, "rate": rate, "at": NOON.format(minute, 0)} for name, rate, minute in changes]
    flow = sl.Flow("kept")
    table = flow.table(
        "rates", flow.source("rates_in", sl.Rows(rates, schema=RATES), time="at"), key="currency", ttl="15m"
    )
    table.sink("out", sl.Database(f"sqlite:///{tmp_path / 'out.db'}").write("rates"), rows="upsert")
    flow.run(spark=spark, state=tmp_path / "state", until=until)
    with sqlite3.connect(tmp_path / "out.db") as database:
        found = database.execute("select currency, rate from rates order by 1").fetchall()
    assert found == [("chf", 5), ("gbp", 3), ("usd", 2)]


def _moment(value: Any) -> int | None:
    return None if value is None else int(sl.Instant.of(value))


def _flow(folder: Path) -> sl.Flow:
    schemas = (("clicks", CLICKS), ("orders", ORDERS), ("rates_in", RATES))
    sources = [sl.Files(folder / "data" / name).read(format="json", schema=schema) for name, schema in schemas]
    flow, streaks, sums = flow_of(*sources)
    sums.sink("sums", sl.Database(f"sqlite:///{folder / 'out.db'}").write("sums"), rows="upsert")
    streaks.late.sink("late", sl.Memory())
    return flow
