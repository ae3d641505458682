"""What running a flow says before Spark is even looked for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import strandline as sl
from strandline.errors import RunError


def test_without_pyspark_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    flow = sl.Flow("lonely")
    flow.source("events", sl.Generator(seed=1, rows=1), time="at").sink("out", sl.Memory("out"), rows="append")
    with pytest.raises(RunError, match=r"pip install 'strandline\[spark\]'"):
        flow.run(state=tmp_path)
