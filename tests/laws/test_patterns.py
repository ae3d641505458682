"""Laws of patterns: what regular expressions say of the same letters; kernel = oracle; cuts and order of arrival."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strandline as sl
from strandline.model.patterns import Pattern, Step
from strandline.model.streams import Stage
from strandline.testing import Events, Tick, play
from tests.lanes import examples
from tests.laws.comparing import differences, text
from tests.laws.meeting import NOON, SECOND, meetings, sources
from tests.laws.test_dedupe import of_left

LETTERS = "ABC"
END = Tick(watermark=2**61)


def found(pattern: Pattern) -> Stage:
    source = sl.Flow("letters").source("events", sl.Rows(schema="user string, letter string, at timestamp"), time="at")
    return source.key_by("user").detect("found", pattern)


def is_(letter: str) -> str:
    return f"letter = '{letter}'"


def rows_of(word: str) -> list[dict[str, Any]]:
    return [{"user": "ann", "letter": letter, "at": NOON + at * SECOND} for at, letter in enumerate(word)]


def spans(played: Any) -> list[tuple[int, int]]:
    return sorted(
        (int(sl.Instant.of(row["match_start"])) - NOON) // SECOND * 1000
        + (int(sl.Instant.of(row["match_end"])) - NOON) // SECOND
        for rows in played
        for row in rows
    )  # type: ignore[return-value]


words = st.text(LETTERS, max_size=14)
counts = st.integers(1, 3)


@st.composite
def direct(draw: st.DrawFn) -> tuple[Pattern, str]:
    """Steps that follow each other directly, each a fixed number of times, and the same as a regular expression."""
    steps: list[Step] = []
    said = ""
    for at in range(draw(st.integers(1, 3))):
        letter, count = draw(st.sampled_from(LETTERS)), draw(counts)
        make = sl.next if at else sl.step
        steps.append(make(f"s{at}", is_(letter)).times(count).consecutive())
        said += f"{letter}{{{count}}}"
    return sl.sequence(*steps, within="1h"), said


@pytest.mark.slow
@settings(max_examples=examples(50))
@given(direct(), words)
def test_steps_in_a_row_are_what_a_regular_expression_finds(drawn: tuple[Pattern, str], word: str) -> None:
    pattern, said = drawn
    expected = [match.start() * 1000 + match.end() - 1 for match in re.finditer(said, word)]
    assert spans(play(found(pattern), [Events(rows_of(word)), END], runner="kernel")) == expected


@pytest.mark.slow
@settings(max_examples=examples(50))
@given(st.sampled_from(LETTERS), st.sampled_from(LETTERS), st.sampled_from(LETTERS), words)
def test_an_absent_step_is_a_letter_that_is_not_between(first: str, last: str, absent: str, word: str) -> None:
    """With every beginning kept, a match is the nearest last letter behind each first one, and no absent one between."""
    pattern = sl.sequence(
        sl.step("first", is_(first)), sl.absent("no", is_(absent)), sl.step("last", is_(last)), within="1h", skip="none"
    )
    expected = []
    for at, letter in enumerate(word):
        if letter == first:
            rest = word[at + 1 :]
            ends = [place for place, each in enumerate(rest) if each == last and (each != absent)]
            gone = rest.find(absent)
            if ends and not 0 <= gone <= ends[0]:
                expected.append(at * 1000 + at + 1 + ends[0])
    assert spans(play(found(pattern), [Events(rows_of(word)), END], runner="kernel")) == sorted(expected)


@st.composite
def patterns(draw: st.DrawFn) -> Pattern:
    """Any pattern."""
    steps: list[Step] = [sl.step("s0", is_(draw(st.sampled_from(LETTERS))))]
    for at in range(1, draw(st.integers(1, 4))):
        make = draw(st.sampled_from((sl.step, sl.next, sl.absent)))
        steps.append(make(f"s{at}", is_(draw(st.sampled_from(LETTERS)))))
    made = []
    for at, each in enumerate(steps):
        if not each.negated:
            low = draw(st.integers(1, 2))
            each = each.times(low, low + draw(st.integers(0, 1)))  # noqa: PLW2901
            each = each.consecutive() if draw(st.booleans()) else each  # noqa: PLW2901
            each = each.optional() if at and draw(st.booleans()) else each  # noqa: PLW2901
        made.append(each)
    return sl.sequence(
        *made, within=f"{draw(st.integers(2, 20))}s", skip=draw(st.sampled_from(("past_last", "to_next", "none")))
    )


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(patterns(), words, st.randoms(use_true_random=False), st.integers(1, 3))
def test_kernel_and_oracle_agree_and_neither_cuts_nor_order_of_arrival_matter(
    pattern: Pattern, word: str, chance: Any, tasks: int
) -> None:
    rows = rows_of(word)
    whole = play(found(pattern), [Events(rows), END], runner="oracle")
    kernel = play(found(pattern), [Events(rows), END], runner="kernel", tasks=tasks)
    assert differences(found(pattern), whole, kernel) == []
    chance.shuffle(rows)
    cut = play(found(pattern), [*(Events([row]) for row in rows), END], runner="kernel")
    ticks = [Tick(watermark=NOON + at * SECOND) for at in range(0, 40, 7)]
    slow = play(found(pattern), [*(Events([row]) for row in rows), *ticks, END], runner="kernel")
    assert _all(whole) == _all(cut) == _all(slow)


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(patterns(), meetings(rows=8).map(of_left), st.sampled_from(((64, 1), (1, 1), (16, 3), (7, 2))))
def test_kernel_and_oracle_agree_on_several_keys_with_late_events_and_crashes(
    pattern: Pattern, steps: tuple[Any, ...], spread: tuple[int, int]
) -> None:
    letters = sources()[0].with_column("letter", "case when n = 1 then 'A' when n = 2 then 'B' else 'C' end")
    stream, (buckets, tasks) = letters.key_by("user").detect("found", pattern), spread
    oracle = play(stream, steps, runner="oracle")
    kernel = play(stream, steps, runner="kernel", buckets=buckets, tasks=tasks)
    different = differences(stream, oracle, kernel)
    assert not different, "\n".join(["oracle < > kernel", *different])


def _all(played: Any) -> Counter[str]:
    return Counter(text(row) for rows in played for row in rows)
