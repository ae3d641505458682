"""The examples on made-up events print what plain SQL, or a plain loop, finds in the same events."""

from __future__ import annotations

import json
import math
import runpy
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import strandline as sl
from strandline.model.nodes import SourceNode
from strandline.sources.contract import Limit

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("spark")]


def run(name: str) -> dict[str, Any]:
    """What is typed as `python examples/name`, but on the session of the tests; gives the names of the file."""
    return runpy.run_path(str(EXAMPLES / name), run_name="__main__")


def made(flow: sl.Flow, source: str) -> pl.DataFrame:
    """All events of a source of the flow."""
    return rows_of(source_of(flow, source))


def source_of(flow: sl.Flow, name: str) -> sl.Generator:
    """The generator that a source of the flow reads."""
    (generator,) = (node.source for node in flow.nodes if isinstance(node, SourceNode) and node.name == name)
    assert isinstance(generator, sl.Generator)
    return generator


def rows_of(generator: sl.Generator) -> pl.DataFrame:
    """All events of a generator, in the order of its partitions."""
    reader = generator.reader()
    end = reader.latest(reader.first(), Limit(rows=generator.rows))
    return pl.concat(piece.rows for part in reader.parts(reader.first(), end, 1) for piece in reader.read(part))


def asked(question: str, **tables: pl.DataFrame) -> list[tuple[Any, ...]]:
    """What DuckDB answers."""
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        for name, rows in tables.items():
            database.register(name, rows.to_arrow())
        return database.execute(question).fetchall()


def cells(line: str) -> list[str]:
    """The cells of a line of a printed table."""
    return [cell.strip() for cell in line.strip("│ ").split("│")]


def printed(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """The lines of the tables that were printed, without their headings."""
    return [cells(line) for line in capsys.readouterr().out.splitlines() if line.startswith("│")]


def number(cell: str) -> float:
    """A cell that shows a number, or a share."""
    return float(cell.replace(",", "").removesuffix("%"))


def test_orders_are_credited_to_the_last_click_in_each_of_three_spans(capsys: pytest.CaptureFixture[str]) -> None:
    names = run("conversions.py")
    clicks, orders = made(names["flow"], "clicks"), made(names["flow"], "orders")
    shares = []
    for line, (within, span) in zip(
        printed(capsys), {"1h": "1 hour", "24h": "24 hours", "30d": "30 days"}.items(), strict=True
    ):
        credited = asked(
            f"""
            SELECT CASE n % 3 WHEN 0 THEN 'mail' WHEN 1 THEN 'search' ELSE 'social' END, count(*), sum(cents)
            FROM (
                SELECT arg_max(clicks.n, clicks.at) AS n, any_value(round(orders.value * 1000)) AS cents
                FROM orders LEFT JOIN clicks
                ON clicks.key = orders.key AND clicks.at BETWEEN orders.at - INTERVAL {span} AND orders.at
                WHERE orders.value < 10 GROUP BY orders.partition, orders.n
            ) WHERE n IS NOT NULL GROUP BY 1 ORDER BY 1
            """,
            clicks=clicks, orders=orders,
        )  # fmt: skip
        total, found = orders.filter(pl.col("value") < 10).height, sum(count for _, count, _ in credited)
        revenue = sum(cents for *_, cents in credited) / 100
        counts = [f"{count:,}" for _, count, _ in credited]
        assert line == [within, f"{total:,}", f"{found:,}", f"{found / total:.1%}", f"{revenue:,.2f}", *counts]
        shares.append(found / total)
    assert shares == [pytest.approx(0.09, abs=0.01), pytest.approx(2 / 3, abs=0.03), 1.0]


def test_orders_are_priced_with_the_rate_of_their_own_time(capsys: pytest.CaptureFixture[str]) -> None:
    names = run("currency.py")
    changes, orders = made(names["flow"], "changes"), made(names["flow"], "orders")
    found = asked(
        """
        WITH rates AS (
            SELECT key, "at", (0.9 + value / 500) * list_extract([1.25, 1.15, 1.35, 0.0065], key[2]::INT + 1)::DOUBLE AS rate
            FROM changes
        )
        SELECT orders.key, count(*), count(*) FILTER (rate IS NULL), sum(orders.value) FILTER (rate IS NOT NULL),
            sum(orders.value * rate), (SELECT arg_max(rate, last.at) FROM rates AS last WHERE last.key = orders.key)
        FROM orders ASOF LEFT JOIN rates ON rates.key = orders.key AND rates.at <= orders.at GROUP BY orders.key ORDER BY 1
        """,
        changes=changes, orders=orders,
    )  # fmt: skip
    shown = printed(capsys)
    assert [line[0] for line in shown] == ["CHF", "EUR", "GBP", "JPY"]
    for line, (_, count, without, amount, dollars, last) in zip(shown, found, strict=True):
        assert line[1:3] == [f"{count:,}", f"{without:,}"]
        expected = [dollars, amount * last, 100 * (amount * last / dollars - 1)]
        assert [number(cell) for cell in line[3:]] == [pytest.approx(each, abs=0.011) for each in expected]
    assert 0 < sum(without for _, _, without, *_ in found) < 1_000


def test_changes_become_the_table_that_they_describe_and_a_second_run_changes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["cdc_to_sqlite.py", str(tmp_path)])
    changes = rows_of(run("cdc_to_sqlite.py")["CHANGES"])
    standing = """
        SELECT key, CASE WHEN value < 60 THEN 'basic' WHEN value < 90 THEN 'plus' ELSE 'gold' END AS plan,
            round(value * 100)::BIGINT AS credit, strftime("at", '%Y-%m-%dT%H:%M:%S.%fZ') AS changed_at
        FROM changes WHERE value >= 15 AND "at" = (SELECT max(newer.at) FROM changes AS newer WHERE newer.key = changes.key)
    """
    expected = asked(f"{standing} ORDER BY key", changes=changes)
    assert 0.8 < len(expected) / changes["key"].n_unique() < 0.9
    assert customers(tmp_path) == expected
    shown = printed(capsys)
    by_plan = asked(
        f"SELECT plan, count(*), sum(credit) FROM ({standing}) GROUP BY plan ORDER BY plan", changes=changes
    )
    assert [line[:3] for line in shown] == [[plan, f"{n:,}", f"{credit / 100:,.2f}"] for plan, n, credit in by_plan]
    run("cdc_to_sqlite.py")
    assert printed(capsys) == shown
    assert customers(tmp_path) == expected


def customers(folder: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "customers.db")) as database:
        return database.execute("SELECT id, plan, credit, changed_at FROM customers ORDER BY id").fetchall()


def test_stock_is_what_a_plain_loop_over_the_movements_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    names = run("inventory.py")
    books: dict[str, list[int]] = {}  # delivered, sold, left, missed sales, to reorder
    low: dict[str, datetime] = {}
    reorders: list[tuple[str, int, datetime]] = []
    for key, value, at in made(names["flow"], "movements").sort("at").select("key", "value", "at").iter_rows():
        book = books.setdefault(key, [0] * 5)
        if key in low and low[key] <= at:
            reorders.append((key, book[2], low.pop(key)))
        if value < 10:
            book[0] += 40
        else:
            sold = min(int(value) % 9 + 1, book[2])
            book[1] += sold
            book[3] += sold < int(value) % 9 + 1
        book[2] = book[0] - book[1]
        if book[2] >= 10:
            low.pop(key, None)
        else:
            low.setdefault(key, at + timedelta(hours=1))
    reorders += [(key, books[key][2], at) for key, at in low.items()]
    for key, *_ in reorders:
        books[key][4] += 1
    assert {line[0]: line[1:] for line in printed(capsys)} == {k: [f"{n:,}" for n in b] for k, b in books.items()}
    assert sorted((row["sku"], row["stock"], row["at"]) for row in names["reorder"].rows) == sorted(reorders)
    assert reorders
    assert all(missed for _, _, _, missed, _ in books.values())


def test_readings_beyond_three_sigma_are_those_that_were_made_too_high(capsys: pytest.CaptureFixture[str]) -> None:
    names = run("sensors.py")
    expected = asked(
        """
        WITH readings AS (
            SELECT key, "at" AS t, value >= 99.6 AS spiked, 20 + key[2:]::INT + value / 20 + 12 * spiked::INT AS celsius
            FROM made
        ),
        judged AS (
            SELECT *, count(*) OVER hour AS n, avg(celsius) OVER hour AS mean, stddev_samp(celsius) OVER hour AS sigma
            FROM readings WINDOW hour AS (
                PARTITION BY key ORDER BY t RANGE BETWEEN INTERVAL 1 HOUR PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW
            )
        )
        SELECT t, key, celsius, mean, sigma, (celsius - mean) / sigma, spiked FROM judged
        WHERE n >= 30 AND abs(celsius - mean) > 3 * sigma ORDER BY t
        """,
        made=made(names["flow"], "readings"),
    )
    found = names["alarms"].frame().sort("at").select("at", "device", "spiked").rows()
    assert found == [(at, key, spiked) for at, key, *_, spiked in expected]
    assert len(found) > 50
    assert all(spiked for *_, spiked in found)
    shown = printed(capsys)
    assert [line[:2] for line in shown] == [[f"{at:%H:%M:%S}", key] for at, key, *_ in expected[:10]]
    for line, (_, _, *numbers, _) in zip(shown, expected, strict=False):
        assert [number(cell) for cell in line[2:]] == [pytest.approx(each, abs=0.051) for each in numbers]


def test_payments_are_blocked_by_the_model_of_the_file_and_each_decision_is_timed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = time.time()
    names = run("fraud.py")
    model = json.loads((EXAMPLES / "fraud_model.json").read_text(encoding="utf-8"))
    recent: dict[str, list[tuple[datetime, float]]] = {}
    blocked = set()
    # With other times, which are as far apart.
    at_rest = replace(source_of(names["flow"], "payments"), live=False, slow=None, idle=None)
    for key, value, n, at in rows_of(at_rest).select("key", "value", "n", "at").iter_rows():
        recent[key] = [*(each for each in recent.get(key, []) if each[0] >= at - timedelta(seconds=10)), (at, value)]
        spent = sum(amount for _, amount in recent[key])
        features = {"amount": value, "payments": len(recent[key]), "spent": spent, "is_new": int(key[1:]) % 5 == 0}
        weighed = model["bias"] + sum(weight * features[name] for name, weight in model["weights"].items())
        if 1 / (1 + math.exp(-weighed)) > model["block_above"]:
            blocked.add(n)
    decided = names["decided"]
    assert sorted(row["n"] for row in decided) == [*range(4_000)]
    assert {row["n"] for row in decided if row["blocked"]} == blocked
    assert 100 < len(blocked) < 1_000
    shown = printed(capsys)
    assert [line[1:3] for line in shown] == [
        ["4,000", f"{len(blocked):,}"],
        ["2,000", str(sum(n >= 2_000 for n in blocked))],
    ]
    for line, first in zip(shown, (0, 2_000), strict=True):
        took = sorted(row["took"] for row in decided if row["n"] >= first)
        p50, p99 = (float(cell.removesuffix(" ms").replace(",", "")) / 1000 for cell in line[3:])
        assert took[0] > 0
        assert took[len(took) // 2] == pytest.approx(p50, abs=0.05)
        assert p50 < p99 <= took[-1] + 0.001
    made = [row["made"] / 1e6 for row in decided]
    assert before < min(made) < max(made) < time.time()
    assert max(made) - min(made) == pytest.approx(20, abs=0.01)
