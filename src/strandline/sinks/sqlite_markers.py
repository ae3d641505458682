"""How far each sink is in each table of SQLite: the table `strandline_markers`, in the same database.

A marker is that of one sink in one table, and means the rows of that table: another table is another target, and a table
that was dropped leaves a marker that tells of a loss, or, to another incarnation, nothing.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from strandline.errors import SinkError
from strandline.sinks.contract import ACKNOWLEDGE, Delivery, Marker, Target, own_marker

_COLUMNS: Final = ("flow", "sink", "table_name", "incarnation", "tick", "digest")
# Names of tables are the same to SQLite in capitals and in small letters.
_MADE: Final = (
    "CREATE TABLE IF NOT EXISTS strandline_markers (flow TEXT NOT NULL, sink TEXT NOT NULL, "
    "table_name TEXT NOT NULL COLLATE NOCASE, incarnation TEXT NOT NULL, tick INTEGER NOT NULL, digest TEXT NOT NULL, "
    "PRIMARY KEY (flow, sink, table_name))"
)


class TableMarker:
    """The marker of a sink in a table. What is done to it is done in the transaction of the cursor."""

    def __init__(self, table: str, target: Target) -> None:
        self.table, self.target = table, target
        self.identity = (target.flow, target.sink, table)

    def prepare(self, cursor: sqlite3.Cursor, *, table_is_there: bool) -> None:
        """Make a place for markers; SinkError if the marker says that the table cannot be gone on with."""
        cursor.execute(_MADE)
        self._require_known_columns(cursor)
        if not table_is_there:
            self._require_no_loss(cursor)
            # Of all sinks that added to it: each finds that its rows are not in the new table.
            cursor.execute("DELETE FROM strandline_markers WHERE table_name = ?", (self.table,))
        own_marker(self.read(cursor), self.target)

    def read(self, cursor: sqlite3.Cursor) -> Marker | None:
        """The last delivery that the table shows."""
        found = cursor.execute(
            "SELECT incarnation, tick, digest FROM strandline_markers WHERE flow = ? AND sink = ? AND table_name = ?",
            self.identity,
        ).fetchone()
        return None if found is None else Marker(incarnation=found[0], tick=found[1], digest=found[2])

    def move(self, cursor: sqlite3.Cursor, delivery: Delivery) -> None:
        """Say that the table shows a delivery."""
        cursor.execute(
            f"INSERT OR REPLACE INTO strandline_markers ({', '.join(_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?)",
            (*self.identity, delivery.incarnation, delivery.tick, delivery.digest),
        )

    def _require_no_loss(self, cursor: sqlite3.Cursor) -> None:
        marker = self.read(cursor)
        if marker is None or marker.incarnation != self.target.incarnation or self.target.acknowledged:
            return
        raise SinkError(
            f"The table {self.table!r} of {self.target} is gone; rows up to tick {marker.tick} were published to it.",
            fix=f"Put the table back as it was; or {ACKNOWLEDGE} if they may stay missing: it is made anew.",
        )

    def _require_known_columns(self, cursor: sqlite3.Cursor) -> None:
        found = {row[1] for row in cursor.execute("PRAGMA table_info(strandline_markers)")}
        if found != set(_COLUMNS):
            raise SinkError(
                f"The table 'strandline_markers', which says how far {self.target} is, has other columns than this release "
                f"knows: {', '.join(sorted(found))}.",
                fix="Use the release that made it, or write to a new database.",
            )
