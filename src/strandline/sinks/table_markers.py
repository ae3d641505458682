"""How far each sink is in each table of a database: the table `strandline_markers`, beside the tables.

A marker is that of one sink in one table, and means the rows of that table: another table is another target, and a table
that was dropped leaves a marker that tells of a loss, or, to another incarnation, nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, Generic, TypeVar

from strandline.errors import SinkError
from strandline.sinks.contract import ACKNOWLEDGE, Delivery, Marker, Target, own_marker

MARKERS: Final = "strandline_markers"
COLUMNS: Final = ("flow", "sink", "table_name", "incarnation", "tick", "digest")

Cursor = TypeVar("Cursor")


class TableMarker(ABC, Generic[Cursor]):
    """The marker of a sink in a table. What is done to it is done in the transaction of the cursor.

    Which words a database has for it, its dialect says; what they mean is the same for all.
    """

    def __init__(self, table: str, target: Target) -> None:
        self.table, self.target = table, target
        self.identity = (target.flow, target.sink, table)

    def prepare(self, cursor: Cursor, *, table_is_there: bool) -> None:
        """Make a place for markers; SinkError if the marker says that the table cannot be gone on with."""
        self.make(cursor)
        self._require_known_columns(self.columns(cursor))
        if not table_is_there:
            self._require_no_loss(self.read(cursor))
            self.forget(cursor)
        own_marker(self.read(cursor), self.target)

    @abstractmethod
    def make(self, cursor: Cursor) -> None:
        """Make the table of markers, if it is not there."""

    @abstractmethod
    def columns(self, cursor: Cursor) -> set[str]:
        """The columns that the table of markers has."""

    @abstractmethod
    def read(self, cursor: Cursor) -> Marker | None:
        """The last delivery that the table shows."""

    @abstractmethod
    def hold(self, cursor: Cursor) -> Marker | None:
        """The last delivery that the table shows, which nobody else may change until the transaction ends."""

    @abstractmethod
    def move(self, cursor: Cursor, delivery: Delivery) -> None:
        """Say that the table shows a delivery."""

    @abstractmethod
    def forget(self, cursor: Cursor) -> None:
        """Remove the markers of all sinks that added to the table: each finds that its rows are not in the new one."""

    def _require_no_loss(self, marker: Marker | None) -> None:
        if marker is None or marker.incarnation != self.target.incarnation or self.target.acknowledged:
            return
        raise SinkError(
            f"The table {self.table!r} of {self.target} is gone; rows up to tick {marker.tick} were published to it.",
            fix=f"Put the table back as it was; or {ACKNOWLEDGE} if they may stay missing: it is made anew.",
        )

    def _require_known_columns(self, found: set[str]) -> None:
        if found != set(COLUMNS):
            raise SinkError(
                f"The table {MARKERS!r}, which says how far {self.target} is, has other columns than this release "
                f"knows: {', '.join(sorted(found))}.",
                fix="Use the release that made it, or write to a new database.",
            )
