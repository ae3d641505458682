"""Windows that fire, as panes: inserts, withdrawals of what was shown before, and word of windows that were replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from strandline.kernel.folds import Fold
from strandline.kernel.plan import KEY, Plan
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
    return [table[f"a.{name}.{suffix}"] for suffix, _ in fold.fields]


def pane_times(plan: Plan, table: pl.DataFrame) -> pl.Series:
    """The one event time that a pane of each window has; a window that only ever took back has no event to take it from."""
    if plan.stage.timestamp == "end":
        return table["window_end"] - 1
    times = table[plan.stage.timestamp]
    return (table["window_end"] - 1).zip_with(times.abs() >= NOT_YET, times) if plan.taking_back else times


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
    chosen = pl.Series(shown.insert)
    rows = table if shown.insert.all() else table.filter(chosen)
    found: dict[str, Any] = {key: rows[KEY + key] for key in plan.stage.keys}
    found |= {"window_start": rows["window_start"], "window_end": rows["window_end"], **values(plan, rows)}
    found["pane_timing"] = pl.Series(TIMINGS).gather(shown.timing[shown.insert])
    found |= {"pane_index": shown.index[shown.insert], "pane_is_last": shown.last[shown.insert]}
    found[TIME] = pane_times(plan, rows)
    for name in plan.carry:
        fold = dict(plan.folds)[name]
        found |= {accumulator(name, s): rows[f"a.{name}.{s}"] for s, _ in fold.fields}
    return _panes(plan, pl.DataFrame(found), INSERT)


def retractions(plan: Plan, table: pl.DataFrame, shown: Shown) -> pl.DataFrame:
    """What the windows had shown, repeated exactly to withdraw it; `__owner` is the row whose firing withdraws it."""
    rows = table.select(*plan.keys, "shown").with_row_index("__owner").filter(pl.Series(shown.retract))
    rows = rows.explode("shown").filter(pl.col("shown").is_not_null()).unnest("shown")
    rows = rows.rename({KEY + key: key for key in plan.stage.keys}).sort("__owner", "window_start", "window_end")
    return _panes(plan, rows.drop("__owner"), RETRACT).with_columns(__owner=rows["__owner"].cast(pl.Int64))


def moments(instants: pl.Series) -> pl.Series:
    """Instants as timestamps; the ends of a window of all time are no moments, but null."""
    beyond = instants.abs() >= int(Instant.END_OF_TIME)
    return (instants.set(beyond, None) if beyond.any() else instants).cast(STAMP)


def _panes(plan: Plan, frame: pl.DataFrame, op: str) -> pl.DataFrame:
    """Panes with the columns that all of them have, in order."""
    start, end = frame["window_start"], frame["window_end"]
    whole = frame.with_columns(
        moments(start).alias("window_start"),
        moments(end).alias("window_end"),
        pl.lit(op).alias("op"),
        pl.lit(1 if op == INSERT else -1, pl.Int64).alias(WEIGHT),
        start.alias(CAME_FROM[0]),
        end.alias(CAME_FROM[1]),
    )
    return whole.select(list(pane_schema(plan)))


def shown_now(plan: Plan, table: pl.DataFrame, panes: pl.DataFrame, shown: Shown, fired: Mask) -> pl.Series:
    """What each window has on show after this firing."""
    dtype = plan.columns["shown"].dtype
    assert isinstance(dtype, pl.List)
    fields = [field.name for field in dtype.inner.fields]  # type: ignore[union-attr]
    own = panes.with_columns(window_start=panes[CAME_FROM[0]], window_end=panes[CAME_FROM[1]])
    lists = own.select(pl.concat_list(pl.struct(fields)).alias("shown"))["shown"].cast(dtype)
    everyone = pl.Series("shown", [None], dtype=dtype).new_from_index(0, table.height)
    place = pl.Series(np.flatnonzero(shown.insert))
    now = everyone.to_frame().with_row_index("at").join(
        pl.DataFrame({"at": place.cast(pl.UInt32), "own": lists}), on="at", how="left", maintain_order="left"
    )["own"]  # fmt: skip
    replaced = fired if plan.stage.mode == "retracting" else shown.insert
    return now.zip_with(pl.Series(replaced), table["shown"])


def replacements(plan: Plan, table: pl.DataFrame, shown: Shown) -> pl.DataFrame:
    """The windows that were shown once and have become part of these."""
    keys = {KEY + key: key for key in plan.stage.keys}
    rows = table.select(*plan.keys, pl.col("window_start").alias("__s"), pl.col("window_end").alias("__e"), "shown")
    rows = rows.filter(pl.Series(shown.insert)).explode("shown").filter(pl.col("shown").is_not_null()).unnest("shown")
    rows = rows.filter((pl.col("window_start") != pl.col("__s")) | (pl.col("window_end") != pl.col("__e")))
    return rows.rename(keys).select(
        *plan.stage.keys, pl.col("window_start").cast(STAMP), pl.col("window_end").cast(STAMP)
    )


def no_replacements(plan: Plan) -> pl.DataFrame:
    """No replaced windows, with the columns they would have."""
    keys = {key: polars_type(plan.inputs[key]) for key in plan.stage.keys}
    return pl.DataFrame(schema={**keys, "window_start": STAMP, "window_end": STAMP})
