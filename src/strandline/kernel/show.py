"""Windows that fire, as panes: inserts, withdrawals of what was shown before, and word of windows that were replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.folds import Fold, state_columns
from strandline.kernel.folds.lists import list_lengths, to_lists
from strandline.kernel.frames import changed, constant, framed, kept, no_rows, only, rows_at
from strandline.kernel.keys import KEY
from strandline.kernel.plan import Plan, once_per_plan
from strandline.kernel.schema import polars_type
from strandline.kernel.triggers import NOT_YET
from strandline.model.panes import (
    CAME_FROM,
    EARLY,
    INSERT,
    LATE,
    ON_TIME,
    PANE_COLUMNS,
    RETRACT,
    TIME,
    WEIGHT,
    WINDOW_COLUMNS,
    accumulator,
)  # fmt: skip
from strandline.model.time import Instant

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

STAMP = pl.Datetime("us", "UTC")
TIMINGS = (EARLY, ON_TIME, LATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How windows are shown: which, when relative to the watermark (a place in TIMINGS), with which index, and whether for the last time."""

    insert: Mask
    retract: Mask
    timing: Array
    index: Array
    last: Mask


def values(plan: Plan, table: pl.DataFrame) -> dict[str, pl.Series]:
    """The aggregates of these windows, as they are shown."""
    return {name: fold.show(_parts(table, name, fold)) for name, fold in plan.folds}


def _parts(table: pl.DataFrame, name: str, fold: Fold) -> list[pl.Series]:
    return [table[column] for column in state_columns(name, fold)]


def pane_times(plan: Plan, table: pl.DataFrame) -> pl.Series:
    """The one event time that a pane of each window has; a window that only ever took back has no event to take it from."""
    if plan.stage.timestamp == "end":
        return table["window_end"] - 1
    times = table[plan.stage.timestamp]
    return (table["window_end"] - 1).zip_with(times.abs() >= NOT_YET, times) if plan.taking_back else times


@once_per_plan
def pane_schema(plan: Plan) -> dict[str, pl.DataType]:
    """The columns of panes, the hidden ones too."""
    keys = {key: polars_type(plan.inputs[key]) for key in plan.stage.keys}
    shown = {name: fold.output for name, fold in plan.folds}
    panes = {name: polars_type(kind) for name, kind in PANE_COLUMNS}
    hidden: dict[str, pl.DataType] = {
        TIME: pl.Int64(),
        WEIGHT: pl.Int64(),
        CAME_FROM[0]: pl.Int64(),
        CAME_FROM[1]: pl.Int64(),
    }
    folds = dict(plan.folds)
    inner = {accumulator(name, suffix): dtype for name in plan.carry for suffix, dtype in folds[name].fields}
    windows = {name: polars_type(kind) for name, kind in WINDOW_COLUMNS}
    return {**keys, **windows, **shown, **panes, **hidden, **inner}


def inserts(plan: Plan, table: pl.DataFrame, shown: Shown) -> pl.DataFrame:
    """The panes of the windows that are inserted."""
    rows = kept(table, shown.insert)
    found: dict[str, Any] = {key: rows[KEY + key] for key in plan.stage.keys}
    found |= {"window_start": rows["window_start"], "window_end": rows["window_end"], **values(plan, rows)}
    found["pane_timing"] = _timings(shown.timing[shown.insert])
    found |= {"pane_index": shown.index[shown.insert], "pane_is_last": shown.last[shown.insert]}
    found[TIME] = pane_times(plan, rows)
    for name in plan.carry:
        fold = dict(plan.folds)[name]
        hidden = (accumulator(name, suffix) for suffix, _ in fold.fields)
        found |= dict(zip(hidden, _parts(rows, name, fold), strict=True))
    return _panes(plan, found, INSERT)


def _timings(timing: Array) -> pl.Series:
    """The words for places in TIMINGS; nearly always all windows of a tick are shown at the same one."""
    if len(timing) and (timing == timing[0]).all():
        return constant(TIMINGS[timing[0]], pl.String(), len(timing))
    return pl.Series(TIMINGS)[timing]


def retractions(plan: Plan, table: pl.DataFrame, shown: Shown) -> pl.DataFrame:
    """What the windows had shown, repeated exactly to withdraw it; `__owner` is the row whose firing withdraws it."""
    owner, withdrawn = on_show(table["shown"], shown.retract)
    order = np.lexsort([withdrawn[name].to_numpy() for name in ("window_end", "window_start")] + [owner])
    rows, owner = rows_at(withdrawn, order), owner[order]
    found = _keys(plan, table, owner)
    found |= {each.name: each for each in rows.get_columns()}
    return changed(_panes(plan, found, RETRACT), {"__owner": owner})


def _keys(plan: Plan, table: pl.DataFrame, rows: Array) -> dict[str, Any]:
    """The keys of these rows, as panes name them."""
    if not plan.keys:
        return {}
    keys = rows_at(only(table, plan.keys), rows)
    return {key: keys[KEY + key] for key in plan.stage.keys}


def on_show(shown: pl.Series, chosen: Mask) -> tuple[Array, pl.DataFrame]:
    """What the chosen windows have on show, and the row of the window that each is of."""
    lengths = np.where(chosen, list_lengths(shown), 0)
    owners = np.flatnonzero(lengths)
    return np.repeat(owners, lengths[owners]), shown[owners].explode().struct.unnest()


def moments(instants: pl.Series) -> pl.Series:
    """Instants as timestamps; the ends of a window of all time are no moments, but null."""
    beyond = np.abs(instants.to_numpy()) >= int(Instant.END_OF_TIME)
    return (instants.set(pl.Series(beyond), None) if beyond.any() else instants).cast(STAMP)


def _panes(plan: Plan, found: dict[str, Any], op: str) -> pl.DataFrame:
    """Panes with the columns that all of them have, in order."""
    start, end = found["window_start"], found["window_end"]
    found |= {
        "window_start": moments(start),
        "window_end": moments(end),
        "op": constant(op, pl.String(), len(start)),
        WEIGHT: constant(1 if op == INSERT else -1, pl.Int64(), len(start)),
        CAME_FROM[0]: start,
        CAME_FROM[1]: end,
    }
    return framed(found, pane_schema(plan))


def shown_now(plan: Plan, table: pl.DataFrame, panes: pl.DataFrame, shown: Shown, fired: Mask) -> pl.Series:
    """What each window has on show after this firing."""
    dtype = plan.columns["shown"].dtype
    assert isinstance(dtype, pl.List)
    own = {"window_start": panes[CAME_FROM[0]], "window_end": panes[CAME_FROM[1]]}
    fields = [field.name for field in dtype.inner.fields]  # type: ignore[union-attr]
    told = framed({name: own[name] if name in own else panes[name] for name in fields}).to_struct()
    lists = to_lists(told, np.ones(len(told), np.int64)).cast(dtype)
    # Who is inserted shows its own; who only fired shows nothing now; the others what they showed.
    both = lists.extend(constant(None, dtype, 1)).extend(table["shown"])
    which = np.arange(table.height) + panes.height + 1
    if plan.stage.mode == "retracting":
        which[fired] = panes.height
    which[shown.insert] = np.arange(panes.height)
    return both[which]


def replacements(plan: Plan, table: pl.DataFrame, shown: Shown) -> pl.DataFrame:
    """The windows that were shown once and have become part of these."""
    owner, before = on_show(table["shown"], shown.insert)
    start, end = before["window_start"].to_numpy(), before["window_end"].to_numpy()
    other = (start != table["window_start"].to_numpy()[owner]) | (end != table["window_end"].to_numpy()[owner])
    if not other.any():
        return no_replacements(plan)
    found = _keys(plan, table, owner[other])
    return framed(found | {"window_start": start[other], "window_end": end[other]}, no_replacements(plan).schema)


@once_per_plan
def no_replacements(plan: Plan) -> pl.DataFrame:
    """No replaced windows, with the columns they would have."""
    keys = {key: polars_type(plan.inputs[key]) for key in plan.stage.keys}
    return no_rows({**keys, "window_start": STAMP, "window_end": STAMP})
