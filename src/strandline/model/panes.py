"""How results look: the columns that a window stage adds, and the columns that travel unseen."""

from __future__ import annotations

from typing import Final, Literal

from strandline.model.types import Type

Mode = Literal["discarding", "accumulating", "retracting"]

EARLY: Final = "early"
ON_TIME: Final = "on_time"
LATE: Final = "late"
INSERT: Final = "insert"
RETRACT: Final = "retract"

WINDOW_COLUMNS: Final = (("window_start", Type.of("timestamp")), ("window_end", Type.of("timestamp")))
PANE_COLUMNS: Final = (
    ("pane_timing", Type.of("string")),
    ("pane_index", Type.of("bigint")),
    ("pane_is_last", Type.of("boolean")),
    ("op", Type.of("string")),
)
RESERVED: Final = frozenset(name for name, _ in (*WINDOW_COLUMNS, *PANE_COLUMNS))

# What the side outputs add to the event's own columns.
MISSED: Final = Type.of("array<struct<window_start:timestamp,window_end:timestamp,late_by:interval day to second>>")
LATE_COLUMNS: Final = (("missed", MISSED), ("late_by", Type.of("interval day to second")), ("kept", Type.of("boolean")))
LATE_BY: Final = (("late_by", Type.of("interval day to second")),)  # of stages without windows
SIDE: Final = "side"  # of a join: whether a late row came from the left or the right
REJECTED_COLUMNS: Final = (("reason", Type.of("string")),)
# A source also rejects what it could not decode: `raw` is that, and null for all others.
RAW: Final = "raw"

# Columns that stateless work never sees and always carries: an event's time and weight (-1 takes back), the
# window that a pane came with, and the inner state of aggregates that a later stage merges.
HIDDEN: Final = "__"
TIME: Final = "__time"
WEIGHT: Final = "__weight"
CAME_FROM: Final = ("__window_start", "__window_end")


def accumulator(column: str, suffix: str) -> str:
    """The hidden column in which a pane carries a part of an aggregate's inner state."""
    return f"__acc.{column}.{suffix}"
