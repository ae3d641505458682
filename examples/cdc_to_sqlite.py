"""Change data capture into SQLite: a stream of inserts, updates and deletes becomes the table that they describe.

    python examples/cdc_to_sqlite.py [folder]

The changes are as a connector such as Debezium sends them: an `op` of c, u or d, the row's key, the row, and when the change
was made. They come out of order, so the newest is found by its time, not by its arrival: a change that is older than what
stands is passed over, and a customer who was deleted is not brought back by an older update that comes later. The rows of a
tick and the mark of how far it is are one transaction of the database: whenever the flow is killed, each change counts once.

State and database are kept in the folder, if one is given; run it again, and nothing is left to do. The changes are made up:
20,000 of 2,000 customers, about one in seven a delete. One should see some 1,700 customers, those whose last change is none.
"""

import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from rich.console import Console
from rich.table import Table

import strandline as sl

CHANGES = sl.Generator(seed=11, rows=20_000, rate=10, keys=2_000, skew=0.4, disorder="2m", start="2026-01-01T09:00:00Z")


def make_flow(folder: Path) -> sl.Flow:
    """The flow, with its database in a folder."""
    flow = sl.Flow("customers")
    captured = flow.source("captured", CHANGES, time="at", watermark=sl.Bounded("2m")).select(
        "key as id",
        "case when value < 15 then 'd' when value < 40 then 'c' else 'u' end as op",
        "case when value < 60 then 'basic' when value < 90 then 'plus' else 'gold' end as plan",
        "cast(round(value * 100) as bigint) as credit",
        "at as changed_at",
    )
    changes = captured.with_column("op", "if(op = 'd', 'delete', 'upsert')")
    customers = flow.table("customers", changes, key="id", order="changed_at")
    database = sl.Database(f"sqlite:///{database_of(folder)}")
    customers.sink("table", database.write("customers"), rows="upsert")
    return flow


def database_of(folder: Path) -> Path:
    """The file of the database; its path is absolute, for whoever writes it may stand elsewhere."""
    return folder.resolve() / "customers.db"


def table(folder: Path) -> Table:
    """What stands in the database, by plan."""
    shown = Table("plan", "customers", "credit", "last change", title="Customers, as SQLite has them")
    with closing(sqlite3.connect(database_of(folder))) as database:
        question = "SELECT plan, count(*), sum(credit), max(changed_at) FROM customers GROUP BY plan ORDER BY plan"
        for plan, count, credit, last in database.execute(question):
            shown.add_row(plan, f"{count:,}", f"{credit / 100:,.2f}", last)
    return shown


def main(folder: Path) -> None:
    """Apply the changes that are not applied yet, and show the table."""
    make_flow(folder).run(state=folder / "state", until="caught_up", max_rows_per_tick=5_000)
    Console().print(table(folder))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory(prefix="strandline-") as temporary:
            main(Path(temporary))
