"""Laws of patterns: what regular expressions say of the same letters; kernel = oracle; cuts and order of arrival."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import strandline as sl
from strandline.model.patterns import Pattern, Step
from strandline.model.streams import Stage
from strandline.testing import Crash, Events, Tick, play
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
@settings(max_examples=examples(25))
@given(direct(), words)
def test_steps_in_a_row_are_what_a_regular_expression_finds(drawn: tuple[Pattern, str], word: str) -> None:
    pattern, said = drawn
    expected = [match.start() * 1000 + match.end() - 1 for match in re.finditer(said, word)]
    assert spans(play(found(pattern), [Events(rows_of(word)), END], runner="kernel")) == expected


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(st.sampled_from(LETTERS), st.sampled_from(LETTERS), st.sampled_from(LETTERS), words)
def test_an_absent_step_is_a_letter_that_is_not_between(first: str, last: str, absent: str, word: str) -> None:
    """With every beginning kept, a match is the nearest last letter behind each first one, and no absent one between."""
    pattern = sl.sequence(
        sl.step("first", is_(first)),
        sl.absent("no", is_(absent)),
        sl.step("last", is_(last)),
        within="1h",
        skip="to_next",
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
    """Any pattern; a condition may fit several letters, and an event several steps."""
    conditions = st.sampled_from(
        ("letter = 'A'", "letter = 'B'", "letter = 'C'", "letter <> 'A'", "letter <> 'C'", "true")
    )
    later = st.sampled_from((sl.step, sl.followed_by, sl.next, sl.absent))
    makes = [sl.step, *draw(st.lists(later, max_size=4))]
    made = []
    for at, make in enumerate(makes):
        each = make(f"s{at}", draw(conditions))
        if not each.negated:
            low = draw(st.integers(1, 2))
            each = each.times(low, low + draw(st.integers(0, 2)))
            each = each.consecutive() if draw(st.booleans()) else each
            each = each.optional() if at + 1 < len(makes) and draw(st.booleans()) else each
        made.append(each)
    assume(not all(each.negated or each.skippable for each in made))
    return sl.sequence(
        *made, within=f"{draw(st.integers(2, 20))}s", skip=draw(st.sampled_from(("past_last", "to_next")))
    )


@st.composite
def timed(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Letters of one key, some of one moment: those stand as they come, so their order is part of the word."""
    at, rows = 0, []
    for letter in draw(words):
        at += draw(st.sampled_from((0, 1, 1, 3)))
        rows.append({"user": "ann", "letter": letter, "at": NOON + at * SECOND})
    return rows


@pytest.mark.slow
@settings(max_examples=examples(75))
@given(patterns(), timed(), st.integers(1, 3))
def test_kernel_and_oracle_agree_and_cuts_do_not_matter(
    pattern: Pattern, rows: list[dict[str, Any]], tasks: int
) -> None:
    whole = play(found(pattern), [Events(rows), END], runner="oracle")
    kernel = play(found(pattern), [Events(rows), END], runner="kernel", tasks=tasks)
    assert differences(found(pattern), whole, kernel) == []
    ticks: list[Any] = []
    for row in rows:  # the watermark follows, and what is kept goes through bytes
        ticks += [Tick(Events([row]), watermark=row["at"]), Crash()]
    slow = play(found(pattern), [*ticks, END], runner="kernel")
    assert _in_order(whole) == _in_order(slow)


@pytest.mark.slow
@settings(max_examples=examples(20))
@given(patterns(), words, st.randoms(use_true_random=False))
def test_neither_cuts_nor_order_of_arrival_matter(pattern: Pattern, word: str, chance: Any) -> None:
    rows = rows_of(word)
    whole = play(found(pattern), [Events(rows), END], runner="kernel")
    chance.shuffle(rows)
    cut = play(found(pattern), [*(Events([row]) for row in rows), END], runner="kernel")
    ticks = [Tick(watermark=NOON + at * SECOND) for at in range(0, 40, 7)]
    slow = play(found(pattern), [*(Events([row]) for row in rows), *ticks, END], runner="kernel")
    assert _in_order(whole) == _in_order(cut) == _in_order(slow)


@pytest.mark.slow
@settings(max_examples=examples(50))
@given(patterns(), words)
def test_a_match_is_found_wherever_there_is_one(pattern: Pattern, word: str) -> None:
    """What is told of each beginning is a match that ends first, by the words of `sl.sequence` alone."""
    assume(not pattern.steps[-1].negated)
    pattern = replace(pattern, skip="to_next", within=sl.Span.of("1h"))
    shown = [row for rows in play(found(pattern), [Events(rows_of(word)), END], runner="kernel") for row in rows]
    told = {_place(row["match_start"]): _place(row["match_end"]) for row in shown}
    assert len(told) == len(shown)
    said = regular(pattern)
    for first in range(len(word)):
        ends = (end for end in range(first, len(word)) if re.fullmatch(said, word[first : end + 1]))
        assert told.get(first) == next(ends, None)


def regular(pattern: Pattern) -> str:
    """A pattern as a regular expression for the letters from a first one to a last one."""

    def fits(at: int) -> str:
        condition = pattern.steps[at].condition
        letter = condition[-2]
        return "." if condition == "true" else letter if "=" in condition else f"[^{letter}]"

    def rest(at: int) -> str:
        """What may come behind a step."""
        ways, gap, absent = [], ".", []
        for place in range(at + 1, len(pattern.steps)):
            step = pattern.steps[place]
            if step.negated:
                absent.append(fits(place))
                continue
            between = "" if step.strict or at < 0 else "".join(f"(?!{each})" for each in absent) + gap
            between = f"(?:{between})*" if between else ""
            guard = "" if at < 0 else "".join(f"(?!{each})" for each in absent)
            more = "" if step.adjoining else ".*"
            again = f"(?:{more}{fits(place)}){{{step.low - 1},{step.high - 1}}}"
            ways.append(f"{between}{guard}{fits(place)}{again}{rest(place)}")
            if not step.skippable:
                break
        return f"(?:{'|'.join(ways)})" if ways else ""

    return rest(-1)


def _place(moment: Any) -> int:
    return (int(sl.Instant.of(moment)) - NOON) // SECOND


@pytest.mark.slow
@settings(max_examples=examples(30))
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


def _in_order(played: Any) -> list[str]:
    return [text(row) for rows in played for row in rows]
