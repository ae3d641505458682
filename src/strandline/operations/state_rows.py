"""Rows of state in words that a person understands: which columns are whose, and what stands for a time."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from strandline.kernel.keys import KEY
from strandline.kernel.merge import alive, combine, newest
from strandline.kernel.operators.plan import AnyPlan, OperatorPlan
from strandline.kernel.plan import GONE, Plan
from strandline.kernel.show import values
from strandline.model.time import Instant

LIFE: Final = ("window_start", "window_end")
AGGREGATE: Final = "a."
_TRIGGER: Final = re.compile(r"t\d+\.|__")
_TIMES: Final = {*LIFE, "at", "latest", "earliest", "expires"}
_INTERNAL: Final = {"hash", "kind", "new", "net", "pending", "shown", "arrived", "latest", "earliest"}
_WORDS: Final = {"s.": "state ", "t.": "timer ", "e.": "event ", "l.": "left ", "index": "panes shown"}
_OWN: Final = {"at": "changed at", "dead": "deleted", "order": "ordered by", "latest": "last event"}
AS_KEPT: Final = "Rows stand as they are kept: a window may have several. Give the flow's file too, and windows are put together, with aggregates of your own; or say --raw."
OLD_ROWS: Final = "Rows that younger ones have replaced may still be among them."
SLICES: Final = "Hopping windows are kept as slices, of which they are put together when they are shown."


def windows(plan: AnyPlan, rows: pl.DataFrame, watermark: int) -> pl.DataFrame:
    """Rows of one slice, from the oldest to the youngest, as one for each window, with its aggregates under their names.

    Rows of an operator that are over are left out.
    """
    if isinstance(plan, OperatorPlan):
        return plan.collapse(rows, oldest=True, watermark=watermark)
    assert isinstance(plan, Plan), "a stage is windows or an operator"
    table = combine(plan, *newest(plan, rows), settle=False)
    table = table.filter(pl.Series(alive(table)))
    shown = [series.alias(f"{AGGREGATE}{name}") for name, series in values(plan, table).items()]
    mine = [name for name in table.columns if not name.startswith(AGGREGATE)]
    return table.select(mine).with_columns(shown)


def readable(rows: pl.DataFrame, kind: str, plan: AnyPlan | None, *, raw: bool) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The columns under the names that a person knows, times as text; what is internal, or empty in all rows, left out."""
    of_windows = kind.endswith("windows")
    if of_windows and not raw and "kind" in rows.columns:
        rows = rows.filter(pl.col("kind") != GONE)
    names = [name for name in rows.columns if raw or not _is_internal(name, of_windows=of_windows, rows=rows)]
    shown: dict[str, pl.Series] = {}
    for name in names:
        title = name if raw else _named(name, kind)
        shown[name if title in shown else title] = _as_text(rows[name], of_windows=of_windows)
    return pl.DataFrame(shown), _notes(rows, kind, plan)


def _notes(rows: pl.DataFrame, kind: str, plan: AnyPlan | None) -> tuple[str, ...]:
    if "kind" not in rows.columns:
        return ()
    if not kind.endswith("windows"):
        return () if kind == "Dedupe" else (OLD_ROWS,)
    notes = [AS_KEPT] if plan is None else []
    sliced = isinstance(plan, Plan) and plan.sliced
    return (*notes, SLICES) if sliced else tuple(notes)


def _is_internal(name: str, *, of_windows: bool, rows: pl.DataFrame) -> bool:
    if name in {*LIFE, "rows", "bytes", "share", "bucket"} or name.startswith(KEY):
        return False
    if of_windows and (name in _INTERNAL or _TRIGGER.match(name)):
        return True
    if name.startswith(AGGREGATE) and not _alone(name, rows.columns):
        return True  # parts of an accumulator tell nobody what it comes to
    return name in {"hash", "kind"} or "__" in name or rows[name].null_count() == rows.height


def _alone(name: str, every: list[str]) -> bool:
    """Whether an aggregate keeps one column only."""
    aggregate = name.split(".")[1]
    return sum(each == AGGREGATE + aggregate or each.startswith(f"{AGGREGATE}{aggregate}.") for each in every) == 1


def _named(name: str, kind: str) -> str:
    if name.startswith(KEY):
        return name.removeprefix(KEY)
    if name.startswith(AGGREGATE):
        return name.split(".")[1]
    if name.startswith("r."):
        return name.removeprefix("r.") if kind == "Table" else f"right {name.removeprefix('r.')}"
    if name in LIFE and not kind.endswith("windows"):
        return {"window_start": "from", "window_end": "until"}[name]
    if name in _OWN and not kind.endswith("windows"):
        return _OWN[name]
    word = next((word for word in _WORDS if name.startswith(word)), "")
    return _WORDS[word] + name.removeprefix(word) if word else name


def _as_text(column: pl.Series, *, of_windows: bool) -> pl.Series:
    """Times as ISO text, also those that are kept as whole microseconds."""
    if column.name in _TIMES or (column.name.startswith("t.") and not of_windows and column.dtype == pl.Int64):
        return pl.Series([None if each is None else Instant(each).text for each in column.to_list()], dtype=pl.String)
    return column
