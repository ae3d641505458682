"""The flow of the demonstration: what eight shops take in, minute by minute, from made-up orders that come out of order.

`python -m strandline.demo.shops FOLDER` runs it, with state and results in the folder, from where its state says it is.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import polars as pl

import strandline as sl
from strandline.sources.contract import Limit

ROWS: Final = 30_000
ROWS_PER_TICK: Final = 2_500
ORDERS: Final = sl.Generator(
    seed=7, rows=ROWS, rate=100, keys=8, skew=0.6, start="2026-01-01T12:00:00Z",
    disorder="10s", late_share=0.01, late_by="90s", malformed_share=0.001,
)  # fmt: skip
CENTS: Final = "cast(value * 100 as bigint)"


def make_flow(folder: Path) -> tuple[sl.Flow, sl.Stage]:
    """The flow, and its one stage."""
    flow = sl.Flow("shops")
    made = flow.source("orders", ORDERS, time="at", watermark=sl.Bounded("10s"))
    orders = made.select("n", "key as shop", f"{CENTS} as cents", "at")
    takings = (
        orders.key_by("shop")
        .window(
            sl.Tumbling("1m"),
            trigger=sl.AfterWatermark(early=sl.AfterCount(300), late=sl.AfterCount(1)),
            lateness="3m",
            mode="retracting",
        )
        .aggregate("takings", orders=sl.Count(), cents=sl.Sum("cents"))
    )
    results = sl.Database(database_url(folder))
    takings.sink("table", results.write("takings"), rows="upsert")
    takings.sink("changes", results.write("changes"), rows="changelog")
    orders.sink("orders", results.write("orders"), rows="append")
    made.rejected.sink("rejected", sl.Files(folder / "rejected").write(format="json"))
    return flow, takings


def database_of(folder: Path) -> Path:
    """The file of the results."""
    return folder / "results.db"


def database_url(folder: Path) -> str:
    """The same as a url; the path is absolute, because workers and readers may stand elsewhere."""
    return f"sqlite:///{database_of(folder).resolve()}"


def state_of(folder: Path) -> Path:
    """Where the flow's state is."""
    return folder / "state"


def made() -> pl.DataFrame:
    """The generator's own list: each order that can be read, with its number, without streams, time or Spark."""
    reader = ORDERS.reader()
    end = reader.latest(reader.first(), Limit(rows=ROWS))
    orders = pl.concat(piece.rows for part in reader.parts(reader.first(), end, 1) for piece in reader.read(part))
    return orders.select("n", "at", shop="key", cents=(pl.col("value") * 100).cast(pl.Int64))


def undisturbed() -> pl.DataFrame:
    """What the table should hold in the end: one group_by over all the orders."""
    minutes = made().select("shop", "cents", window_start=pl.col("at").dt.truncate("1m"))
    totals = minutes.group_by("shop", "window_start").agg(orders=pl.len().cast(pl.Int64), cents=pl.sum("cents"))
    return totals.sort("shop", "window_start")


def main() -> None:
    """Run the flow until everything is read."""
    folder = Path(sys.argv[1])
    flow, _ = make_flow(folder)
    flow.run(state=state_of(folder), until="caught_up", batch_interval="0s", max_rows_per_tick=ROWS_PER_TICK)


if __name__ == "__main__":
    main()
