"""What a start refuses, as far as it needs no Spark to say it."""

from __future__ import annotations

from pathlib import Path

import pytest

import strandline as sl
from strandline.errors import StateError
from strandline.sinks.contract import Marker
from strandline.spark.start import require_no_rows_left
from strandline.store.local import LocalStorage
from tests.store.states import following


def flow_with(sink: str) -> sl.Flow:
    flow = sl.Flow("f")
    flow.source("events", sl.Generator(seed=1, rows=1), time="at").sink(sink, sl.Memory(sink), rows="append")
    return flow


def test_a_sink_that_is_gone_before_it_had_all_its_rows_needs_consent(tmp_path: Path) -> None:
    head = following(LocalStorage(tmp_path), None, number=7)
    had = {"table": Marker(incarnation="i", tick=6, digest="d")}
    with pytest.raises(StateError, match="rows of tick 7 for the sink 'table'"):
        require_no_rows_left(flow_with("renamed"), head, had)
    require_no_rows_left(flow_with("renamed"), head, had, drop=("table",))
    require_no_rows_left(flow_with("table"), head, had)


def test_a_sink_that_had_all_its_rows_when_a_run_ended_may_go(tmp_path: Path) -> None:
    head = following(LocalStorage(tmp_path), None, number=7)
    require_no_rows_left(flow_with("renamed"), head, {"table": Marker(incarnation="i", tick=7, digest="d")})
