"""Laws of joins: kernel = oracle, whatever the bounds, and however work is shared; batch cuts; and what SQL says."""

from __future__ import annotations

from collections import Counter
from typing import Any, get_args

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.model.aggregates import Count
from strandline.model.intervals import Interval
from strandline.model.nodes import How, Match
from strandline.model.streams import Stream
from strandline.model.time import Instant, Span
from strandline.model.windows import SameWindow, Tumbling
from strandline.testing import Crash, Tick, play
from strandline.testing.steps import Step, as_tick
from tests.lanes import examples
from tests.laws.comparing import differences, text
from tests.laws.meeting import NOON, SECOND, meetings, sources

CHOICES = [
    (how, match) for how in get_args(How) for match in get_args(Match) if match == "all" or how in ("inner", "left")
]

intervals = st.tuples(st.integers(-12, 12), st.integers(0, 12)).map(
    lambda pair: Interval(low=Span(pair[0] * SECOND), high=Span((pair[0] + pair[1]) * SECOND))
)
bounds = st.one_of(intervals, intervals, st.just(SameWindow(Tumbling("7s"))))


def joined(within: Any, how: How, match: Match) -> Stream:
    left, right = sources()
    return left.key_by("user").join("meet", right.key_by("user"), within=within, how=how, match=match)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "match"), CHOICES)
@settings(max_examples=examples(10))
@given(data=st.data())
def test_kernel_and_oracle_agree_on_joins(how: How, match: Match, data: st.DataObject) -> None:
    stream, steps = joined(data.draw(bounds), how, match), data.draw(meetings())
    buckets, tasks = data.draw(st.sampled_from(((64, 1), (5, 1), (1, 1), (16, 3), (7, 2))))
    oracle = play(stream, steps, runner="oracle")
    kernel = play(stream, steps, runner="kernel", buckets=buckets, tasks=tasks)
    found = differences(stream, oracle, kernel)
    assert not found, "\n".join(["oracle < > kernel", *found])


def _in_one_tick(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    ticks = [as_tick(step) for step in steps if not isinstance(step, Crash)]
    return (Tick([part for tick in ticks for part in tick.events]), ticks[-1])


def _without_watermarks(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    ticks = [as_tick(step) for step in steps if not isinstance(step, Crash)]
    return (*(Tick(tick.events) for tick in ticks[:-1]), ticks[-1])


@pytest.mark.slow
@pytest.mark.parametrize(("how", "match"), CHOICES)
@settings(max_examples=examples(8))
@given(data=st.data())
def test_without_late_rows_batch_cuts_change_no_pair(how: How, match: Match, data: st.DataObject) -> None:
    stream, steps = joined(data.draw(bounds), how, match), data.draw(meetings())
    cut = play(stream, _without_watermarks(steps), runner="kernel")
    whole = play(stream, _in_one_tick(steps), runner="kernel")
    assert Counter(text(row) for rows in cut for row in rows) == Counter(text(row) for rows in whole for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("how", get_args(How))
@settings(max_examples=examples(8))
@given(data=st.data())
def test_no_row_comes_out_behind_what_was_promised(how: How, data: st.DataObject) -> None:
    """The watermark of a join is honest: a window of a microsecond behind it never sees a late row."""
    stream, steps = joined(data.draw(intervals), how, "all"), data.draw(meetings())
    counted = stream.key_by().window(Tumbling("1us")).aggregate("counted", n=Count())
    assert play(counted, steps, runner="kernel").books["counted"].late == 0


@pytest.mark.slow
@pytest.mark.parametrize("how", get_args(How))
@settings(max_examples=examples(8))
@given(data=st.data())
def test_over_the_whole_input_a_join_is_what_sql_says(how: How, data: st.DataObject) -> None:
    within, steps = data.draw(intervals), data.draw(meetings())
    stream = joined(within, how, "all")
    shown = [row for rows in play(stream, _in_one_tick(steps), runner="kernel") for row in rows]
    sides: dict[str, list[Any]] = {"left": [], "right": []}
    for step in steps:
        if not isinstance(step, Crash):
            for part in as_tick(step).events:
                sides[str(part.source)] += [(row["user"], int(row["at"]) - NOON) for row in part.rows]
    schema = {"user": pl.String(), "at": pl.Int64()}
    left, right = (pl.DataFrame(sides[name], schema=schema, orient="row") for name in ("left", "right"))
    condition = f"a.user = b.user and b.at - a.at between {int(within.low)} and {int(within.high)}"
    kinds = {
        "inner": "join",
        "left": "left join",
        "right": "right join",
        "full": "full join",
        "semi": "semi join",
        "anti": "anti join",
    }
    columns = "a.user, a.at" if how in ("semi", "anti") else "coalesce(a.user, b.user), a.at, b.at"
    expected = _sql(f"select {columns} from ours a {kinds[how]} theirs b on {condition}", left, right)
    assert Counter(map(repr, expected)) == Counter(repr(_times(row, how)) for row in shown)


def _sql(query: str, ours: pl.DataFrame, theirs: pl.DataFrame) -> list[Any]:
    with duckdb.connect() as database:
        database.register("ours", ours.to_arrow())
        database.register("theirs", theirs.to_arrow())
        return database.execute(query).fetchall()


def _times(row: dict[str, Any], how: str) -> tuple[Any, ...]:
    names = ("at",) if how in ("semi", "anti") else ("at", "at_right")
    return (row["user"], *(None if row[name] is None else int(Instant.of(row[name])) - NOON for name in names))
