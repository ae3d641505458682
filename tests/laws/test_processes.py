"""Laws of process functions: kernel = oracle, whatever a process does with its state and its timers; and in columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strandline as sl
from strandline.model.streams import Stream
from strandline.testing import Crash, Events, Tick, play
from strandline.testing.steps import Step, as_tick
from tests.lanes import examples
from tests.laws.comparing import differences, text
from tests.laws.meeting import NOON, SECOND, left_rows, sources

OUTPUT = (
    "user string, what string, count bigint, sum double, seen array<bigint>, names array<string>, piled array<bigint>"
)


class Busy(sl.Process):
    """Does with its state what the number of an event says."""

    count = sl.Value("bigint", 0)
    seen = sl.List("bigint")
    names = sl.Map("string", "double")
    sum = sl.Running(sl.Sum("x"))
    pile = sl.Value("array<struct<often:bigint>>", [])
    soon = sl.Timer("30s")
    clock = sl.Timer("10s", clock="processing")

    def on_event(self, event: Any, out: Any) -> None:
        self.count += 1
        number = event["n"]
        if number == 1:
            self.seen.append(self.count)
            self.soon.set(after=f"{self.count % 7 + 1}s")
            (self.pile or [{"often": 0}])[-1]["often"] += 1
        elif number == 2:
            self.pile.append({"often": self.count})
            self.names[str(self.count % 3)] = event["x"]
            self.clock.set(after="2s")
            out.side("aside", user=event["user"], count=self.count)
        elif number == 3:
            self.soon.clear()
            self.sum.add({"x": float(self.count)})
        else:
            self.count, self.seen = 0, []
            self.names.clear()
            self.pile.clear()
        self._tell(out, "event")

    def on_timer(self, timer: str, out: Any) -> None:
        self._tell(out, timer)
        if timer == "soon" and self.count % 2:
            self.count += 1
            self.soon.set(after="3s")
        elif timer == "clock":
            self.seen = self.seen[1:]

    def _tell(self, out: Any, what: str) -> None:
        names, piled = sorted(self.names), [each["often"] for each in self.pile]
        out.emit(out.key, what=what, count=self.count, sum=self.sum.result, seen=self.seen, names=names, piled=piled)


class Counting(sl.Process):
    """Counts, one at a time."""

    count = sl.Value("bigint", 0)

    def on_event(self, event: Any, out: Any) -> None:
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


@st.composite
def days(draw: st.DrawFn) -> tuple[Step, ...]:
    """Ticks of one source, with its watermark and the clock."""
    made: list[Step] = []
    mark = clock = NOON
    for at in range(draw(st.integers(2, 6))):
        drawn = draw(st.lists(st.tuples(left_rows, st.integers(0, 24)), max_size=6))
        rows = [{**row, "at": mark + (n - (12 if at else 4)) * SECOND} for row, n in drawn]
        mark += max(0, draw(st.integers(-6, 14))) * SECOND if at else 0
        clock += draw(st.sampled_from((0, 1, 2, 3, 4, 9, 30))) * SECOND
        made.append(Tick(Events(rows), watermark=mark if at else None, processing_time=clock))
        if draw(st.integers(0, 3)) == 0:
            made.append(Crash())
    return (*made, Tick(watermark=2**62, processing_time=clock + 20 * SECOND))


TTLS = (None, sl.TTL("40s"), sl.TTL("31s", since="read"))
BY_THE_CLOCK = (sl.TTL("8s", clock="processing"), sl.TTL("9s", clock="processing", since="read"))


def busy(order: Any, ttl: Any) -> Any:
    class Mine(Busy):
        if ttl is not None and ttl.clock == "event":
            clock = sl.Timer("10s")  # a timer has the clock of the ttl
        elif ttl is not None:
            soon, clock = sl.Timer("7s", clock="processing"), sl.Timer("3s", clock="processing")

    return sources()[0].key_by("user").process(
        "busy", Mine, output=OUTPUT, side={"aside": "user string, count bigint"}, order=order, ttl=ttl
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("ttl", TTLS, ids=str)
@pytest.mark.parametrize("order", ["arrival", "event_time"])
@settings(max_examples=examples(15))
@given(data=st.data())
def test_kernel_and_oracle_agree_on_processes(order: str, ttl: Any, data: st.DataObject) -> None:
    stage, steps = busy(order, ttl), data.draw(days())
    stream: Stream = data.draw(st.sampled_from((stage, stage.side("aside"))))
    buckets, tasks = data.draw(st.sampled_from(((64, 1), (1, 1), (16, 3), (7, 2))))
    oracle = play(stream, steps, runner="oracle")
    kernel = play(stream, steps, runner="kernel", buckets=buckets, tasks=tasks)
    found = differences(stage, oracle, kernel)
    assert not found, "\n".join(["oracle < > kernel", *found])


@pytest.mark.slow
@pytest.mark.parametrize("ttl", BY_THE_CLOCK, ids=str)
@settings(max_examples=examples(15))
@given(data=st.data())
def test_kernel_and_oracle_agree_on_processes_that_forget_by_the_clock(ttl: Any, data: st.DataObject) -> None:
    stage, steps = busy("arrival", ttl), data.draw(days())
    buckets, tasks = data.draw(st.sampled_from(((64, 1), (1, 1), (16, 3), (7, 2))))
    oracle = play(stage, steps, runner="oracle")
    kernel = play(stage, steps, runner="kernel", buckets=buckets, tasks=tasks)
    found = differences(stage, oracle, kernel)
    assert not found, "\n".join(["oracle < > kernel", *found])


@pytest.mark.slow
@settings(max_examples=examples(10))
@given(days())
def test_by_event_time_batch_cuts_change_nothing(steps: tuple[Step, ...]) -> None:
    """Events that are not late come in the same order, and meet the same timers, however they are cut."""

    class Cut(Busy):
        clock = sl.Timer("10s")

    stage = (
        sources()[0]
        .key_by("user")
        .process("busy", Cut, output=OUTPUT, side={"aside": "user string, count bigint"}, order="event_time")
    )
    rows = [row for step in steps if not isinstance(step, Crash) for part in as_tick(step).events for row in part.rows]
    end = Tick(watermark=2**61)
    whole = play(stage, [Events(rows), end], runner="kernel")
    cut = play(
        stage,
        [*(Events([row]) for row in rows), *(Tick(watermark=NOON + n * SECOND) for n in range(60)), end],
        runner="kernel",
    )
    assert _all(whole) == _all(cut)


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(days(), st.sampled_from(("arrival", "event_time")), st.sampled_from(((64, 1), (16, 3))))
def test_in_columns_it_is_the_same_as_one_by_one(steps: tuple[Step, ...], order: Any, spread: tuple[int, int]) -> None:
    left, (buckets, tasks) = sources()[0], spread
    found = []
    for name, process in (("one", Counting), ("columns", CountingTogether)):
        stage = left.key_by("user").process(name, process, output="user string, count bigint", order=order)
        found.append(play(stage, steps, runner="kernel", buckets=buckets, tasks=tasks))
    one, columns = found
    for a, b in zip(one.ticks, columns.ticks, strict=True):
        assert Counter(map(text, a.panes)) == Counter(map(text, b.panes))
        assert Counter(map(text, a.late)) == Counter(map(text, b.late))


class CountingOnes(sl.Process):
    """Counts the ones, and reads without writing at others."""

    count = sl.Value("bigint", 0)
    seen = sl.Value("array<bigint>", [7])

    def on_event(self, event: Any, out: Any) -> None:
        if event["n"] == 1:
            self.count += 1
            self.seen = [self.count]
        out.emit(out.key, count=self.count + self.seen[0])


class CountingOnesInArrow(sl.TableProcess):
    """The same in Arrow tables."""

    tables = "arrow"
    count = sl.Value("bigint", 0)
    seen = sl.Value("array<bigint>", [7])

    def on_events(self, events: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
        user, count, seen = (state.column(name).to_pylist() for name in ("user", "count", "seen"))
        known, rows = {key: [n, s] for key, n, s in zip(user, count, seen, strict=True)}, []
        for event in events.to_pylist():
            mine = known[event["user"]]
            if event["n"] == 1:
                mine[0], mine[1] = mine[0] + 1, [mine[0] + 1]
            rows.append({"user": event["user"], "count": mine[0] + mine[1][0], "__time": event["__time"]})
        after = [{"user": key, "count": n, "seen": s} for key, (n, s) in known.items()]
        return pa.Table.from_pylist(rows), pa.Table.from_pylist(after, schema=state.schema)


EXPIRING = (sl.TTL("8s"), sl.TTL("8s", since="read"), sl.TTL("3s", clock="processing"))


@pytest.mark.slow
@pytest.mark.parametrize("ttl", EXPIRING, ids=str)
@pytest.mark.parametrize(
    "pair", [(Counting, CountingTogether), (CountingOnes, CountingOnesInArrow)], ids=["all", "ones"]
)
@settings(max_examples=examples(20))
@given(days())
def test_in_columns_state_expires_as_it_does_one_by_one(
    pair: tuple[Any, Any], ttl: sl.TTL, steps: tuple[Step, ...]
) -> None:
    """Where each tick has one event: of several, those in columns see the state that the first of them finds."""
    left, found = sources()[0], []
    for name, process in zip(("one", "columns"), pair, strict=True):
        stage = left.key_by("user").process(name, process, output="user string, count bigint", ttl=ttl)
        found.append(play(stage, [*_one_by_one(steps)], runner="kernel"))
    one, columns = ([sorted(map(text, rows)) for rows in played] for played in found)
    assert one == columns


def _one_by_one(steps: tuple[Step, ...]) -> Iterator[Step]:
    for tick in (as_tick(step) for step in steps if not isinstance(step, Crash)):
        yield from (Tick([row], processing_time=tick.processing_time) for part in tick.events for row in part.rows)
        yield Tick(watermark=tick.watermark, processing_time=tick.processing_time)


def _all(played: Any) -> Counter[str]:
    return Counter(text(row) for rows in played for row in rows)
