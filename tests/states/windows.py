"""States of windows: every kind of aggregate, trigger and window, and a stage behind a stage."""

from __future__ import annotations

import strandline as sl
from strandline.testing import Events, ProcessingTime, Tick, Watermark
from tests.states.case import Case, events, keyed


class Product(sl.Aggregate):
    """An aggregate of a user's own."""

    columns = ("n",)
    result = "bigint"

    def start(self) -> int:
        return 1

    def add(self, accumulator: int, n: int) -> int:
        return accumulator * n

    def merge(self, left: int, right: int) -> int:
        return left * right

    def output(self, accumulator: int) -> int:
        return accumulator


def tumbling() -> Case:
    """Every aggregate, two key columns with nulls, early panes shown and retracted."""
    early = sl.AfterWatermark(early=sl.AfterCount(2), late=sl.AfterCount(1))
    stage = keyed("user", "country").window(sl.Tumbling("1m"), trigger=early, lateness="5m", mode="retracting").aggregate(
        "stage", count=sl.Count(), whole=sl.Sum("n"), money=sl.Sum("price"), grid=sl.Sum("x"), exact=sl.Sum("x", exact=True),
        mean=sl.Mean("price"), least=sl.Min("word"), greatest=sl.Max("x"), first=sl.First("word"), last=sl.Last("n"),
        variance=sl.Variance("x"), spread=sl.StdDev("price"), distinct=sl.Distinct("word"), about=sl.ApproxDistinct("n"),
        quantiles=sl.Quantile("x", (0.5, 0.9)), often=sl.TopK("word", 2), top=sl.TopK("word", 2, by="x"),
        all=sl.Collect("n"), recent=sl.Ewma("x", half_life="10s"), product=Product(), chosen=sl.Count(where="n > 3"),
    )  # fmt: skip
    first = events(("ann", 1, "12:00:03"), ("ann", 3, "12:00:10"), ("bob", 5, "12:00:20"), (None, 2, "12:01:30"))
    second = events(("ann", 7, "12:00:40"), ("bob", 10, "12:00:05"), (None, 4, "12:01:59"), ("eve", 6, "12:02:01"))
    late = events(("ann", 9, "12:00:59"), ("bob", 15, "12:00:01"), ("eve", 8, "12:02:02"), (None, 12, "12:01:00"))
    return Case(
        stage, (Events(first), Events(second), Watermark("2026-01-01T12:01:00Z")), Tick(late, "2026-01-01T12:02:00Z")
    )


def sessions() -> Case:
    """Sessions that were shown, and that the next tick merges."""
    early = sl.AfterWatermark(early=sl.AfterCount(1), late=sl.AfterCount(1))
    stage = keyed("user").window(sl.Session("10s"), trigger=early, lateness="1m", mode="retracting").aggregate(
        "stage", count=sl.Count(), total=sl.Sum("x"), words=sl.Collect("word")
    )  # fmt: skip
    first = events(("ann", 1, "12:00:00"), ("ann", 2, "12:00:15"), ("bob", 3, "12:00:00"))
    second = events(("bob", 4, "12:00:30"), ("ann", 5, "12:01:40"))
    joining = events(("ann", 6, "12:00:08"), ("bob", 7, "12:00:05"), ("bob", 8, "11:58:00"))
    return Case(stage, (Events(first), Tick(second, "2026-01-01T12:00:30Z")), Tick(joining, "2026-01-01T12:00:45Z"))


def hopping() -> Case:
    """Slices that several windows share."""
    window = sl.Hopping("1m", every="20s")
    stage = keyed("user").window(window).aggregate(
        "stage", count=sl.Count(), total=sl.Sum("price"), highest=sl.Max("n"), median=sl.Quantile("x", 0.5)
    )  # fmt: skip
    first = events(("ann", 1, "12:00:05"), ("ann", 2, "12:00:25"), ("bob", 3, "12:00:45"))
    second = events(("ann", 4, "12:00:50"), ("bob", 5, "12:01:10"))
    after = events(("ann", 6, "12:01:01"), ("bob", 7, "11:59:59"))
    return Case(stage, (Events(first), Tick(second, "2026-01-01T12:00:40Z")), Tick(after, "2026-01-01T12:01:20Z"))


def refined_hopping() -> Case:
    """Hopping windows that are kept whole, because they may be shown again."""
    window = sl.Hopping("1m", every="30s")
    stage = keyed("user").window(window, lateness="5m", on_time="always", timestamp="earliest").aggregate(
        "stage", count=sl.Count(), first=sl.First("word")
    )  # fmt: skip
    first = events(("ann", 1, "12:00:05"), ("bob", 3, "12:00:45"))
    late = events(("ann", 6, "12:00:40"), ("bob", 7, "11:50:00"))
    return Case(stage, (Events(first), Watermark("2026-01-01T12:00:30Z")), Tick(late, "2026-01-01T12:01:00Z"))


def timers() -> Case:
    """Global windows with a time to live, and timers that have not rung."""
    stage = keyed("user").window(
        sl.Global(ttl="1h"), trigger=sl.Repeatedly(sl.AfterProcessingTime("10s")), mode="discarding", allow_loss=True
    ).aggregate("stage", count=sl.Count(), total=sl.Sum("x"))  # fmt: skip
    first, second = events(("ann", 1, "12:00:00"), ("bob", 2, "12:00:01")), events(("ann", 3, "12:30:00"))
    before = (
        Tick(first, processing_time="2026-01-01T13:00:00Z"),
        ProcessingTime("2026-01-01T13:00:10Z"),
        Tick(second, watermark="2026-01-01T12:30:00Z", processing_time="2026-01-01T13:00:12Z"),
    )
    return Case(stage, before, Tick((), "2026-01-01T13:00:01Z", "2026-01-01T13:00:22Z"))


def composed() -> Case:
    """A trigger of many parts, in the middle of its way; counts at each event; calendar days."""
    trigger = sl.Repeatedly(
        sl.AfterAny(
            sl.AfterEach(sl.AfterCount(2, exact=True), sl.OnEvent("word = 'c'")),
            sl.AfterAll(sl.When("total > 5", crossing=True), sl.AfterProcessingTime("1m")),
        )
    )
    window = sl.Tumbling("1d", zone="Europe/Berlin")
    stage = keyed("user").window(window, trigger=trigger, mode="accumulating", coalesce=False, allow_loss=True)
    first = events(("ann", 1, "12:00:00"), ("ann", 3, "12:00:01"), ("ann", 4, "12:00:02"), ("bob", 3, "12:00:03"))
    after = events(("ann", 2, "12:00:04"), ("ann", 5, "12:00:05"), ("bob", 6, "12:00:06"))
    return Case(
        stage.aggregate("stage", count=sl.Count(), total=sl.Sum("n")),
        (Tick(first, processing_time="2026-01-01T13:00:00Z"),),
        Tick(after, processing_time="2026-01-01T13:01:00Z"),
    )


def chained() -> Case:
    """A stage behind one that retracts: counted multisets, and a sum that is rolled up."""
    late = sl.AfterWatermark(late=sl.AfterCount(1))
    users = keyed("user", "country").window(sl.Tumbling("1m"), trigger=late, lateness="1h", mode="retracting").aggregate(
        "users", total=sl.Sum("n"), best=sl.Max("x"), word=sl.Last("word")
    )  # fmt: skip
    stage = users.key_by("country").window(sl.SameWindow(), mode="retracting").aggregate(
        "countries", users=sl.Count(), total=sl.Merge("total"), best=sl.Max("best"), words=sl.TopK("word", 2),
        mean=sl.Mean("best"), highest=sl.Max("total"), each=sl.Collect("total"),
    )  # fmt: skip
    first = events(("ann", 1, "12:00:03"), ("bob", 3, "12:00:10"), ("eve", 2, "12:00:20"), ("ann", 5, "12:00:30"))
    after = events(("ann", 7, "12:00:59"), ("eve", 4, "12:00:58"))
    return Case(stage, (Events(first), Watermark("2026-01-01T12:01:00Z")), Events(after))


CASES = (tumbling, sessions, hopping, refined_hopping, timers, composed, chained)
