"""Make the tick: from what was heard of the sources, and the head, how far time has come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from strandline.model.flow import Flow
from strandline.model.nodes import Origin, SourceNode, Stateful, origin_of, parents_of
from strandline.model.partitions import PartitionStats, SourceState, finish
from strandline.model.progress import advance_source
from strandline.model.ticks import Edge, joint
from strandline.model.time import Instant, Span
from strandline.sources.contract import EVERY, Place
from strandline.spark.reading import Heard
from strandline.store.manifests import Manifest

Places = Mapping[str, Mapping[str, Place]]


def edges_before(flow: Flow, head: Manifest | None) -> dict[str, Edge]:
    """The edge of each source, and the output edge of each stage, as the head left them; new ones have seen nothing."""
    known = {} if head is None else head.tick.edges
    names = [node.name for node in flow.nodes if isinstance(node, Origin)]
    return {name: known.get(name, Edge.first()) for name in names}


def edge_before(node: Stateful, edges: Mapping[str, Edge]) -> Edge:
    """The edge of all that comes in at a stage's ports."""
    return joint([edges[origin_of(parent).name] for parent in parents_of(node)])


def move_sources(
    flow: Flow, head: Manifest | None, heard: Iterable[Heard], places: Places, *, now: Instant, running: Span, run: str, ending: bool
) -> dict[str, SourceState]:  # fmt: skip
    """Each source after the tick. `ending`: nothing more will be read, so time goes to its end."""
    found: dict[str, dict[str, PartitionStats]] = {}
    for each in heard:
        mine = found.setdefault(each.source, {})
        for name, stats in each.stats.items():
            mine[name] = mine[name].merge(stats) if name in mine else stats
    moved = {}
    for node in flow.nodes:
        if isinstance(node, SourceNode):
            before = _still_read(head.sources.get(node.name) if head else None, places.get(node.name))
            brought = _placed(found.get(node.name, {}), places.get(node.name, {}), before, now)
            after = advance_source(node.watermark, before, brought, now=now, running=running, run=run)
            moved[node.name] = finish(after) if ending else after
    return moved


def _still_read(before: SourceState | None, places: Mapping[str, Place] | None) -> SourceState:
    """The source without partitions that its reader does not know any more: who brings nothing ever holds nobody up."""
    if before is None or places is None or EVERY in places:
        return before or SourceState()
    return replace(before, partitions={name: each for name, each in before.partitions.items() if name in places})


def _placed(
    stats: Mapping[str, PartitionStats], places: Mapping[str, Place], before: SourceState, now: Instant
) -> dict[str, PartitionStats]:
    """What partitions brought, with where they stand; also those that brought nothing.

    What could not be understood is of no partition, and comes under the name for every one.
    """
    names = {*stats, *places} - {EVERY}
    if EVERY in places:
        names |= {*before.partitions}
    result = {}
    for name in names:
        heard, place = stats.get(name, PartitionStats(now=now)), places.get(name) or places.get(EVERY)
        if place is not None:
            marks = [m for m in (heard.asserted, place.asserted) if m is not None]
            heard = replace(
                heard, position=place.position, end=place.end, finished=place.finished,
                asserted=Instant(max(marks)) if marks else None,
            )  # fmt: skip
        result[name] = heard
    return result


def caught_up(places: Places) -> bool:
    """Whether everything there was has been read."""
    return all(place.position >= place.end for source in places.values() for place in source.values())
