"""How far each sink is in each table of SQLite."""

from __future__ import annotations

import sqlite3
from typing import Final

from strandline.sinks.contract import Delivery, Marker
from strandline.sinks.table_markers import COLUMNS, TableMarker

# Names of tables are the same to SQLite in capitals and in small letters.
_MADE: Final = (
    "CREATE TABLE IF NOT EXISTS strandline_markers (flow TEXT NOT NULL, sink TEXT NOT NULL, "
    "table_name TEXT NOT NULL COLLATE NOCASE, incarnation TEXT NOT NULL, tick INTEGER NOT NULL, digest TEXT NOT NULL, "
    "PRIMARY KEY (flow, sink, table_name))"
)


class SqliteMarker(TableMarker[sqlite3.Cursor]):
    """The marker of a sink in a table of SQLite."""

    def make(self, cursor: sqlite3.Cursor) -> None:
        """Make the table of markers, if it is not there."""
        cursor.execute(_MADE)

    def columns(self, cursor: sqlite3.Cursor) -> set[str]:
        """The columns that the table of markers has."""
        return {row[1] for row in cursor.execute("PRAGMA table_info(strandline_markers)")}

    def read(self, cursor: sqlite3.Cursor) -> Marker | None:
        """The last delivery that the table shows."""
        found = cursor.execute(
            "SELECT incarnation, tick, digest FROM strandline_markers WHERE flow = ? AND sink = ? AND table_name = ?",
            self.identity,
        ).fetchone()
        return None if found is None else Marker(incarnation=found[0], tick=found[1], digest=found[2])

    def hold(self, cursor: sqlite3.Cursor) -> Marker | None:
        """The same: an IMMEDIATE transaction keeps all others out."""
        return self.read(cursor)

    def move(self, cursor: sqlite3.Cursor, delivery: Delivery) -> None:
        """Say that the table shows a delivery."""
        cursor.execute(
            f"INSERT OR REPLACE INTO strandline_markers ({', '.join(COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?)",
            (*self.identity, delivery.incarnation, delivery.tick, delivery.digest),
        )

    def forget(self, cursor: sqlite3.Cursor) -> None:
        """Remove the markers of all sinks in the table."""
        cursor.execute("DELETE FROM strandline_markers WHERE table_name = ?", (self.table,))
