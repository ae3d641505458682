"""States of operators: what each keeps from tick to tick, with rows that wait, rows that are over, and timers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

import strandline as sl
from strandline.testing import Events, Tick, Watermark
from strandline.testing.steps import Row, Step
from tests.states.case import Case, events, keyed, source

DAY = "2026-01-01"


def _two() -> tuple[sl.Stream, sl.Stream]:
    flow = sl.Flow("stored")
    return source(flow, "left"), source(flow, "right")


def _tick(left: list[Row], right: list[Row], watermark: str | None = None) -> Step:
    """Rows of both sources, and how far both are."""
    parts = [Events(left, source="left"), Events(right, source="right")]
    return Tick(parts, None if watermark is None else f"{DAY}T{watermark}Z")


def interval_join() -> Case:
    """Rows of both sides that wait for a match, some matched already; the next tick decides some and pairs others."""
    left, right = _two()
    stage = left.key_by("user", "country").join(
        "stage", right.key_by("user", "country"), within=sl.Between("-30s", "1m"), how="full"
    )
    first = _tick(
        events(("ann", 1, "12:00:00"), ("ann", 3, "12:00:40"), (None, 2, "12:00:10")),
        events(("ann", 7, "12:00:50"), ("bob", 4, "12:00:20")),
    )
    second = _tick(events(("bob", 6, "12:01:30")), events((None, 4, "12:00:30")), "12:00:30")
    after = _tick(
        events(("bob", 2, "12:00:40"), ("ann", 9, "12:01:10"), ("ann", 1, "12:00:29")),
        events(("bob", 8, "12:02:00"), ("ann", 11, "12:01:40")),
        "12:01:15",
    )
    return Case(stage, (first, second), after)


def first_match() -> Case:
    """A salted join that is still to decide which match of a row is its first."""
    left, right = _two()
    stage = left.key_by("user").join(
        "stage", right.key_by("user"), within=sl.After("1m"), match="first", how="left", salt=4
    )
    first = _tick(
        events(("ann", 1, "12:00:00"), ("ann", 3, "12:00:10"), ("bob", 2, "12:00:05")), events(("ann", 7, "12:00:50"))
    )
    second = _tick(events(("ann", 5, "12:00:20")), events(("ann", 4, "12:00:30")), "12:00:40")
    return Case(stage, (first, second), _tick([], events(("ann", 8, "12:00:45")), "12:01:05"))


def window_join() -> Case:
    """Rows of both sides, with the window in which they may meet."""
    left, right = _two()
    stage = left.key_by("user").join(
        "stage", right.key_by("user"), within=sl.SameWindow(sl.Tumbling("1m")), how="left", suffix="_there"
    )
    first = _tick(events(("ann", 1, "12:00:00"), ("bob", 3, "12:00:59")), events(("ann", 7, "12:01:50")))
    second = _tick(events(("ann", 2, "12:01:10")), events(("bob", 4, "12:01:00")), "12:00:30")
    after = _tick(events(("bob", 5, "12:01:20")), events(("ann", 8, "12:00:31"), ("ann", 9, "11:59:00")), "12:01:00")
    return Case(stage, (first, second), after)


def dedupe() -> Case:
    """What passed, of several times; the next tick repeats some of it, and some that is over."""
    stage = source(sl.Flow("stored")).dedupe("stage", on=["user", "country"], within="1m")
    first = events(("ann", 1, "12:00:00"), ("bob", 2, "12:00:30"), (None, 5, "12:00:10"), ("ann", 3, "12:01:30"))
    after = events(
        ("ann", 7, "12:00:30"), ("bob", 4, "12:01:29"), ("bob", 6, "12:01:30"), (None, 10, "12:01:05"), ("eve", 1, "11:59:00")
    )  # fmt: skip
    return Case(stage, (Events(first), Watermark(f"{DAY}T12:00:20Z")), Tick(after, f"{DAY}T12:01:00Z"))


CHANGE = "id string, v bigint, price decimal(10,2), version bigint, op string, at timestamp"


def _changes(*rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Changes as (id, v, version, op, time of day)."""
    return [
        {"id": name, "v": v, "price": f"{v}.50", "version": version, "op": op, "at": f"{DAY}T{at}Z"}
        for name, v, version, op, at in rows
    ]


def table() -> Case:
    """Rows that stand, rows that are gone, and when they are forgotten; the next tick has changes older than they are."""
    flow = sl.Flow("stored")
    changes = flow.source("changes", sl.Rows(schema=CHANGE), time="at")
    stage = flow.table("stage", changes, key="id", order="version", ttl="1h").changes
    first = _changes(
        ("a", 1, 5, "insert", "12:00:00"), ("b", 2, 5, "insert", "12:10:00"), ("c", 3, 5, None, "12:20:00")
    )
    second = _changes(
        ("b", 4, 6, "delete", "12:30:00"), ("c", 5, 6, "update", "12:31:00"), ("d", 6, 1, None, "12:01:00")
    )
    after = _changes(
        ("a", 7, 4, "update", "12:40:00"), ("b", 8, 5, "insert", "12:40:00"), ("b", 9, 7, "insert", "12:41:00"),
        ("c", 10, 7, "delete", "12:42:00"),
    )  # fmt: skip
    return Case(stage, (Events(first), Tick(second, f"{DAY}T12:15:00Z")), Tick(after, f"{DAY}T13:01:00Z"))


def _with_rates(**options: Any) -> sl.Stage:
    flow = sl.Flow("stored")
    orders = source(flow, "left")
    changes = flow.source("right", sl.Rows(schema=CHANGE), time="at")
    return orders.join_table("stage", flow.table("rates", changes, key="id", ttl="1h"), on="word", **options)


def table_join() -> Case:
    """The rows of a table as they stand; the next tick changes one, lets one expire, and asks for all."""
    stage = _with_rates()
    first = _tick([], _changes(("a", 1, 0, "insert", "12:00:00"), ("b", 2, 0, "insert", "12:30:00")))
    second = _tick([], _changes(("c", 3, 0, "insert", "12:31:00"), ("b", 4, 0, "delete", "12:32:00")), "12:40:00")
    after = _tick(
        events(("ann", 3, "13:00:00"), ("bob", 1, "12:59:00"), ("eve", 2, "12:50:00"), ("ann", 6, "12:59:59")),
        _changes(("c", 5, 0, "update", "12:50:00")),
        "13:00:00",
    )
    return Case(stage, (first, second), after)


def as_of_join() -> Case:
    """Versions of a table, and rows that wait until it is known which of them stood at their time."""
    stage = _with_rates(as_of=True)
    first = _tick(
        events(("ann", 3, "12:05:00"), ("bob", 1, "12:40:00")),
        _changes(("a", 1, 0, "insert", "12:00:00"), ("a", 2, 0, "update", "12:10:00")),
    )
    second = _tick(
        events(("ann", 6, "12:20:00"), ("eve", 4, "12:50:00")), _changes(("b", 3, 0, "insert", "12:30:00")), "12:06:00"
    )
    after = _tick(
        events(("ann", 9, "12:09:00"), ("ann", 12, "12:01:00")),
        _changes(("a", 5, 0, "update", "12:15:00"), ("b", 6, 0, "delete", "12:35:00")),
        "12:45:00",
    )
    return Case(stage, (first, second), after)


def _features() -> dict[str, sl.AnyAggregate]:
    return {
        "n_20s": sl.Count(within="20s"), "mean_1m": sl.Mean("x", within="1m"),
        "most_1m": sl.Max("price", within="1m", where="n > 2"),
    }  # fmt: skip


def features() -> Case:
    """Events that others look back at; the next tick brings an older one, which corrects them."""
    stage = keyed("user").over("stage", **_features())
    first = events(("ann", 1, "12:00:00"), ("ann", 3, "12:00:10"), ("bob", 2, "12:00:30"), ("ann", 4, "12:01:05"))
    after = events(("ann", 6, "12:00:50"), ("bob", 5, "12:00:31"), ("ann", 7, "12:00:02"))
    return Case(stage, (Events(first), Watermark(f"{DAY}T12:00:20Z")), Tick(after, f"{DAY}T12:01:00Z"))


def complete_features() -> Case:
    """Events that wait until nothing earlier can come."""
    stage = keyed("user").over("stage", emit="watermark", include_current=False, **_features())
    first = events(("ann", 1, "12:00:00"), ("ann", 3, "12:00:40"), ("bob", 2, "12:00:30"), ("ann", 4, "12:01:05"))
    after = events(("ann", 6, "12:00:35"), ("bob", 5, "12:02:31"), ("ann", 7, "12:00:02"))
    return Case(stage, (Events(first), Watermark(f"{DAY}T12:00:20Z")), Tick(after, f"{DAY}T12:01:00Z"))


class Visits(sl.Process):
    """Remembers in every way there is, and is woken by both clocks."""

    count = sl.Value("bigint", 0)
    seen = sl.List("string")
    prices = sl.Map("string", "decimal(10,2)")
    mean = sl.Running(sl.Mean("x"))
    silent = sl.Timer("1m")

    def on_event(self, event: Mapping[str, Any], out: Any) -> None:
        self.count += 1
        self.seen.append(event["word"])
        self.prices[event["word"]] = event["price"]
        self.mean.add(event)
        self.silent.set(after="30s")
        out.side("counts", out.key, count=self.count)

    def on_timer(self, timer: str, out: Any) -> None:
        price = self.prices[self.seen[-1]]
        out.emit(out.key, count=self.count, seen=self.seen, price=price, mean=self.mean.result, at=out.time)
        self.seen = []


class Reminders(sl.Process):
    """Tells by the clock what came."""

    last = sl.Value("bigint")
    due = sl.Timer("30s", clock="processing")

    def on_event(self, event: Mapping[str, Any], out: Any) -> None:
        self.last = event["n"]
        self.due.set(after="20s")

    def on_timer(self, timer: str, out: Any) -> None:
        out.emit(out.key, last=self.last)


def process() -> Case:
    """State of every kind, timers that have not rung, and events that wait for the watermark."""
    stage = keyed("user").process(
        "stage", Visits, output="user string, count bigint, seen array<string>, price decimal(10,2), mean double, at timestamp",
        side={"counts": "user string, count bigint"}, order="event_time", ttl=sl.TTL("2m"),
    )  # fmt: skip
    first = events(("ann", 1, "12:00:00"), ("ann", 3, "12:00:10"), ("bob", 2, "12:00:30"), (None, 4, "12:00:05"))
    second = events(("ann", 5, "12:00:25"), ("eve", 6, "12:02:00"))
    after = events(("ann", 7, "12:00:38"), ("bob", 8, "12:00:40"), ("bob", 1, "12:00:01"), (None, 9, "12:02:30"))
    before = (Events(first), Tick(second, f"{DAY}T12:00:28Z"))
    return Case(stage, before, Tick(after, f"{DAY}T12:02:20Z"))


def clocked_process() -> Case:
    """Timers and a time to live by the clock."""
    stage = keyed("user").process(
        "stage", Reminders, output="user string, last bigint", ttl=sl.TTL("1m", since="read", clock="processing")
    )
    first, second = events(("ann", 1, "12:00:00"), ("bob", 2, "12:00:01")), events(("ann", 3, "12:30:00"))
    before = (
        Tick(first, processing_time=f"{DAY}T13:00:00Z"),
        Tick(second, processing_time=f"{DAY}T13:00:15Z"),
    )
    return Case(stage, before, Tick(events(("eve", 4, "12:31:00")), processing_time=f"{DAY}T13:00:36Z"))


class Counting(sl.Process):
    """Numbers the events of a key, one at a time."""

    count = sl.Value("bigint", 0)

    def on_event(self, event: Mapping[str, Any], out: Any) -> None:
        self.count += 1
        out.emit(out.key, count=self.count)


class CountingTogether(sl.TableProcess):
    """The same in columns."""

    count = sl.Value("bigint", 0)

    def on_events(self, events: pl.DataFrame, state: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        before = events.join(state, on="user", how="left", nulls_equal=True, maintain_order="left")
        counted = before.with_columns(count=pl.col("count") + pl.int_range(1, pl.len() + 1).over("user"))
        after = counted.group_by("user", maintain_order=True).agg(pl.col("count").max())
        return counted.select("user", "count", "__time"), after


def table_process() -> Case:
    """State that is kept by one that works in columns, and events that wait."""
    options: dict[str, Any] = {"output": "user string, count bigint", "order": "event_time", "ttl": sl.TTL("1m")}
    stage = keyed("user").process("stage", CountingTogether, **options)
    first = events(("ann", 1, "12:00:00"), ("ann", 3, "12:00:10"), ("bob", 2, "12:00:30"), (None, 4, "12:00:05"))
    after = events(("ann", 7, "12:01:00"), ("bob", 8, "12:00:40"), (None, 9, "12:01:05"), ("ann", 5, "12:00:01"))
    before = (Events(first), Watermark(f"{DAY}T12:00:20Z"))
    alike = keyed("user").process("stage", Counting, **options)
    return Case(stage, before, Tick(after, f"{DAY}T12:01:10Z"), alike)


def pattern() -> Case:
    """Matches that have begun, and one that waits for its time to be over."""
    stage = keyed("user").detect(
        "stage",
        sl.sequence(
            sl.step("odd", "n % 2 = 1").times(2).consecutive(), sl.step("more", "n > 5").optional(),
            sl.absent("ten", "n = 10"), within="1m", skip="to_next",
        ),
    )  # fmt: skip
    first = events(("ann", 1, "12:00:00"), ("ann", 3, "12:00:10"), ("bob", 5, "12:00:15"), ("eve", 7, "12:00:01"))
    second = events(("eve", 9, "12:00:12"), ("bob", 7, "12:00:30"))
    after = events(("ann", 6, "12:00:30"), ("bob", 10, "12:00:40"), ("eve", 8, "12:00:50"), ("eve", 1, "12:00:02"))
    return Case(stage, (Events(first), Tick(second, f"{DAY}T12:00:20Z")), Tick(after, f"{DAY}T12:01:05Z"))


CASES = (
    interval_join, first_match, window_join, dedupe, table, table_join, as_of_join, features, complete_features, process,
    clocked_process, table_process, pattern,
)  # fmt: skip
