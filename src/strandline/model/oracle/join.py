"""A join, one pair at a time. Every row is remembered for ever; the watermark only says when a row without a match is one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from strandline.model.intervals import Interval
from strandline.model.nodes import JoinNode
from strandline.model.oracle.late import late_by
from strandline.model.oracle.living import Key
from strandline.model.oracle.passing import Books, Outcome, in_order_of_keys
from strandline.model.oracle.values import Row, canonical, rank, shown_instant, visible
from strandline.model.oracle.windows import reason_to_reject_windows, windows_of
from strandline.model.panes import TIME
from strandline.model.ticks import Edge
from strandline.model.time import Instant, Span
from strandline.model.types import Schema
from strandline.model.windows import Tumbling

LEFT, RIGHT = 0, 1
SIDES: Final = ("left", "right")


@dataclass(eq=False)
class Side:
    """A row of one side; `number` says when it came among all rows."""

    number: int
    row: Row
    time: int
    key: Key
    values: tuple[Any, ...]
    window: tuple[int, int] | None
    new: bool = True
    matches: list[Side] = field(default_factory=list)
    decided: bool = False

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands among the rows of its side."""
        return self.time, self.number


class JoinOracle:
    """Two lists of rows, compared each with each."""

    def __init__(self, node: JoinNode, *, lateness: Span, schemas: Sequence[Schema]) -> None:
        self.node, self.lateness, self.schemas = node, lateness, schemas
        self.rows: tuple[list[Side], list[Side]] = ([], [])
        self.count = 0

    def tick(self, batches: Sequence[Sequence[Row]], edge: Edge, now: Instant) -> Outcome:
        """Take the rows of both sides, pair them, and decide what the watermark decides."""
        late: list[dict[str, Any]] = []
        rejected: list[dict[str, Any]] = []
        for port in (LEFT, RIGHT):
            for row in batches[port]:
                self._take(port, row, edge, late, rejected)
        shown = [*self._meet(), *self._decide(edge)]
        for side in (*self.rows[LEFT], *self.rows[RIGHT]):
            side.new = False
        shown.sort(key=lambda pair: _place(*pair))
        rows = sum(map(len, batches))
        return Outcome(
            panes=in_order_of_keys((_values(left, right), self._row(left, right)) for left, right in shown),
            late=late, rejected=rejected, replaced=[], watermark=self._promise(edge),
            books=Books(
                rows=rows, kept=rows - len(late) - len(rejected), late=len(late), rejected=len(rejected), missed=0
            ),
        )  # fmt: skip

    def _take(
        self, port: int, row: Row, edge: Edge, late: list[dict[str, Any]], rejected: list[dict[str, Any]]
    ) -> None:
        """Remember a row, unless it came too late or has no window; then it is put aside like a row without a match."""
        self.count += 1
        keys = self.node.keys if port == LEFT else self.node.other_keys
        values = tuple(canonical(row[name], self.schemas[port][name]) for name in keys)
        window = self._window(row)
        side = Side(self.count, row, row[TIME], tuple(map(rank, values)), values, window)
        alone = {
            **(self._both(side, None) if port == LEFT else self._both(None, side)),
            "side": SIDES[port],
            TIME: side.time,
        }
        reason = None if window is None else reason_to_reject_windows(self.tumbling, [window])
        if reason is not None:
            rejected.append({**alone, "reason": reason})
        elif (side.time if window is None else window[1] - 1) < edge.before - self.lateness:
            late.append({**alone, **late_by(row, edge)})
        else:
            self.rows[port].append(side)

    @property
    def tumbling(self) -> Tumbling:
        """The windows in which rows meet."""
        assert not isinstance(self.node.within, Interval)
        assert isinstance(self.node.within.window, Tumbling)
        return self.node.within.window

    def _window(self, row: Row) -> tuple[int, int] | None:
        if isinstance(self.node.within, Interval):
            return None
        ((start, end),) = windows_of(self.tumbling, row[TIME], row)
        return start, end

    def _meet(self) -> Iterator[tuple[Side | None, Side | None]]:
        """Pair rows of which one is new; give the pairs that are shown at once."""
        for left in self.rows[LEFT]:
            for right in self.rows[RIGHT]:
                if (left.new or right.new) and self._fits(left, right):
                    first = not left.matches
                    left.matches.append(right)
                    right.matches.append(left)
                    if self.node.how == "semi":
                        if first:
                            yield left, None
                    elif self.node.how != "anti" and self.node.match == "all":
                        yield left, right

    def _fits(self, left: Side, right: Side) -> bool:
        if left.key != right.key or None in left.values:
            return False
        if isinstance(self.node.within, Interval):
            return bool(self.node.within.low <= right.time - left.time <= self.node.within.high)
        return left.window == right.window

    def _decide(self, edge: Edge) -> Iterator[tuple[Side | None, Side | None]]:
        """Rows for which no match can come any more."""
        node = self.node
        for left in self.rows[LEFT]:
            if not left.decided and self._last_match(LEFT, left) < edge.after - self.lateness:
                left.decided = True
                if node.match != "all" and left.matches:
                    yield left, self._chosen(left)
                elif not left.matches and node.how in ("left", "full", "anti"):
                    yield left, None
        for right in self.rows[RIGHT]:
            if not right.decided and self._last_match(RIGHT, right) < edge.after - self.lateness:
                right.decided = True
                if not right.matches and node.how in ("right", "full"):
                    yield None, right

    def _last_match(self, port: int, side: Side) -> int:
        """The latest time that a match can have."""
        if side.window is not None:
            return side.window[1] - 1
        assert isinstance(self.node.within, Interval)
        return side.time + (self.node.within.high if port == LEFT else -self.node.within.low)

    def _chosen(self, left: Side) -> Side:
        """The first or last match: by time, then by its values that can be compared."""
        scalar = [n for n, kind in self.schemas[RIGHT].columns if kind.element is None and not kind.fields]

        def order(side: Side) -> tuple[int, list[Any], int]:
            values = [rank(canonical(side.row[name], self.schemas[RIGHT][name])) for name in scalar]
            return side.time, values, side.number

        return min(left.matches, key=order) if self.node.match == "first" else max(left.matches, key=order)

    def _promise(self, edge: Edge) -> Instant:
        """No row before this comes out any more, but for what lateness allows."""
        node = self.node
        if edge.after >= Instant.END_OF_TIME or not isinstance(node.within, Interval):
            return edge.after
        left = node.within.high if node.match != "all" or node.how in ("left", "full", "semi", "anti") else 0
        right = -node.within.low if node.how in ("right", "full") else 0
        return Instant(edge.after - max(left, right, 0))

    def _row(self, left: Side | None, right: Side | None) -> dict[str, Any]:
        """A row that is shown, with its time: the later one of the two, or the last moment of their window."""
        time = max(side.time for side in (left, right) if side is not None)
        if self.node.how in ("semi", "anti"):
            assert left is not None
            shown = {**visible(left.row), **dict(zip(self.node.keys, left.values, strict=True))}
        else:
            shown = self._both(left, right)
        some = left or right
        if some is not None and some.window is not None:
            start, end = some.window
            time = end - 1
            shown |= {"window_start": shown_instant(start), "window_end": shown_instant(end)}
        return {**shown, TIME: time}

    def _both(self, left: Side | None, right: Side | None) -> dict[str, Any]:
        """The columns of both sides, null where there is none; the key is that of either."""
        ours, theirs = self.schemas
        shown: dict[str, Any] = {name: None if left is None else left.row[name] for name in ours}
        shown |= dict(zip(self.node.keys, _values(left, right), strict=True))
        shared = [other for key, other in zip(self.node.keys, self.node.other_keys, strict=True) if key == other]
        for name in theirs:
            if name not in shared:
                value = None if right is None else dict(zip(self.node.other_keys, right.values, strict=True)).get(name)
                called = name + self.node.suffix if name in ours else name
                shown[called] = right.row[name] if right is not None and name not in self.node.other_keys else value
        return shown


def _values(left: Side | None, right: Side | None) -> tuple[Any, ...]:
    some = left or right
    assert some is not None
    return some.values


def _place(left: Side | None, right: Side | None) -> tuple[int, tuple[int, int], tuple[int, int]]:
    """By the left row, then by the right one; rows of the right side alone stand behind."""
    nowhere = (0, 0)
    return (
        int(left is None),
        nowhere if left is None else left.place,
        nowhere if right is None else right.place,
    )
