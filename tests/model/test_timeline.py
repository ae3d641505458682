"""An example of a stage is what the stage really shows: the kernel, given the same events, says the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import strandline as sl
from strandline.model.expressions import parse
from strandline.model.nodes import LookupNode, StageNode, Stateful
from strandline.model.timeline import NoExample, drawn, example, heading
from strandline.model.timeline.playing import Example
from strandline.model.timeline.rows import holding, made_row
from strandline.model.types import SCALARS, Schema
from strandline.testing import Events, Tick, play
from tests.model.large import large
from tests.model.sinking import orders, stage

LATE = sl.AfterWatermark(late=sl.AfterCount(1))
WINDOWS: dict[str, dict[str, Any]] = {
    "tumbling": {"window": sl.Tumbling("1m")},
    "with lateness": {"window": sl.Tumbling("1m"), "lateness": "5m", "trigger": LATE, "mode": "retracting"},
    "discarding": {"window": sl.Tumbling("1m"), "trigger": sl.AfterWatermark(early=sl.AfterCount(1)), "mode": "discarding"},
    "by the clock": {"window": sl.Tumbling("1h"), "trigger": sl.AfterWatermark(early=sl.AfterProcessingTime("5m"))},
    "many": {"window": sl.Tumbling("1h"), "trigger": sl.AfterWatermark(early=sl.AfterCount(50))},
    "hopping": {"window": sl.Hopping("10m", every="1m"), "lateness": "1m"},
    "a day of the calendar": {"window": sl.Tumbling("1d", zone="Europe/Berlin")},
    "session": {"window": sl.Session("10m"), "lateness": "10m"},
    "for all time": {"window": sl.Global(), "trigger": sl.Repeatedly(sl.AfterCount(2)), "allow_loss": True},
    "for a while": {"window": sl.Global(ttl="1h"), "trigger": sl.AfterClose()},
}  # fmt: skip


def steps_of(played: Example) -> Iterator[Tick]:
    """The steps of an example, as one gives them to play."""
    for each in played.steps:
        rows = [{name: value for name, value in row.items() if not name.startswith("__")} for _, row in each.step.rows]
        yield Tick([Events(rows)] if rows else [], int(each.step.watermark), int(each.step.clock))


def visible(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if not name.startswith("__")} for row in rows]


@pytest.mark.parametrize("name", WINDOWS)
def test_the_kernel_shows_the_same_of_the_same_events(name: str) -> None:
    options = WINDOWS[name]
    panes = stage(**options)
    made = example(panes.flow, panes.node)
    shown = play(panes, steps_of(made), runner="kernel")
    assert [visible(each.shown) for each in made.steps] == [*shown]
    assert any(each.shown for each in made.steps)


@pytest.mark.parametrize("node", [n for n in large().nodes if isinstance(n, Stateful)], ids=lambda node: node.name)
def test_every_kind_of_stage_shows_something_of_its_example(node: Stateful) -> None:
    flow = large()
    mine = next(each for each in flow.nodes if getattr(each, "name", None) == node.name and isinstance(each, Stateful))
    if isinstance(mine, LookupNode):
        with pytest.raises(NoExample, match="nothing in it depends on time"):
            example(flow, mine)
        return
    made = example(flow, mine)
    lines = drawn(made)
    assert any(each.shown for each in made.steps)
    assert any("+ " in line for line in lines)
    assert heading(made).startswith("An example, played just now")
    assert max(map(len, lines)) <= 132


def test_what_was_late_and_what_was_taken_back_is_drawn() -> None:
    panes = stage(**WINDOWS["with lateness"])
    lines = "\n".join(drawn(example(panes.flow, panes.node)))
    assert "- on time: taken back: 12:00:00–12:01:00" in lines
    assert "+ late: 12:00:00–12:01:00" in lines
    assert "→ late, by" in lines


def test_an_aggregate_that_is_called_as_a_column_is_shown_with_its_value() -> None:
    panes = orders().key_by("user").window(sl.Tumbling("1m")).aggregate("totals", amount=sl.Sum("amount"))
    assert any("+ on time: 12:00:00–12:01:00 amount=" in line for line in drawn(example(panes.flow, panes.node)))


def test_where_time_is_that_of_reading_nothing_is_out_of_order_or_late() -> None:
    read = sl.Flow("read").source("rows", sl.Rows([], schema="user string, v bigint"), time=sl.Arrival())
    panes = read.key_by("user").window(sl.Tumbling("1m"), lateness="10s").aggregate("totals", n=sl.Count())
    lines = "\n".join(drawn(example(panes.flow, panes.node)))
    assert "+ on time: 12:00:00–12:01:00 n=2" in lines
    assert "late" not in lines
    assert "out of order" not in lines


def test_in_windows_that_overlap_an_event_is_too_late_for_all_of_them() -> None:
    panes = orders().key_by("user").window(sl.Hopping("2m", every="1m"), lateness="1m").aggregate("t", n=sl.Count())
    lines = drawn(example(panes.flow, panes.node))
    assert "(too late)" in lines[-2]
    assert "→ late, by" in lines[-1]


def test_a_stage_behind_another_is_given_what_that_one_shows() -> None:
    flow = large()
    hours = next(node for node in flow.nodes if isinstance(node, StageNode) and node.name == "hours")
    made = example(flow, hours)
    assert made.through == ("minutes",)
    totals = [row["n"] for each in made.steps for row in each.shown if row["pane_timing"] == "on_time"]
    assert totals[0] >= 2


def test_a_users_code_that_wants_other_rows_leaves_a_reason() -> None:
    class Picky(sl.Process):
        def on_event(self, event: Any, out: Any) -> None:
            raise KeyError("colour")

    picky = orders().key_by("user").process("picky", Picky, output="user string")
    with pytest.raises(NoExample, match="raised KeyError"):
        example(picky.flow, picky.node)  # type: ignore[arg-type]


def test_an_exception_without_a_message_is_said_by_its_name() -> None:
    class Unreadable:
        def __repr__(self) -> str:
            raise ValueError

    class Odd(sl.Process):
        def on_event(self, event: Any, out: Any) -> None:
            out.emit(user=Unreadable())

    odd = orders().key_by("user").process("odd", Odd, output="user string")
    with pytest.raises(NoExample, match=r"ValueError$"):
        example(odd.flow, odd.node)  # type: ignore[arg-type]


def test_behind_code_that_only_spark_can_run_there_is_none() -> None:
    panes = orders().transform(lambda df: df).key_by("user").window(sl.Tumbling("1m")).aggregate("one", n=sl.Count())
    with pytest.raises(NoExample, match="Spark alone"):
        example(panes.flow, panes.node)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "condition",
    [
        "status = 'paid'",
        "amount > 100 and status <> 'a'",
        "n in (7, 8)",
        "not flag",
        "status like 'x%'",
        "amount is null",
    ],
)
def test_a_made_up_row_meets_a_condition(condition: str) -> None:
    schema = Schema.of("status string, amount double, n int, flag boolean, at timestamp")
    row = made_row(schema, 0, sl.Instant.of("2026-01-01T12:00:00Z"))
    changed = holding(row, schema, [parse(condition)])
    from strandline.model.evaluate import evaluate

    assert evaluate(parse(condition), changed, schema=schema) is True


def test_there_is_a_value_of_every_type() -> None:
    names = {"decimal": "decimal(5,2)"}
    types = [*(names.get(name, name) for name in SCALARS), "array<int>", "struct<a:int>"]
    schema = Schema.of(", ".join(f"c{at} {name}" for at, name in enumerate(types)))
    assert None not in made_row(schema, 3, sl.Instant.of("2026-01-01T12:00:00Z")).values()


def test_an_example_as_json_has_times_and_rows() -> None:
    panes = stage(**WINDOWS["tumbling"])
    told = example(panes.flow, panes.node).to_json()
    first = told["steps"][0]
    assert first["clock"] == int(sl.Instant.of("2026-01-01T12:00:06Z"))
    assert first["events"][0]["user"] == "ann"
    assert next(pane["total"] for step in told["steps"] for pane in step["shown"]) == 12


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_a_join_shows_what_matches_and_what_does_not_as_it_is_told(how: Any) -> None:
    ours = orders("user string, n int, at timestamp")
    theirs = ours.flow.source("clicks", sl.Rows(schema="user string, page string, at timestamp"), time="at")
    joined = ours.key_by("user").join(
        "one", theirs.key_by("user"), within=sl.Between("-1h", "5m"), how=how, suffix="_c"
    )
    made = example(joined.flow, joined.node)  # type: ignore[arg-type]
    shown = [row["user"] for each in made.steps for row in each.shown]
    matched = [] if how == "anti" else ["ann"]
    alone = {"left": ["kim"], "anti": ["kim"], "right": ["joe"], "full": ["kim", "joe"]}.get(how, [])
    assert sorted(shown) == sorted([*matched, *alone])
    assert any(each.late for each in made.steps)
