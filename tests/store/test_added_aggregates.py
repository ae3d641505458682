"""An aggregate that is added to a stage with state: it starts from nothing in the windows that are open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import strandline as sl
from strandline.errors import StateError
from strandline.kernel.plan import Plan, plan_stage
from strandline.kernel.state import from_bytes, to_bytes
from strandline.model.ticks import Edge
from strandline.model.time import Instant
from strandline.store.local import LocalStorage
from strandline.store.state_files import open_state
from tests.store.playing import EVERYTHING, StoredStage

SECOND = 1_000_000
SUMS = {"total": sl.Sum("amount")}
EVERY = {
    "total": sl.Sum("amount"), "mean": sl.Mean("amount"), "least": sl.Min("amount"), "users": sl.Distinct("amount"),
    "quantiles": sl.Quantile("amount", (0.5, 0.9)), "all": sl.Collect("amount"), "top": sl.TopK("amount", 2),
}  # fmt: skip


def plan(mode: Any = "accumulating", window: Any = None, **aggregates: Any) -> Plan:
    rows = sl.Rows(schema="user string, amount double, at timestamp")
    source = sl.Flow("f").source("events", rows, time="at", watermark=sl.Bounded("0s"))
    windowed = source.key_by("user").window(window or sl.Tumbling("1m"), mode=mode)
    return plan_stage(windowed.aggregate("counts", **aggregates).node)


def rows(*amounts: float) -> pl.DataFrame:
    times = [SECOND] * len(amounts)
    columns = {"user": ["ann"] * len(amounts), "amount": [*amounts], "__time": times, "at": times}
    return pl.DataFrame(columns).with_columns(pl.col("at").cast(pl.Datetime("us", "UTC")))


def edge(before: int, after: int) -> Edge:
    return Edge(before=Instant(before * SECOND), after=Instant(after * SECOND))


def counted(tmp_path: Path, first: Plan) -> StoredStage:
    stage = StoredStage(first, LocalStorage(tmp_path))
    stage.tick(rows(1.0, 2.0), edge(0, 0), Instant(0), [EVERYTHING])
    return stage


@pytest.mark.parametrize("window", [sl.Tumbling("1m"), sl.Session("1m"), sl.Hopping("1m", every="30s")])
def test_an_added_aggregate_is_shown_over_what_came_since(tmp_path: Path, window: Any) -> None:
    stage = counted(tmp_path, plan(n=sl.Count(), window=window))
    stage.plan = plan(n=sl.Count(), **SUMS, window=window)
    stage.tick(rows(4.0), edge(0, 0), Instant(1), [EVERYTHING])
    (shown,) = stage.tick(rows(), edge(0, 100), Instant(2), [EVERYTHING])
    assert {(pane["n"], pane["total"]) for pane in shown.panes.to_dicts()} == {(3, 4.0)}


def test_an_added_aggregate_of_a_window_that_nothing_came_to_shows_nothing(tmp_path: Path) -> None:
    stage = counted(tmp_path, plan(n=sl.Count()))
    stage.plan = plan(n=sl.Count(), **SUMS)
    (shown,) = stage.tick(rows(), edge(0, 100), Instant(2), [EVERYTHING])
    assert shown.panes.select("n", "total").rows() == [(2, None)]


def test_every_kind_of_aggregate_can_be_added(tmp_path: Path) -> None:
    stage = counted(tmp_path, plan(n=sl.Count()))
    stage.plan = plan(**EVERY, n=sl.Count())
    (shown,) = stage.tick(rows(4.0), edge(0, 100), Instant(1), [EVERYTHING])
    alone = StoredStage(plan(**EVERY), LocalStorage(tmp_path / "alone"))
    (expected,) = alone.tick(rows(4.0), edge(0, 100), Instant(1), [EVERYTHING])
    assert shown.panes.select(*EVERY).equals(expected.panes.select(*EVERY))


def test_aggregates_are_added_to_state_in_one_file_too(tmp_path: Path) -> None:
    stage, wider = counted(tmp_path, plan(n=sl.Count())), plan(n=sl.Count(), **SUMS)
    state = open_state(stage.plan, stage.storage, stage.record, *EVERYTHING)
    again = from_bytes(wider, to_bytes(stage.plan, state))
    assert next(iter(again.slices.values()))[0].frame().columns == list(wider.state_schema)


@pytest.mark.parametrize("changed", [{"mode": "retracting", "n": sl.Count(), **SUMS}, {"n": sl.Sum("amount")}, SUMS])
def test_what_cannot_be_added_is_refused_by_name(tmp_path: Path, changed: dict[str, Any]) -> None:
    mode = changed.get("mode", "accumulating")
    stage = counted(tmp_path, plan(n=sl.Count(), mode=mode))
    with pytest.raises(StateError, match=r"aggregate (n|total): .* there, .* here"):
        open_state(plan(**{"mode": mode, **changed}), stage.storage, stage.record, *EVERYTHING)
