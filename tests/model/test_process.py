"""What a process describes in its body."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

import strandline as sl
from strandline.model.process import fields_of, kept_of, timers_of
from strandline.testing import Events, Tick, play


def test_a_process_that_travels_by_value_keeps_the_same_columns_in_the_same_order() -> None:
    class Velocity(sl.Process):
        times = sl.List("timestamp")
        silent = sl.Timer("5m")
        amounts = sl.List("double")

        def on_event(self, event: Any, out: Any) -> None:
            self.times.append(event["at"])

    body = {name: each for name, each in vars(Velocity).items() if not name.startswith("_")}
    there = type("Velocity", (sl.Process,), dict(sorted(body.items())))  # as cloudpickle makes it in another process
    assert [*fields_of(there)] == [*fields_of(Velocity)] == ["amounts", "silent", "times"]
    assert ([*kept_of(there)], [*timers_of(there)]) == (["amounts", "times"], ["silent"])


def test_a_derived_process_describes_anew_what_its_base_described() -> None:
    class Base(sl.Process):
        count = sl.Value("bigint", 0)

        def on_event(self, event: Any, out: Any) -> None:
            self.count += 1

    class Derived(Base):
        count = sl.Value("int", 1)
        also = sl.Value("string")

    assert fields_of(Derived) == {"also": sl.Value("string"), "count": sl.Value("int", 1)}


MOMENT = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def given_to(process: type[sl.Process], runner: Any, *times: str) -> list[Any]:
    """What a process gives out for events at these times, and for the end of time."""
    schema = (
        "user string, n bigint, price decimal(38,2), day date, took interval day to second, raw binary, at timestamp"
    )
    source = sl.Flow("mine").source("events", sl.Rows(schema=schema), time="at")
    stage = source.key_by("user").process("mine", process, output="user string, at timestamp, said string")
    row = {"user": "ann", "n": 1, "price": "1.50", "day": "2026-01-01", "took": timedelta(seconds=3), "raw": b"x"}
    ticks = [*(Events([{**row, "at": time}]) for time in times or ("2026-01-01T12:00:00Z",)), Tick(watermark=2**62)]
    return [each for rows in play(stage, ticks, runner=runner) for each in rows]


class Wrong(sl.Process):
    """Leaves on itself what is not to be there."""

    count = sl.Value("bigint")
    seen = sl.List("bigint")
    names = sl.Map("string", "bigint")
    sum = sl.Running(sl.Sum("n"))
    soon = sl.Timer("1h")

    def on_event(self, event: Any, out: Any) -> None:
        raise NotImplementedError


WRONG: dict[str, Callable[[Any], Any]] = {
    "names of Mine is None, and no dictionary": lambda mine: setattr(mine, "names", None),
    "names of Mine is [1], and no dictionary": lambda mine: setattr(mine, "names", [1]),
    "seen of Mine is None, and no list": lambda mine: setattr(mine, "seen", None),
    "seen of Mine: 5 is no array<bigint>": lambda mine: setattr(mine, "seen", 5),
    "Mine put None in the place of its aggregate 'sum'": lambda mine: setattr(mine, "sum", None),
    "Mine put 5 in the place of its timer 'soon'": lambda mine: setattr(mine, "soon", 5),
    "count of Mine: 'x' is no bigint": lambda mine: setattr(mine, "count", "x"),
    "Mine deleted count": lambda mine: delattr(mine, "count"),
}


@pytest.mark.parametrize("runner", ["oracle", "kernel"])
@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_kept_is_refused_with_a_fix(what: str, runner: str) -> None:
    class Mine(Wrong):
        def on_event(self, event: Any, out: Any) -> None:
            WRONG[what](self)

    with pytest.raises(sl.DataError) as caught:
        given_to(Mine, runner)
    assert what in caught.value.what
    assert caught.value.fix.endswith(".")


@pytest.mark.parametrize("wrong", [("bigint", "x"), ("array<bigint>", ["x"]), ("boolean", 1)])
def test_a_default_of_another_type_is_refused(wrong: tuple[str, Any]) -> None:
    with pytest.raises(sl.DescriptionError, match="The default of Value"):
        sl.Value(*wrong)


@pytest.mark.parametrize("runner", ["oracle", "kernel"])
@pytest.mark.parametrize(
    ("aggregate", "result"),
    [
        (sl.Sum("price"), Decimal("3.00")),
        (sl.Mean("price"), Decimal("1.50")),
        (sl.Max("at"), MOMENT + timedelta(seconds=1)),
        (sl.Min("day"), date(2026, 1, 1)),
        (sl.Sum("took"), timedelta(seconds=6)),
        (sl.Max("raw"), b"x"),
        (sl.Max("user"), "ann"),
    ],
    ids=repr,
)
def test_an_aggregate_of_any_type_is_kept(aggregate: Any, result: Any, runner: str) -> None:
    class Mine(sl.Process):
        run = sl.Running(aggregate)

        def on_event(self, event: Any, out: Any) -> None:
            self.run.add(event)
            out.emit(out.key, said=repr(self.run.result))

    assert given_to(Mine, runner, "2026-01-01T12:00:00Z", "2026-01-01T12:00:01Z")[-1]["said"] == repr(result)


@pytest.mark.parametrize("runner", ["oracle", "kernel"])
def test_an_aggregate_can_start_anew(runner: str) -> None:
    class Mine(sl.Process):
        run = sl.Running(sl.Count())

        def on_event(self, event: Any, out: Any) -> None:
            self.run.clear()
            self.run.add(event)
            out.emit(out.key, said=str(self.run.result))

    assert [row["said"] for row in given_to(Mine, runner, "2026-01-01T12:00:00Z", "2026-01-01T12:00:01Z")] == ["1", "1"]


@pytest.mark.parametrize("runner", ["oracle", "kernel"])
def test_a_timer_behind_the_last_day_of_the_calendar_rings_on_that_day(runner: str) -> None:
    class Mine(sl.Process):
        soon = sl.Timer("1h")

        def on_event(self, event: Any, out: Any) -> None:
            self.soon.set(after="1h")
            out.emit(out.key, at=self.soon.at)

        def on_timer(self, timer: str, out: Any) -> None:
            out.emit(out.key, at=out.time)

    last = datetime.max.replace(tzinfo=timezone.utc)
    assert [row["at"] for row in given_to(Mine, runner, "9999-12-31T23:59:59Z")] == [last, last]
