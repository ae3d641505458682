"""How others are asked: many at once, not for ever, again where they failed, and not twice for what they have said."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Sequence
from typing import Any

import pytest

import strandline as sl
from strandline.lookups.asking import Asking
from strandline.lookups.cache import UNKNOWN, Answers
from strandline.model.lookups import Failed
from strandline.model.nodes import LookupNode
from strandline.model.time import Instant
from strandline.model.types import Schema
from strandline.model.users import columns_said
from tests.own import Flaky

KEY = Schema.of("n bigint")
NOON = Instant.of("2026-01-01T12:00:00Z")


def node(lookup: Any, **options: Any) -> LookupNode:
    """A description of a lookup by `n`."""
    events = sl.Flow("asked").source("events", sl.Rows(schema="n bigint, at timestamp"), time="at")
    made = events.lookup("stage", lookup, on="n", output="answer bigint", **options).node
    assert isinstance(made, LookupNode)
    return made


def asked(lookup: Any, *keys: Any, **options: Any) -> list[Any]:
    """What is answered, without a pause before a retry."""
    return Asking(node(lookup, **options), KEY, pause=at_once).ask([(key,) for key in keys], NOON)


async def at_once(_: float) -> None:
    """Time is an argument."""


def test_as_many_calls_are_under_way_as_concurrency_says() -> None:
    most, now = 0, 0

    async def together(n: int) -> int:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return n

    assert asked(together, *range(50), concurrency=7) == list(range(50))
    assert most == 7


def test_answers_stand_in_the_order_of_the_keys_whoever_answers_first() -> None:
    turn = [asyncio.Event() for _ in range(4)]
    turn[3].set()

    async def backwards(n: int) -> int:
        await turn[n].wait()
        if n:
            turn[n - 1].set()
        return n * n

    assert asked(backwards, 0, 1, 2, 3) == [0, 1, 4, 9]


def test_an_ordinary_function_is_called_in_threads_that_wait_for_one_another() -> None:
    meeting = threading.Barrier(4)

    def together(n: int) -> int:
        meeting.wait(30)
        return n

    assert asked(together, 1, 2, 3, 4, timeout="60s") == [1, 2, 3, 4]


def test_functions_that_hang_take_no_more_threads_than_concurrency_says() -> None:
    over, begun = threading.Event(), []

    def hangs(n: int) -> None:
        begun.append(n)
        over.wait(60)

    answers = asked(hangs, *range(6), concurrency=2, timeout="10ms", retries=0)
    over.set()
    assert [answer.reason for answer in answers] == ["TimeoutError: no answer within 10ms"] * 6
    assert len(begun) == 2


def test_an_answer_that_takes_too_long_is_named_with_its_place() -> None:
    async def never(n: int) -> None:
        await asyncio.Event().wait()

    (answer,) = asked(never, 1, timeout="5ms", retries=1)
    assert answer.reason == "TimeoutError: no answer within 5ms"
    assert f"never ({__file__}, line " in answer.what


def test_a_call_that_fails_is_made_again_after_longer_and_longer_pauses() -> None:
    pauses: list[float] = []
    times: list[int] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async def fails(n: int) -> int:
        times.append(n)
        raise ConnectionError("no\nroute")

    (answer,) = Asking(node(fails, retries=4), KEY, pause=pause).ask([(1,)], NOON)
    assert answer.reason == "ConnectionError: no route"
    assert "test_asking.py, line " in answer.what
    assert len(times) == 5
    assert [0.05 * 2**n <= pause <= 0.1 * 2**n for n, pause in enumerate(pauses)] == [True] * 4


def test_what_asking_again_would_not_change_is_not_asked_again() -> None:
    times: list[int] = []

    def refuses(n: int) -> int:
        times.append(n)
        raise sl.DataError("There is no such number.", fix="Ask for another.")

    assert asked(refuses, 1, retries=5) == [Failed("There is no such number.", "There is no such number.")]
    assert times == [1]


def test_where_the_flow_stops_anyway_nothing_more_is_asked() -> None:
    times: list[int] = []

    async def fails(n: int) -> int:
        times.append(n)
        raise ConnectionError("no")

    asked(fails, *range(100), concurrency=3, retries=0, on_error="fail")
    assert len(times) == 3


def test_the_answer_for_nan_is_remembered_too() -> None:
    answers = Answers(sl.Cache("10s"))
    answers.put((float("nan"), 1), "found", Instant(0))
    assert answers.get((float("nan"), 1), Instant(1)) == "found"
    assert answers.get((float("nan"), 2), Instant(1)) is UNKNOWN


def test_a_wrong_answer_is_told_the_same_way_each_time() -> None:
    class Thing:
        pass

    for output in ("t string", "t string, n int"):
        with pytest.raises(sl.DataError) as caught:
            columns_said(repr, Schema.of(output), Thing())
        assert "a Thing" in caught.value.what
        assert "0x" not in caught.value.what


def test_an_answer_is_remembered_for_as_long_and_for_as_many_keys_as_the_cache_says() -> None:
    times: list[int] = []

    async def counted(n: int) -> int | None:
        times.append(n)
        return None if n == 2 else n

    asking = Asking(node(counted, cache=sl.Cache("10s", size=2)), KEY)
    second = sl.Span.of("1s")
    assert asking.ask([(1,), (2,)], NOON) == [1, None]
    assert asking.ask([(2,), (1,)], Instant(NOON + 9 * second)) == [None, 1]
    assert times == [1, 2]
    assert asking.ask([(3,), (1,)], Instant(NOON + 9 * second)) == [3, 1]  # 2 was asked for longest ago
    assert asking.ask([(1,)], Instant(NOON + 10 * second)) == [1]
    assert times == [1, 2, 3, 1]


def test_errors_are_not_remembered() -> None:
    asking = Asking(node(Flaky(), cache=sl.Cache("10s"), retries=0), KEY)
    first, again = asking.ask([(1,)], NOON), asking.ask([(1,)], NOON)
    assert [first[0].reason, again] == ["ConnectionError: the line is dead", [None]]


class Opened(sl.Lookup):
    """Notes what is done to it."""

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    async def open(self) -> None:
        self.notes.append("open")
        self.client = self

    def ask(self, *key: Any) -> Any:
        return key[0]

    async def close(self) -> None:
        self.notes.append("close")


def test_a_lookup_is_opened_with_the_first_question_and_closed_when_it_is_forgotten() -> None:
    notes: list[str] = []
    lookup = Opened(notes)
    asking = Asking(node(lookup), KEY)
    assert notes == []
    assert asking.ask([(1,)], NOON) + asking.ask([(2,)], NOON) == [1, 2]
    assert notes == ["open"]
    assert not hasattr(lookup, "client"), "the description stays as it was"
    del asking
    gc.collect()
    assert notes == ["open", "close"]


def test_a_lookup_that_cannot_be_opened_stops_the_flow_and_says_where() -> None:
    class Broken(sl.Lookup):
        def open(self) -> None:
            raise FileNotFoundError("model.bin")

        def ask(self, *key: Any) -> Any:
            return None

    with pytest.raises(
        sl.DataError, match=r"In the lookup of stage 'stage', .*open raised FileNotFoundError \(.*test_asking"
    ):
        asked(Broken(), 1)


def test_a_batch_must_have_an_answer_for_each_key() -> None:
    class Short(sl.BatchLookup):
        batch = 2

        def ask(self, keys: Sequence[tuple[Any, ...]]) -> list[Any]:
            return [1] * (3 - len(keys))

    answers = asked(Short(), 1, 2, 3)
    assert {answer.reason for answer in answers} == {
        "Short was asked for 2 keys, and did not answer with a list of as many.",
        "Short was asked for 1 keys, and did not answer with a list of as many.",
    }


def test_who_has_an_event_loop_already_may_ask() -> None:
    async def double(n: int) -> int:
        return 2 * n

    async def notebook() -> list[Any]:
        return asked(double, 1, 2)

    assert asyncio.run(notebook()) == [2, 4]


def test_a_function_that_tries_to_end_the_process_fails_for_its_row_alone() -> None:
    async def leaves(n: int) -> int:
        if n == 1:
            raise SystemExit(3)
        return n

    first, second = asked(leaves, 1, 2, retries=0)
    assert (
        first.reason.removeprefix("RuntimeError: ").split(".")[-1] == "leaves tried to end the process: SystemExit(3)"
    )
    assert second == 2
