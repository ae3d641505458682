"""Where boxes stand: in layers from the sources down to the sinks, so that arrows lead down and seldom cross.

An arrow over several layers is led through a point in each layer between, which takes place there as a box does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

BETWEEN_BOXES: Final = 28.0
BETWEEN_LAYERS: Final = 46.0
_POINT: Final = 14.0  # how much place an arrow takes that passes a layer
_SWEEPS: Final = 12

Link = tuple[int, int]


@dataclass(slots=True)
class Placed:
    """The middle of each box from the left, its upper edge, and the floor of its layer, which no box there reaches below.

    And the points that each arrow passes on its way, and how large all is.
    """

    xs: list[float]
    ys: list[float]
    floors: list[float]
    through: list[list[tuple[float, float]]]
    width: float
    height: float


@dataclass(slots=True)
class _Layout:
    """Boxes and points: `layers` holds them from left to right, `before` and `behind` what they are linked with."""

    widths: list[float]
    layers: list[list[int]]
    before: list[list[int]]
    behind: list[list[int]]
    xs: list[float] = field(default_factory=list)


def place(sizes: Sequence[tuple[float, float]], links: Sequence[Link]) -> Placed:
    """Place boxes of these sizes, each behind those that it is linked from.

    Law: boxes of a layer do not overlap, and each link leads downwards.

    >>> placed = place([(100, 40), (100, 40), (100, 40)], [(0, 1), (0, 2)])
    >>> placed.ys, placed.xs[0] == (placed.xs[1] + placed.xs[2]) / 2
    ([0.0, 86.0, 86.0], True)
    """
    levels = _levels(len(sizes), links)
    layout, chains = _with_points(sizes, links, levels)
    _order(layout)
    _settle(layout)
    heights = [max(sizes[box][1] for box in layer if box < len(sizes)) for layer in layout.layers]
    tops = [sum(heights[:level]) + BETWEEN_LAYERS * level for level in range(len(heights))]
    left = min((layout.xs[each] - layout.widths[each] / 2 for each in range(len(layout.xs))), default=0.0)
    right = max((layout.xs[each] + layout.widths[each] / 2 for each in range(len(layout.xs))), default=0.0)
    xs = [x - left for x in layout.xs]
    through = [
        [(xs[point], tops[levels[start] + 1 + step] + part * heights[levels[start] + 1 + step])
         for step, point in enumerate(chain) for part in (0, 1)]
        for (start, _), chain in zip(links, chains, strict=True)
    ]  # fmt: skip
    height = tops[-1] + heights[-1] if tops else 0.0
    floors = [tops[level] + heights[level] for level in levels]
    return Placed(xs[: len(sizes)], [tops[level] for level in levels], floors, through, right - left, height)


def _levels(count: int, links: Sequence[Link]) -> list[int]:
    """The layer of each box: one below the lowest that it is linked from. Boxes are given in such an order."""
    levels = [0] * count
    for start, end in sorted(links, key=lambda link: link[1]):
        levels[end] = max(levels[end], levels[start] + 1)
    return levels


def _with_points(
    sizes: Sequence[tuple[float, float]], links: Sequence[Link], levels: list[int]
) -> tuple[_Layout, list[list[int]]]:
    layers: list[list[int]] = [[] for _ in range(max(levels, default=-1) + 1)]
    for box, level in enumerate(levels):
        layers[level].append(box)
    layout = _Layout([size[0] for size in sizes], layers, [[] for _ in sizes], [[] for _ in sizes])
    chains = []
    for start, end in links:
        chain = []
        last = start
        for level in range(levels[start] + 1, levels[end]):
            point = len(layout.widths)
            layout.widths.append(_POINT)
            layout.before.append([])
            layout.behind.append([])
            layers[level].append(point)
            _link(layout, last, point)
            chain.append(point)
            last = point
        _link(layout, last, end)
        chains.append(chain)
    return layout, chains


def _link(layout: _Layout, start: int, end: int) -> None:
    layout.behind[start].append(end)
    layout.before[end].append(start)


def _order(layout: _Layout) -> None:
    """Put each layer in the order of the middles of what it is linked with, from above and from below by turns."""
    best, crossings = [list(layer) for layer in layout.layers], _crossings(layout)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        linked = layout.before if down else layout.behind
        for level in range(len(layout.layers)) if down else reversed(range(len(layout.layers))):
            beside = level - 1 if down else level + 1
            if not 0 <= beside < len(layout.layers):
                continue
            rank = {each: place for place, each in enumerate(layout.layers[beside])}
            own = {each: place for place, each in enumerate(layout.layers[level])}
            layout.layers[level].sort(key=lambda each: _mean([rank[other] for other in linked[each]], own[each]))
        if (now := _crossings(layout)) < crossings:
            best, crossings = [list(layer) for layer in layout.layers], now
    layout.layers[:] = best


def _crossings(layout: _Layout) -> int:
    """How many pairs of links cross."""
    count = 0
    for layer, below in zip(layout.layers, layout.layers[1:], strict=False):
        rank = {each: place for place, each in enumerate(below)}
        ends = [[rank[other] for other in layout.behind[each]] for each in layer]
        for at, mine in enumerate(ends):
            count += sum(one > other for theirs in ends[at + 1 :] for one in mine for other in theirs)
    return count


def _settle(layout: _Layout) -> None:
    """Move each layer towards what it is linked with, without letting its boxes overlap or change their order."""
    layout.xs[:] = [0.0] * len(layout.widths)
    for layer in layout.layers:
        _spread(layout, layer, [0.0] * len(layer))
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        linked = layout.before if down else layout.behind
        for layer in layout.layers if down else layout.layers[::-1]:
            wanted = [_mean([layout.xs[other] for other in linked[each]], layout.xs[each]) for each in layer]
            _spread(layout, layer, wanted)


def _spread(layout: _Layout, layer: list[int], wanted: list[float]) -> None:
    """Give each box of a layer a place as near to the wanted one as the others let it.

    Boxes that would overlap become one group, which stands where its members want it on average.
    """
    groups: list[tuple[float, int]] = []  # where its first member stands, and how many they are
    offsets: list[float] = []
    for at, each in enumerate(layer):
        gap = 0.0 if not at else (layout.widths[layer[at - 1]] + layout.widths[each]) / 2 + BETWEEN_BOXES
        offsets.append(0.0 if not at else offsets[-1] + gap)
        groups.append((wanted[at] - offsets[at], 1))
        while len(groups) > 1 and groups[-2][0] > groups[-1][0]:
            (left, ours), (right, theirs) = groups[-2], groups[-1]
            groups[-2:] = [((left * ours + right * theirs) / (ours + theirs), ours + theirs)]
    firsts = [first for first, count in groups for _ in range(count)]
    for each, first, offset in zip(layer, firsts, offsets, strict=True):
        layout.xs[each] = first + offset


def _mean(values: list[float] | list[int], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
