"""What every sink owes: a tick takes effect once, in order, and for one incarnation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import SinkError
from strandline.sinks.console import ConsoleSink
from strandline.sinks.contract import Marker, Sink, judge_marker
from strandline.sinks.database import DatabaseSink
from strandline.sinks.delta.description import DeltaSink
from strandline.sinks.files import FileSink
from strandline.sinks.foreach import ForeachTick
from strandline.sinks.memory import MemorySink
from strandline.sinks.redis.description import RedisSink
from tests import servers
from tests.sinks.delivering import TARGET, Upserted, delivery
from tests.sinks.http_calls.publishing import AtNoon, shared_url
from tests.sinks.redis.serving import new_prefix

MEMORY = MemorySink()
LASTING: dict[str, Callable[[Path], Sink]] = {
    "memory": lambda folder: MEMORY,
    "ticks": lambda folder: FileSink(folder / "out", format="json"),
    "log": lambda folder: FileSink(folder / "out", layout="log"),
    "sqlite": lambda folder: DatabaseSink(f"sqlite:///{folder}/out.db", "rows"),
    "delta": lambda folder: DeltaSink(folder / "table"),
    "delta of upserts": lambda folder: Upserted(DeltaSink(folder / "table")),
    "redis": lambda folder: Upserted(RedisSink(servers.redis(), new_prefix(), wait="0s")),
}
PASSING: dict[str, Callable[[Path], Sink]] = {
    "console": lambda folder: ConsoleSink(),
    "foreach": lambda folder: ForeachTick(lambda df, tick: None),
    "http": lambda folder: AtNoon(shared_url()),
}


class Spark:
    """As much of a session as a sink asks for; tests/spark has the real one."""

    def createDataFrame(self, table: Any, schema: str) -> Any:  # noqa: N802 - Spark's name
        return table


WITH_SPARK = replace(TARGET, spark=Spark)


@pytest.fixture(params=[*LASTING, *PASSING])
def any_sink(request: pytest.FixtureRequest, tmp_path: Path) -> Sink:
    MEMORY.clear()
    return (LASTING | PASSING)[request.param](tmp_path)


@pytest.fixture(params=LASTING)
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Sink:
    MEMORY.clear()
    return LASTING[request.param](tmp_path)


def test_a_tick_takes_effect_once(any_sink: Sink) -> None:
    publisher = any_sink.prepare(WITH_SPARK)
    tick = delivery(TARGET, 1, ("a", 1), ("b", 2))
    assert publisher.publish(tick).rows == 2
    again = publisher.publish(tick)
    assert (again.rows, again.skipped) == (0, True)
    publisher.close()


def test_another_digest_for_the_same_tick_is_refused(any_sink: Sink) -> None:
    publisher = any_sink.prepare(WITH_SPARK)
    publisher.publish(delivery(TARGET, 1, ("a", 1)))
    with pytest.raises(SinkError, match="other rows for tick 1"):
        publisher.publish(delivery(TARGET, 1, ("a", 2), digest="other"))
    publisher.close()


def test_an_earlier_tick_is_refused(any_sink: Sink) -> None:
    publisher = any_sink.prepare(WITH_SPARK)
    publisher.publish(delivery(TARGET, 5, ("a", 1)))
    with pytest.raises(SinkError, match="is at tick 5; tick 4 comes too late"):
        publisher.publish(delivery(TARGET, 4, ("a", 2)))
    publisher.close()


def test_a_delivery_of_another_incarnation_than_the_targets_is_refused(any_sink: Sink) -> None:
    publisher = any_sink.prepare(WITH_SPARK)
    with pytest.raises(SinkError, match="prepared for 'one'"):
        publisher.publish(delivery(TARGET, 1, ("a", 1), incarnation="two"))
    publisher.close()


def test_other_columns_than_promised_are_refused_and_nothing_is_published(any_sink: Sink) -> None:
    publisher = any_sink.prepare(WITH_SPARK)
    wrong = replace(delivery(TARGET, 1), tables=lambda: iter([pl.DataFrame({"k": [1], "n": [1]})]))
    with pytest.raises(SinkError, match="other columns than promised"):
        publisher.publish(wrong)
    assert publisher.publish(delivery(TARGET, 1, ("a", 1))).rows == 1
    publisher.close()


def test_a_restart_finds_the_marker(sink: Sink) -> None:
    first = sink.prepare(TARGET)
    first.publish(delivery(TARGET, 1, ("a", 1)))
    first.close()
    second = sink.prepare(TARGET)
    assert second.publish(delivery(TARGET, 1, ("a", 1))).skipped
    with pytest.raises(SinkError, match="other rows"):
        second.publish(delivery(TARGET, 1, ("a", 1), digest="other"))
    assert second.publish(delivery(TARGET, 2, ("a", 2))).rows == 1
    second.close()


def test_another_incarnation_is_refused_before_the_start(sink: Sink) -> None:
    first = sink.prepare(TARGET)
    first.publish(delivery(TARGET, 150, ("a", 1)))
    first.close()
    with pytest.raises(SinkError, match="another incarnation"):
        sink.prepare(replace(TARGET, incarnation="two"))


def test_after_a_restore_the_marker_tells_what_was_delivered_before_it(sink: Sink) -> None:
    first = sink.prepare(TARGET)
    first.publish(delivery(TARGET, 150, ("a", 1)))
    first.close()
    restored = replace(TARGET, incarnation="two", acknowledged=True, restored_from=TARGET.incarnation)
    second = sink.prepare(restored)
    assert second.marker is not None
    assert (second.marker.incarnation, second.marker.tick) == (TARGET.incarnation, 150)
    second.publish(delivery(restored, 151, ("a", 2)))
    second.close()
    third = sink.prepare(restored)
    assert third.marker is not None
    assert (third.marker.incarnation, third.marker.tick) == ("two", 151)
    third.close()


def test_another_incarnation_that_is_acknowledged_takes_over(sink: Sink) -> None:
    first = sink.prepare(TARGET)
    first.publish(delivery(TARGET, 150, ("a", 1)))
    first.close()
    restored = replace(TARGET, incarnation="two", acknowledged=True)
    second = sink.prepare(restored)
    assert second.publish(delivery(restored, 101, ("a", 2))).rows == 1
    assert second.publish(delivery(restored, 101, ("a", 2))).skipped
    second.close()
    third = sink.prepare(replace(restored, acknowledged=False))
    assert third.publish(delivery(restored, 101, ("a", 2))).skipped
    third.close()
    with pytest.raises(SinkError, match="another incarnation"):
        sink.prepare(TARGET)


@pytest.mark.parametrize("acknowledged", [False, True])
def test_a_run_whose_target_was_taken_over_publishes_no_more(sink: Sink, acknowledged: bool) -> None:
    """Also where it has taken the target over itself, before: that was about what it found when it started."""
    old, new = replace(TARGET, acknowledged=acknowledged), replace(TARGET, incarnation="two", acknowledged=True)
    first = sink.prepare(old)
    first.publish(delivery(old, 1, ("a", 1)))
    second = sink.prepare(new)
    second.publish(delivery(new, 1, ("a", 2)))
    with pytest.raises(SinkError, match="another incarnation"):
        first.publish(delivery(old, 2, ("a", 3)))
    assert second.publish(delivery(new, 2, ("a", 4))).rows == 1
    first.close()
    second.close()


def test_a_target_that_does_not_show_the_delivery_before_is_refused_unless_it_is_acknowledged(sink: Sink) -> None:
    publisher = sink.prepare(TARGET)
    publisher.publish(delivery(TARGET, 3, ("a", 1)))
    lost = replace(delivery(TARGET, 6, ("a", 2)), after=5)
    if isinstance(sink, MemorySink):
        assert publisher.publish(lost).rows == 1  # it never keeps anything over a restart
        return
    with pytest.raises(SinkError, match="is at tick 3, but tick 5 was published"):
        publisher.publish(lost)
    assert publisher.publish(replace(delivery(TARGET, 6, ("a", 2)), after=3)).rows == 1
    publisher.close()
    acknowledged = sink.prepare(replace(TARGET, acknowledged=True))
    assert acknowledged.publish(replace(delivery(TARGET, 9, ("a", 2)), after=8)).rows == 1
    acknowledged.close()


def test_a_target_that_is_empty_is_refused_if_something_was_published_to_it(sink: Sink) -> None:
    publisher = sink.prepare(TARGET)
    if not isinstance(sink, MemorySink):
        with pytest.raises(SinkError, match="shows no delivery, but tick 5 was published"):
            publisher.publish(replace(delivery(TARGET, 6, ("a", 2)), after=5))
    assert publisher.publish(delivery(TARGET, 6, ("a", 2))).rows == 1
    publisher.close()


def test_every_sink_says_what_it_promises(any_sink: Sink) -> None:
    assert any_sink.guarantee.startswith(("exactly once", "at least once"))
    assert any_sink.takes <= {"append", "changelog", "upsert"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rows": "upsert"}, "Nothing says which rows"),
        ({"rows": "upsert", "key": ("nobody",)}, "'nobody', which is not delivered"),
    ],
)
def test_an_upsert_needs_a_key(change: dict[str, Any], said: str) -> None:
    with pytest.raises(SinkError, match=said):
        MEMORY.prepare(replace(TARGET, **change))


def test_files_take_no_upserts(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="cannot do") as refused:
        FileSink(tmp_path).prepare(replace(TARGET, rows="upsert", key=("k",)))
    assert refused.value.fix == "It takes 'append' or 'changelog'."


@given(st.integers(0, 3), st.integers(0, 3), st.booleans(), st.booleans())
def test_after_a_delivery_the_same_is_skipped_and_no_earlier_one_takes_effect(
    at: int, tick: int, same_digest: bool, same_incarnation: bool
) -> None:
    marker = Marker(incarnation="one" if same_incarnation else "two", tick=at, digest="d")
    given_now = delivery(TARGET, tick, digest="d" if same_digest else "e")
    fine = same_incarnation and (tick > at or (tick == at and same_digest))
    if fine:
        assert judge_marker(marker, given_now, TARGET) == ("publish" if tick > at else "skip")
    else:
        with pytest.raises(SinkError):
            judge_marker(marker, given_now, TARGET)
