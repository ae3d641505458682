"""Whenever a publisher dies, its rows and its marker are both there, or neither is."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from strandline.sinks.files import FileSink
from tests.sinks.databases import opened
from tests.sinks.delivering import TARGET, delivery
from tests.sinks.dying import DIED, SINKS, TICK, die_at


@contextmanager
def served(sink: str, place: Path) -> Iterator[Path]:
    """A place for the sink; that of a server is told there."""
    place.mkdir()
    if sink == "postgres":
        with opened(sink, place) as base:
            (place / "url").write_text(base.sink().url)
            yield place
    else:
        yield place


def rows_in(sink: str, place: Path) -> list[tuple[str, int]]:
    if sink == "postgres":
        with psycopg.connect((place / "url").read_text()) as server:
            return server.execute("SELECT k, n FROM rows ORDER BY k").fetchall()
    if sink == "sqlite":
        with closing(sqlite3.connect(place / "out.db")) as connection:
            return connection.execute("SELECT k, n FROM rows ORDER BY k").fetchall()
    return FileSink(place).reader().frame().rows()


@pytest.mark.slow
@pytest.mark.parametrize("sink", SINKS)
def test_a_publisher_that_dies_at_any_call_leaves_rows_and_marker_or_neither(sink: str, tmp_path: Path) -> None:
    outcomes = set()
    for number in range(1, 60):
        with served(sink, tmp_path / str(number)) as place:
            first = SINKS[sink](str(place)).prepare(TARGET)
            first.publish(delivery(TARGET, 1, ("a", 1)))
            first.close()
            ended = die_at(sink, place, number)
            assert ended in (0, DIED)
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
