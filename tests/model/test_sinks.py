"""Sinks: what is filled in, what each rule of check() refuses, and what it lets through beside it."""

from __future__ import annotations

import re
from typing import Any

import pytest

import strandline as sl
from strandline.errors import CheckFailed, DescriptionError
from strandline.model.nodes import SinkNode
from strandline.model.sinks import delivered, describe_sink
from tests.model.sinking import AGAIN, RETRACTING, Shelf, orders, stage

KEY = ("user", "window_start", "window_end")
SHELF = Shelf()


def sunk(stream: sl.Stream, shelf: Shelf = SHELF, **options: Any) -> sl.Flow:
    stream.sink("out", shelf, **options)
    return stream.flow


def node(flow: sl.Flow) -> SinkNode:
    found = flow.nodes[-1]
    assert isinstance(found, SinkNode)
    return found


def prices() -> sl.Stage:
    """What changes in a table."""
    changes = orders("item string, price int, op string, at timestamp")
    return changes.flow.table("prices", changes, key="item").changes


def looked() -> sl.Stage:
    """Events that are corrected."""
    return orders().key_by("user").over("looked", n_1m=sl.Count(within="1m"))


def test_any_stream_may_end_in_a_sink_and_several_may() -> None:
    panes = stage()
    for at, stream in enumerate((panes, panes.where("total > 3"), panes.late, panes.rejected)):
        stream.sink(f"out{at}", Shelf())
    assert panes.flow.check() == []
    assert [n.rows for n in panes.flow.nodes if isinstance(n, SinkNode)] == ["append"] * 4


def test_rows_of_a_source_and_what_it_rejected_are_appended() -> None:
    events = orders()
    events.sink("all", Shelf())
    events.rejected.sink("bad", Shelf())
    assert events.flow.check() == []
    columns = delivered(node(events.flow))
    assert columns is not None
    assert [*columns][-2:] == ["reason", "raw"]


@pytest.mark.parametrize("options", [AGAIN, RETRACTING, {"lateness": "1m"}, {"mode": "retracting"}])
def test_a_sink_of_panes_that_refine_must_say_how_it_takes_them(options: Any) -> None:
    with pytest.raises(DescriptionError, match="does not say what becomes of a window that is shown again"):
        sunk(stage(**options))
    assert sunk(stage(**options), rows="upsert").check() == []


def test_panes_that_are_shown_once_or_add_up_are_appended() -> None:
    assert node(sunk(stage())).rows == "append"
    assert node(sunk(stage(mode="discarding", **AGAIN))).rows == "append"


@pytest.mark.parametrize(
    ("stream", "key"),
    [
        (stage(), KEY),
        (stage().where("total > 3").with_column("double", "total * 2"), KEY),
        (stage().select("window_end", "window_start", "user as who", "total"), ("who", *KEY[1:])),
        (stage().transform(lambda df: df), KEY),
        (stage(sl.Global(), trigger=sl.Repeatedly(sl.AfterCount(1))), KEY),
        (stage(sl.Global(), trigger=sl.Repeatedly(sl.AfterCount(1))).select("user", "total"), ("user",)),
        (prices(), ("item",)),
        (prices().select("price", "item as what", "op"), ("what",)),
    ],
)
def test_the_key_of_an_upsert_is_by_default_what_tells_panes_apart(stream: sl.Stream, key: tuple[str, ...]) -> None:
    assert node(sunk(stream, rows="upsert")).key == key
    assert [risk for risk in stream.flow.check() if "key of sink" in risk] == []


def test_changelogs_and_upserts_bring_an_op_of_their_own() -> None:
    upserts = delivered(node(sunk(stage(), rows="upsert", columns=["user", "total", "op"])))
    appended = delivered(node(sunk(stage(), columns=["user", "total", "op"])))
    assert upserts is not None
    assert appended is not None
    assert ([*upserts], [*appended]) == (["user", "total"], ["user", "total", "op"])
    assert delivered(node(sunk(orders().transform(lambda df: df)))) is None


REFUSED: dict[str, Any] = {
    "is to take rows='upsert', which Shelf cannot do": lambda: sunk(
        stage(), Shelf(takes=frozenset({"append"})), rows="upsert"),
    "names 'totl', which is not there": lambda: sunk(stage(), columns=["user", "totl"]),
    "names only 'op', which rows='changelog' writes": lambda: sunk(stage(), rows="changelog", columns=["op"]),
    "The key of sink 'out' names 'usr'": lambda: sunk(orders(), rows="upsert", key="usr"),
    "names 'tags' of type array<string>": lambda: sunk(orders(), rows="upsert", key="tags"),
    "names 'op', which says what happens": lambda: sunk(stage(), rows="upsert", key=[*KEY, "op"]),
    "leaves out 'window_end', which its key needs": lambda: sunk(
        stage(), rows="upsert", columns=["user", "window_start", "total"]),
    "upserts without a key: nothing says": lambda: sunk(orders(), rows="upsert"),
    "upserts without a key: 'window_start', 'window_end' of stage 'one'": lambda: sunk(
        stage().select("user", "total"), rows="upsert"),
    "upserts without a key: 'user' of stage 'one'": lambda: sunk(
        stage().with_column("user", "upper(user)"), rows="upsert"),
    "appends rows without 'op', and the stage 'one' can show a window more than once": lambda: sunk(
        stage(**AGAIN), rows="append", columns=["user", "total"]),
    "appends rows without 'op', and the stage 'one' takes panes back": lambda: sunk(
        stage(**RETRACTING).select("user", "total"), rows="append"),
    "the stage 'one' takes panes back: a reader": lambda: sunk(
        stage(**RETRACTING).with_column("op", "upper(op)"), rows="append"),
    "which says what is taken back, did not come through": lambda: sunk(
        stage(**RETRACTING).select("user", "window_start", "window_end", "op as kind"), rows="changelog"),
    "upserts panes of stage 'one', which is discarding": lambda: sunk(stage(mode="discarding"), rows="upsert"),
    "lacks the window, and the stage 'one' takes panes back": lambda: sunk(
        stage(**RETRACTING), rows="upsert", key="user"),
    "lacks 'user', and the stage 'one' takes panes back": lambda: sunk(
        stage(**RETRACTING), rows="upsert", key="window_start"),
    "which only Spark can run: the rows of windows that were replaced would stay": lambda: sunk(
        stage(sl.Session("1m"), **AGAIN).transform(lambda df: df), rows="upsert", key=KEY),
    "nothing says whose row is to be deleted": lambda: sunk(
        stage(sl.Session("1m"), **AGAIN).with_column("u", "upper(user)"), rows="upsert", key=["u", "window_start"]),
    "would keep its old row": lambda: sunk(stage(**AGAIN).where("total > 5"), rows="upsert"),
    "and total > 5\") asks for total": lambda: sunk(
        stage(**AGAIN).select("user as u", "window_start", "window_end", "total").where("u > 'a' and total > 5"), rows="upsert"),
    "have a column 'op' of their own": lambda: sunk(
        orders("op string, at timestamp"), rows="upsert", key="op"),
    "and rows='changelog' writes another": lambda: sunk(orders("op string, at timestamp"), rows="changelog"),
    "does not get 'op', which says what 'prices' corrects": lambda: sunk(
        prices().select("item", "price"), rows="upsert"),
    "which says what 'looked' corrects": lambda: sunk(looked(), rows="append", columns=["user", "n_1m"]),
    "have a column 'op' of their own, and rows='upsert'": lambda: sunk(
        prices().with_column("op", "upper(op)"), rows="upsert"),
    "lacks 'item', and the table 'prices' takes rows back": lambda: sunk(prices(), rows="upsert", key="price"),
    ".transform(mine) makes the column '__x'": lambda: sunk(
        orders().transform(lambda df: df, name="mine", schema="__x int")),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_check_refuses_the_sink_and_says_what_to_do(what: str) -> None:
    flow = REFUSED[what]()
    with pytest.raises(CheckFailed, match=re.escape(what)) as caught:
        flow.check()
    assert all(problem.fix.endswith((".", "?")) for problem in caught.value.problems)


ALLOWED: list[Any] = [
    lambda: sunk(stage(**RETRACTING), rows="append"),
    lambda: sunk(stage(**RETRACTING).select("user", "op as kind"), rows="append"),
    lambda: sunk(stage(**RETRACTING), rows="changelog", columns=["user", "total"]),
    lambda: sunk(stage(**RETRACTING), rows="upsert", key=["user", "window_start"]),
    lambda: sunk(stage(sl.Session("1m"), **RETRACTING).with_column("u", "upper(user)"), rows="upsert"),
    lambda: sunk(stage(**RETRACTING).where("total > 5"), rows="upsert"),
    lambda: sunk(stage().where("total > 5"), rows="upsert"),
    lambda: sunk(stage(**AGAIN).select("user as u", "window_start", "window_end").where("u > 'a'"), rows="upsert"),
    lambda: sunk(orders(), rows="upsert", key=["user"]),
    lambda: sunk(orders("op string, at timestamp")),
    lambda: sunk(stage().late, rows="upsert", key="user"),
    lambda: sunk(orders().transform(lambda df: df), rows="upsert", key="whatever", columns=["whatever", "x"]),
    lambda: sunk(stage(**RETRACTING).transform(lambda df: df), rows="append"),
    lambda: sunk(prices(), rows="upsert"),
    lambda: sunk(prices().where("price > 3"), rows="upsert", columns=["item", "price"]),
    lambda: sunk(prices().select("item as what", "price", "op"), rows="upsert", key="what"),
    lambda: sunk(prices().select("item", "op as kind"), rows="append"),
    lambda: sunk(prices(), rows="changelog", columns=["item", "price"]),
    lambda: sunk(looked(), rows="upsert", key=["user", "at"]),
    lambda: sunk(looked(), rows="changelog"),
]


@pytest.mark.parametrize("make", ALLOWED)
def test_check_lets_the_sink_through(make: Any) -> None:
    make().check()


def test_a_transform_whose_columns_are_declared_is_checked_by_them() -> None:
    known = orders().transform(lambda df: df, name="mine", schema="user string, total long")
    with pytest.raises(CheckFailed, match="'totl', which is not there"):
        sunk(known, columns=["totl"]).check()
    assert delivered(node(sunk(known.where("total > 3")))) == sl.Schema.of("user string, total bigint")


def test_sinks_are_named_once() -> None:
    panes = stage()
    panes.sink("out", Shelf())
    panes.sink("out", Shelf())
    with pytest.raises(CheckFailed, match="2 sinks are named 'out'"):
        panes.flow.check()


BAD: dict[str, Any] = {
    "'a b' cannot be the name of a sink": lambda s: s.sink("a b", Shelf()),
    "is no sink: it lacks guarantee": lambda s: s.sink("out", "out.db"),
    "the class Shelf itself is no sink": lambda s: s.sink("out", Shelf),
    "rows='replace' is not known": lambda s: s.sink("out", Shelf(), rows="replace"),
    "rows=3 is not known": lambda s: s.sink("out", Shelf(), rows=3),
    "columns='user' is no list of columns": lambda s: s.sink("out", Shelf(), columns="user"),
    "columns=[] names no column": lambda s: s.sink("out", Shelf(), columns=[]),
    "key=[3] is no list of columns": lambda s: s.sink("out", Shelf(), key=[3]),
    "columns= names 'user' more than once": lambda s: s.sink("out", Shelf(), columns=["user", "user"]),
    "key= names '__time'": lambda s: s.sink("out", Shelf(), rows="upsert", key="__time"),
    "max_lag=0 is no number of ticks": lambda s: s.sink("out", Shelf(), max_lag=0),
    "max_lag=True is no number of ticks": lambda s: s.sink("out", Shelf(), max_lag=True),
    "max_lag=1.5 is no number of ticks": lambda s: s.sink("out", Shelf(), max_lag=1.5),
}


@pytest.mark.parametrize("what", BAD)
def test_a_sink_that_makes_no_sense_by_itself_is_refused_at_once(what: str) -> None:
    stream = orders()
    with pytest.raises(DescriptionError, match=re.escape(what)):
        BAD[what](stream)
    assert len(stream.flow.nodes) == 1, "nothing is left of it"


def test_a_flow_without_a_sink_shows_nothing_outside_and_that_is_a_risk() -> None:
    assert stage().flow.check() == ["The flow 'f' has no sink: it shows nothing outside. Add one with .sink(...)."]


def test_what_leads_nowhere_beside_a_sink_is_a_risk() -> None:
    flow = sunk(orders())
    events = sl.Stream(flow, flow.nodes[0])  # type: ignore[arg-type]
    events.transform(lambda df: df, name="mine")
    assert events.rejected is not events.rejected
    events.key_by("user").window(sl.Tumbling("1m")).aggregate("one", n=sl.Count())
    assert flow.check() == [
        "The rows of .transform(mine) lead nowhere: no stage and no sink takes them.",
        "The rows of source 'orders'.rejected lead nowhere: no stage and no sink takes them.",
        "The panes of stage 'one' lead nowhere: no stage and no sink takes them.",
    ]


def test_a_window_that_is_written_again_and_again_is_a_risk() -> None:
    (risk,) = sunk(stage(**AGAIN), rows="append").check()
    assert "the row with the greatest pane_index" in risk
    (risk,) = sunk(stage(**AGAIN), rows="changelog").check()
    assert "rows='upsert' keeps one row" in risk


def test_panes_that_share_a_row_are_a_risk() -> None:
    (risk,) = sunk(stage(), rows="upsert", key="user").check()
    assert risk.startswith("The key of sink 'out' lacks the window: several panes of stage 'one' share one row")


def test_a_flow_may_be_subclassed_and_its_streams_carry_it() -> None:
    class Runnable(sl.Flow):
        def run(self) -> str:
            return f"running {self.name}"

    flow = Runnable("mine")
    events = flow.source("orders", sl.Rows(schema="at timestamp"), time="at")
    assert isinstance(events.where("true").flow, Runnable)
    assert flow.run() == "running mine"
    assert describe_sink(events.node, "out", Shelf()).rows == "append"
