"""How many bytes a row of state takes: measured with the kernel, on rows that are made up for a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

from strandline.kernel.frames import framed
from strandline.kernel.schema import polars_schema
from strandline.kernel.stage import StageKernel
from strandline.kernel.stateful import plan_of
from strandline.model.aggregates import Merge
from strandline.model.flow import Flow
from strandline.model.lineage import inputs_of
from strandline.model.nodes import DetectNode, LookupNode, StageNode, Stateful
from strandline.model.panes import CAME_FROM, TIME, WEIGHT
from strandline.model.sizes import RowBytes
from strandline.model.ticks import Edge
from strandline.model.time import Instant, Span
from strandline.model.timeline.rows import made_row
from strandline.model.timeline.script import columns_of_windows
from strandline.model.types import Schema

KEYS: Final = 200
FEW, MANY = 1, 4
TICKS: Final = 12  # enough for the first segments to be merged
NOON: Final = Instant.of("2026-01-01T12:00:00Z")
_MINUTE: Final = Span.of("1m")


def row_bytes(flow: Flow, node: Stateful) -> RowBytes | None:
    """The bytes of a row in the files of a stage's state; None where no row can be made up for it, or it keeps none.

    Rows of patterns hold the events of matches that have begun, and how many these are depends on what comes.
    """
    if isinstance(node, LookupNode | DetectNode) or inputs_of(node) is None or _rolls_up(node):
        return None
    try:
        few = _bytes(flow, node, FEW)
        many = _bytes(flow, node, MANY) if isinstance(node, StageNode) else few
    except Exception:  # a user's own code may want other rows than those that are made up
        return None
    if few is None or many is None:
        return None
    if not isinstance(node, StageNode):
        return RowBytes(one=few)
    return RowBytes(one=few, more=max(0.0, (many - few) / (MANY - FEW)), times=_times(flow, node))


def _rolls_up(node: Stateful) -> bool:
    """Whether it takes the inner state of panes, which cannot be made up."""
    return isinstance(node, StageNode) and any(isinstance(each, Merge) for _, each in node.aggregates)


def _bytes(flow: Flow, node: Stateful, events: int) -> float | None:
    kernel = StageKernel(plan_of(flow, node), buckets=flow.buckets)
    kernel.tick(_frames(node, events), Edge.first(), NOON)
    rows = kernel.state.rows
    return len(kernel.encode()) / rows if rows else None


def _times(flow: Flow, node: StageNode) -> float:
    """How often the rows of keys that every tick touches stand there at most."""
    kernel = StageKernel(plan_of(flow, node), buckets=flow.buckets)
    frames, counts = _frames(node, FEW), []
    for _ in range(TICKS):
        kernel.tick(frames, Edge.first(), NOON)
        counts.append(kernel.state.rows)
    return max(counts) / max(1, counts[0])


def _frames(node: Stateful, events: int) -> list[pl.DataFrame]:
    inputs = inputs_of(node)
    assert inputs is not None, "who asks has seen to it"
    keys = [getattr(node, "on", getattr(node, "keys", getattr(node, "key", ()))), getattr(node, "other_keys", ())]
    fixed = columns_of_windows(node, inputs[0]) if isinstance(node, StageNode) else {}
    return [_frame(schema, named, events, fixed) for schema, named in zip(inputs, keys, strict=False)]


def _frame(schema: Schema, keys: Sequence[str], events: int, fixed: Mapping[str, Any]) -> pl.DataFrame:
    rows = [{**_row(schema, keys, number, event), **fixed} for number in range(KEYS) for event in range(events)]
    hidden = (TIME, WEIGHT, *CAME_FROM)
    types: dict[str, Any] = {**polars_schema(schema), **dict.fromkeys(hidden, pl.Int64())}
    return framed({name: pl.Series([row.get(name) for row in rows], dtype=type) for name, type in types.items()})


def _row(schema: Schema, keys: Sequence[str], number: int, event: int) -> dict[str, Any]:
    """A row of this key, with text of about ten letters wherever there is text."""
    time = Instant(NOON + event * 1_000_000 + number)
    row = made_row(schema, number + event, time)
    for name, kind in schema.columns:
        each = number if name in keys else number * MANY + event
        if kind.name == "string":
            row[name] = f"{name[:4]}{each:06d}"
        elif name in keys and kind.is_integer:
            row[name] = each % 100 if kind.name == "tinyint" else each
    told = {"op": "insert"} if "op" in schema else {}
    return {**row, **told, **_hidden(time)}


def _hidden(time: Instant) -> dict[str, int]:
    start = int(time - time % _MINUTE)
    return {TIME: int(time), WEIGHT: 1, CAME_FROM[0]: start, CAME_FROM[1]: start + int(_MINUTE)}
