"""Whenever a publisher dies, its rows and its marker are both there, or neither is."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from strandline.sinks.files import FileSink
from tests.sinks.delivering import TARGET, delivery
from tests.sinks.dying import DIED, SINKS, TICK, die_at


def rows_in(sink: str, place: Path) -> list[tuple[str, int]]:
    if sink == "sqlite":
        with closing(sqlite3.connect(place / "out.db")) as connection:
            return connection.execute("SELECT k, n FROM rows ORDER BY k").fetchall()
    return FileSink(place).reader().frame().rows()


@pytest.mark.slow
@pytest.mark.parametrize("sink", SINKS)
def test_a_publisher_that_dies_at_any_call_leaves_rows_and_marker_or_neither(sink: str, tmp_path: Path) -> None:
    outcomes = set()
    for number in range(1, 60):
        place = tmp_path / str(number)
        place.mkdir()
        first = SINKS[sink](str(place)).prepare(TARGET)
        first.publish(delivery(TARGET, 1, ("a", 1)))
        first.close()
        ended = die_at(sink, place, number)
        found = rows_in(sink, place)
        assert found in ([("a", 1)], [("a", 1), ("b", 2), ("c", 3)])
        second = SINKS[sink](str(place)).prepare(TARGET)
        assert second.publish(TICK).skipped == (len(found) == 3)
        second.close()
        assert rows_in(sink, place) == [("a", 1), ("b", 2), ("c", 3)]
        outcomes.add((ended, len(found)))
        if ended == 0:
            break
    # It died before and after the one atomic act, and lived in the end. (SQLite's act is its last statement.)
    assert outcomes >= {(DIED, 1), (0, 3)} | ({(DIED, 3)} if sink != "sqlite" else set())
