"""Whether two plays are the same in everything that a user can see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from strandline.model.lineage import merging
from strandline.model.nodes import OperatorNode, StageNode, Stateful, lineage
from strandline.model.operators import keys_of
from strandline.model.salting import spreads
from strandline.model.streams import Stream
from strandline.testing.results import Played, Shown


def differences(stream: Stream, one: Played, other: Played) -> list[str]:
    """Where two plays differ: panes (in any order, but in order within a window), what was put aside and in which order,
    books, watermarks."""
    found = []
    for number, (a, b) in enumerate(zip(one.ticks, other.ticks, strict=True), 1):
        for what in ("panes", "late", "rejected", "replaced"):
            left, right = getattr(a, what), getattr(b, what)
            if _multiset(left) != _multiset(right):
                found.append(_told(f"step {number}, {what}", left, right))
        if not found and _keeps_order_aside(stream):
            for what in ("late", "rejected"):
                left, right = (list(map(text, getattr(each, what))) for each in (a, b))
                found += [] if left == right else [f"step {number}, order of {what}: {left} is not {right}"]
        if not found and _queues(stream, a.panes) != _queues(stream, b.panes):
            found.append(_told(f"step {number}, order of panes", a.panes, b.panes))
        found += [
            f"step {number}, {what}: {getattr(a, what)} is not {getattr(b, what)}"
            for what in ("books", "watermarks")
            if getattr(a, what) != getattr(b, what)
        ]
    return found


def _multiset(rows: Iterable[Shown]) -> Counter[str]:
    return Counter(map(text, rows))


def text(row: Shown) -> str:
    """A row as text: NaN is not equal to itself, and 0.0 is equal to -0.0 and 0, but their texts know better."""
    return repr(sorted(row.items()))


def _keeps_order_aside(stream: Stream) -> bool:
    """Whether rows that are put aside come in one order, whatever the runner: not those of sessions, or of places."""
    stages = [node for node in lineage(stream.node) if isinstance(node, Stateful)]
    return not any(merging(node.window) if isinstance(node, StageNode) else spreads(node) for node in stages)


def _queues(stream: Stream, panes: Sequence[Shown]) -> dict[str, list[str]]:
    """The panes whose order counts: those of a window; and where windows merge, and withdraw each other, those of a key."""
    node = stream.node
    if isinstance(node, OperatorNode) and spreads(node):
        return {}  # the order of a key's rows is that of the places over which they are spread
    if isinstance(node, OperatorNode):
        by = keys_of(node)[0]
    else:
        assert isinstance(node, StageNode)
        by = node.keys if merging(node.window) else (*node.keys, "window_start", "window_end")
    queues: dict[str, list[str]] = {}
    for pane in panes:
        queues.setdefault(repr([pane[name] for name in by]), []).append(text(pane))
    return queues


def _told(what: str, left: Sequence[Any], right: Sequence[Any]) -> str:
    lefts, rights = _multiset(left), _multiset(right)
    return "\n".join([f"{what}:", *(f"  < {row}" for row in (lefts - rights).elements()), *(
        f"  > {row}" for row in (rights - lefts).elements()
    )])  # fmt: skip
