"""Where do rows go? What can be wrong with it is only seen from the whole flow.

Two sinks may get in each other's way, and a flow may read what it writes. The model knows neither paths nor
topics; those who do are asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from typing import Protocol, runtime_checkable

from strandline.errors import DescriptionError, StrandlineError
from strandline.model.fitting import Problems
from strandline.model.flow import Flow
from strandline.model.nodes import RowsMode, SinkNode, SourceNode


@runtime_checkable
class Exclusive(Protocol):
    """A sink whose target cannot tell the rows of two sinks of one flow apart."""

    def own_target(self, rows: RowsMode) -> Hashable | None:
        """What the sink needs for itself: equal for two that would get in each other's way; None where it may share."""


@runtime_checkable
class Writes(Protocol):
    """A sink that puts its rows where a source may find them."""

    @property
    def example(self) -> str:
        """The path of a file such as it writes, with links resolved; a url where it is not on this machine."""


@runtime_checkable
class Reads(Protocol):
    """A source that takes what it finds."""

    def reads(self, address: str) -> bool:
        """Whether it would read what is put there: at a path, or a url."""


def check_targets(flow: Flow) -> list[StrandlineError]:
    """What is wrong with the targets of a flow's sinks, taken together."""
    return [*_shared(flow), *_read_again(flow)]


def _shared(flow: Flow) -> Problems:
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


def _read_again(flow: Flow) -> Problems:
    for source in flow.nodes:
        for sink in flow.nodes:
            if isinstance(source, SourceNode) and isinstance(sink, SinkNode) and _reads(source, sink):
                yield DescriptionError(
                    f"The sink {sink.name!r} writes where the source {source.name!r} reads: the flow would feed itself, "
                    "without end.",
                    fix="Write to another topic; or to a folder that the source does not read: beside its own, or in it under "
                    "a name that begins with '_'.",
                )


def _reads(source: SourceNode, sink: SinkNode) -> bool:
    reader, writer = source.source, sink.sink
    return isinstance(reader, Reads) and isinstance(writer, Writes) and reader.reads(writer.example)


def _own_target(node: SinkNode) -> Hashable | None:
    return node.sink.own_target(node.rows) if isinstance(node.sink, Exclusive) else None
