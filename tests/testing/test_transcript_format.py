from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.testing.constructors import construct
from strandline.testing.judging import differences, judge
from strandline.testing.transcripts import load_transcript, read_transcript, typed

SOURCE = """
name: x
shows: y
source:
  schema: user string, amount bigint, at timestamp
"""
FLOW = """
flow:
  - stage:
      key_by: [user]
      window: Tumbling("1m")
      aggregates:
        total: Sum("amount")
        all: Collect("at")
"""


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ('Tumbling("1m", offset="3s")', sl.Tumbling("1m", offset="3s")),
        ("AfterWatermark(early=AfterCount(2, exact=True))", sl.AfterWatermark(early=sl.AfterCount(2, exact=True))),
        ("Quantile('x', (0.5, 0.9))", sl.Quantile("x", (0.5, 0.9))),
        ("Arrival()", sl.Arrival()),
    ],
)
def test_a_constructor_is_read_as_in_python(text: str, made: Any) -> None:
    assert construct(text) == made


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "Tumbling",
        "Tumbling('1m').size",
        "Tumbling(open('x'))",
        "Tumbling(*['1m'])",
        "Tumbling(**{'size': '1m'})",
        "(lambda: 1)()",
        "Tumbling([x for x in 'ab'])",
        "Tumbling('1m'",
        "Tumbling('1m', siez=1)",
        "sl.Tumbling('1m')",
    ],
)
def test_nothing_but_constructors_and_literals_is_read(text: str) -> None:
    with pytest.raises(sl.TranscriptError):
        construct(text)


def test_a_misspelt_constructor_gets_the_nearest_name() -> None:
    with pytest.raises(sl.TranscriptError) as caught:
        construct("Tumblin('1m')")
    assert "'Tumbling'" in caught.value.fix


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("12:00:03", "2026-01-01T12:00:03Z"),
        ("9:05", "2026-01-01T09:05:00Z"),
        ("12:00:03.5", "2026-01-01T12:00:03.5Z"),
        ("2025-12-31T23:59:00Z", "2025-12-31T23:59:00Z"),
        ("noon", "noon"),
        (5, 5),
    ],
)
def test_a_short_time_is_a_time_of_the_first_of_january_2026(short: Any, long: Any) -> None:
    assert typed(sl.Schema.of("at timestamp")["at"], short) == long


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "no mapping"),
        ("{name: [", "cannot be read as YAML"),
        ("name: x\nshows: y\n", "has no 'source'"),
        (SOURCE + "tick: []", "has 'tick', which is not known"),
        (SOURCE.replace("name: x", "name: 3"), "name is 3, no text"),
        ("{name: x, shows: y, source: {schema: at timestamp, time: -1}}", "source: time is -1, no text"),
        (SOURCE + "name: z", "the key 'name' stands twice"),
        (SOURCE + "ticks: [{events: [{user: a, user: b}]}]", "the key 'user' stands twice"),
        (SOURCE + "books: {events: {rows: 1}, 'events': {}}", "the key 'events' stands twice"),
    ],
)
def test_a_document_that_cannot_be_understood_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(sl.TranscriptError) as caught:
        read_transcript(text)
    assert said in caught.value.what


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("flow: [{wehre: x}]", "step 1 of the flow has 'wehre', which is not known"),
        ("flow: [where]", "is no step of a flow"),
        ("flow: [{side: late}]", "step 1 of the flow: Only a stage has late rows"),
        ("flow: [{side: lte}]", "step 1 of the flow: There is no side 'lte'"),
        ("flow: [{where: amount > 3}, {side: rejected}]", "step 2 of the flow: Only a source and a stage reject rows"),
        ("flow: [{stage: {windw: x}}]", "has 'windw'"),
        ("flow: [{stage: {aggregates: {}}}]", "has no 'window'"),
        ("flow: [{stage: {window: 5}}]", "step 1 of the flow, stage: window is 5, no text"),
        ("flow: [{stage: {aggregates: [n]}}]", "stage: aggregates is ['n'], no mapping"),
        ("flow: [{stage: {aggregates: {1: Count()}}}]", "stage: aggregates is {1: 'Count()'}, no mapping"),
        ("flow: [{stage: {key_by: .nan}}]", "stage: key_by is nan, no list of texts"),
        ("flow: [{select: [1]}]", "step 1 of the flow: select is [1], no list of texts"),
        ("flow: [{with_column: b = 2}]", "step 1 of the flow: with_column is 'b = 2', no mapping"),
        ("flow: [{stage: {window: 'Tumbling(5)', aggregates: {n: Count()}}}]", "step 1 of the flow: A span must be"),
        ("flow: true", "flow is True, no list"),
        ("ticks:", "ticks is empty, no list"),
        ("ticks: [5]", "tick 1 is 5, no mapping"),
        ("ticks: [{}, {events: }]", "tick 2: events is empty, no list of rows"),
        ("ticks: [{events: {user: ann}}]", "tick 1: events is {'user': 'ann'}, no list of rows"),
        ("ticks: [{events: {a: []}}]", "tick 1: partition='a' is no partition"),
        ("ticks: [{panes: }]", "tick 1: panes is empty, no list of rows"),
        ("ticks: [{crash: 1}]", "tick 1: crash is 1, no boolean"),
        ("ticks: [{reaches: [12:01]}]", "tick 1: An instant must be"),
        ("ticks: [{reaches: {evets: 12:01}}]", "tick 1: reaches has 'evets'"),
        ("ticks: [{watermark: }]", "tick 1: An instant must be"),
        ("ticks: [{}, {panes: [{amount: one}]}]", "tick 2: panes, 'amount': 'one' is no bigint"),
        ("check_fails: {a: 1}", "check_fails is {'a': 1}, no text"),
        ("must_fail: 3", "must_fail is 3, no text"),
        ("ticks: [{event: []}]", "has 'event'"),
        ("ticks: [{events: [5]}]", "5 is no row"),
        ("ticks: [{events: [[ann, 1, 12:00, 2]]}]", "more values than columns"),
        ("ticks: [{watermark: noon}]", "'noon' cannot be read"),
        ("ticks: [{panes: [{usr: ann}]}]", "no column 'usr'"),
        ("ticks: [{panes: [5]}]", "5 is no row"),
        ("books: {evnts: {rows: 0}}", "books has 'evnts'"),
        ("books: {events: {row: 0}}", "books of 'events' has 'row'"),
        ("books: {events: 0}", "books of 'events' is 0, no mapping"),
        ("books: 3", "books is 3, no mapping"),
    ],
)
def test_a_part_that_cannot_be_understood_is_refused_by_name(rest: str, said: str) -> None:
    with pytest.raises(sl.TranscriptError) as caught:
        judge(read_transcript(SOURCE + rest))
    assert said in caught.value.what


def test_a_transcript_is_loaded_by_its_path_as_text_or_not(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(SOURCE)
    assert load_transcript(str(tmp_path / "x.yaml")).name == load_transcript(tmp_path / "x.yaml").name == "x"


def test_a_transcript_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(sl.TranscriptError, match=r"y\.yaml"):
        load_transcript(tmp_path / "y.yaml")
    (tmp_path / "z.yaml").write_bytes(b"\xff")
    with pytest.raises(sl.TranscriptError, match=r"z\.yaml"):
        load_transcript(tmp_path / "z.yaml")
    with pytest.raises(sl.TranscriptError, match="None"):
        load_transcript(None)  # type: ignore[arg-type]


def found(ticks: str, flow: str = FLOW) -> list[str]:
    return differences(read_transcript(SOURCE + flow + ticks))


def test_rows_compare_on_the_columns_that_are_given() -> None:
    events = "ticks:\n  - events: [[ann, 1, 12:00], {user: bob, amount: 2, at: 12:00:01}]\n  - watermark: end of time\n"
    assert found(events + "    panes: [{total: 2, all: [12:00:01]}, {user: ann}]") == []
    assert found(events + "    panes: [{total: 1}, {total: 2}]") == []
    assert found(events + "    panes: [{total: 1}, {total: 1}]") != []
    assert found(events + "    panes: [{}, {total: 1}]") == []
    assert found(events + "    panes: [{}]") != []


def test_one_key_and_one_column_need_no_list() -> None:
    ticks = "ticks:\n  - {events: [[ann, 1, 12:00]], watermark: 12:01, panes: [{user: ann, total: 1}]}\n"
    assert found(ticks, FLOW.replace("[user]", "user")) == []
    assert found("ticks: [{events: [[ann, 1, 12:00]], panes: [{user: ann}]}]", "flow: [{select: user}]\n") == []


def test_what_differs_is_told_by_tick_with_both_sides() -> None:
    told = found("ticks:\n  - {events: [[ann, 1, 12:00]], watermark: 12:01}\n")
    assert told[0] == "tick 1: panes: expected 0, shown 1"
    assert "shown" in told[1]
    assert "user: 'ann'" in told[1]


def test_late_rejected_replaced_watermarks_and_books_are_compared_too() -> None:
    ticks = "ticks:\n  - watermark: 12:02\n  - events: [[ann, 1, 12:00], [bob, 1, null]]\n    replaced: [{user: ann}]\n    reaches: 12:03\n"
    told = "\n".join(found(ticks + "books:\n  stage: {rows: 7}\n"))
    for part in ("late: expected 0, shown 1", "rejected: expected 0, shown 1", "replaced: expected 1, shown 0"):
        assert part in told
    assert "the watermark of 'events' reaches 2026-01-01T12:02:00Z, not 2026-01-01T12:03:00Z" in told
    assert "the books of 'stage' say {'rows': 1}, not {'rows': 7}" in told


def test_a_transcript_that_must_fail_and_does_not_is_reported() -> None:
    assert judge(read_transcript(SOURCE + FLOW + "must_fail: true")) == ["It must fail '', and did not: []"]
    wrong_reason = "must_fail: because\nticks: [{panes: [{total: 3}]}]"
    assert "It must fail 'because'" in judge(read_transcript(SOURCE + FLOW + wrong_reason))[0]


def test_a_flow_that_check_must_refuse_and_does_not_is_reported() -> None:
    assert judge(read_transcript(SOURCE + FLOW + "check_fails: nonsense")) != []
    bad = SOURCE + FLOW.replace("[user]", "[usr]")
    assert judge(read_transcript(bad + "check_fails: usr")) == []
    assert "does not say 'other'" in judge(read_transcript(bad + "check_fails: other"))[0]


def test_rows_of_a_source_keep_their_order_and_side_rows_need_not() -> None:
    ticks = "ticks: [{events: [[ann, 1, 12:00], [bob, 2, 12:00]], panes: [{user: bob}, {user: ann}]}]"
    assert found(ticks, "") != []
    ticks = "ticks: [{watermark: 12:05}, {events: [[ann, 1, 12:00], [bob, 2, 12:00]], panes: [{user: bob}, {user: ann}]"
    ticks += ", late: [{user: bob}, {user: ann}]}]"
    assert found(ticks, FLOW + "  - side: late\n") == []


def test_nan_is_equal_to_nan_and_true_is_not_one() -> None:
    source = "{name: x, shows: y, source: {schema: 'p double, b boolean, at timestamp'}, "
    ticks = "ticks: [{events: [[.nan, true, 12:00]], panes: [{p: .nan, b: true}]}]}"
    assert differences(read_transcript(source + ticks)) == []
    with pytest.raises(sl.TranscriptError, match="tick 1: panes, 'b': 1 is no boolean"):
        differences(read_transcript(source + ticks.replace("b: true", "b: 1")))


class Halves(sl.CustomWindow):
    longest = sl.Span.of("30s")

    def assign(self, time: sl.Instant, row: Mapping[str, Any]) -> Sequence[tuple[int, int]]:
        start = time - time % sl.Span.of("30s")
        return [(start, start + sl.Span.of("30s"))]


def test_a_users_own_window_may_be_named_in_a_transcript() -> None:
    text = SOURCE + FLOW.replace('Tumbling("1m")', "Halves()")
    text += "ticks: [{events: [[ann, 1, 12:00:31]], watermark: 12:01, panes: [{window_start: 12:00:30}]}]"
    assert differences(read_transcript(text, extra={"Halves": Halves})) == []
