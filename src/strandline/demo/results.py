"""What the demonstration's flow has left: its table, how that came about, and how far each part is."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from strandline.demo.shops import database_of, made, state_of
from strandline.sinks.reading import read_files
from strandline.store.journal import records
from strandline.store.manifests import Manifests
from strandline.store.storage import storage_at

KEYS: Final = ["shop", "window_start"]
STORY: Final = (
    "SELECT shop, window_start, op, pane_timing, orders, cents FROM changes WHERE (shop, window_start) = ("
    " SELECT shop, window_start FROM changes GROUP BY shop, window_start"
    " HAVING count(DISTINCT pane_timing) = 3 ORDER BY count(*), shop, window_start LIMIT 1) ORDER BY rowid"
)
EACH_ORDER: Final = """\
SELECT shop, count(*) AS made, sum(found = 1) AS once,
       sum(found > 1) AS twice, sum(found = 0) AS missing
FROM (SELECT made.n, made.shop, count(orders.n) AS found
      FROM made LEFT JOIN orders USING (n) GROUP BY made.n)
GROUP BY shop"""
"""Each order of the generator's list, looked up in the table of orders that the sink has."""

IN_WINDOWS: Final = "SELECT shop, sum(orders) AS counted, sum(cents) AS cents FROM takings GROUP BY shop"


@dataclass(frozen=True, slots=True)
class Results:
    """The folder of a run of the demonstration's flow."""

    folder: Path

    def ticks(self, *, since: int) -> list[dict[str, Any]]:
        """What the journal says of each tick, from one on."""
        state = state_of(self.folder)
        return list(records(storage_at(state), since=since)) if state.exists() else []

    def committed(self) -> int:
        """The last tick that is true, whatever the sinks know of it; -1 before the first."""
        head = Manifests(storage_at(state_of(self.folder))).head() if state_of(self.folder).exists() else None
        return -1 if head is None else head.number

    def published(self) -> int:
        """The last tick that the table has; -1 before the first."""
        found = self._asked("SELECT tick FROM strandline_markers WHERE sink = 'table'")
        return found["tick"][0] if found.height else -1

    def table(self) -> pl.DataFrame:
        """The table of takings, as it stands."""
        found = self._asked("SELECT shop, window_start, orders, cents FROM takings")
        return _timed(found).sort(KEYS)

    def standing(self) -> pl.DataFrame:
        """What the changes amount to: what was shown, less what was taken back."""
        changes = self._asked(
            "SELECT shop, window_start, sum(iif(op = 'insert', orders, -orders)) AS orders,"
            " sum(iif(op = 'insert', cents, -cents)) AS cents FROM changes GROUP BY shop, window_start"
        )
        return _timed(changes).sort(KEYS)

    def story(self) -> list[dict[str, Any]]:
        """All that was ever shown of one window, in order: of one that was shown early, on time and late."""
        return list(_timed(self._asked(STORY)).iter_rows(named=True))

    def rejected(self) -> int:
        """How many lines could not be read."""
        return read_files(self.folder / "rejected").height

    def known(self) -> int:
        """How many orders the state knows: those of all ticks that are committed, whether or not sinks have them."""
        head, told = Manifests(storage_at(state_of(self.folder))).head(), self.ticks(since=0)
        books = [record["books"] for record in told]
        if head is not None and head.number >= len(told):  # its record is written when sinks have it
            books.append(head.journal["books"])
        return sum(each["orders"]["kept"] for each in books)

    def stored(self) -> int:
        """How many orders the sink's table of orders has."""
        return int(self._asked("SELECT count(*) AS rows FROM orders")["rows"][0])

    def count(self) -> pl.DataFrame:
        """For each shop: how many orders were made, are stored once, twice and not at all, and are counted in windows."""
        orders = made()
        with closing(sqlite3.connect(database_of(self.folder))) as database:
            database.execute("CREATE TEMP TABLE made (n INTEGER PRIMARY KEY, shop TEXT)")
            database.executemany("INSERT INTO made VALUES (?, ?)", orders.select("n", "shop").iter_rows())
            asked = f"SELECT * FROM ({EACH_ORDER}) LEFT JOIN ({IN_WINDOWS}) USING (shop) ORDER BY shop"
            answer = database.execute(asked)
            names = [column[0] for column in answer.description]
            return pl.DataFrame(answer.fetchall(), schema=names, orient="row")

    def _asked(self, question: str) -> pl.DataFrame:
        with closing(sqlite3.connect(database_of(self.folder))) as database:
            answer = database.execute(question)
            names = [column[0] for column in answer.description]
            return pl.DataFrame(answer.fetchall(), schema=names, orient="row", infer_schema_length=None)


def _timed(rows: pl.DataFrame) -> pl.DataFrame:
    starts = pl.col("window_start").cast(pl.String).str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ", time_unit="us")
    return rows.with_columns(starts.dt.replace_time_zone("UTC"))


def differences(found: pl.DataFrame, expected: pl.DataFrame) -> Iterator[str]:
    """Where two tables differ, in words; nothing if they are the same."""
    for kind, rows in (("missing or wrong", _without(expected, found)), ("not expected", _without(found, expected))):
        if rows.height:
            yield f"{rows.height} rows {kind}, such as {rows.row(0)}"


def _without(rows: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    return rows.join(others, on=rows.columns, how="anti")
