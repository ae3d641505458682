"""What a tick changes in a table of rows, one for each key: the panes as upserts and deletes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from strandline.errors import DataError
from strandline.model.panes import HIDDEN, RETRACT

OP: Final = "op"
UPSERT: Final = "upsert"
DELETE: Final = "delete"
_AT: Final = "__at"


def changes(panes: pl.DataFrame, replaced: pl.DataFrame | None, key: Sequence[str]) -> pl.DataFrame:
    """The panes of one tick as at most one change for each key.

    `panes` come in order, with `op` "insert" or "retract"; without `op`, every row is an insert. `replaced` are the
    windows that a merge of sessions replaced: their rows go. What is left of a key is its last insert that was not
    withdrawn again ("upsert"), or else nothing ("delete": the key, and null for the rest). Null and NaN are keys.

    Law: applying the changes of each tick in turn leaves, for each key, the last pane shown and not withdrawn, if the key
    tells windows apart. A key that does not can hold one of its windows' rows only: the last change wins.

    >>> panes = pl.DataFrame({"k": ["a", "a", "b"], "n": [1, 2, 5], "op": ["retract", "insert", "retract"]})
    >>> changes(panes, None, ["k"]).rows()
    [('a', 2, 'upsert'), ('b', None, 'delete')]
    """
    _require_key(panes, replaced, key)
    panes = panes if OP in panes.columns else panes.with_columns(pl.lit(None, pl.String).alias(OP))
    gone = None if replaced is None or replaced.is_empty() else replaced
    shown = panes if gone is None else _without(panes, gone)
    last = shown.unique(subset=key, keep="last", maintain_order=True)
    withdrawn = last.filter(_retracts())
    survivors = _survivors(shown, withdrawn, key) if withdrawn.height else last.clear()
    upserts = _in_order(shown, [last.filter(~_retracts()), survivors], key)
    deletes = [withdrawn.select(key)] if gone is None else [gone.select(key), withdrawn.select(key)]
    return _written(panes, upserts, _deletes(panes, upserts, deletes, key))


def applied(table: pl.DataFrame, changed: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """A table of rows, one for each key, after these changes: rows that stay keep their place, others come behind.

    >>> before = pl.DataFrame({"k": ["a", "b"], "n": [1, 5]})
    >>> applied(before, pl.DataFrame({"k": ["b", "c"], "n": [None, 7], "op": ["delete", "upsert"]}), ["k"]).rows()
    [('a', 1), ('c', 7)]
    """
    kept = table.join(changed, on=list(key), how="anti", nulls_equal=True, maintain_order="left")
    return pl.concat([kept, changed.filter(pl.col(OP) == UPSERT).select(table.columns)])


def standing(panes: pl.DataFrame) -> pl.DataFrame:
    """The inserts that no retraction behind them withdraws, in order.

    A retraction withdraws the nearest equal insert before it; where there is none, one that was shown earlier.

    >>> standing(pl.DataFrame({"n": [1, 2, 1, 3], "op": ["insert", "insert", "retract", "retract"]})).rows()
    [(2, 'insert')]
    """
    values = [name for name in panes.columns if name != OP and not name.startswith(HIDDEN)]
    places: list[int] = []
    for at, ops in panes.with_row_index(_AT).group_by(values).agg(_AT, OP).select(_AT, OP).iter_rows():
        stack: list[int] = []
        for place, op in zip(at, ops, strict=True):
            if op != RETRACT:
                stack.append(place)
            elif stack:
                stack.pop()
        places += stack
    return panes[sorted(places)]


def _retracts() -> pl.Expr:
    return pl.col(OP).eq_missing(pl.lit(RETRACT))


def _without(panes: pl.DataFrame, replaced: pl.DataFrame) -> pl.DataFrame:
    """The panes without those of a window that was replaced later in the same tick: a session never shrinks back into it."""
    window = [name for name in replaced.columns if name in panes.columns]
    return panes.join(replaced, on=window, how="anti", nulls_equal=True, maintain_order="left")


def _survivors(panes: pl.DataFrame, withdrawn: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Of the keys whose last pane is a retraction: the last insert that none of the tick's retractions withdraws.

    There is one only where a key does not tell windows apart: one window was emptied, another one shown.
    """
    rows = panes.join(withdrawn, on=list(key), how="semi", nulls_equal=True, maintain_order="left")
    if rows.select(_retracts().all()).item():
        return panes.clear()
    return standing(rows).unique(subset=key, keep="last", maintain_order=True)


def _in_order(panes: pl.DataFrame, parts: list[pl.DataFrame], key: Sequence[str]) -> pl.DataFrame:
    """Rows of one tick in the order in which their keys last stood there."""
    filled = [part for part in parts if part.height]
    if len(filled) < 2:
        return filled[0] if filled else panes.clear()
    places = panes.select(key).with_row_index(_AT).unique(subset=key, keep="last", maintain_order=True)
    rows = places.join(pl.concat(filled), on=list(key), how="inner", nulls_equal=True, maintain_order="left")
    return rows.select(panes.columns)


def _deletes(
    panes: pl.DataFrame, upserts: pl.DataFrame, gone: Sequence[pl.DataFrame], key: Sequence[str]
) -> pl.DataFrame:
    """The keys of which nothing is left, in order; what is not the key is null."""
    keys = pl.concat([each.cast({name: panes.schema[name] for name in key}) for each in gone])
    left = keys.join(upserts, on=list(key), how="anti", nulls_equal=True).unique(subset=key).sort(key, nulls_last=False)
    others = [pl.lit(None, dtype).alias(name) for name, dtype in panes.schema.items() if name not in key]
    return left.with_columns(others).select(panes.columns)


def _written(panes: pl.DataFrame, upserts: pl.DataFrame, deletes: pl.DataFrame) -> pl.DataFrame:
    says = [(upserts, UPSERT), (deletes, DELETE)]
    return pl.concat([rows.with_columns(pl.lit(op).alias(OP)).select(panes.columns) for rows, op in says])


def _require_key(panes: pl.DataFrame, replaced: pl.DataFrame | None, key: Sequence[str]) -> None:
    if not key or OP in key:
        raise DataError(
            "Changes need a key other than `op`.", fix="Name the columns that tell rows apart: key=['user']."
        )
    for rows, what in ((panes, "the rows"), (replaced, "the windows that a merge replaced")):
        missing = [name for name in key if rows is not None and rows.width and name not in rows.columns]
        if missing:
            raise DataError(
                f"The key names {', '.join(map(repr, missing))}, which {what} do not have.",
                fix="Take the key from the stage's keys, window_start and window_end.",
            )
