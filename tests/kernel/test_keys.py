"""Keys that are equal are one key, shown in one way, whoever came first."""

from __future__ import annotations

from itertools import permutations

import pytest

import strandline as sl
from strandline.testing import Events, Watermark, play


@pytest.mark.parametrize("type_", ["double", "float"])
@pytest.mark.parametrize("keys", list(permutations([0.0, -0.0, None, float("nan")])), ids=str)
def test_zeros_are_one_key_and_null_and_nan_are_keys_of_their_own(type_: str, keys: tuple[float | None, ...]) -> None:
    source = sl.Flow("f").source("events", sl.Rows(schema=f"k {type_}, at timestamp"), time="at")
    stage = source.key_by("k").window(sl.Tumbling("1m")).aggregate("stage", n=sl.Count())
    steps = [
        Events([{"k": key, "at": "2026-01-01T12:00:00Z"} for key in keys]),
        Watermark("2026-01-01T12:01:00Z"),
    ]
    shown = {runner: play(stage, steps, runner=runner)[1] for runner in ("oracle", "kernel")}
    for panes in shown.values():
        assert sorted((repr(pane["k"]), pane["n"]) for pane in panes) == [("0.0", 2), ("None", 1), ("nan", 1)]
