"""Conditions that a stage asks of each row: as columns of the rows that come to it, true or false and never null."""

from __future__ import annotations

from hashlib import sha256

from strandline.model.nodes import OverNode, StageNode
from strandline.model.panes import HIDDEN
from strandline.model.triggers import OnEvent, walk


def mask_of(condition: str) -> str:
    """The name of the column that says of which rows a condition is true: one that every engine can read.

    >>> mask_of("amount > 3")
    '__asked_f5342aef1ad52472'
    """
    return f"{HIDDEN}asked_{sha256(condition.encode()).hexdigest()[:16]}"


def masks_of(stage: StageNode | OverNode) -> dict[str, str]:
    """The conditions of a stage by the names of their columns."""
    if isinstance(stage, OverNode):
        asked = (aggregate.where for _, aggregate in stage.features if aggregate.where is not None)
        return {mask_of(condition): condition for condition in asked}
    wheres = (aggregate.where for _, aggregate in stage.aggregates if aggregate.where is not None)
    events = (part.expression for part in walk(stage.trigger) if isinstance(part, OnEvent))
    return {mask_of(condition): condition for condition in (*wheres, *events)}
