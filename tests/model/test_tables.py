"""Tables as they are described: what is refused, and what a table is by itself."""

from __future__ import annotations

import pytest

import strandline as sl
from strandline.model.nodes import SinkNode
from strandline.testing import Events, Tick, play
from tests.model.checking import REFINING, orders, problems, stage, surprises


def _of(stream: sl.Stream, key: str | list[str], **options: str) -> list[str]:
    """What is wrong with a table of these changes."""
    stream.join_table("known", stream.flow.table("t", stream, key=key, ttl="1h", **options))  # type: ignore[arg-type]
    return [what for what in problems(stream.flow) if "of the table" in what or "The table" in what]


def test_what_is_taken_back_must_be_told_apart_by_the_key_of_a_table() -> None:
    (what,) = _of(stage(**REFINING).select("user", "total", "op"), "user")
    assert "lacks the window, and 'one' takes rows back" in what
    assert _of(stage(keys=("user", "n"), **REFINING), ["user", "window_start"], order="window_end") != []
    assert _of(stage(**REFINING), ["user", "window_start"]) == []


def test_a_table_of_events_that_are_corrected_must_tell_them_apart() -> None:
    features = orders().key_by("user").over("features", n_1h=sl.Count(within="1h"))
    (what,) = _of(features, "user")
    assert "lacks what tells its events apart, and 'features' takes rows back" in what
    features = orders().key_by("user").over("features", n_1h=sl.Count(within="1h"))
    assert _of(features, ["user", "at"]) == []
    assert _of(orders().key_by("user").over("features", n_1h=sl.Count(within="1h"), emit="watermark"), "user") == []


def test_a_table_of_a_table_must_have_its_key() -> None:
    for key, told in (("user", ["lacks 'n', and 'first' takes rows back"]), (["n", "user"], [])):
        stream = orders()
        changes = stream.flow.table("first", stream, key=["user", "n"], ttl="1h").changes
        second = stream.flow.table("second", changes, key=key, order="at", ttl="1h")
        second.sink("out", sl.Memory(), rows="changelog")
        found = problems(stream.flow)
        assert [part in what for part, what in zip(told, found, strict=True)] == [True] * len(told)


def test_a_stage_is_a_table_by_its_keys_and_its_window() -> None:
    table = stage(**REFINING).as_table()
    assert (table.node.name, table.node.key) == ("one-table", ("user", "window_start", "window_end"))
    endless = stage(sl.Global(ttl="1h"), mode="retracting").as_table("totals")
    assert (endless.node.name, endless.node.key) == ("totals", ("user",))


def test_a_stage_as_a_table_may_be_joined_and_followed() -> None:
    first = stage(sl.Global(ttl="1h"), trigger=sl.AfterClose(), mode="retracting")
    table = first.as_table("totals")
    sl.Stream(first.flow, first.flow.nodes[0]).join_table("with_totals", table)  # type: ignore[arg-type]
    table.sink("out", sl.Memory(), rows="upsert")
    assert [risk for risk in surprises(first.flow) if "for ever" not in risk and "nowhere" not in risk] == []


@pytest.mark.parametrize("runner", ["oracle", "kernel"])
def test_a_row_meets_what_a_stage_has_added_up(runner: str) -> None:
    flow = sl.Flow("f")
    paid, seen = (
        flow.source(name, sl.Rows(schema="user string, n int, at timestamp"), time="at") for name in ("paid", "seen")
    )
    total = paid.key_by("user").window(
        sl.Global(), trigger=sl.Repeatedly(sl.AfterCount(1)), mode="retracting", allow_loss=True
    )
    known = seen.join_table("known", total.aggregate("total", spent=sl.Sum("n")).as_table())
    rows = {"user": "ann", "at": "2026-01-01T12:00:00Z"}
    steps = [
        Tick([Events([{**rows, "n": n}], source="paid"), Events([{**rows, "n": 0}], source="seen")]) for n in (5, 7)
    ]
    assert [[row["spent"] for row in shown] for shown in play(known, steps, runner=runner)] == [[5], [12]]


def test_a_sink_that_follows_a_table_need_not_say_how() -> None:
    stream = orders()
    table = stream.flow.table("known", stream, key="user", ttl="1h")
    table.sink("kept", sl.Memory())
    table.sink("logged", sl.Memory(), rows="changelog")
    assert [node.rows for node in stream.flow.nodes if isinstance(node, SinkNode)] == ["upsert", "changelog"]
    assert surprises(stream.flow) == []


def test_a_table_for_nobody_is_a_risk_and_checked_all_the_same() -> None:
    stream = orders()
    stream.flow.table("known", stream, key="user", ttl="1h")
    assert (
        "The table 'known' is kept for nobody: no stream is joined with it, and no sink follows it."
        in stream.flow.check()
    )
    stream.flow.table("lost", stream, key="usr")
    assert [what for what in problems(stream.flow) if "'usr'" in what]
