"""How far each sink is in each table of PostgreSQL. The markers lie in the schema of their tables."""

from __future__ import annotations

from typing import Final

from psycopg import sql

from strandline.clients.postgres_session import Cursor
from strandline.sinks.contract import Delivery, Marker, Target
from strandline.sinks.postgres_catalog import Named, columns_of, oid_of
from strandline.sinks.table_markers import MARKERS, TableMarker

_COLUMNS: Final = sql.SQL(
    "flow text NOT NULL, sink text NOT NULL, table_name text NOT NULL, incarnation text NOT NULL, tick bigint NOT NULL, "
    "digest text NOT NULL, PRIMARY KEY (flow, sink, table_name)"
)
_OWN: Final = sql.SQL("flow = {} AND sink = {} AND table_name = {}")
_NEVER: Final = -1


class PostgresMarker(TableMarker[Cursor]):
    """The marker of a sink in a table of PostgreSQL."""

    def __init__(self, table: Named, target: Target) -> None:
        super().__init__(table.name, target)
        self.place = Named(table.schema, MARKERS)
        # Values stand in the statements: beside parameters, a % in a name would be taken for the place of one.
        self._own = _OWN.format(*map(sql.Literal, self.identity))

    def make(self, cursor: Cursor) -> None:
        """Make the table of markers, if it is not there. IF NOT EXISTS would ask for a right that is not needed then."""
        if oid_of(cursor, self.place) is None:
            cursor.execute(sql.SQL("CREATE TABLE {} ({})").format(self.place.quoted, _COLUMNS))

    def columns(self, cursor: Cursor) -> set[str]:
        """The columns that the table of markers has."""
        oid = oid_of(cursor, self.place)
        return set() if oid is None else set(columns_of(cursor, oid))

    def read(self, cursor: Cursor) -> Marker | None:
        """The last delivery that the table shows."""
        return self._found(cursor, sql.SQL(""))

    def hold(self, cursor: Cursor) -> Marker | None:
        """The last delivery that the table shows; whoever else asks waits until the transaction ends.

        Where there is no row yet that could be locked, one is put there, so that of two first deliveries one waits; it is
        moved in the same transaction, or gone with it.
        """
        cursor.execute(
            sql.SQL("INSERT INTO {} VALUES ({}, {}, {}, '', {}, '') ON CONFLICT DO NOTHING").format(
                self.place.quoted, *map(sql.Literal, (*self.identity, _NEVER))
            )
        )
        return self._found(cursor, sql.SQL("FOR UPDATE"))

    def move(self, cursor: Cursor, delivery: Delivery) -> None:
        """Say that the table shows a delivery."""
        cursor.execute(
            sql.SQL("UPDATE {} SET incarnation = {}, tick = {}, digest = {} WHERE {}").format(
                self.place.quoted, *map(sql.Literal, (delivery.incarnation, delivery.tick, delivery.digest)), self._own
            )
        )

    def forget(self, cursor: Cursor) -> None:
        """Remove the markers of all sinks in the table."""
        cursor.execute(
            sql.SQL("DELETE FROM {} WHERE table_name = {}").format(self.place.quoted, sql.Literal(self.table))
        )

    def _found(self, cursor: Cursor, locking: sql.SQL) -> Marker | None:
        question = sql.SQL("SELECT incarnation, tick, digest FROM {} WHERE {} {}")
        found = cursor.execute(question.format(self.place.quoted, self._own, locking)).fetchone()
        if found is None or found[1] == _NEVER:
            return None
        return Marker(incarnation=found[0], tick=found[1], digest=found[2])
