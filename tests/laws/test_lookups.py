"""Laws of lookups: kernel = oracle; cuts and tasks change nothing; no row is lost, and no key asked for twice in a tick."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strandline as sl
from strandline.model.streams import Stream
from strandline.testing import Crash, Events, play
from strandline.testing.steps import Step, as_tick
from tests.lanes import examples
from tests.laws.comparing import differences, text
from tests.laws.meeting import meetings, sources
from tests.laws.test_dedupe import of_left

OUTPUT = "tier string, score double"
columns = st.sampled_from((("user",), ("x",), ("n", "user"), ("at",)))
options = st.fixed_dictionaries(
    {
        "concurrency": st.sampled_from((1, 3, 100)),
        "on_error": st.sampled_from(("reject", "null")),
        "ordered": st.booleans(),
        "cache": st.sampled_from((None, sl.Cache("5s", size=2))),
    }
)


def answer(key: tuple[Any, ...]) -> Any:
    """Whatever a service may come up with, and always the same for the same key."""
    if "bob" in key:
        raise ConnectionError("not for bob")
    if 3 in key:
        return {"tier": 3}
    if 2 in key or "nan" in map(str, key):
        return None
    return {"tier": repr(key), "score": -0.0} if "ann" in key else {"score": 1}


async def later(*key: Any) -> Any:
    """The answer, after others have had their turn."""
    await asyncio.sleep(0)
    return answer(key)


def at_once(*key: Any) -> Any:
    """The answer of an ordinary function."""
    return answer(key)


class Together(sl.BatchLookup):
    """The answers for a few keys; an error is that of its key."""

    batch = 3

    async def ask(self, keys: Sequence[tuple[Any, ...]]) -> list[Any]:
        return [ConnectionError("not for bob") if "bob" in key else answer(key) for key in keys]


lookups = st.sampled_from((later, at_once, Together()))


def looked_up(on: tuple[str, ...], lookup: Any, chosen: dict[str, Any]) -> Stream:
    return sources()[0].lookup("tier", lookup, on=on, output=OUTPUT, retries=0, **chosen)


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(columns, lookups, options, meetings(rows=10).map(of_left), st.sampled_from(((64, 1), (1, 1), (16, 3), (7, 2))))
def test_kernel_and_oracle_agree_on_every_answer(
    on: tuple[str, ...], lookup: Any, chosen: dict[str, Any], steps: tuple[Step, ...], spread: tuple[int, int]
) -> None:
    stream, (buckets, tasks) = looked_up(on, lookup, chosen), spread
    oracle = play(stream, steps, runner="oracle")
    kernel = play(stream, steps, runner="kernel", buckets=buckets, tasks=tasks)
    found = differences(stream, oracle, kernel)
    assert not found, "\n".join(["oracle < > kernel", *found])
    assert [[text(row) for row in rows] for rows in kernel] == [[text(row) for row in rows] for rows in oracle]


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(columns, options, meetings(rows=10).map(of_left))
def test_batch_cuts_change_no_answer_and_lose_no_row(
    on: tuple[str, ...], chosen: dict[str, Any], steps: tuple[Step, ...]
) -> None:
    stream = looked_up(on, later, chosen)
    rows = [row for step in steps if not isinstance(step, Crash) for part in as_tick(step).events for row in part.rows]
    whole = play(stream, [Events(rows)], runner="kernel")
    cut = play(stream, [Events([row]) for row in rows], runner="kernel")
    assert _all(whole) == _all(cut)
    assert _all(whole.rejected) == _all(cut.rejected)
    assert sum(map(len, whole)) + sum(map(len, whole.rejected)) == len(rows)


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(columns, meetings(rows=10).map(of_left), st.booleans())
def test_each_key_is_asked_for_once_a_tick(on: tuple[str, ...], steps: tuple[Step, ...], ordered: bool) -> None:
    for step in steps:
        if isinstance(step, Crash):
            continue
        asked: list[tuple[Any, ...]] = []
        stream = looked_up(on, lambda *key: asked.append(key), {"ordered": ordered})  # noqa: B023 - played at once
        tick = as_tick(step)
        play(stream, [Events([row for part in tick.events for row in part.rows])], runner="kernel")
        assert max(Counter(map(repr, asked)).values(), default=1) == 1
        assert all(None not in key for key in asked)


def _all(ticks: Any) -> Counter[str]:
    return Counter(text(row) for rows in ticks for row in rows)
