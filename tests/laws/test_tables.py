"""Laws of tables: kernel = oracle; what a table gives out adds up to what stands in it; as of a time, cuts change nothing."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.model.aggregates import Collect, Count
from strandline.model.streams import Stage
from strandline.model.time import Instant, Span
from strandline.model.triggers import AfterCount, Repeatedly
from strandline.model.windows import Global
from strandline.testing import Crash, Events, Tick, play
from strandline.testing.steps import Step, as_tick
from tests.lanes import examples
from tests.laws.comparing import differences, text
from tests.laws.meeting import clocked, meetings, sources

orders = st.sampled_from(("offset", "v"))
ttls = st.sampled_from((None, "9s", "40s"))
spreads = st.sampled_from(((64, 1), (1, 1), (16, 3), (7, 2)))
MARKED = "case when v = 3 then 'delete' when v = 2 then 'u' when user = 'bob' and v = 1 then 'gone' end"


def table_of(order: str, ttl: str | None, *, broadcast: bool = False) -> tuple[Any, Any]:
    left, right = sources()
    changes = right.with_column("op", MARKED)
    return left, left.flow.table("known", changes, key="user", order=order, ttl=ttl, broadcast=broadcast)


def joined(order: str, ttl: str | None, **options: Any) -> Stage:
    left, table = table_of(order, ttl)
    stage: Stage = left.join_table("with_table", table, **options)
    return stage


def of_left(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return tuple(s if isinstance(s, Crash) else as_tick(s).of("left", ("left", "right"), "") for s in steps)


def of_right(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return tuple(s if isinstance(s, Crash) else as_tick(s).of("right", ("left", "right"), "") for s in steps)


@pytest.mark.slow
@settings(max_examples=examples(20))
@given(orders, ttls, meetings().map(of_right), spreads)
def test_kernel_and_oracle_agree_on_what_changes(
    order: str, ttl: str | None, steps: tuple[Step, ...], spread: tuple[int, int]
) -> None:
    stream, (buckets, tasks) = table_of(order, ttl)[1].changes, spread
    oracle = play(stream, steps, runner="oracle")
    kernel = play(stream, steps, runner="kernel", buckets=buckets, tasks=tasks)
    found = differences(stream, oracle, kernel)
    assert not found, "\n".join(["oracle < > kernel", *found])


@pytest.mark.slow
@settings(max_examples=examples(10))
@given(orders, meetings().map(of_right))
def test_what_a_table_gives_out_leaves_one_row_for_each_key(order: str, steps: tuple[Step, ...]) -> None:
    """Nothing is taken back that does not stand, and at no time two rows of one key stand."""
    standing: dict[str, str] = {}
    for rows in play(table_of(order, None)[1].changes, steps, runner="kernel"):
        for row in rows:
            key, plain = repr(row["user"]), text({name: value for name, value in row.items() if name != "op"})
            if row["op"] == "retract":
                assert standing.pop(key) == plain
            else:
                assert key not in standing
                standing[key] = plain


@pytest.mark.slow
@settings(max_examples=examples(20))
@given(st.sampled_from(("9s", "40s")), meetings().map(of_right))
def test_what_stands_when_time_ends_does_not_depend_on_cuts(ttl: str, steps: tuple[Step, ...]) -> None:
    """As batch, in one tick before the end, or one by one with the watermark behind: what the last event has not outlived."""
    rows = [row for step in steps if not isinstance(step, Crash) for part in as_tick(step).events for row in part.rows]
    end = Tick(watermark=Instant.END_OF_TIME)
    one_by_one = [Tick([row], watermark=max(each["at"] for each in rows[:n])) for n, row in enumerate(rows, 1)]
    cuts: list[list[Step]] = [[Tick(rows, watermark=Instant.END_OF_TIME)], [Events(rows), end], [*one_by_one, end]]
    changes = table_of("offset", ttl)[1].changes
    found = [_standing(play(changes, cut, runner="kernel")) for cut in cuts]
    now = max((row["at"] for row in rows), default=0)
    known = [row for row in rows if (row["user"], row["v"]) != ("bob", 1)]  # the others are rejected, but are events
    of_keys = {repr(row["user"]): [each for each in known if each["user"] == row["user"]] for row in known}
    young = {key: mine[-1] for key, mine in of_keys.items() if max(row["at"] for row in mine) + Span.of(ttl) > now}
    expected = {key: (last["v"], last["tags"]) for key, last in young.items() if last["v"] != 3}
    assert found == [expected, expected, expected]


@pytest.mark.slow
@settings(max_examples=examples(20))
@given(st.sampled_from((None, "9s", "40s")), meetings().map(of_left), spreads)
def test_a_window_behind_a_table_has_what_stands_in_it(
    ttl: str | None, steps: tuple[Step, ...], spread: tuple[int, int]
) -> None:
    """Rows that are the same come often: without their time, with zeros of both signs and NaN."""
    left, _ = sources()
    table = left.flow.table("known", left.select("user", "x"), key="user", ttl=ttl)
    window = table.changes.key_by().window(Global(), trigger=Repeatedly(AfterCount(1)), allow_loss=True)
    stream, (buckets, tasks) = window.aggregate("all", rows=Count(), values=Collect("x")), spread
    oracle = play(stream, steps, runner="oracle")
    kernel = play(stream, steps, runner="kernel", buckets=buckets, tasks=tasks)
    found = differences(stream, oracle, kernel)
    assert not found, "\n".join(["oracle < > kernel", *found])
    standing: dict[str, Any] = {}
    for changes, panes in zip(play(table.changes, steps, runner="kernel"), kernel, strict=True):
        for row in changes:
            standing.pop(repr(row["user"]), None)
            standing |= {repr(row["user"]): row["x"]} if row["op"] == "insert" else {}
        for pane in panes[-1:]:
            values = [value for value in standing.values() if value is not None]
            assert pane["rows"] == len(standing)
            assert Counter(map(repr, pane["values"])) == Counter(map(repr, (value + 0.0 for value in values)))


@pytest.mark.slow
@pytest.mark.parametrize("as_of", [False, True])
@settings(max_examples=examples(20))
@given(order=orders, ttl=ttls, how=st.sampled_from(("left", "inner")), steps=meetings(), spread=spreads)
def test_kernel_and_oracle_agree_on_joins_with_tables(
    as_of: bool, order: str, ttl: str | None, how: str, steps: tuple[Step, ...], spread: tuple[int, int]
) -> None:
    stream, (buckets, tasks) = joined(order, ttl, as_of=as_of, how=how), spread
    oracle = play(stream, steps, runner="oracle")
    kernel = play(stream, steps, runner="kernel", buckets=buckets, tasks=tasks)
    found = differences(stream, oracle, kernel)
    assert not found, "\n".join(["oracle < > kernel", *found])


@pytest.mark.slow
@settings(max_examples=examples(20))
@given(
    ttl=ttls, how=st.sampled_from(("left", "inner")), wait=st.sampled_from(("1s", "3s", "8s")), broadcast=st.booleans(),
    steps=clocked(), spread=spreads,
)  # fmt: skip
def test_kernel_and_oracle_agree_on_rows_that_wait_no_longer_than_is_said(
    ttl: str | None, how: str, wait: str, broadcast: bool, steps: tuple[Step, ...], spread: tuple[int, int]
) -> None:
    left, table = table_of("offset", ttl, broadcast=broadcast)
    stream, (buckets, tasks) = left.join_table("with_table", table, as_of=True, how=how, max_wait=wait), spread
    oracle = play(stream, steps, runner="oracle")
    kernel = play(stream, steps, runner="kernel", buckets=buckets, tasks=tasks)
    found = differences(stream, oracle, kernel)
    assert not found, "\n".join(["oracle < > kernel", *found])


@pytest.mark.slow
@settings(max_examples=examples(10))
@given(steps=meetings())
def test_over_the_whole_input_a_join_as_of_a_time_is_what_sql_says(steps: tuple[Step, ...]) -> None:
    left, right = sources()
    # Of changes of one key and moment the last to come counts, which SQL does not know: one stands for all.
    stream = left.join_table("with_table", left.flow.table("known", right.select("user", "at"), key="user"), as_of=True)
    parts = [part for step in steps if not isinstance(step, Crash) for part in as_tick(step).events]
    shown = [row for rows in play(stream, [Tick(parts), Tick(watermark=2**61)], runner="kernel") for row in rows]
    sides: dict[str, list[Any]] = {"left": [], "right": []}
    for part in parts:
        sides[str(part.source)] += [(row["user"], int(row["at"])) for row in part.rows]
    schema = {"user": pl.String(), "at": pl.Int64()}
    with duckdb.connect() as database:
        for name in ("left", "right"):
            database.register(f"{name}s", pl.DataFrame(sides[name], schema=schema, orient="row").to_arrow())
        query = "select a.user, a.at, b.at from lefts a asof left join (select distinct * from rights) b on a.user = b.user and a.at >= b.at"
        expected = database.execute(query).fetchall()
    found = [(row["user"], *(row[name] and int(Instant.of(row[name])) for name in ("at", "at_table"))) for row in shown]
    assert Counter(map(repr, expected)) == Counter(map(repr, found))


@pytest.mark.slow
@settings(max_examples=examples(10))
@given(ttl=ttls, steps=meetings())
def test_as_of_a_time_batch_cuts_change_nothing(ttl: str | None, steps: tuple[Step, ...]) -> None:
    parts = [part for step in steps if not isinstance(step, Crash) for part in as_tick(step).events]
    end = Tick(watermark=2**61)
    whole = play(joined("offset", ttl, as_of=True), [Tick(parts), end], runner="kernel")
    cut = play(joined("offset", ttl, as_of=True), [*parts, end], runner="kernel")
    one = [Events([row], source=part.source) for part in parts for row in part.rows]
    single = play(joined("offset", ttl, as_of=True), [*one, end], runner="kernel")
    assert _all(whole) == _all(cut) == _all(single)


def _standing(played: Any) -> dict[str, Any]:
    """What is left when all that was taken back is gone."""
    left: dict[str, Any] = {}
    for row in (row for rows in played for row in rows):
        if row["op"] == "retract":
            del left[repr(row["user"])]
        else:
            left[repr(row["user"])] = (row["v"], row["tags"])
    return left


def _all(played: Any) -> Counter[str]:
    return Counter(text(row) for rows in played for row in rows)
