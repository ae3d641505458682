"""The rows of a tick and its marker in one transaction, the same for every database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

import polars as pl

from strandline.sinks.contract import SKIPPED, Delivery, Receipt, Target, delivered_tables, judge_marker
from strandline.sinks.table_markers import TableMarker

Cursor = TypeVar("Cursor")
Its = TypeVar("Its", contravariant=True)


class Written(Protocol[Its]):
    """A table that was prepared. What is done to it is done in the transaction of the cursor."""

    def taken_over(self, cursor: Its, /) -> None:
        """The rows that are there are those of another incarnation."""

    def write(self, cursor: Its, tables: Iterable[pl.DataFrame], tick: int, /) -> int:
        """Write rows; how many there were."""


def publish_tick(
    cursor: Cursor, table: Written[Cursor], marker: TableMarker[Cursor], target: Target, delivery: Delivery
) -> Receipt:
    """Write what a tick brought and move the marker, or pass it over. The caller commits.

    Law: done again after a commit, it changes nothing; done again after a roll-back, it does all.
    """
    before = marker.hold(cursor)
    if judge_marker(before, delivery, target) == "skip":
        return SKIPPED
    if before is None or before.incarnation != delivery.incarnation:
        table.taken_over(cursor)
    rows = table.write(cursor, delivered_tables(target, delivery), delivery.tick)
    marker.move(cursor, delivery)
    return Receipt(rows=rows)
