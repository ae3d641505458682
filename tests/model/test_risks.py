"""What check() lets through, and says might surprise."""

from __future__ import annotations

from typing import Any

import pytest

import strandline as sl
from tests.model.checking import (
    MINUTES,
    Merging,
    Short,
    orders,
    problems,
    second,
    stage,
    surprises,
)


def test_a_branch_that_leads_nowhere_is_a_risk() -> None:
    flow = stage().flow
    assert surprises(flow) == []
    sl.Stream(flow, flow.nodes[0]).where("amount > 3").with_column("double", "amount * 2")  # type: ignore[arg-type]
    assert surprises(flow) == ["The rows of .with_column('double', ...) lead nowhere: no stage and no sink takes them."]


def test_many_panes_and_endless_keys_are_risks() -> None:
    (many,) = surprises(stage(sl.Hopping("1d", every="1m")).flow)
    assert "1440 windows" in many
    (endless,) = surprises(stage(sl.Global(), trigger=sl.Repeatedly(sl.AfterCount(1))).flow)
    assert "keeps every key for ever" in endless


def test_that_nothing_is_shown_until_the_input_ends_is_a_risk() -> None:
    again = sl.Repeatedly(sl.AfterCount(1))
    for trigger, ttl, expected in (
        (sl.AfterWatermark(), None, 1),
        (sl.AfterClose(), None, 1),
        (sl.AfterClose(), "1d", 0),
        (sl.AfterWatermark(early=sl.AfterProcessingTime("10s")), None, 0),
        (sl.OrFinally(again, sl.AfterClose()), None, 0),
        (sl.Never(), None, 0),
    ):
        panes = stage(sl.Global(ttl=ttl), trigger=trigger, lateness="1h", allow_loss=True)
        assert sum("shows nothing until the input ends" in risk for risk in surprises(panes.flow)) == expected


@pytest.mark.parametrize(
    "stream", [orders().with_column("at", "at + interval 1 hour"), orders().select("user", "n", "now() as at")]
)
def test_a_time_column_that_is_made_anew_is_a_risk(stream: sl.Stream) -> None:
    stream.key_by("user").window(MINUTES).aggregate("one", n=sl.Count())
    (risk,) = surprises(stream.flow)
    assert "makes the column 'at' anew, and the time of an event stays as it was read: the stage 'one'" in risk


def test_a_time_column_that_is_left_alone_or_dropped_is_no_risk() -> None:
    for stream in (
        orders().with_column("at", "at"),
        orders().select("user", "at"),
        orders().select("user", "n as at2"),
    ):
        stream.key_by("user").window(MINUTES).aggregate("one", n=sl.Count())
        assert surprises(stream.flow) == []
    assert surprises(second(first=stage().with_column("at", "window_start")).flow) == []


def test_a_merge_over_windows_that_may_overlap_is_a_risk() -> None:
    (risk,) = surprises(second(first=stage(Short()), aggregates={"m": sl.Merge("total")}).flow)
    assert "The stage 'two' merges panes of Short: should its windows overlap" in risk
    assert surprises(second(first=stage(Merging()), aggregates={"m": sl.Merge("total")}).flow) == []
    assert surprises(second(sl.SameWindow(), first=stage(Short()), aggregates={"m": sl.Merge("total")}).flow) == []
    assert surprises(second(first=stage(Short())).flow) == []


def test_a_global_window_that_may_take_back_for_ever_is_a_risk_for_the_stage_behind_it() -> None:
    trigger = sl.Repeatedly(sl.AfterCount(1))
    for mode, ttl, expected in (("retracting", None, 1), ("discarding", None, 0), ("retracting", "1h", 0)):
        first = (
            orders()
            .key_by("user")
            .window(sl.Global(ttl=ttl), trigger=trigger, mode=mode, timestamp="latest", allow_loss=True)
            .aggregate("first", n=sl.Count())
        )
        behind = first.key_by().window(MINUTES).aggregate("second", n=sl.Sum("n"))
        assert sum("holds the windows of 'second' open" in risk for risk in surprises(behind.flow)) == expected


class Last(sl.Process):
    def on_event(self, event: Any, out: Any) -> None:
        out.emit(user=event["user"])


def _behind(stream: sl.Stream) -> tuple[list[str], list[str]]:
    """What is said, and refused, of stages behind this one that go by the order of arrival; and of some that do not."""
    flow, keyed = stream.flow, stream.key_by("user")
    stream.dedupe("once", on="user", within="1h")
    keyed.process("process", Last, output="user string", ttl=sl.TTL("1h"))
    keyed.process("in_order", Last, output="user string", ttl=sl.TTL("1h"), order="event_time")
    keyed.over("features", n_1h=sl.Count(within="1h"), emit="watermark")
    keyed.window(MINUTES).aggregate("counted", n=sl.Count())
    stream.join_table("by_time", flow.table("ordered", stream, key="user", order="at", ttl="1h"))
    risks = [risk.split()[2] for risk in surprises(flow) if "order in which rows come" in risk]
    stream.join_table("with_changes", flow.table("changes", stream, key="user", ttl="1h"), suffix="_changed")
    return risks, [what.split()[4] for what in problems(flow) if "in another order" in what]


KEPT: tuple[list[str], list[str]] = ([], [])
LOST = (["'once'", "'process'"], ["'with_changes'"])


def test_an_order_of_arrival_behind_rows_that_are_spread_is_a_risk_or_refused() -> None:
    for salt, found in ((None, KEPT), (8, LOST)):
        left = orders()
        joined = left.key_by("user").join("met", left.key_by("user"), within=sl.After("1h"), salt=salt)
        assert _behind(joined) == found


def _looked_up(stream: sl.Stream, on: str, **options: Any) -> sl.Stream:
    return stream.lookup("asked", repr, on=on, output="tier string", **options)


def test_an_order_of_arrival_behind_rows_by_another_key_is_a_risk_or_refused() -> None:
    for stream, found in (
        (orders().dedupe("first", on="n", within="1h"), LOST),
        (orders().dedupe("first", on="user", within="1h"), KEPT),
        (orders().dedupe("first", on=["user", "n"], within="1h"), LOST),
        (_looked_up(orders(), "n"), LOST),
        (_looked_up(orders(), "user"), KEPT),
        (_looked_up(orders(), "user", ordered=False), LOST),
        (orders().dedupe("first", on="zone", within="1h").select("zone as user", "n", "at"), KEPT),
        (orders().dedupe("first", on="user", within="1h").with_column("user", "upper(user)"), LOST),
        (_looked_up(orders().dedupe("first", on="n", within="1h"), "user"), LOST),
        (_looked_up(orders().dedupe("first", on="n", within="1h"), "n").rejected, LOST),
        (stage().with_column("at", "window_start"), KEPT),
        (stage(keys=("user", "n")).with_column("at", "window_start"), LOST),
        (stage(keys=()).with_column("user", "'all'").with_column("at", "window_start"), KEPT),
    ):
        assert _behind(stream) == found


def test_that_a_table_is_kept_several_times_is_a_risk() -> None:
    stream = orders()
    for broadcast, risks in ((False, []), (True, ["The stage 'named' keeps its table 16 times"])):
        table = stream.flow.table("known", stream, key="user", ttl="1h", broadcast=broadcast)
        stream.join_table("named", table, suffix="_known")
        assert [risk.split(":")[0] for risk in surprises(stream.flow)] == risks
        stream = orders()
