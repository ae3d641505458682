"""Each rule of check(): what it refuses, and what it lets through beside it."""

from __future__ import annotations

from typing import Any

import pytest

import strandline as sl
from strandline.errors import CheckFailed
from tests.model.checking import (
    COUNTED,
    EACH,
    HOPS,
    HOURS,
    MINUTES,
    REFINING,
    SCHEMA,
    Merging,
    Plain,
    Removing,
    Short,
    Unbounded,
    Wordy,
    aggregated,
    behind,
    fires,
    orders,
    problems,
    second,
    stage,
)

REFUSED: dict[str, Any] = {
    # columns
    "keyed by 'usr', which is not there": lambda: stage(keys=("usr",)),
    "stage 'one' is keyed by 'usr', which": lambda: stage(
        keys=("usr",), trigger=sl.AfterWatermark(early=sl.When("total > 3"))),
    "keyed by 'user' twice": lambda: stage(keys=("user", "user")),
    "keyed by 'tags' of type array<string>": lambda: stage(keys=("tags",)),
    "keyed by 'window_start', a column that its own panes have": lambda: stage().key_by("window_start").window(
        sl.Tumbling("1h")).aggregate("two", n=sl.Count()),
    "In stage 'one': Sum asks for the column 'amuont'": lambda: aggregated(t=sl.Sum("amuont")),
    "Sum('user') needs a number, not string": lambda: aggregated(t=sl.Sum("user")),
    "Min('tags') cannot take array<string>": lambda: aggregated(t=sl.Min("tags")),
    "Wordy does not say which columns": lambda: aggregated(t=Wordy()),
    "Plain asks for the column 'total'": lambda: aggregated(t=Plain()),
    "The aggregate 'user' of stage 'one' would hide a key": lambda: aggregated(user=sl.Count()),
    "The aggregate 'op' of stage 'one'": lambda: aggregated(op=sl.Count()),
    "The aggregate '__x' of stage 'one'": lambda: aggregated(__x=sl.Count()),
    "where= of 't' needs a condition, and 'amount' is double": lambda: aggregated(t=sl.Count(where="amount")),
    "'amuont > 3' asks for the column 'amuont'": lambda: orders().where("amuont > 3"),
    ".where() needs a condition, and 'amount + 1' is double": lambda: orders().where("amount + 1"),
    "> does not take (string, int)": lambda: orders().where("user > 3"),
    "'usr' asks for the column 'usr'": lambda: orders().select("usr"),
    "The expression 'amount + 1' has no name": lambda: orders().select("amount + 1"),
    ".select() makes the column 'user' 2 times": lambda: orders().select("user", "amount as user"),
    ".select() makes the column '__time'": lambda: orders().select("amount as __time"),
    ".with_column() makes the column '__weight'": lambda: orders().with_column("__weight", "n"),
    "The source 'orders' has no column 'att' to take its time": lambda: orders(time="att"),
    "The time column 'user' of source 'orders' is string": lambda: orders(time="user"),
    "The column '__a' of source 'orders' starts with '__'": lambda: orders("__a int, at timestamp"),
    "no column 'mark' to take its watermark from": lambda: orders(watermark=sl.FromSource("mark")),
    "The watermark column 'user' of source 'orders' is string": lambda: orders(watermark=sl.FromSource("user")),
    "zone_column='zne' of stage 'one' is not there": lambda: stage(sl.Tumbling("1d", zone_column="zne")),
    "zone_column='n' of stage 'one' is int": lambda: stage(sl.Tumbling("1d", zone_column="n")),
    "gap_column='user' of stage 'one' is string": lambda: stage(sl.Session(gap_column="user")),
    "In stage 'one': 'amount > 3' asks for the column 'amount'": lambda: fires(sl.AfterWatermark(early=sl.When("amount > 3"))),
    "When('pow(total, 2) > 9') is asked while windows are merged": lambda: fires(
        sl.AfterWatermark(early=sl.When("pow(total, 2) > 9"))),
    "When needs a condition, and 'total' is bigint": lambda: fires(sl.AfterWatermark(early=sl.When("total"))),
    "'total > 3' asks for the column 'total'": lambda: fires(sl.AfterWatermark(early=sl.OnEvent("total > 3"))),
    "would have two columns 'reason'": lambda: orders("reason string, at timestamp").rejected,
    "would have two columns 'kept'": lambda: orders("kept int, at timestamp").key_by().window(
        sl.Tumbling("1m")).aggregate("one", n=sl.Count()).late,
    # loss
    "ends while events may still come": lambda: fires(sl.AfterCount(3)),
    "The trigger of stage 'one' ends": lambda: fires(sl.OrFinally(COUNTED, sl.AfterCount(9))),
    "can lose the last events of a window": lambda: fires(COUNTED),
    "of stage 'one' can lose the last": lambda: fires(sl.Never()),
    "can lose late events": lambda: fires(sl.AfterWatermark(late=sl.AfterCount(3)), lateness="1m"),
    "can lose the last events of a key: nothing is sure to fire when the input ends": lambda: stage(
        sl.Global(), trigger=COUNTED),
    "can lose what a key has when its ttl is over": lambda: stage(sl.Global(ttl="1h")),
    # twice
    "The stage 'two' would count twice": lambda: second(first=stage(lateness="1m")),
    "'two' would count twice": lambda: second(first=fires(sl.AfterWatermark(early=sl.AfterCount(1)))),
    "Hopping windows over hopping": lambda: second(
        sl.Hopping("1h", every="30m"), first=stage(sl.Hopping("1m", every="30s"))),
    # taking back
    "q=Quantile of stage 'two' cannot take back": lambda: second(aggregates={"q": sl.Quantile("total", 0.5)}),
    "a=ApproxDistinct of stage 'two' cannot": lambda: second(aggregates={"a": sl.ApproxDistinct("total")}),
    "e=Ewma of stage 'two' cannot take back": lambda: second(aggregates={"e": sl.Ewma("total", half_life="1m")}),
    "p=Plain of stage 'two' cannot take back": lambda: second(aggregates={"p": Plain()}),
    "m=Merge of Max of stage 'two' cannot take back": lambda: second(
        first=stage(aggregates={"hi": sl.Max("n")}, **REFINING), aggregates={"m": sl.Merge("hi")}),
    "m=Merge of a Sum of floats in stage 'two'": lambda: second(
        first=stage(aggregates={"x": sl.Sum("amount")}, **REFINING), aggregates={"m": sl.Merge("x")}),
    "a session cannot be unmerged": lambda: second(sl.Session("1h")),
    "The stage 'two' makes sessions of panes": lambda: second(Merging()),
    "The stage 'two' is discarding behind a stage that retracts": lambda: second(mode="discarding"),
    # panes in time
    "SameWindow in stage 'one' has no earlier stage": lambda: stage(sl.SameWindow()),
    "Merge('n') in stage 'one' has no earlier stage": lambda: aggregated(m=sl.Merge("n")),
    "the stage 'one' has no aggregate of that name": lambda: second(aggregates={"m": sl.Merge("totl")}),
    "The panes of the global window of 'one' have no end": lambda: second(
        first=stage(sl.Global(), trigger=sl.Repeatedly(sl.AfterCount(1)), mode="retracting")),
    "Nothing bounds the windows of 'one'": lambda: second(first=stage(Unbounded(), timestamp="earliest")),
    "The panes of the global window of 'one' carry the time of the earliest event": lambda: second(
        first=stage(sl.Global(), trigger=sl.Repeatedly(sl.AfterCount(1)), mode="retracting", timestamp="earliest")),
    "global window of 'one' carry the time of the earliest": lambda: behind(
        second(sl.Global(), first=stage(sl.Global(), trigger=EACH, mode="retracting", timestamp="earliest"),
               trigger=EACH, mode="retracting", timestamp="latest")),
    "The panes of the global window of 'two' have no end": lambda: behind(
        second(sl.SameWindow(), first=stage(sl.Global(), trigger=EACH, mode="retracting"), trigger=EACH, mode="retracting")),
    # an insert and its retraction
    ".where(\"op = 'insert'\") reads op before stage 'two'": lambda: second(first=stage(**REFINING).where("op = 'insert'")),
    ".with_column('kind', 'upper(op)') reads op": lambda: second(first=stage(**REFINING).with_column("kind", "upper(op)")),
    ".select('op as kind') reads op": lambda: second(first=stage(**REFINING).select("user", "op as kind")),
    ".where('now() > window_end') reads the clock before stage 'two'": lambda: second(
        first=stage(**REFINING).where("now() > window_end")),
    ".with_column('seen', 'now()') reads the clock": lambda: second(first=stage(**REFINING).with_column("seen", "now()")),
    "The key 'op' reads op": lambda: stage(**REFINING).key_by("op").window(HOURS).aggregate("two", n=sl.Count()),
    "The aggregate 'most' reads op": lambda: second(aggregates={"most": sl.Max("op")}),
    "The aggregate 'top' reads op": lambda: second(aggregates={"top": sl.TopK("user", 2, by="op")}),
    "where= of 'n' reads op": lambda: second(aggregates={"n": sl.Count(where="op = 'insert'")}),
    "where= of 'm' reads the clock": lambda: second(aggregates={"m": sl.Merge("total", where="now() > window_end")}),
    "OnEvent(\"op = 'retract'\") reads op": lambda: second(
        trigger=sl.AfterWatermark(early=sl.OnEvent("op = 'retract'"))),
    ".where(\"op = 'x'\") reads op": lambda: second(
        first=stage(**REFINING).select("user", "op").with_column("op", "op").where("op = 'x'")),
    # overlap
    "m=Merge in stage 'two' would count every event several times": lambda: second(
        first=stage(HOPS), aggregates={"m": sl.Merge("total")}),
    "m=Merge in stage 'three' would count every event several times": lambda: behind(
        second(sl.SameWindow(), first=stage(HOPS), aggregates={"total": sl.Merge("total")}), m=sl.Merge("total")),
    "count a pane several times (stage 'three')": lambda: behind(
        second(sl.SameWindow(), first=stage(HOPS)), sl.Hopping("1h", every="30m")),
    # what a Merge rolls up
    "m=Merge('total') of stage 'two' rolls up what 'one' computed, not the column": lambda: second(
        first=stage().with_column("total", "total * 2"), aggregates={"m": sl.Merge("total")}),
    "not the column 'total' that was made of it since": lambda: second(
        first=stage().select("user", "pane_index as total"), aggregates={"m": sl.Merge("total")}),
    # the flow
    "The flow 'f' reads nothing": lambda: sl.Flow("f"),
}  # fmt: skip
ALLOWED: dict[str, Any] = {
    "keys of several types": lambda: stage(keys=("user", "n", "at", "gap")),
    "no key at all": lambda: stage(keys=()),
    "the window's start as a key under another name": lambda: stage().with_column("minute", "window_start")
    .key_by("minute").window(sl.Tumbling("1h")).aggregate("two", n=sl.Count()),
    "a count of arrays": lambda: aggregated(t=sl.Count("tags")),
    "a column that is replaced": lambda: orders().with_column("amount", "amount * 2").key_by().window(
        sl.Tumbling("1m")).aggregate("one", t=sl.Sum("amount")),
    "a watermark that the source asserts": lambda: orders(watermark=sl.FromSource("at")),
    "a zone and a gap from columns": lambda: stage(sl.Tumbling("1d", zone_column="zone")),
    "each event's own gap": lambda: stage(sl.Session(gap_column="gap")),
    "a trigger that asks about an aggregate": lambda: fires(sl.AfterWatermark(early=sl.When("total > 3 and user <> ''"))),
    "processing time on purpose": lambda: orders(time=sl.Arrival()),
    "a trigger that ends, with the window": lambda: fires(sl.OrFinally(COUNTED, sl.AfterClose())),
    "a count, and the rest when the window closes": lambda: fires(sl.Repeatedly(sl.AfterAny(sl.AfterCount(3), sl.AfterClose()))),
    "every event at once": lambda: fires(sl.Repeatedly(sl.AfterCount(1))),
    "loss that is meant": lambda: fires(sl.Never(), allow_loss=True),
    "late events one by one": lambda: fires(sl.AfterWatermark(late=sl.AfterCount(1)), lateness="1m"),
    "late events without a late trigger": lambda: stage(lateness="1m"),
    "a global window that shows each event": lambda: stage(sl.Global(ttl="1h"), trigger=sl.Repeatedly(sl.AfterCount(1))),
    "a first stage that shows once": lambda: second(first=stage()),
    "one that shows once, when it closes": lambda: second(first=stage(trigger=sl.AfterClose(), lateness="1m")),
    "one that discards": lambda: second(first=stage(lateness="1m", mode="discarding")),
    "one that retracts": second,
    "hopping behind tumbling": lambda: second(sl.Hopping("1h", every="30m"), first=stage()),
    "the same window behind hopping": lambda: second(sl.SameWindow(), first=stage(sl.Hopping("1m", every="30s"))),
    "aggregates that take back": lambda: second(aggregates={
        "a": sl.Mean("total"), "b": sl.Min("total"), "c": sl.TopK("total", 2), "d": Removing(), "e": sl.Merge("total")}),
    "an exact sum rolled up": lambda: second(
        first=stage(aggregates={"x": sl.Sum("amount", exact=True)}, **REFINING), aggregates={"m": sl.Merge("x")}),
    "sessions of panes that stay": lambda: second(sl.Session("1h"), first=stage()),
    "a sketch rolled up": lambda: second(
        first=stage(aggregates={"q": sl.Quantile("amount", 0.5)}), aggregates={"m": sl.Merge("q")}),
    "a global window's panes by the latest event": lambda: second(
        first=stage(sl.Global(), trigger=sl.Repeatedly(sl.AfterCount(1)), mode="retracting", timestamp="latest")),
    "a retraction's op where no stage follows": lambda: stage(**REFINING).where("op = 'insert'").with_column("seen", "now()"),
    "op and the clock where nothing is taken back": lambda: second(
        first=stage().where("op = 'insert'").with_column("seen", "now()"), aggregates={"most": sl.Max("op")}),
    "what an insert and its retraction share": lambda: second(
        first=stage(**REFINING).where("pane_timing = 'late' and pane_index > 0 and not pane_is_last").select(
            "user", "op", "window_start as minute")),
    "another op": lambda: second(
        first=stage(**REFINING).with_column("op", "user").where("op = 'x'"), aggregates={"most": sl.Max("op")}),
    "the clock before the first stage": lambda: second(first=orders().with_column("seen", "now()").key_by("user").window(
        MINUTES, **REFINING).aggregate("one", seen=sl.Max("seen")), aggregates={"seen": sl.Max("seen")}),
    "the earliest time in windows without end": lambda: second(
        sl.SameWindow(), first=stage(sl.Global(), trigger=EACH, mode="retracting", timestamp="earliest"), trigger=EACH),
    "the latest time through the same window without end": lambda: behind(
        second(sl.SameWindow(), first=stage(sl.Global(), trigger=EACH, mode="retracting", timestamp="latest"),
               trigger=EACH, mode="retracting", timestamp="latest")),
    "a merge of the same hopping windows": lambda: second(
        sl.SameWindow(), first=stage(HOPS), aggregates={"m": sl.Merge("total")}),
    "a merge of hops as long as their windows": lambda: second(
        first=stage(sl.Hopping("1m", every="1m")), aggregates={"m": sl.Merge("total")}),
    "tumbling behind hopping": lambda: second(first=stage(HOPS)),
    "a merge of a column that was dropped": lambda: second(
        first=stage().select("user", "pane_index as other"), aggregates={"m": sl.Merge("total")}),
    "a merge of a column that was left alone": lambda: second(
        first=stage().select("user", "total as total", "total * 2 as twice").with_column("total", "total"),
        aggregates={"m": sl.Merge("total")}),
    "windows with a known bound": lambda: second(first=stage(Short(), timestamp="earliest")),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_check_refuses_it_and_says_why(what: str) -> None:
    found = problems(REFUSED[what]())
    assert [problem for problem in found if what in problem], found


@pytest.mark.parametrize("what", ALLOWED)
def test_check_allows_it(what: str) -> None:
    assert problems(ALLOWED[what]()) == []


def first_fix(stream: sl.Stream) -> str:
    with pytest.raises(CheckFailed) as failed:
        stream.flow.check()
    return failed.value.problems[0].fix


def test_a_key_that_panes_have_too_is_renamed_by_what_fits_it() -> None:
    kinds = orders("op string, window_start string, at timestamp")
    fix = first_fix(kinds.key_by("op").window(MINUTES).aggregate("one", n=sl.Count()))
    assert fix == "Key by it under another name: .with_column('event_op', 'op').key_by('event_op')."
    fix = first_fix(stage().key_by("window_start").window(HOURS).aggregate("two", n=sl.Count()))
    assert "or group by window, with SameWindow()." in fix


def test_a_column_that_a_side_output_adds_is_renamed_where_it_can_be() -> None:
    kept = orders("kept int, at timestamp").key_by().window(MINUTES).aggregate("one", n=sl.Count()).late
    assert ".select('kept as event_kept', ...)" in first_fix(kept)
    assert "in the schema of the source, such as event_raw" in first_fix(orders("raw string, at timestamp").rejected)


def test_check_says_everything_at_once() -> None:
    flow = sl.Flow("f")
    source = flow.source("orders", sl.Rows(schema=SCHEMA), time="att")
    source.key_by("usr").window(sl.Tumbling("1m"), trigger=sl.AfterCount(3)).aggregate(
        "one", t=sl.Sum("user"), u=sl.Max("x")
    )
    source.where("amuont > 3")
    found = problems(flow)
    for what in ("'att'", "'usr'", "'user'", "'x'", "ends while", "'amuont'"):
        assert [problem for problem in found if what in problem]
    with pytest.raises(CheckFailed, match=r"The flow has 6 problems:\n1\. .*\n +fix: "):
        flow.check()


def test_what_follows_a_wrong_node_is_not_blamed_for_it() -> None:
    wrong = orders().with_column("total", "amuont * 2").where("total > 3")
    assert problems(wrong) == ["'amuont * 2' asks for the column 'amuont', which is not there."]


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (("a", "a", "one", "two"), "2 sources are named 'a'"),
        (("a", "b", "one", "one"), "2 stages are named 'one'"),
        (("a", "b", "one", "a"), "A source and a stage are both named 'a'"),
    ],
)
def test_names_are_given_once(names: tuple[str, str, str, str], what: str) -> None:
    flow = sl.Flow("f")
    for source, name in zip(names[:2], names[2:], strict=True):
        read = flow.source(source, sl.Rows(schema=SCHEMA), time="at")
        read.key_by("user").window(sl.Tumbling("1m")).aggregate(name, n=sl.Count())
    assert [problem for problem in problems(flow) if what in problem]


def test_behind_a_transform_only_what_needs_no_columns_is_checked() -> None:
    unknown = orders().transform(lambda df: df, name="anything")
    known = unknown.key_by("whatever").window(sl.Tumbling("1m"), trigger=sl.AfterCount(3))
    (problem,) = problems(known.aggregate("one", n=sl.Sum("whatever")))
    assert "ends while events may still come" in problem


def test_a_stage_over_what_a_source_rejected_is_refused_because_those_rows_have_no_time() -> None:
    flow = sl.Flow("f")
    events = flow.source("events", sl.Rows(schema="user string, at timestamp"), time="at")
    events.rejected.key_by("user").window(sl.Tumbling("1m")).aggregate("bad", n=sl.Count())
    with pytest.raises(sl.StrandlineError, match="rows without a usable time"):
        flow.check()
