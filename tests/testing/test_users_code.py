"""What users write may be wrong: both runners refuse it in the same words, and say whose it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

import strandline as sl
from strandline.testing import Crash, Events, Tick, Watermark, play

UTC = timezone.utc
NOON = "2026-01-01T12:00:00Z"
ROWS = [{"x": 1, "at": NOON}, {"x": 2, "at": NOON}]
both = pytest.mark.parametrize("runner", ["oracle", "kernel"])


class Whole(sl.Aggregate):
    """The sum; what is wrong with it is given from outside."""

    columns = ("x",)
    result = "bigint"

    def start(self) -> Any:
        return 0

    def add(self, accumulator: Any, x: int) -> Any:  # type: ignore[override]
        return accumulator + x

    def merge(self, left: Any, right: Any) -> Any:
        return left + right

    def output(self, accumulator: Any) -> Any:
        return accumulator


def made(**methods: Any) -> sl.Aggregate:
    return type("Own", (Whole,), methods)()  # type: ignore[no-any-return]


def source(policy: sl.Policy | None = None) -> sl.Stream:
    return sl.Flow("test").source("events", sl.Rows(schema="x bigint, at timestamp"), time="at", watermark=policy)


def shown(aggregate: sl.Aggregate, runner: str, rows: list[dict[str, Any]] = ROWS) -> Any:
    stage = source().key_by().window(sl.Tumbling("1m")).aggregate("stage", own=aggregate)
    end = Watermark("2026-01-01T12:01:00Z")
    return play(stage, [Events(rows[:1]), Events(rows[1:]), Crash(), end, Crash()], runner=runner)[3][0]["own"]


def refused(run: Callable[[str], Any]) -> sl.DataError:
    """The error of both runners, which must be the same."""
    found = []
    for runner in ("oracle", "kernel"):
        with pytest.raises(sl.DataError) as caught:
            run(runner)
        found.append(caught.value)
    assert found[0].what == found[1].what
    assert found[0].fix
    return found[0]


@both
@pytest.mark.parametrize(
    ("result", "given", "wanted"),
    [
        ("boolean", True, True),
        ("bigint", 2**63 - 1, 2**63 - 1),
        ("double", 3, 3.0),
        ("double", -0.0, -0.0),
        ("double", math.inf, math.inf),
        ("float", 0.1, 0.10000000149011612),
        ("float", 1e300, math.inf),
        ("decimal(5,2)", Decimal("1.5"), Decimal("1.50")),
        ("decimal(5,2)", 3, Decimal("3.00")),
        ("decimal(38,0)", 10**38 - 1, Decimal(10**38 - 1)),
        ("string", "zoë", "zoë"),
        ("binary", b"\x00\xff", b"\x00\xff"),
        ("date", date(2026, 1, 1), date(2026, 1, 1)),
        ("date", "0001-01-01", date(1, 1, 1)),
        ("timestamp", datetime(2026, 1, 1, 13, tzinfo=timezone(timedelta(hours=1))), datetime(2026, 1, 1, 12, tzinfo=UTC)),
        ("timestamp", NOON, datetime(2026, 1, 1, 12, tzinfo=UTC)),
        ("timestamp_ntz", datetime(2026, 1, 1, 12), datetime(2026, 1, 1, 12)),  # noqa: DTZ001 - it has no zone
        ("interval", timedelta(days=-400, microseconds=1), timedelta(days=-400, microseconds=1)),
        ("array<float>", (0.1, None, 2), [0.10000000149011612, None, 2.0]),
        ("array<decimal(5,2)>", [1, "2.5"], [Decimal("1.00"), Decimal("2.50")]),
        ("array<timestamp>", [NOON], [datetime(2026, 1, 1, 12, tzinfo=UTC)]),
        ("struct<a:int,b:array<decimal(5,2)>>", {"b": [1]}, {"a": None, "b": [Decimal("1.00")]}),
        ("int", None, None),
    ],
)  # fmt: skip
def test_an_output_comes_out_as_its_result_says(runner: str, result: str, given: Any, wanted: Any) -> None:
    assert repr(shown(made(result=result, output=lambda self, accumulator: given), runner)) == repr(wanted)


@pytest.mark.parametrize(
    ("result", "given", "said"),
    [
        ("decimal(5,2)", Decimal("1.234"), "too many digits"),
        ("decimal(5,2)", 0.1, "is no decimal(5,2)"),
        ("decimal(5,2)", Decimal(1000), "too many digits"),
        ("bigint", "text", "is no bigint"),
        ("bigint", 2**70, "does not fit in 64 bits"),
        ("bigint", 3.0, "is no bigint"),
        ("bigint", True, "is no bigint"),
        ("int", 2**31, "does not fit in 32 bits"),
        ("double", 10**400, "is no double"),
        ("double", "3", "is no double"),
        ("string", 3, "is no string"),
        ("string", "\ud800", "half a character"),
        ("date", datetime(2026, 1, 1, tzinfo=UTC), "is no date"),
        ("timestamp", datetime(2026, 1, 1), "no time zone"),  # noqa: DTZ001 - on purpose
        ("timestamp_ntz", datetime(2026, 1, 1, tzinfo=UTC), "is no timestamp_ntz"),
        ("interval", timedelta.max, "64 bits"),
        ("bigint", (1, 2), "is no bigint"),
        ("array<int>", 1, "is no array<int>"),
        ("array<int>", [2**31], "does not fit in 32 bits"),
        ("struct<a:int>", {"b": 1}, "'b'"),
    ],
)
def test_an_output_that_does_not_fit_its_result_is_refused(result: str, given: Any, said: str) -> None:
    error = refused(lambda runner: shown(made(result=result, output=lambda self, accumulator: given), runner))
    assert error.what.startswith("Own.output")
    assert result.replace("interval", "interval day to second") in error.what
    assert said in error.what
    assert "another `result`" in error.fix


@pytest.mark.parametrize(
    ("accumulator", "said"),
    [
        ({1: 2}, "the key 1 is no text"),
        ({"a": {None: 2}}, "the key None is no text"),
        ({1: 2, "a": 3}, "the key 1 is no text"),
        ((1, 2), "(1, 2) is a tuple"),
        ([{"a": (1,)}], "(1,) is a tuple"),
        ({1, 2}, "is a set"),
        (Decimal(1), "is a Decimal"),
        ([b"x"], "is a bytes"),
    ],
)
@pytest.mark.parametrize("method", ["start", "add"])
def test_an_accumulator_that_json_would_change_is_refused(accumulator: Any, said: str, method: str) -> None:
    own = made(**{method: lambda self, *given: accumulator})
    error = refused(lambda runner: shown(own, runner))
    assert error.what.startswith("The accumulator of Own cannot be said in JSON")
    assert said in error.what
    assert "[1, 2] for (1, 2)" in error.fix


def taken_back(aggregate: sl.Aggregate, runner: str) -> Any:
    """Play an aggregate behind a stage that takes back what it showed early."""
    first = source().key_by().window(
        sl.Tumbling("1m"), trigger=sl.AfterWatermark(early=sl.AfterCount(1)), mode="retracting"
    ).aggregate("first", x=sl.Sum("x"))  # fmt: skip
    second = (
        first.key_by()
        .window(sl.SameWindow(), trigger=sl.Repeatedly(sl.AfterCount(1)))
        .aggregate("second", own=aggregate)
    )
    return play(second, [Events(ROWS[:1]), Events(ROWS[1:])], runner=runner)


def test_an_accumulator_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert "Own" in refused(lambda runner: shown(made(start=lambda self: endless), runner)).what


@both
def test_an_accumulator_may_hold_what_json_readers_agree_on(runner: str) -> None:
    held = {"a": [1.5, None, True, "ü\ud800"], "b": {}}
    own = made(start=lambda self: held, add=lambda self, kept, x: kept, merge=lambda self, left, right: left,
               output=lambda self, kept: int(kept == held))  # fmt: skip
    assert shown(own, runner) == 1


@both
def test_an_accumulator_may_hold_nan(runner: str) -> None:
    own = made(result="double", add=lambda self, kept, x: math.nan)
    assert math.isnan(shown(own, runner))


@both
def test_a_start_that_always_gives_the_same_list_is_not_filled_twice(runner: str) -> None:
    start: list[int] = []

    def add(self: Any, kept: list[int], x: int) -> list[int]:
        kept.append(x)
        return kept

    own = made(start=lambda self: start, add=add, output=lambda self, kept: len(kept))
    assert shown(own, runner) == 2


def fails(*given: Any) -> Any:
    raise KeyError("gone")


PLACE = f"{__file__}, line {fails.__code__.co_firstlineno + 1}"


@pytest.mark.parametrize("method", ["start", "add", "output"])
def test_an_exception_in_an_aggregate_names_it(method: str) -> None:
    error = refused(lambda runner: shown(made(**{method: fails}), runner))
    assert error.what == f"Own.{method} raised KeyError ({PLACE}): 'gone'"
    assert isinstance(error.__cause__, KeyError)


def test_an_exception_in_remove_names_it() -> None:
    told = refused(lambda runner: taken_back(made(remove=fails), runner)).what
    assert told == f"Own.remove raised KeyError ({PLACE}): 'gone'"


def test_an_exception_in_merge_names_it() -> None:
    with pytest.raises(sl.DataError, match=r"Own\.merge raised KeyError"):
        shown(made(merge=fails), "kernel")


def test_an_add_of_the_wrong_arity_is_named() -> None:
    error = refused(lambda runner: shown(made(columns=("x", "at")), runner))
    assert error.what.startswith(f"Own.add raised TypeError ({__file__}, line ")
    assert "it was given 0, 1, " in error.fix


def assigned(answer: Callable[..., Any], runner: str) -> list[tuple[Any, Any, int]]:
    window = type("Mine", (sl.CustomWindow,), {"longest": sl.Span.of("1m"), "assign": answer})()
    stage = source().key_by().window(window).aggregate("stage", n=sl.Count())
    played = play(stage, [Tick(ROWS, watermark="2026-01-01T13:00:00Z")], runner=runner)
    return [(pane["window_start"], pane["window_end"], pane["n"]) for pane in played[0]]


@both
def test_assign_may_be_a_generator(runner: str) -> None:
    def assign(self: Any, time: sl.Instant, row: Any) -> Iterator[tuple[int, int]]:
        yield time, time + 60_000_000
        yield time, time + 60_000_000

    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert assigned(assign, runner) == [(noon, noon + timedelta(minutes=1), 2)]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda self, time, row: None, "gave None"),
        (lambda self, time, row: (time, time + 5), "gave Instant("),
        (lambda self, time, row: [(datetime(2026, 1, 1), datetime(2026, 1, 2))], "gave (datetime"),  # noqa: DTZ001
        (lambda self, time, row: [(time, time + 0.5)], "gave (Instant"),
        (lambda self, time, row: [(time, time + 5, 1)], "gave (Instant"),
        (lambda self, time, row: {time: time + 5}, "gave {Instant"),
        (lambda self, time, row: "ab", "gave 'ab'"),
        (lambda self, time, row: [(time, time)], "not after its start"),
        (lambda self, time, row: [(0, 2**63)], "out of all time"),
        (lambda self, time: [], "raised TypeError"),
        (lambda self, time, row: [(time, time + row["y"])], "): 'y'"),
        (lambda self, time, row: ((time, time + row["y"]) for _ in "a"), "): 'y'"),
    ],
)
def test_an_answer_that_is_no_windows_names_the_window(answer: Callable[..., Any], said: str) -> None:
    error = refused(lambda runner: assigned(answer, runner))
    assert error.what.startswith("Mine.assign ")
    assert said in error.what


@pytest.mark.parametrize("method", ["update", "remember"])
def test_an_exception_in_a_policy_names_it(method: str) -> None:
    methods = {"update": lambda self, stats, state: state.watermark, method: fails}
    policy = type("Mine", (sl.Policy,), methods)()
    stage = source(policy).key_by().window(sl.Tumbling("1m")).aggregate("stage", n=sl.Count())
    error = refused(lambda runner: play(stage, [Events(ROWS, policy=True)], runner=runner))
    assert error.what == f"Mine.{method} raised KeyError ({PLACE}): 'gone'"


class Twice(sl.CustomWindow):
    """A window that merges, and gives each row two of them."""

    merging = True

    def assign(self, time: sl.Instant, row: Any) -> list[tuple[int, int]]:
        return [(time, time + 5), (time + 2, time + 8)]


def test_windows_that_merge_are_one_for_each_row() -> None:
    stage = source().key_by().window(Twice()).aggregate("stage", n=sl.Count())
    error = refused(lambda runner: play(stage, [Events(ROWS)], runner=runner))
    assert "Twice.assign gave a row 2 windows" in error.what


def test_a_condition_of_an_aggregate_or_a_trigger_is_asked_of_late_rows_too() -> None:
    late = [Watermark("2026-01-01T12:05:00Z"), Events([{"x": 0, "at": NOON}])]
    windowed = source().key_by()
    counted = windowed.window(sl.Tumbling("1m")).aggregate("stage", n=sl.Count(where="10 / x > 1"))
    trigger = sl.AfterWatermark(late=sl.OnEvent("10 / x > 1"))
    waited = windowed.window(sl.Tumbling("1m"), trigger=trigger).aggregate("other", n=sl.Count())
    for stage in (counted, waited):
        assert "ivision by zero" in refused(lambda runner, stage=stage: play(stage, late, runner=runner)).what


@both
def test_what_an_aggregate_gives_is_asked_of_windows_that_may_be_shown(runner: str) -> None:
    mean = made(
        start=lambda self: [0, 0], add=lambda self, a, x: [a[0] + x, a[1] + 1], output=lambda self, a: a[0] // a[1]
    )
    trigger = sl.AfterWatermark(early=sl.When("n >= 2"))
    stage = (
        source().key_by("x").window(sl.Tumbling("1m"), trigger=trigger, mode="discarding")
        .aggregate("stage", n=sl.Count(), own=mean)
    )  # fmt: skip
    found = play(stage, [Events([ROWS[0]] * 2), Events([ROWS[1]]), Watermark("2026-01-01T12:01:00Z")], runner=runner)
    assert [[(pane["n"], pane["own"]) for pane in panes] for panes in found] == [[(2, 1)], [], [(1, 2)]]
