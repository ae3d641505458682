"""Lookups on Spark: the engine asks as the kernel does; workers are opened once; what was shown is never asked for again."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

import strandline as sl
from strandline.testing import Crash, Events, Tick, play
from tests.laws.comparing import differences
from tests.own import tier_of

pytestmark = pytest.mark.slow

EVENTS = "user string, v bigint, at timestamp"
NOON = "2026-01-01T12:{:02}:{:02}Z"
USERS = ("ann", "bob", "cid", "eve", None)


class Noting(sl.Lookup):
    """Leaves a file for each time that it is opened, and a line for each question."""

    def __init__(self, folder: Path, *, down: bool = False) -> None:
        self.folder, self.down = folder, down

    def open(self) -> None:
        self.notes = self.folder / f"{os.getpid()}-{uuid.uuid4().hex}"
        self.notes.touch()

    async def ask(self, *key: Any) -> str:
        with self.notes.open("a") as notes:
            notes.write(f"{key[0]}\n")
        if key[0] == "eve" or self.down:
            raise ConnectionError("nobody is there")
        return str(key[0]).upper()


def rows(tick: int, count: int = 9) -> list[dict[str, Any]]:
    return [{"user": USERS[n % 5], "v": 100 * tick + n, "at": NOON.format(tick, 7 * n % 60)} for n in range(count)]


@pytest.mark.parametrize("tasks", [1, 3])
def test_the_engine_the_kernel_and_the_oracle_agree_on_lookups(spark: SparkSession, tmp_path: Path, tasks: int) -> None:
    """With rows behind the watermark, rejected ones, crashes, and windows behind the lookup."""
    events = sl.Flow("asked").source("events", sl.Rows(schema=EVENTS), time="at")
    tiers = events.lookup("tier", tier_of, on="user", output="tier string", retries=0)
    named = tiers.with_column("name", "concat(user, '!')")
    again = named.lookup("again", Noting(tmp_path), on=["name"], output="shout string", ordered=False)
    counts = again.key_by("tier", "shout").window(sl.Tumbling("1m")).aggregate("counts", n=sl.Count(), sum=sl.Sum("v"))
    steps: list[Any] = []
    for tick in range(4):
        late = [{"user": "ann", "v": -tick, "at": NOON.format(0, 1)}]
        steps += [Tick([Events(rows(tick) + late)], watermark=NOON.format(tick, 30)), Crash()]
    steps.append(Tick(watermark=2**62))
    oracle = play(counts, steps, runner="oracle")
    kernel = play(counts, steps, runner="kernel", buckets=16, tasks=tasks)
    engine = play(counts, steps, runner="spark", spark=spark, buckets=16, tasks=tasks)
    assert sum(map(len, oracle)) > 8
    assert sum(map(len, oracle.late)) > 0
    assert sum(map(len, oracle.rejected)) > 4
    assert differences(counts, oracle, kernel) == []
    assert differences(counts, kernel, engine) == []


def flow(folder: Path, lookup: sl.Lookup, **options: Any) -> sl.Flow:
    """Files, a lookup, and files of what was answered and what was not."""
    made = sl.Flow("enriched")
    source = sl.Files(folder / "data").read(format="json", schema=EVENTS)
    tiers = made.source("events", source, time="at").lookup("tier", lookup, on="user", output="tier string", **options)
    tiers.sink("out", sl.Files(folder / "out").write(format="json"))
    tiers.rejected.sink("rejected", sl.Files(folder / "rejected").write(format="json"))
    return made


def bring(folder: Path, tick: int) -> None:
    (folder / "data").mkdir(exist_ok=True)
    pl.DataFrame(rows(tick)).write_ndjson(folder / "data" / f"{tick}.json")


def found(folder: Path) -> list[dict[str, Any]]:
    lines = [line for file in sorted(folder.glob("*.json")) for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def test_a_run_asks_once_for_each_key_of_a_tick_and_goes_on_with_other_options(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A lookup has no state, so that a restart may ask somebody else, in another way."""
    notes = tmp_path / "notes"
    notes.mkdir()
    bring(tmp_path, 0)
    flow(tmp_path, Noting(notes), retries=0).run(spark=spark, state=tmp_path / "state", until="caught_up")
    (asked,) = [file.read_text().split() for file in notes.iterdir()]
    assert sorted(asked) == ["ann", "bob", "cid", "eve"]
    bring(tmp_path, 1)
    again = flow(tmp_path, Noting(notes), retries=1, cache=sl.Cache("1h"), ordered=False, on_error="null", timeout="5s")
    again.run(spark=spark, state=tmp_path / "state", until="caught_up")
    shown, rejected = found(tmp_path / "out"), found(tmp_path / "rejected")
    assert sorted(row["v"] for row in (*shown, *rejected)) == sorted(row["v"] for t in (0, 1) for row in rows(t))
    assert [row["reason"] for row in rejected] == ["ConnectionError: nobody is there"] * 2
    assert {row["tier"] for row in shown if row["user"] == "ann"} == {"ANN"}


def test_a_service_that_is_down_stops_a_flow_that_must_not_fail_and_no_row_is_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    bring(tmp_path, 0)
    down = flow(tmp_path, Noting(tmp_path, down=True), retries=0, on_error="fail")
    with pytest.raises(sl.StrandlineError, match="The lookup of stage 'tier' has no answer for user=") as caught:
        down.run(spark=spark, state=tmp_path / "state", until="caught_up")
    assert f"Noting.ask raised ConnectionError ({__file__}, line " in str(caught.value)
    assert found(tmp_path / "out") == []
    flow(tmp_path, Noting(tmp_path), retries=0).run(spark=spark, state=tmp_path / "state", until="caught_up")
    assert len(found(tmp_path / "out")) + len(found(tmp_path / "rejected")) == len(rows(0))
