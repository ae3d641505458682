"""Stateless work in columns: keep rows, choose columns, add one. What travels unseen stays with its row."""

from __future__ import annotations

from typing import TypeAlias

import polars as pl

from strandline.kernel.expressions import compile_expression
from strandline.kernel.frames import only
from strandline.model.lineage import schema_of
from strandline.model.nodes import SelectNode, WhereNode, WithColumnNode
from strandline.model.panes import HIDDEN
from strandline.model.time import Instant
from strandline.model.types import Schema

Stateless: TypeAlias = WhereNode | SelectNode | WithColumnNode


def stateless(node: Stateless, batch: pl.DataFrame, now: Instant) -> pl.DataFrame:
    """Do a node's work on all rows at once; the columns before it must be known.

    Law: a row's hidden columns are never changed, and never lost unless the row is.
    """
    schema = schema_of(node.parent)
    assert schema is not None, "whoever asks has seen to it that the columns are known"
    if isinstance(node, WhereNode):
        return batch.filter(compile_expression(node.condition, schema, now=now))
    if isinstance(node, SelectNode):
        return _select(node, batch, schema, now)
    return batch.with_columns(compile_expression(node.expression, schema, now=now).alias(node.name))


def visible(batch: pl.DataFrame) -> pl.DataFrame:
    """The rows without what travels unseen."""
    return only(batch, (name for name in batch.columns if not name.startswith(HIDDEN)))


def _select(node: SelectNode, batch: pl.DataFrame, schema: Schema, now: Instant) -> pl.DataFrame:
    # With the old columns beside them first: a literal alone would be one row, however many rows there are.
    made = {f"__new.{at}": compile_expression(each, schema, now=now) for at, each in enumerate(node.columns)}
    hidden = [name for name in batch.columns if name.startswith(HIDDEN)]
    names = [pl.col(f"__new.{at}").alias(str(each.name)) for at, each in enumerate(node.columns)]
    return batch.with_columns(**made).select(*names, *hidden)
