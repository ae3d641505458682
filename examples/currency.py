"""What is an order worth in dollars? Each order is priced with the rate of its currency that stood at the order's time.

    python examples/currency.py

The rates are a table, made of a stream of changes; the join asks it as of the time of each order, not of the moment when the
order happens to be read. So a second run, a slow one, or one that begins with a backlog of a week prices every order alike.
The table itself goes to a sink of its own, which holds what stands in the end: the last columns show by how much whoever
prices old orders with today's rates would be wrong.

Orders and rates are made up; each rate changes about every 40 minutes, and wanders by 10 % around its mean. One should see
that the two prices differ by a few per cent, and that the first orders, made before there was any rate, are counted apart.
"""

import tempfile

from rich.console import Console
from rich.table import Table

import strandline as sl

CURRENCY = "case key when 'k0' then 'CHF' when 'k1' then 'EUR' when 'k2' then 'GBP' else 'JPY' end as currency"
AROUND = "case key when 'k0' then 1.25 when 'k1' then 1.15 when 'k2' then 1.35 else 0.0065 end"
START = "2026-01-01T08:00:00Z"

flow = sl.Flow("currency")

changes = flow.source("changes", sl.Generator(seed=1, rows=72, rate=1 / 600, keys=4, start=START), time="at").select(
    CURRENCY, f"{AROUND} * (0.9 + value / 500) as rate", "at as since"
)
rates = flow.table("rates", changes, key="currency")

orders = flow.source(
    "orders",
    sl.Generator(seed=2, rows=20_000, rate=0.5, keys=4, start=START, disorder="1m"),
    time="at",
    watermark=sl.Bounded("1m"),
).select(CURRENCY, "value as amount", "at as ordered_at")
priced = orders.join_table("priced", rates, on="currency", as_of=True)  # how="left": an order without a rate has none

revenue = (
    priced.with_column("dollars", "amount * rate")
    .key_by("currency")
    .window(sl.Global())
    .aggregate(
        "revenue",
        orders=sl.Count(),
        without_rate=sl.Count(where="rate is null"),
        amount=sl.Sum("amount", where="rate is not null"),
        dollars=sl.Sum("dollars"),
    )
)
totals, standing = sl.Memory("totals"), sl.Memory("standing")
revenue.sink("totals", totals, rows="upsert")
rates.sink("standing", standing, rows="upsert")


def table() -> Table:
    """Each currency's orders, at the rates of their times, and at those of the end."""
    shown = Table(
        title="Orders in dollars", caption="at the end: what the rates that stand last would make of the same orders"
    )
    for column in ("currency", "orders", "no rate yet", "dollars", "at the end", "wrong by"):
        shown.add_column(column, justify="left" if column == "currency" else "right")
    last = {row["currency"]: row["rate"] for row in standing.table().to_dicts()}
    for row in totals.table().sort("currency").to_dicts():
        then, now = row["dollars"], row["amount"] * last[row["currency"]]
        counts = (f"{row['orders']:,}", f"{row['without_rate']:,}")
        shown.add_row(row["currency"], *counts, f"{then:,.2f}", f"{now:,.2f}", f"{now / then - 1:+.2%}")
    return shown


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="strandline-") as state:
        flow.run(state=state, until="end")
    Console().print(table())
