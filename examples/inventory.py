"""How much is left of each article? Deliveries and sales, in the order in which they happened, with a class of one's own.

    python examples/inventory.py

The class `Shelf` remembers one number for each article (SKU), its stock. Its events come by event time, though they arrive
out of order: a sale is never judged before a delivery that preceded it. What cannot be sold goes to a side output, and an
article that has been below its reorder level for an hour to another: a timer tells.

Movements are made up: a tenth of them are deliveries of 40, the others sales of 1 to 9. One should see that what was
delivered is what was sold and what is left, for every article, and that sales of each were missed now and then.
"""

import tempfile

from rich.console import Console
from rich.table import Table

import strandline as sl

REORDER_BELOW = 10


class Shelf(sl.Process):
    """The stock of one article."""

    stock = sl.Value("bigint", 0)
    low = sl.Timer("1h")

    def on_event(self, event, out):
        """A delivery, or a sale of as much as there is; the rest is missed."""
        if event["kind"] == "delivery":
            moved = event["quantity"]
        else:
            moved = -min(event["quantity"], self.stock)
            if missed := event["quantity"] + moved:
                out.side("missed", sku=event["sku"], quantity=missed, at=event["at"])
        self.stock += moved
        if self.stock >= REORDER_BELOW:
            self.low.clear()
        elif self.low.at is None:
            self.low.set(after="1h")
        out.emit(sku=event["sku"], kind=event["kind"], moved=moved, stock=self.stock, at=event["at"])

    def on_timer(self, timer, out):
        """An hour below the level."""
        out.side("reorder", sku=out.key["sku"], stock=self.stock, at=out.time)


flow = sl.Flow("inventory")
movements = flow.source(
    "movements",
    sl.Generator(seed=5, rows=6_000, rate=0.1, keys=12, skew=0.3, disorder="5m", start="2026-01-01T06:00:00Z"),
    time="at",
    watermark=sl.Bounded("5m"),
).select(
    "key as sku",
    "if(value < 10, 'delivery', 'sale') as kind",
    "if(value < 10, 40, cast(value as bigint) % 9 + 1) as quantity",
    "at",
)
shelves = movements.key_by("sku").process(
    "shelves",
    Shelf,
    output="sku string, kind string, moved bigint, stock bigint, at timestamp",
    side={"missed": "sku string, quantity bigint, at timestamp", "reorder": "sku string, stock bigint, at timestamp"},
    order="event_time",
)
moved, stock, missed, reorder = (sl.Memory(name) for name in ("moved", "stock", "missed", "reorder"))
shelves.sink("moved", moved)
shelves.select("sku", "stock").sink("stock", stock, rows="upsert", key="sku")  # the last word for each article
shelves.side("missed").sink("missed", missed)
shelves.side("reorder").sink("reorder", reorder)


def table() -> Table:
    """The books of each article, and how often it was short."""
    shown = Table(title="Stock by article")
    for column in ("sku", "delivered", "sold", "left", "missed sales", "to reorder"):
        shown.add_column(column, justify="left" if column == "sku" else "right")
    totals: dict[str, dict[str, int]] = {}
    for row in moved.rows:
        total = totals.setdefault(row["sku"], {"delivery": 0, "sale": 0})
        total[row["kind"]] += abs(row["moved"])
    left = {row["sku"]: row["stock"] for row in stock.table().to_dicts()}
    for sku, total in sorted(totals.items(), key=lambda each: int(each[0][1:])):
        short = [sum(row["sku"] == sku for row in memory.rows) for memory in (missed, reorder)]
        shown.add_row(sku, *(f"{count:,}" for count in (total["delivery"], total["sale"], left[sku], *short)))
    return shown


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="strandline-") as state:
        flow.run(state=state, until="end")
    Console().print(table())
