"""Rows with a value that does not fit its column, set aside: their raw text is the row as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import reduce
from operator import or_

import polars as pl

from strandline.model.types import Schema
from strandline.sources.conversion import misfit
from strandline.sources.far_times import far_columns
from strandline.sources.understood import Understood
from strandline.sources.unreadable import UNREADABLE


def within_calendar(rows: pl.DataFrame, schema: Schema) -> Understood:
    """Rows that came with types of their own, without those that have a time outside of the calendar."""
    far = far_columns(rows)
    return without_misfits(rows, rows, far, schema) if far else Understood(rows)


def without_misfits(
    there: pl.DataFrame, rows: pl.DataFrame, unfit: Mapping[str, pl.Series], schema: Schema
) -> Understood:
    """Set the rows aside in which a value does not fit, each with the first reason."""
    bad = reduce(or_, unfit.values())
    raws, reasons = [], []
    for number in bad.arg_true():
        row = {column.name: _told(column, number) for column in there}
        name = next(name for name, mask in unfit.items() if mask[number])
        raws.append(json.dumps(row, default=str, ensure_ascii=False))
        reasons.append(misfit(name, row[name], schema[name]))
    return Understood(rows.filter(~bad), raws, reasons)


def _told(column: pl.Series, number: int) -> object:
    """A value as Python has it; where it has none, such as for times outside of the calendar, as it is stored."""
    value = column[number : number + 1]
    try:
        return value.to_list()[0]
    except (ValueError, OverflowError, *UNREADABLE):
        return value.to_physical().to_list()[0]
