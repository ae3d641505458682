"""One line for each tick in which something happened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from strandline.cli.following import Follower, tick_line
from strandline.errors import RunError
from strandline.model.time import Instant
from strandline.store.journal import JOURNAL
from strandline.store.storage import storage_at


class Still:
    """A run that makes no ticks."""

    head = None


def record(tick: int, rows: int = 0, **more: Any) -> dict[str, Any]:
    books = {"orders": {"rows": rows, "kept": rows, "late": 0, "rejected": 0}}
    empty = {"panes": {}, "sinks": {}, "took": {}, "rows": {}, "partitions": {"orders": {}}}
    return {"tick": tick, "now": 0, "books": books, "watermarks": {"orders": 0}, **empty, **more}


def followed(folder: Path, *records: dict[str, Any], every_tick: bool = False) -> list[str]:
    storage, said = storage_at(folder), list[str]()
    follower = Follower(storage, said.append, every_tick=every_tick)
    with follower.following(Still()):
        for each in records:
            storage.create(f"{JOURNAL}{each['tick']:012}.json", json.dumps(each).encode())
    assert follower.ticks == len(records)
    return said


def test_ticks_in_which_nothing_happened_are_passed_over(tmp_path: Path) -> None:
    assert [line.split(":")[2] for line in followed(tmp_path, record(0, 5), record(1), record(2, 7))] == [
        "00Z tick 0",
        "00Z tick 2",
    ]


def test_a_journal_that_cannot_be_read_is_told_and_hides_no_failure(tmp_path: Path) -> None:
    storage, said = storage_at(tmp_path), list[str]()
    follower = Follower(storage, said.append, every_tick=True)
    storage.create(f"{JOURNAL}{0:012}.json", b"{")
    with pytest.raises(RunError, match="it failed"), follower.following(Still()):
        raise RunError("it failed", fix="Mend it.")
    assert said[0].startswith("the journal cannot be read just now: The record 'journal/000000000000.json'")


def test_what_is_wrong_with_the_journal_is_said_once(tmp_path: Path) -> None:
    storage, said = storage_at(tmp_path), list[str]()
    follower = Follower(storage, said.append, every_tick=True)
    storage.create(f"{JOURNAL}{0:012}.json", b"{")
    for _ in range(2):
        with follower.following(Still()):
            pass
    assert len(said) == 1


def test_every_tick_is_told_if_wanted(tmp_path: Path) -> None:
    assert len(followed(tmp_path, record(0, 5), record(1), every_tick=True)) == 2


def test_a_sink_that_is_behind_is_said_to_be() -> None:
    line = tick_line(record(3, 1, sinks={"table": {"rows": 0, "pending": 2}, "other": {"rows": 0, "pending": 0}}))
    assert "0 to table (2 ticks behind)" in line
    assert "other" not in line


def test_the_end_of_time_is_said_in_words() -> None:
    line = tick_line(record(3, 1, watermarks={"orders": int(Instant.END_OF_TIME)}))
    assert "orders at end of time" in line


def test_who_sees_is_given_every_record_once_also_those_of_which_nothing_is_said(tmp_path: Path) -> None:
    storage, seen = storage_at(tmp_path), list[int]()
    follower = Follower(storage, lambda line: None, every_tick=False, see=lambda record: seen.append(record["tick"]))
    with follower.following(Still()):
        for each in (record(0, 5), record(1), record(2, 7)):
            storage.create(f"{JOURNAL}{each['tick']:012}.json", json.dumps(each).encode())
    assert seen == [0, 1, 2]
