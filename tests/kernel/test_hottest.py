"""The hottest keys of a stage: of all rows, however many windows these are in."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import strandline as sl
from strandline.kernel.plan import Plan
from strandline.kernel.preaggregate import preaggregate, prepare
from strandline.kernel.stateful import hottest_keys, plan_of
from strandline.model.ticks import Edge
from strandline.model.time import Instant

NOON = Instant.of("2026-01-01T12:00:00Z")
USERS = [*["ann"] * 6, *["bob"] * 3, "cid"]

SHAPES: dict[str, dict[str, Any]] = {
    "one window": {"window": sl.Tumbling("1h")},
    "many windows": {"window": sl.Tumbling("1s")},
    "windows that overlap": {"window": sl.Hopping("10s", every="1s")},
    "sessions": {"window": sl.Session("1s")},
    "sessions whose events are taken one by one": {
        "window": sl.Session("1s"),
        "trigger": sl.OrFinally(sl.Repeatedly(sl.AfterCount(2, exact=True)), sl.AfterClose()),
    },
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_key_is_as_hot_as_its_part_of_the_rows(name: str) -> None:
    source = sl.Flow("f").source("rows", sl.Rows([], schema="user string, at timestamp"), time="at")
    stage = source.key_by("user").window(**SHAPES[name]).aggregate("n", n=sl.Count())
    plan = plan_of(stage.flow, stage.node)
    assert isinstance(plan, Plan)
    times = pl.Series([int(NOON) + 1_500_000 * at for at in range(len(USERS))])
    rows = pl.DataFrame({"user": USERS, "at": times.cast(pl.Datetime("us", "UTC")), "__time": times})
    found = preaggregate(plan, prepare(plan, rows, NOON), Edge.first(), NOON)
    parts = [part for part in hottest_keys(plan, found, 2) if part.total]
    total = sum(part.total for part in parts)
    shares = {
        key: int(count) / total for part in parts for (key,), count in zip(part.keys.rows(), part.counts, strict=True)
    }
    assert shares == pytest.approx({"ann": 0.6, "bob": 0.3})
