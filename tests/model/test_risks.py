"""What check() lets through, and says might surprise."""

from __future__ import annotations

import pytest

import strandline as sl
from tests.model.checking import (
    MINUTES,
    Merging,
    Short,
    orders,
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


def _behind(spread: sl.Stream) -> list[str]:
    """What is said of stages behind this one that go by the order of arrival, and of some that do not."""
    spread.dedupe("once", on="user", within="1h")
    spread.key_by("user").over("features", n_1h=sl.Count(within="1h"))
    spread.key_by("user").window(MINUTES).aggregate("counted", n=sl.Count())
    changes = spread.flow.table("changes", spread, key="user", ttl="1h")
    spread.join_table("with_changes", changes)
    spread.join_table("by_time", spread.flow.table("ordered", spread, key="user", order="at", ttl="1h"))
    return [risk for risk in surprises(spread.flow) if "order in which rows come" in risk]


def test_an_order_of_arrival_behind_rows_that_are_spread_is_a_risk() -> None:
    left = orders()
    for salt, risks in ((None, []), (8, ["'once'", "'with_changes'"])):
        joined = left.key_by("user").join("met", left.key_by("user"), within=sl.After("1h"), salt=salt)
        assert [risk.split()[2] for risk in _behind(joined)] == risks
        left = orders()


def test_that_a_table_is_kept_several_times_is_a_risk() -> None:
    stream = orders()
    for broadcast, risks in ((False, []), (True, ["The stage 'named' keeps its table 16 times"])):
        table = stream.flow.table("known", stream, key="user", ttl="1h", broadcast=broadcast)
        stream.join_table("named", table, suffix="_known")
        assert [risk.split(":")[0] for risk in surprises(stream.flow)] == risks
        stream = orders()
