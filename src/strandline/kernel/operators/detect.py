"""A pattern in a step: a process whose state are the partial matches of each key."""

from __future__ import annotations

from typing import Any

from strandline.kernel.operators.process import ProcessPlan
from strandline.model.detecting import process_of
from strandline.model.nodes import DetectNode
from strandline.model.time import Span
from strandline.model.types import Schema


class DetectPlan(ProcessPlan):
    """Detects by processing; its state is that of the pattern, and of no other."""

    def __init__(self, node: DetectNode, inputs: tuple[Schema, ...], lateness: Span) -> None:
        super().__init__(process_of(node, inputs[0]), inputs, lateness)
        self.pattern = node.pattern

    def said(self) -> dict[str, Any]:
        """The key and the pattern."""
        return {"keys": self.node.keys, "pattern": self.pattern}
