"""Laws of features: kernel = oracle for several horizons at once; corrections add up to the last word; cuts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strandline as sl
from strandline.kernel.operators import stretches
from strandline.model.streams import Stage
from strandline.testing import Crash, Events, Tick, play
from strandline.testing.steps import Step, as_tick
from tests.lanes import examples
from tests.laws.comparing import differences, text
from tests.laws.meeting import SECOND, sources
from tests.laws.test_processes import days

FEATURES: dict[str, Any] = {
    "count": lambda span: sl.Count(within=span), "sum": lambda span: sl.Sum("n", within=span),
    "mean": lambda span: sl.Mean("x", within=span), "most": lambda span: sl.Max("x", within=span),
    "some": lambda span: sl.Count(within=span, where="n > 1"), "last": lambda span: sl.Last("n", within=span),
    "all": lambda span: sl.Collect("n", within=span), "often": lambda span: sl.TopK("n", 2, within=span),
    "spread": lambda span: sl.StdDev("n", within=span), "different": lambda span: sl.Distinct("x", within=span),
}  # fmt: skip

spans = st.sampled_from(("1s", "4s", "15s"))
chosen = st.dictionaries(st.sampled_from(sorted(FEATURES)), spans, min_size=1, max_size=3)


def features(asked: dict[str, str], emit: Any, include_current: bool) -> Stage:
    made = {name: FEATURES[name](span) for name, span in asked.items()}
    return sources()[0].key_by("user").over("features", emit=emit, include_current=include_current, **made)


@pytest.mark.slow
@pytest.mark.parametrize("emit", ["arrival", "watermark"])
@settings(max_examples=examples(20))
@given(
    asked=chosen, include_current=st.booleans(), steps=days(), spread=st.sampled_from(((64, 1), (1, 1), (16, 3))),
    long=st.sampled_from((0, stretches.LONG)),
)  # fmt: skip
def test_kernel_and_oracle_agree_on_features(
    emit: str, asked: dict[str, str], include_current: bool, steps: tuple[Step, ...], spread: tuple[int, int], long: int
) -> None:
    """Also where the stretches that events look back over are put together, as they are for keys with very many."""
    stream, (buckets, tasks) = features(asked, emit, include_current), spread
    oracle = play(stream, steps, runner="oracle")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretches, "LONG", long)
        kernel = play(stream, steps, runner="kernel", buckets=buckets, tasks=tasks)
    found = differences(stream, oracle, kernel)
    assert not found, "\n".join(["oracle < > kernel", *found])


def _rows(steps: tuple[Step, ...]) -> list[Any]:
    return [row for step in steps if not isinstance(step, Crash) for part in as_tick(step).events for row in part.rows]


def _standing(played: Any) -> Counter[str]:
    """What was shown and not taken back."""
    found: Counter[str] = Counter()
    for rows in played:
        for row in rows:
            plain = {name: value for name, value in row.items() if name != "op"}
            found[text(plain)] += -1 if row.get("op") == "retract" else 1
    return +found


@pytest.mark.slow
@settings(max_examples=examples(10))
@given(asked=chosen, include_current=st.booleans(), steps=days())
def test_what_stands_in_the_end_does_not_depend_on_cuts_nor_on_waiting(
    asked: dict[str, str], include_current: bool, steps: tuple[Step, ...]
) -> None:
    """One event at a time, all at once, or in order by the watermark: where nothing is late the last word is the same."""
    rows, end = _rows(steps), Tick(watermark=2**61)
    at_once = play(features(asked, "arrival", include_current), [Events(rows), end], runner="kernel")
    one_by_one = play(
        features(asked, "arrival", include_current), [*(Events([row]) for row in rows), end], runner="kernel"
    )
    complete = play(features(asked, "watermark", include_current), [Events(rows), end], runner="kernel")
    assert _standing(at_once) == _standing(one_by_one) == _standing(complete)


@pytest.mark.slow
def test_features_are_forgotten_with_the_time_they_look_back() -> None:
    stream = features({"count": "15s"}, "watermark", True)
    steps = [Tick([{"user": "ann", "at": n * SECOND}], watermark=n * SECOND) for n in range(100)]
    shown = play(stream, steps, runner="kernel")
    assert [row["count"] for rows in shown for row in rows][-1] == 16
