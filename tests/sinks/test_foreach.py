"""Ticks given to a function of the user's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from strandline.errors import DescriptionError, SinkError
from strandline.model.time import Instant
from strandline.sinks.foreach import ForeachTick, TickIdentity
from tests.sinks.delivering import LOG, TARGET, delivery
from tests.sinks.test_contract import WITH_SPARK, Spark


def test_the_function_is_given_the_rows_and_who_they_are() -> None:
    given: list[Any] = []
    target = replace(LOG, spark=Spark)
    ForeachTick(lambda df, tick: given.append((df, tick))).prepare(target).publish(delivery(LOG, 7, ("a", 1, "insert")))
    ((df, tick),) = given
    assert df.to_pylist() == [{"k": "a", "n": 1, "op": "insert"}]
    assert tick == TickIdentity(
        flow="f", sink="s", incarnation="one", tick=7, digest="digest-of-7", now=Instant.of("2026-01-01T12:00:00Z")
    )


def test_an_error_names_the_file_and_the_line() -> None:
    def write(df: Any, tick: TickIdentity) -> None:
        df.no_such_method()

    publisher = ForeachTick(write).prepare(WITH_SPARK)
    line = write.__code__.co_firstlineno + 1
    with pytest.raises(
        SinkError, match=rf"^In tick 1 of .* raised AttributeError \(.*test_foreach\.py, line {line}\):"
    ):
        publisher.publish(delivery(TARGET, 1, ("a", 1)))


def test_where_in_java_an_error_came_from_is_not_told() -> None:
    def write(df: Any, tick: TickIdentity) -> None:
        raise RuntimeError(
            "An error occurred while calling o9.save.\n: java.sql.SQLException: No driver\n\tat x.Y\n\tat z.Y"
        )

    with pytest.raises(SinkError) as told:
        ForeachTick(write).prepare(WITH_SPARK).publish(delivery(TARGET, 1, ("a", 1)))
    assert told.value.what.endswith(": java.sql.SQLException: No driver")


def test_a_tick_that_failed_is_given_again() -> None:
    calls: list[int] = []

    def write(df: Any, tick: TickIdentity) -> None:
        calls.append(tick.tick)
        if len(calls) == 1:
            raise OSError("try again")

    publisher = ForeachTick(write).prepare(WITH_SPARK)
    with pytest.raises(SinkError, match="try again"):
        publisher.publish(delivery(TARGET, 1, ("a", 1)))
    assert publisher.publish(delivery(TARGET, 1, ("a", 1))).rows == 1
    assert calls == [1, 1]


def test_what_is_promised_depends_on_what_is_said() -> None:
    assert ForeachTick(print).guarantee.startswith("at least once")
    assert ForeachTick(print, exactly_once=True).guarantee.startswith("exactly once, if")


def test_without_spark_it_cannot_be_used() -> None:
    with pytest.raises(SinkError, match="no Spark here"):
        ForeachTick(print).prepare(TARGET)


@pytest.mark.parametrize("function", [3, None, lambda df: None])
def test_what_cannot_be_called_with_a_tick_is_refused_when_said(function: Any) -> None:
    with pytest.raises(DescriptionError):
        ForeachTick(function)
