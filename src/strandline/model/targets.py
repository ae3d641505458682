"""Where do rows go? What is wrong with it can only be seen from the whole flow: two sinks may get in each other's way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from typing import Protocol, runtime_checkable

from strandline.errors import DescriptionError
from strandline.model.fitting import Problems
from strandline.model.flow import Flow
from strandline.model.nodes import RowsMode, SinkNode


@runtime_checkable
class Exclusive(Protocol):
    """A sink whose target cannot tell the rows of two sinks of one flow apart."""

    def own_target(self, rows: RowsMode) -> Hashable | None:
        """What the sink needs for itself: equal for two that would get in each other's way; None where it may share."""


def check_targets(flow: Flow) -> Problems:
    """What is wrong with the targets of a flow's sinks, taken together."""
    sinks_of: defaultdict[Hashable, list[SinkNode]] = defaultdict(list)
    for node in flow.nodes:
        if isinstance(node, SinkNode) and (target := _own_target(node)) is not None:
            sinks_of[target].append(node)
    for sinks in sinks_of.values():
        if len(sinks) > 1:
            yield DescriptionError(
                f"The sinks {' and '.join(repr(sink.name) for sink in sinks)} have one target ({type(sinks[0].sink).__name__}), "
                "which cannot tell them apart: one would take the other's rows for its own, or overwrite them.",
                fix="Give each a target of its own; only a table to which rows are added may have several sinks.",
            )


def _own_target(node: SinkNode) -> Hashable | None:
    return node.sink.own_target(node.rows) if isinstance(node.sink, Exclusive) else None
