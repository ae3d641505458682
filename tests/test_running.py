"""What running a flow says before Spark is even looked for."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline import running
from strandline.errors import RunError, StrandlineError
from strandline.model.time import Span


def test_without_pyspark_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    flow = sl.Flow("lonely")
    flow.source("events", sl.Generator(seed=1, rows=1), time="at").sink("out", sl.Memory("out"), rows="append")
    with pytest.raises(RunError, match=r"pip install 'strandline\[spark\]'"):
        flow.run(state=tmp_path)


class Failing:
    """In place of a driver: fails each time."""

    failure: Exception | None = None
    restarts = 0
    head = None

    def run(self) -> None:
        self.failure = RunError("not now", fix="wait")
        raise self.failure

    def stop(self) -> None:
        pass


class Starting:
    """In place of a start: counts the drivers that are made."""

    def __init__(self) -> None:
        self.made: list[Failing] = []

    def driver(self, restarts: int) -> Any:
        self.made.append(Failing())
        return self.made[-1]


def test_a_run_that_waits_to_be_tried_again_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "BACKOFF", Span.of("1h"))
    start = Starting()
    run = running.Run("waiting", start, restarts=3)  # type: ignore[arg-type]
    run.begin()
    run.stop()
    with pytest.raises(RunError, match="not now"):
        run.wait(60)
    assert len(start.made) == 1


def test_a_run_is_tried_as_often_as_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "BACKOFF", Span(1))
    start = Starting()
    run = running.Run("failing", start, restarts=3)  # type: ignore[arg-type]
    run.begin()
    with pytest.raises(RunError, match="not now"):
        run.wait(60)
    assert len(start.made) == 4


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"state": None}, "State cannot be kept at None"),
        ({"state": b"x"}, "State cannot be kept at b'x'"),
        ({"drop": "stage"}, "drop='stage' is no list of names"),
        ({"drop": 5}, "drop=5 is no list of names"),
        ({"retain": 1}, "retain=1 is no number"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_spark_is_looked_for(
    options: dict[str, Any], what: str, tmp_path: Path
) -> None:
    flow = sl.Flow("wrong")
    flow.source("events", sl.Generator(seed=1, rows=1), time="at").sink("out", sl.Memory("out"), rows="append")
    with pytest.raises(StrandlineError, match=re.escape(what)):
        flow.run(**{"state": tmp_path, **options})
