"""A tick: one micro-batch's place in time, as data.

Nothing inward of the driver reads a clock; whatever a step may know of time stands in its tick.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from strandline.errors import DescriptionError, StateError
from strandline.model.time import Instant

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """The watermark of one edge before and after a tick.

    Input is judged by `before`; windows fire and state is forgotten by `after`. `seen` is the greatest event time that has
    come from the sources behind it.

    Law: an edge never moves backwards.

    >>> Edge(before=Instant(0), after=Instant(30)).moved_to(Instant(20)).after
    Instant('1970-01-01T00:00:00.000030Z')
    """

    before: Instant
    after: Instant
    seen: Instant = Instant.BEFORE_ALL_TIME

    def __post_init__(self) -> None:
        if self.after < self.before:
            raise DescriptionError(
                f"The watermark moves backwards, from {self.before.text} to {self.after.text}.",
                fix="Give an `after` that is not less than `before`; Edge.moved_to holds it in place.",
            )

    @classmethod
    def first(cls) -> Edge:
        """The edge of a flow that has seen nothing."""
        return cls(before=Instant.BEFORE_ALL_TIME, after=Instant.BEFORE_ALL_TIME)

    def moved_to(self, watermark: Instant, seen: Instant = Instant.BEFORE_ALL_TIME) -> Edge:
        """The same edge in the next tick; a watermark that lies behind is held."""
        return Edge(before=self.after, after=max(self.after, watermark), seen=max(self.seen, seen))

    @property
    def come(self) -> Instant:
        """How far time itself has come: the watermark, but for its end, which says that nothing more comes.

        Then it is the latest moment that is known of: the greatest event time, or the watermark before.

        >>> Edge(before=Instant(30), after=Instant.END_OF_TIME, seen=Instant(50)).come
        Instant('1970-01-01T00:00:00.000050Z')
        """
        if self.after < Instant.END_OF_TIME:
            return self.after
        return self.seen if self.before >= Instant.END_OF_TIME else max(self.before, self.seen)


def joint(edges: Sequence[Edge]) -> Edge:
    """The edge of an input that comes along several: complete only as far as all of them are.

    What was seen along one of them was seen.

    >>> both = joint([Edge(before=Instant(0), after=Instant(9)), Edge(before=Instant(5), after=Instant(6))])
    >>> int(both.before), int(both.after)
    (0, 6)
    """
    return Edge(
        before=min(edge.before for edge in edges),
        after=min(edge.after for edge in edges),
        seen=max(edge.seen for edge in edges),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One step of a flow: its number, its processing time, and each edge's watermark before and after.

    >>> tick = Tick(number=1, now=Instant(5), edges={"orders": Edge(before=Instant(0), after=Instant(3))})
    >>> tick.edges["orders"].after - tick.edges["orders"].before
    3
    """

    number: int
    now: Instant
    edges: Mapping[str, Edge] = field(hash=False)

    def __post_init__(self) -> None:
        if self.number < 0:
            raise DescriptionError(f"A tick cannot have the number {self.number}.", fix="Count ticks from 0 upwards.")
        object.__setattr__(self, "edges", dict(sorted(self.edges.items())))

    def to_json(self) -> dict[str, Any]:
        """This tick as plain JSON."""
        edges = {name: [int(edge.before), int(edge.after), int(edge.seen)] for name, edge in self.edges.items()}
        return {"version": _VERSION, "number": self.number, "now": int(self.now), "edges": edges}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Tick:
        """Read what `to_json` wrote."""
        if data.get("version") != _VERSION:
            raise StateError(
                f"A tick of version {data.get('version')!r} cannot be read here.",
                fix=f"This Strandline reads version {_VERSION}; use the one that wrote it.",
            )
        edges = {name: _edge(*map(Instant, ends)) for name, ends in data["edges"].items()}
        return cls(number=data["number"], now=Instant(data["now"]), edges=edges)


def _edge(before: Instant, after: Instant, seen: Instant = Instant.BEFORE_ALL_TIME) -> Edge:
    return Edge(before=before, after=after, seen=seen)


def output_watermark(input_after: Instant, holds: Iterable[Instant] = ()) -> Instant:
    """What a stage may promise downstream: its input's watermark, held by the earliest time it may still emit.

    A hold may come to lie behind what was promised (a late event); `Edge.moved_to` then keeps the promise.

    >>> output_watermark(Instant(30), [Instant(12), Instant(40)])
    Instant('1970-01-01T00:00:00.000012Z')
    """
    return min([input_after, *holds])
