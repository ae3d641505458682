"""One stage and its oracle, with times as small whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from strandline.model.aggregates import Collect, Count
from strandline.model.flow import Flow
from strandline.model.nodes import StageNode
from strandline.model.oracle import Outcome, StageOracle
from strandline.model.ticks import Edge
from strandline.model.time import Instant, Span
from strandline.model.types import Schema
from strandline.model.windows import Tumbling

END = Instant.END_OF_TIME
TENS = Tumbling(Span(10))


@dataclass(frozen=True)
class Given:
    schema: Schema


def stage(
    window: Any = TENS, *, schema: str = "k string, v bigint", keys: Sequence[str] = ("k",), **options: Any
) -> StageNode:
    """A stage that collects `v` as `vs` and counts rows as `n`, or computes the aggregates given."""
    aggregates = options.pop("aggregates", {"n": Count(), "vs": Collect("v")})
    flow = Flow("test")
    source = flow.source("rows", Given(Schema.of(schema)), time="at")
    node = source.key_by(*keys).window(window, **options).aggregate("stage", **aggregates).node
    assert isinstance(node, StageNode)
    return node


class Playing:
    """Ticks of one stage; the watermark moves when it is told to."""

    def __init__(self, window: Any = TENS, *, taking_back: bool = False, **options: Any) -> None:
        self.node = stage(window, **options)
        self.oracle = StageOracle(
            self.node, lateness=self.node.lateness, taking_back=taking_back, schema=Schema.of(options.get("schema", "k string, v bigint"))
        )  # fmt: skip
        self.edge = Edge.first()
        self.outcome: Outcome

    def rows(self, *rows: dict[str, Any], to: int | None = None, now: int = 0) -> list[dict[str, Any]]:
        """A tick with these rows, which says what was shown; the watermark goes `to`."""
        self.edge = self.edge.moved_to(self.edge.after if to is None else Instant(to))
        self.outcome = self.oracle.tick(rows, self.edge, Instant(now))
        books = self.outcome.books
        assert books.rows == books.kept + books.late + books.rejected
        return self.outcome.panes

    def tick(self, *events: Any, to: int | None = None, now: int = 0) -> list[dict[str, Any]]:
        """A tick with events of key "a": a time that is also the value, or (time, value), or (time, value, weight)."""
        return self.rows(*(row(*(e if isinstance(e, tuple) else (e,))) for e in events), to=to, now=now)

    def shown(self, *events: Any, to: int | None = None, now: int = 0) -> list[Any]:
        """What `tick` shows, shortly: (start, end, values), with "-" in front where it is taken back."""
        return [brief(pane) for pane in self.tick(*events, to=to, now=now)]


def row(time: int, value: Any = None, weight: int = 1, /, **columns: Any) -> dict[str, Any]:
    return {"k": "a", "v": time if value is None else value, "__time": time, "__weight": weight, **columns}


def brief(pane: dict[str, Any]) -> tuple[Any, ...]:
    short = (pane["__window_start"], pane["__window_end"], pane["vs"])
    return short if pane["op"] == "insert" else ("-", *short)


def timings(panes: list[dict[str, Any]]) -> list[tuple[str, int, bool]]:
    return [(p["pane_timing"], p["pane_index"], p["pane_is_last"]) for p in panes]
