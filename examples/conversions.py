"""Which click brought the order? Each order is joined with the last click of its user in the 24 hours before it.

    python examples/conversions.py

Whoever says "within 24 hours" should know what an hour and 30 days would have said: the flow asks all three at once, of the
same two streams. The longer one never credits less; whether it is right to, no window can say.

Clicks and orders are made up, with one seed: order n is of the user who made click n, and a tenth of the clicks become
orders: a third of them within 4 hours, a third on the next day, a third after almost three weeks. So one should see about
9 % credited within an hour (a quarter of the first third, and some by chance), two thirds within 24 hours, all in 30 days.
"""

import tempfile

from rich.console import Console
from rich.table import Table

import strandline as sl

WITHIN = ("1h", "24h", "30d")
CAMPAIGNS = ("mail", "search", "social")
MADE = {"seed": 24, "rows": 30_000, "rate": 0.01, "keys": 10_000, "partitions": 3}

flow = sl.Flow("conversions")

clicks = flow.source("clicks", sl.Generator(**MADE, start="2026-01-01T00:00:00Z"), time="at").select(
    "key as user",
    "case n % 3 when 0 then 'mail' when 1 then 'search' else 'social' end as campaign",
    "at as clicked_at",
)
# Twenty days after the clicks, less up to 4 hours; in two of the three partitions most of these days are taken back.
after_clicks = sl.Generator(**MADE, start="2026-01-21T00:00:00Z", disorder="4h", slow={0: "19d20h", 1: "19d"})
orders = (
    flow.source("orders", after_clicks, time="at", watermark=sl.Bounded("4h"))
    .where("value < 10")
    .select("key as user", "cast(round(value * 1000) as bigint) as cents", "at as ordered_at")
)

credited = {within: sl.Memory(within) for within in WITHIN}
for within, memory in credited.items():
    with_click = orders.key_by("user").join(
        f"within_{within}", clicks.key_by("user"), within=sl.Before(within), match="last", how="left"
    )
    by_campaign = (
        with_click.key_by("campaign")  # null where there was no click: a key like any other
        .window(sl.Global())
        .aggregate(f"credited_{within}", orders=sl.Count(), cents=sl.Sum("cents"))
    )
    by_campaign.sink(f"credit_{within}", memory, rows="upsert")


def table() -> Table:
    """How many orders each window credits to clicks, what they brought, and to which campaign."""
    shown = Table(title="Orders credited to the last click before them", caption="mail, search, social: orders")
    for column in ("within", "orders", "credited", "share", "revenue", *CAMPAIGNS):
        shown.add_column(column, justify="left" if column == "within" else "right")
    for within, memory in credited.items():
        rows = {row["campaign"]: row for row in memory.table().to_dicts()}
        found = [rows.get(campaign, {"orders": 0, "cents": 0}) for campaign in CAMPAIGNS]
        total, with_click = sum(row["orders"] for row in rows.values()), sum(row["orders"] for row in found)
        revenue = sum(row["cents"] for row in found) / 100
        counts = (f"{row['orders']:,}" for row in found)
        shown.add_row(within, f"{total:,}", f"{with_click:,}", f"{with_click / total:.1%}", f"{revenue:,.2f}", *counts)
    return shown


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="strandline-") as state:
        flow.run(state=state, until="end")
    Console().print(table())
