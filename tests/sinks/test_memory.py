"""Rows kept in the process."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from strandline.errors import SinkError
from strandline.model.types import Schema
from strandline.sinks.memory import MemorySink
from tests.sinks.delivering import CHANGES, LOG, TARGET, delivery


def test_rows_are_there_in_order() -> None:
    memory = MemorySink()
    publisher = memory.prepare(TARGET)
    publisher.publish(delivery(TARGET, 1, ("a", 1)))
    publisher.publish(delivery(TARGET, 2, ("b", 2), ("c", 3)))
    assert memory.rows == [{"k": "a", "n": 1}, {"k": "b", "n": 2}, {"k": "c", "n": 3}]
    assert memory.table().equals(memory.frame())


def test_upserts_are_applied() -> None:
    memory = MemorySink()
    publisher = memory.prepare(CHANGES)
    publisher.publish(delivery(CHANGES, 1, ("a", 1, "upsert"), (None, 2, "upsert"), ("b", 3, "upsert")))
    publisher.publish(delivery(CHANGES, 2, (None, 9, "upsert"), ("b", None, "delete")))
    assert memory.table().rows() == [("a", 1), (None, 9)]
    assert len(memory.rows) == 5


def test_a_retracted_row_is_not_in_the_table() -> None:
    memory = MemorySink()
    publisher = memory.prepare(LOG)
    publisher.publish(delivery(LOG, 1, ("a", 1, "insert"), ("b", 1, "insert")))
    publisher.publish(delivery(LOG, 2, ("a", 1, "retract"), ("a", 2, "insert")))
    assert memory.table().rows() == [("b", 1), ("a", 2)]
    assert [row["op"] for row in memory.rows] == ["insert", "insert", "retract", "insert"]


def test_before_a_run_there_is_nothing() -> None:
    assert (MemorySink().rows, MemorySink().table().height) == ([], 0)


def test_each_sink_has_a_memory_of_its_own() -> None:
    one, other = MemorySink("totals"), MemorySink("totals")
    one.prepare(TARGET).publish(delivery(TARGET, 1, ("a", 1)))
    assert other.rows == []


def test_clear_forgets_the_marker_too() -> None:
    memory = MemorySink()
    memory.prepare(TARGET).publish(delivery(TARGET, 1, ("a", 1)))
    memory.clear()
    anew = replace(TARGET, incarnation="two")
    memory.prepare(anew).publish(delivery(anew, 1, ("b", 1)))
    assert memory.rows == [{"k": "b", "n": 1}]


def test_other_columns_are_refused() -> None:
    memory = MemorySink()
    memory.prepare(TARGET).publish(delivery(TARGET, 1, ("a", 1)))
    with pytest.raises(SinkError, match="holds rows with the columns"):
        memory.prepare(replace(TARGET, schema=Schema.of("k string")))


def test_a_copy_in_another_process_is_empty() -> None:
    memory = MemorySink()
    memory.prepare(TARGET).publish(delivery(TARGET, 1, ("a", 1)))
    assert pickle.loads(pickle.dumps(memory)).rows == []
