"""What is wrong with flows that really run is found in the journals that they really write."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import strandline as sl
from strandline.errors import StrandlineError
from strandline.kernel.schema import polars_schema
from strandline.model.time import Instant
from strandline.model.types import Schema
from strandline.operations.health.finding import Finding
from strandline.operations.health.judging import judge
from strandline.operations.health.looking import look
from strandline.operations.health.watched import Watched
from strandline.sources.contract import Limit, Offset, Piece, Place, malformed_table
from strandline.store.journal import records
from strandline.store.storage import storage_at
from tests.operations.journals import World

pytestmark = pytest.mark.slow
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

SCHEMA = Schema.of("user string, at timestamp")
NOON = int(Instant.of("2026-01-01T12:00:00Z"))
SECOND = 1_000_000
EACH = 400  # rows of a partition in a tick
NORMAL, MINUTE = 8, 5  # ticks
TIMES = tuple(NOON + at * SECOND for at in (*range(20, 180, 20), *range(172, 221, 12)))  # of ticks
PATIENCE = 120.0  # seconds


@dataclass(frozen=True)
class Told:
    """A source that tells its rows and the time, tick by tick, and is always caught up."""

    schema: Schema = SCHEMA
    ticks: tuple[tuple[Piece, ...], ...] = ()

    def reader(self, storage: object = None) -> Told:
        return self

    def first(self) -> Offset:
        return {"tick": 0}

    def latest(self, start: Offset, limit: Limit, *, now: int | None = None) -> Offset:
        return {"tick": min(start["tick"] + 1, len(self.ticks))}

    def now(self, offset: Offset) -> int:
        return TIMES[offset["tick"] - 1] if offset["tick"] else NOON

    def parts(self, start: Offset, end: Offset, wanted: int) -> list[Any]:
        return list(range(start["tick"], end["tick"]))

    def read(self, part: int) -> Iterator[Piece]:
        yield from self.ticks[part]

    def places(self, offset: Offset) -> dict[str, Place]:
        read = [(piece.partition, piece.rows.height) for tick in self.ticks[: offset["tick"]] for piece in tick]
        total: dict[str, int] = {}
        for partition, rows in read:
            total[partition] = total.get(partition, 0) + rows
        return {partition: Place(position=rows, end=rows) for partition, rows in total.items()}


def a_piece(tick: int, partition: int, chance: random.Random) -> Piece:
    """What a partition brings: for a while what is normal, then all sorts of things, and of the last one nothing."""
    amiss = tick >= NORMAL
    users, times = [], []
    for number in range(0 if amiss and partition == 2 else EACH):
        user = "hot" if amiss and number % 2 else f"user {chance.randrange(50)}"
        users.append(f"new {tick} {partition} {number}" if amiss and number % 5 in (0, 2) else user)
        old = 600 * SECOND if amiss and partition == 0 and number % 5 == 0 else 0
        times.append(TIMES[tick] - chance.randrange(10 * SECOND) - old)
    poison = EACH // 5 if amiss and partition == 1 else 0
    types = polars_schema(SCHEMA)
    rows = pl.DataFrame({"user": users, "at": pl.Series(times, dtype=pl.Int64).cast(types["at"])}, schema=types)
    return Piece(partition=str(partition), rows=rows, malformed=malformed_table(["{"] * poison, ["no JSON"] * poison))


def eventually(run: Any, tick: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while (run.progress["tick"] or 0) < tick:
        assert run.running, "it ended by itself"
        assert time.monotonic() < deadline, "it did not happen"
        threading.Event().wait(0.05)


@pytest.fixture(scope="module")
def journal(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The journal of a flow to which all sorts of things happen in its last minute."""
    chance = random.Random(7)
    ticks = tuple(tuple(a_piece(tick, partition, chance) for partition in range(3)) for tick in range(NORMAL + MINUTE))
    flow, state = sl.Flow("shop"), tmp_path_factory.mktemp("health")
    events = flow.source("events", Told(ticks=ticks), time="at", watermark=sl.Bounded("20s"))
    by_user = events.key_by("user")
    by_user.window(sl.Tumbling("1m")).aggregate("totals", n=sl.Count()).sink("shown", sl.Memory())
    ever = by_user.window(sl.Global(), trigger=sl.Repeatedly(sl.AfterCount(1)))
    ever.aggregate("ever", n=sl.Count()).sink("table", sl.Memory(), rows="upsert")
    run = flow.run(state=state, spark=spark, batch_interval="0s", wait=False)
    eventually(run, len(ticks) - 1)
    run.stop()
    run.wait()
    return list(records(storage_at(state)))


def found_at(journal: list[dict[str, Any]], ticks: int) -> dict[str, Finding]:
    """What is found when the journal has so many ticks, by what found it."""
    seen = journal[:ticks]
    return {found.rule: found for found in judge(Watched(records=seen, at=Instant(seen[-1]["now"] + SECOND)))}


def test_what_is_normal_for_a_flow_is_no_finding(journal: list[dict[str, Any]]) -> None:
    assert found_at(journal, NORMAL) == {}


def test_all_that_goes_wrong_is_found_within_a_minute_with_its_cause(journal: list[dict[str, Any]]) -> None:
    found = found_at(journal, NORMAL + MINUTE)
    assert "partition events/1" in found["rejected_rows"].cause
    assert "partition events/0" in found["late_rows"].cause
    assert (found["late_rows"].about, "The key hot brings 3" in found["hot_key"].what) == ("stage totals", True)
    assert (found["growing_state"].about, "no ttl" in found["growing_state"].cause) == ("stage ever", True)
    stuck = found["stuck_watermark"]
    assert (stuck.about, "silent, and is waited for" in stuck.cause) == ("partition events/2", True)


def test_records_that_are_made_up_for_tests_have_the_fields_of_real_ones(journal: list[dict[str, Any]]) -> None:
    made, real = World(random.Random(1)).step(), journal[1]
    assert made.keys() == real.keys()
    for field_ in ("books", "state", "sinks"):
        assert next(iter(made[field_].values())).keys() == next(iter(real[field_].values())).keys()
    assert made["partitions"]["orders"]["0"].keys() == real["partitions"]["events"]["0"].keys()
    assert made["hottest"]["totals"][0].keys() == real["hottest"]["totals"][0].keys()
    assert made["took"].keys() <= real["took"].keys()


def test_a_flow_that_fails_again_and_again_is_found_with_what_it_fails_with(
    spark: SparkSession, tmp_path: Path
) -> None:
    def refuse(frame: Any, tick: Any) -> None:
        raise OSError("the shop is closed")

    flow = sl.Flow("failing")
    rows = flow.source("rows", sl.Rows([{"at": "2026-01-01T12:00:00Z"}], schema="at timestamp"), time="at")
    rows.sink("out", sl.ForeachTick(refuse))
    for _ in range(3):
        with pytest.raises(StrandlineError, match="the shop is closed"):
            flow.run(state=tmp_path, spark=spark, until="caught_up")
    watched = look(storage_at(tmp_path), Instant(time.time_ns() // 1000))
    found = {each.rule: each for each in judge(watched)}
    assert found["restart_loop"].what.startswith("3 runs failed or died")
    assert "the shop is closed" in found["restart_loop"].cause
    assert "the shop is closed" in found["failed"].cause
