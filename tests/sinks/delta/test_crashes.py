"""Whatever dies, and whenever: readers see whole ticks only, and in the end what an undisturbed publisher leaves."""

from __future__ import annotations

import random
import signal
import threading
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.sinks.delta.publishing import DIED, TICKS, child, is_whole, publish, ticks
from tests.sinks.delta.reading import rows_of, sorted_rows


class Reader(threading.Thread):
    """Reads the table again and again."""

    def __init__(self, path: Path, rows: str) -> None:
        super().__init__(daemon=True)
        self.path, self.rows = path, rows
        self.done = threading.Event()
        self.versions: set[int] = set()
        self.half: list[list[tuple[object, ...]]] = []

    def run(self) -> None:
        while not self.done.wait(0.01):
            if not DeltaTable.is_deltatable(str(self.path)):
                continue
            table = DeltaTable(str(self.path))
            found = rows_of(table).rows()
            self.versions.add(table.version())
            if not is_whole(self.rows, found):
                self.half.append(found)

    def close(self) -> None:
        self.done.set()
        self.join()


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["append", "upsert"])
def test_a_publisher_that_is_killed_again_and_again_leaves_what_an_undisturbed_one_does(
    rows: str, tmp_path: Path
) -> None:
    publish(tmp_path / "calm", rows)
    path = tmp_path / "table"
    reader = Reader(path, rows)
    reader.start()
    for number in (1, 2, 3, 4):  # before a commit, behind it, and so on
        assert child(path, rows, number).wait(60) == DIED
    drawn, killed = random.Random(rows), 0
    for _ in range(30):
        running = child(path, rows)
        version = DeltaTable(str(path)).version()
        while running.poll() is None and DeltaTable(str(path)).version() == version:
            reader.done.wait(drawn.uniform(0.0, 0.02))  # it is killed soon after a commit: on its way to the next
        running.send_signal(signal.SIGKILL)
        if running.wait(60) == 0:
            break
        killed += 1
    publish(path, rows)
    reader.close()
    assert killed >= 3
    assert sorted_rows(path) == sorted_rows(tmp_path / "calm")
    assert reader.half == []
    assert len(reader.versions) >= TICKS // 2


def test_the_judge_knows_a_half_tick() -> None:
    for rows in ("append", "upsert"):
        assert not is_whole(rows, [("k0", 5), ("k1", 5)])
        assert len(ticks(rows)[1]) == TICKS
