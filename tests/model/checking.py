"""Flows to be checked, and what check() says of them."""

from __future__ import annotations

from typing import Any

import strandline as sl
from strandline.errors import CheckFailed

SCHEMA = "user string, amount double, n int, zone string, gap interval, tags array<string>, at timestamp"
MINUTES, HOURS = sl.Tumbling("1m"), sl.Tumbling("1h")
REFINING: dict[str, Any] = {"trigger": sl.AfterWatermark(late=sl.AfterCount(1)), "lateness": "1m", "mode": "retracting"}


class Plain(sl.Aggregate):
    columns: tuple[str, ...] = ("total",)
    result = "bigint"

    def start(self) -> int:
        return 0

    def add(self, accumulator: int, *values: Any) -> int:
        return accumulator + 1

    def merge(self, left: int, right: int) -> int:
        return left + right

    def output(self, accumulator: int) -> int:
        return accumulator


class Removing(Plain):
    def remove(self, accumulator: int, *values: Any) -> int:
        return accumulator - 1


class Wordy(Plain):
    columns = "amount"  # type: ignore[assignment]  # a common slip: no tuple


class Merging(sl.CustomWindow):
    merging = True

    def assign(self, time: Any, row: Any) -> list[tuple[int, int]]:
        return [(time, time + 1)]


class Unbounded(sl.CustomWindow):
    def assign(self, time: Any, row: Any) -> list[tuple[int, int]]:
        return [(time, time + 1)]


class Short(Unbounded):
    longest = sl.Span.of("1m")


def orders(schema: str = SCHEMA, **options: Any) -> sl.Stream:
    return sl.Flow("f").source("orders", sl.Rows(schema=schema), **{"time": "at", **options})


def stage(
    window: Any = MINUTES, *, keys: tuple[str, ...] = ("user",), aggregates: Any = None, **options: Any
) -> sl.Stage:
    return orders().key_by(*keys).window(window, **options).aggregate("one", **(aggregates or {"total": sl.Sum("n")}))


def second(window: Any = HOURS, *, first: Any = None, aggregates: Any = None, **options: Any) -> sl.Stage:
    before = stage(**REFINING) if first is None else first
    return before.key_by("user").window(window, **options).aggregate("two", **(aggregates or {"n": sl.Count()}))


def problems(stream: sl.Stream | sl.Flow) -> list[str]:
    try:
        (stream if isinstance(stream, sl.Flow) else stream.flow).check()
    except CheckFailed as failed:
        return [problem.what for problem in failed.problems]
    return []


def surprises(flow: sl.Flow) -> list[str]:
    """The risks of a flow, without the one that it has no sink."""
    return [risk for risk in flow.check() if "has no sink" not in risk]


def aggregated(**aggregates: Any) -> sl.Stage:
    return stage(aggregates=aggregates)


def fires(trigger: Any, **options: Any) -> sl.Stage:
    return stage(trigger=trigger, **options)


def behind(before: sl.Stream, window: Any = HOURS, **aggregates: Any) -> sl.Stage:
    return before.key_by("user").window(window).aggregate("three", **(aggregates or {"n": sl.Count()}))


COUNTED, EACH = sl.Repeatedly(sl.AfterCount(3)), sl.Repeatedly(sl.AfterCount(1))
HOPS = sl.Hopping("1m", every="30s")
