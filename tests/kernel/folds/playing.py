"""Fold rows, whole or cut and shuffled, and say what came out in a form that shows every bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from strandline.kernel.folds import Fold
from strandline.kernel.groups import Groups
from strandline.kernel.schema import polars_type
from strandline.model.types import Schema
from tests.kernel.folds.reference import Row


def frame_of(rows: Sequence[Row], schema: Schema) -> pl.DataFrame:
    columns = [pl.Series(name, [getattr(r, name) for r in rows], dtype=polars_type(schema[name])) for name in schema]
    return pl.DataFrame([*columns, pl.Series("keep", [r.keep for r in rows], dtype=pl.Boolean)])


def fold_rows(
    fold: Fold, rows: Sequence[Row], schema: Schema, *, weighted: bool = False
) -> tuple[list[int], list[pl.Series]]:
    rows = sorted(rows, key=lambda r: r.group)
    ids = np.array([r.group for r in rows], dtype=np.int64)
    groups = Groups.of_ids(ids)
    weights = np.array([r.weight for r in rows], dtype=np.int64) if weighted else None
    parts = fold.fold(frame_of(rows, schema), np.array([r.time for r in rows], dtype=np.int64), weights, groups)
    check_types(fold, parts)
    return ids[groups.starts].tolist(), parts


def merge_parts(fold: Fold, folded: Sequence[tuple[list[int], list[pl.Series]]]) -> tuple[list[int], list[pl.Series]]:
    owners = np.array([g for ids, _ in folded for g in ids], dtype=np.int64)
    order = np.argsort(owners, kind="stable")
    parts = [pl.concat(columns).gather(order) for columns in zip(*(parts for _, parts in folded), strict=True)]
    groups = Groups.of_ids(owners[order])
    merged = fold.merge(parts, groups)
    check_types(fold, merged)
    return owners[order][groups.starts].tolist(), merged


def check_types(fold: Fold, parts: Sequence[pl.Series]) -> None:
    assert [(p.name, p.dtype) for p in parts] == list(fold.fields)
    result = fold.show(list(parts))
    assert result.dtype == fold.output
    assert len(result) == len(parts[0])


def bits(parts: Sequence[pl.Series]) -> list[str]:
    """Text that differs wherever a value does: repr tells 0.0 from -0.0, and says NaN alike."""
    return [repr(p.to_list()) for p in parts]


def show(fold: Fold, parts: list[pl.Series]) -> list[Any]:
    return fold.show(parts).to_list()
