"""Laws of deduplication: kernel = oracle; cuts and crashes change nothing; nobody passes twice."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.kernel.operators import dedupe
from strandline.model.streams import Stream
from strandline.model.time import Instant, Span
from strandline.testing import Crash, Events, Tick, play
from strandline.testing.steps import Step, as_tick
from tests.lanes import examples
from tests.laws.comparing import differences, text
from tests.laws.meeting import SECOND, meetings, sources

spans = st.sampled_from((1, 3, 9, 30)).map(lambda seconds: Span(seconds * SECOND))
columns = st.sampled_from((("user",), ("x",), ("user", "n")))


def once(on: tuple[str, ...], within: Span) -> Stream:
    return sources()[0].dedupe("once", on=on, within=within)


def of_left(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The same steps, as far as they concern the one source."""
    return tuple(step if isinstance(step, Crash) else as_tick(step).of("left", ("left", "right"), "") for step in steps)


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(columns, spans, meetings(rows=10).map(of_left), st.sampled_from(((64, 1), (1, 1), (16, 3), (7, 2))))
def test_kernel_and_oracle_agree_on_what_passes(
    on: tuple[str, ...], within: Span, steps: tuple[Step, ...], spread: tuple[int, int]
) -> None:
    stream, (buckets, tasks) = once(on, within), spread
    oracle = play(stream, steps, runner="oracle")
    kernel = play(stream, steps, runner="kernel", buckets=buckets, tasks=tasks)
    found = differences(stream, oracle, kernel)
    assert not found, "\n".join(["oracle < > kernel", *found])


@pytest.mark.slow
@settings(max_examples=examples(10))
@given(spans, meetings(rows=10).map(of_left))
def test_the_rows_of_a_key_that_passes_often_are_judged_alike_one_by_one(within: Span, steps: tuple[Step, ...]) -> None:
    stream = once(("user",), within)
    together = play(stream, steps, runner="kernel")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dedupe, "ROUNDS", 0)
        assert _all(play(stream, steps, runner="kernel")) == _all(together)


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(columns, spans, meetings(rows=10).map(of_left))
def test_batch_cuts_change_nothing_where_nothing_is_late(
    on: tuple[str, ...], within: Span, steps: tuple[Step, ...]
) -> None:
    stream = once(on, within)
    rows = [row for step in steps if not isinstance(step, Crash) for part in as_tick(step).events for row in part.rows]
    whole = play(stream, [Events(rows)], runner="kernel")
    cut = play(stream, [Events([row]) for row in rows], runner="kernel")
    assert _all(whole) == _all(cut)


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(columns, spans, meetings(rows=10).map(of_left))
def test_of_two_that_pass_none_repeats_the_other(on: tuple[str, ...], within: Span, steps: tuple[Step, ...]) -> None:
    passed: dict[str, list[int]] = {}
    for rows in play(once(on, within), steps, runner="kernel"):
        for row in rows:
            key = repr([0.0 if row[name] == 0.0 else row[name] for name in on])
            passed.setdefault(key, []).append(int(Instant.of(row["at"])))
    for times in passed.values():
        times.sort()
        assert all(later - earlier >= within for earlier, later in pairwise(times))


def _all(played: Any) -> Counter[str]:
    return Counter(text(row) for rows in played for row in rows)


def test_a_row_that_was_remembered_is_still_known_after_many_ticks() -> None:
    """Ticks of other rows, more than one tier of segments, do not make it forget."""
    stream = once(("user",), Span.of("1h"))
    other = [Events([{"user": f"u{n}", "at": Instant(n)}]) for n in range(30)]
    first, again = ([Tick([{"user": "ann", "at": Instant(0)}])] for _ in range(2))
    shown = play(stream, [*first, *other, *again], runner="kernel")
    assert [row["user"] for row in shown[0]] == ["ann"]
    assert shown[-1] == []
