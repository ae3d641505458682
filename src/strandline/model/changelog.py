"""What the changes of a table say by their column `op`, in our words or in Debezium's letters, small or capital."""

from __future__ import annotations

from typing import Final

OP: Final = "op"
UPSERTS: Final = (
    "insert",
    "update",
    "upsert",
    "snapshot",
    "c",
    "u",
    "r",
    "INSERT",
    "UPDATE",
    "UPSERT",
    "SNAPSHOT",
    "C",
    "U",
    "R",
)
"""A row that stands from now on; null says so too."""
DELETES: Final = ("delete", "retract", "d", "DELETE", "RETRACT", "D")
"""A row that is gone."""


def unknown_op(op: str) -> str:
    """Why a change is rejected that says something else: to insert what was meant to go would be worse.

    >>> unknown_op("remove")
    "op is 'remove': a change is an insert, update, upsert or snapshot (c, u, r), or a delete or retract (d)"
    """
    return f"op is {op!r}: a change is an insert, update, upsert or snapshot (c, u, r), or a delete or retract (d)"
