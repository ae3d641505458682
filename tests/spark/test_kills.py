"""A driver that is killed at every point of a tick, one after the other, leaves what one that lived would have left."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from strandline.demo.crash import process
from strandline.demo.results import Results, differences
from strandline.demo.shops import ROWS, undisturbed
from strandline.spark.points import POINTS
from strandline.spark.run import CLEAN_EVERY

pytestmark = pytest.mark.slow

# The first tick has no head to go on from; then every point of a tick, each in a tick of its own.
KILLS = ["stepped:0", *(f"{point}:{tick}" for tick, point in enumerate(POINTS[:-1], 1)), f"{POINTS[-1]}:{CLEAN_EVERY}"]


def run(folder: Path, at: str | None) -> int:
    environment = {name: value for name, value in os.environ.items() if name != "STRANDLINE_AT"}
    with process(folder, environment if at is None else {**environment, "STRANDLINE_AT": f"{at}=SIGKILL"}) as child:
        return child.wait()


def test_a_driver_killed_at_every_point_of_a_tick_leaves_the_same_table(tmp_path: Path) -> None:
    for at in KILLS:
        assert run(tmp_path, at) == -signal.SIGKILL, (at, (tmp_path / "log.txt").read_text(encoding="utf-8")[-3000:])
    assert run(tmp_path, None) == 0
    results = Results(tmp_path)
    assert list(differences(results.table(), undisturbed())) == []
    assert results.standing().equals(results.table())
    assert int(results.table()["orders"].sum()) + results.rejected() == ROWS
    numbers = [record["tick"] for record in results.ticks(since=0)]
    assert numbers == list(range(len(numbers)))
