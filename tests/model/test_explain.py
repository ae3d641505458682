"""A flow in words: every trigger, window and policy has a phrase, and the whole reads as a newcomer would ask."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strandline as sl
from strandline.model.firing import written
from strandline.model.graph import graph
from strandline.model.watermarks import AtEnd
from strandline.model.words import policy_in_words, trigger_in_words, window_in_words
from tests.model.sinking import MINUTES, RETRACTING, Shelf, orders, stage

COUNT, CLOCK = sl.AfterCount(3), sl.AfterProcessingTime("10s")
ON_TIME = "when the watermark reaches its end (on time)"
THREE = "when at least 3 new events have come by the end of a tick"
TEN = "10s of processing time after its first new event"
FORGOTTEN = "when it is forgotten, with all that came"
TRIGGERS: dict[str, Any] = {
    ON_TIME: sl.AfterWatermark(),
    f"{ON_TIME}; until then, again and again, {TEN} (early)": sl.AfterWatermark(early=CLOCK),
    f"{ON_TIME}; until then, never (early)": sl.AfterWatermark(early=sl.Never()),
    f"{ON_TIME}; afterwards, again and again, {THREE} (late)": sl.AfterWatermark(late=sl.Repeatedly(COUNT)),
    f"{ON_TIME}; afterwards in every tick that brings late events (late)": sl.AfterWatermark(late=sl.AfterCount(1)),
    FORGOTTEN: sl.AfterClose(),
    THREE: COUNT,
    "when a new event has come by the end of a tick": sl.AfterCount(1),
    "as soon as 3 new events have come, event by event": sl.AfterCount(3, exact=True),
    TEN: CLOCK,
    "in the tick of its first new event": sl.AfterProcessingTime("0s"),
    "at the next full 1m of processing time after its first new event": sl.AfterProcessingTime(aligned_to="1m"),
    "when `total > 3` holds for its keys and aggregates": sl.When("total > 3"),
    "when `total > 3` begins to hold for its keys and aggregates": sl.When("total > 3", crossing=True),
    "when an event comes for which `n = 0` holds": sl.OnEvent("n = 0"),
    f"at the first of these: ({THREE}) or ({TEN})": sl.AfterAny(COUNT, CLOCK),
    f"once all of these are so in one tick: ({THREE}) and ({TEN})": sl.AfterAll(COUNT, CLOCK),
    f"first ({THREE}), then ({TEN})": sl.AfterEach(COUNT, CLOCK),
    f"again and again, {THREE}": sl.Repeatedly(sl.AfterAny(COUNT)),
    f"{THREE}; for the last time {TEN}": sl.OrFinally(COUNT, CLOCK),
    f"{ON_TIME}; afterwards, again and again, {THREE}; for the last time {FORGOTTEN} (late)": sl.AfterWatermark(
        late=sl.OrFinally(sl.Repeatedly(COUNT), sl.AfterClose())
    ),
    f"again and again, {THREE}; also {TEN}, and then anew": sl.Repeatedly(sl.OrFinally(sl.Repeatedly(COUNT), CLOCK)),
    "never": sl.Never(),
}


@pytest.mark.parametrize("words", TRIGGERS)
def test_a_trigger_is_said_in_words(words: str) -> None:
    lateness = sl.Span.of("1m" if "(late)" in words else "0s")
    assert trigger_in_words(TRIGGERS[words], lateness) == words


def test_without_lateness_nothing_late_is_said() -> None:
    assert trigger_in_words(sl.AfterWatermark(late=COUNT)) == trigger_in_words(sl.AfterWatermark())


def test_with_lateness_the_late_panes_that_come_by_themselves_are_said() -> None:
    assert trigger_in_words(sl.AfterWatermark(), sl.Span.of("1m")).endswith(
        "in every tick that brings late events (late)"
    )


def test_a_window_without_an_end_is_shown_when_the_input_ends() -> None:
    hour = sl.Span.of("1h")
    assert trigger_in_words(sl.AfterWatermark(late=COUNT), hour, sl.Global()) == "when the input ends (on time)"
    assert trigger_in_words(sl.AfterClose(), hour, sl.Global()) == "when the input ends, with all that came"
    assert trigger_in_words(sl.AfterClose(), hour, sl.Global(ttl="1d")) == FORGOTTEN
    panes = stage(sl.Global(), lateness="1h").key_by("user").window(sl.SameWindow()).aggregate("two", n=sl.Count())
    assert "the watermark reaches its end" not in panes.flow.explain() + panes.flow.graph()


triggers = st.recursive(
    st.sampled_from([*TRIGGERS.values()]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: sl.AfterAny(*parts)),
        inner.map(sl.Repeatedly),
        st.builds(sl.OrFinally, inner, inner),
        st.builds(sl.AfterWatermark, early=inner, late=inner),
    ),
    max_leaves=5,
)


@given(trigger=triggers)
def test_every_trigger_has_words_however_it_is_composed(trigger: Any) -> None:
    words = trigger_in_words(trigger)
    assert words.count("(") == words.count(")")
    assert words[0].islower() or words[0].isdigit()
    assert "again and again, again and again" not in words


class Shift(sl.CustomWindow):
    merging = True

    def assign(self, time: Any, row: Any) -> list[tuple[int, int]]:
        return [(time, time + 1)]


@pytest.mark.parametrize(
    ("window", "words"),
    [
        (sl.Tumbling("1m", offset="10s"), "windows of 1m, one after the other, shifted by 10s"),
        (sl.Tumbling("1mo"), "windows of 1mo, one after the other by the calendar of UTC"),
        (
            sl.Tumbling("1d", zone_column="zone"),
            "windows of 1d, one after the other by the calendar of each event's own time zone (column 'zone')",
        ),
        (sl.Hopping("1m", every="1m"), "windows of 1m, a new one every 1m"),
        (sl.Session("5m"), "sessions: an event that comes less than 5m after another of its key is in the same window"),
        (
            sl.Session(gap_column="gap", inclusive=True),
            "sessions: an event that comes at most the gap in its column 'gap' after another of its key is in the same window",
        ),
        (sl.Global(), "one window for all time"),
        (sl.SameWindow(), "the window that each pane came with"),
        (Shift(), "the windows of Shift, which merge where they overlap"),
    ],
)
def test_a_window_is_said_in_words(window: Any, words: str) -> None:
    assert window_in_words(window) == words


class Own(sl.Policy):
    def update(self, stats: Any, state: Any) -> Any:
        return state.watermark


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (sl.Bounded("0s"), "the greatest time seen: events are expected in order."),
        (sl.Percentile(0.99), "it covers 0.99 of the lags of the last 10m; 1m at least while too little is known."),
        (sl.Monotonic(), "each is in order."),
        (sl.FromSource("mark"), "what the source itself says, in the column 'mark'."),
        (Own(), "what Own says."),
        (AtEnd(sl.Monotonic()), "Nothing is complete before everything is read; then everything is (batch)."),
        (sl.Bounded("0s", idle_after="1m"), "silent for 1m does not. When all are silent the watermark stays."),
        (sl.Bounded("0s", idle_after="1m", advance_when_idle=True), "the watermark goes to the greatest of theirs."),
        (sl.Bounded("0s", max_future="5m"), "An event more than 5m ahead of processing time is rejected."),
    ],
)
def test_a_policy_is_said_in_words(policy: sl.Policy, words: str) -> None:
    assert words in " ".join(policy_in_words(policy))


def test_a_description_is_written_as_one_would_write_it() -> None:
    assert written(sl.Hopping("10m", every="1m")) == "Hopping('10m', every='1m')"
    assert written(sl.Tumbling("1mo", zone="Europe/Berlin")) == "Tumbling('1mo', zone='Europe/Berlin')"
    assert written(sl.Sum("n", where="n > 3")) == "Sum('n', where='n > 3')"
    assert written(Shift()) == "Shift()"


def revenue() -> sl.Flow:
    panes = stage(**RETRACTING, lateness="10m")
    panes.sink("table", Shelf(), rows="upsert", max_lag=3)
    panes.late.sink("late", Shelf())
    panes.where("total > 3").sink("log", Shelf(), rows="changelog", columns=["user", "total"])
    return panes.flow


def test_explain_answers_the_four_questions_and_says_what_is_promised() -> None:
    said = revenue().explain()
    for sentence in (
        "Time: the column 'at' of each event.",
        "A row without a usable time is rejected, with the reason; it is counted, and nobody takes it",
        "What:  total = Sum('n'); for each user.",
        "Where: windows of 1m, one after the other.",
        "until then, again and again, when a new event has come by the end of a tick (early); afterwards in every tick",
        "How:   retracting: each pane shows everything so far, and the one before is taken back first",
        "A window takes late events, and is forgotten when the watermark is 10m past its end.",
        "dropped, with the windows it missed; it goes to the sink 'late'.",
        "Cannot be lost:",
        "Rows: upsert: for each user, window_start, window_end the row that stands now",
        "It may fall 3 ticks behind",
        "Columns: user, total.",
        "sink: Exactly once, as long as the shelf stands.",
    ):
        assert sentence in said
    assert "Risks" not in said
    assert "Problems" not in said


def test_explain_says_what_can_be_lost_and_what_is_kept_for_ever() -> None:
    endless = stage(sl.Global(), trigger=sl.Repeatedly(COUNT), allow_loss=True).flow.explain()
    assert "Can be lost: what comes after the last time that the trigger fires" in endless
    assert "kept, and never shown, which allow_loss=True takes." in endless
    assert "kept, and never shown, which check() refuses." in stage(trigger=COUNT).flow.explain()
    assert "A key is never forgotten." in endless
    assert "Risks\n  The flow 'f' has no sink" in endless
    kept = stage(sl.Global(ttl="1h"), trigger=sl.Repeatedly(sl.AfterCount(1)), timestamp="latest", on_time="always")
    said = kept.flow.explain()
    assert "A key is forgotten when the watermark is 1h past its latest event; it starts anew then." in said
    assert "The time of a pane is that of its latest event." in said
    assert "On time a window is shown even if nothing is new in it." in said


def test_explain_says_that_lateness_is_inherited_and_that_transforms_must_repeat_themselves() -> None:
    second = stage(**RETRACTING, lateness="10m").transform(lambda df: df).key_by().window(sl.SameWindow())
    second.aggregate("two", n=sl.Count()).sink("out", Shelf(), rows="append")
    said = second.keyed.stream.flow.explain()
    assert "Lateness: 10m, more than its own" in said
    assert "over all rows as one group." in said
    assert "your transforms: they must give the same rows for the same rows" in said


def test_explain_of_a_flow_that_is_wrong_says_what_is_wrong() -> None:
    events = orders(time=sl.Arrival())
    events.where("amuont > 3").sink("out", Shelf(), columns=["usr"])
    said = events.flow.explain()
    assert "Time: when an event is read (processing time), on purpose." in said
    assert "Problems\n  'amuont > 3' asks for the column 'amuont', which is not there. Did you mean 'amount'?" in said


def test_explain_says_first_what_is_wrong_and_not_what_comes_of_it() -> None:
    panes = orders().key_by("tags").window(MINUTES).aggregate("one", n=sl.Count())
    said = panes.flow.explain()
    assert said.startswith("The flow 'f'\n\nProblems\n  The stage 'one' is keyed by 'tags' of type array<string>.")
    assert "unhashable" not in said
    assert "No example" not in said


def joined(**options: Any) -> str:
    left = orders()
    right = left.flow.source("clicks", sl.Rows(schema="user string, page string, at timestamp"), time="at")
    left.key_by("user").join("met", right.key_by("user"), **options)
    return left.flow.explain()


BOUNDS: dict[str, dict[str, Any]] = {
    "of this side until the watermark is 10m past them, of the other side until it is 0s past them": {},
    "of this side until the watermark is 10m past them, of the other side until it is 10m past them": {"how": "left"},
    "of this side until the watermark is 10m past them, of the other side until it is 0s past": {"how": "right"},
    "of this side until the watermark is 5m past them, of the other side until it is 1h past": {
        "within": sl.Between("-1h", "5m")
    },
    "of this side until the watermark is 1h5m past them, of the other side until it is 1h5m past": {
        "within": sl.Between("-1h", "5m"),
        "how": "full",
    },
    "the rows of both sides, until the watermark reaches the end of their window": {"within": sl.SameWindow(MINUTES)},
}


@pytest.mark.parametrize("words", BOUNDS)
def test_explain_says_before_the_start_how_long_a_join_keeps_rows(words: str) -> None:
    assert words in joined(**{"within": sl.After("10m"), **BOUNDS[words]})


def test_explain_says_how_far_a_join_holds_the_watermark_back() -> None:
    assert "Hold:" not in joined(within=sl.After("10m"))
    held = "Hold:  the watermark of its output is 10m behind that of its input"
    assert held in joined(within=sl.After("10m"), how="left")
    assert held in joined(within=sl.After("10m"), match="first")


def test_explain_says_what_is_spread_and_what_is_kept_several_times() -> None:
    said = joined(within=sl.After("10m"), salt=8)
    assert (
        "Salt:  the rows of a key of 'orders' are spread over 8 places, and those of 'clicks' are copied to each."
        in said
    )
    assert "of a key of 'clicks' are spread over 4 places" in joined(within=sl.After("10m"), how="right", salt=4)
    stream = orders()
    table = stream.flow.table("known", stream, key="user", ttl="1h", broadcast=True)
    stream.join_table("named", table, suffix="_known")
    assert "State: a row of the table for 1h of event time, in each of 16 places." in stream.flow.explain()


def test_a_flow_is_drawn_as_a_tree() -> None:
    assert graph(revenue(), answers=False).splitlines() == [
        "f",
        "└─ source 'orders', time='at'",
        "   └─ stage 'one': by user, Tumbling('1m')",
        "      ├─ sink 'table': Shelf, rows='upsert' by user, window_start, window_end",
        "      ├─ .late",
        "      │  └─ sink 'late': Shelf, rows='append'",
        "      └─ .where('total > 3')",
        "         └─ sink 'log': Shelf, rows='changelog'",
    ]


def test_the_tree_answers_the_four_questions_of_each_stage_in_lines_that_fit() -> None:
    drawn = graph(revenue(), width=80).splitlines()
    assert "      │  what:  total = Sum('n'); for each user" in drawn
    assert "      │  where: windows of 1m, one after the other" in drawn
    assert max(map(len, drawn)) <= 80


@pytest.mark.parametrize("answers", [True, False])
def test_the_names_of_sinks_and_conditions_are_in_lines_that_fit_too(answers: bool) -> None:
    panes = stage().where("total > 3 and total < 4 and total <> 3.5 and length(user) between 3 and 20")
    panes.sink("a_sink_with_a_long_name", Shelf(), rows="upsert", key=["user", "window_start", "window_end"])
    drawn = graph(panes.flow, width=60, answers=answers).splitlines()
    assert max(map(len, drawn)) <= 60
    assert drawn[-5:] == [
        "      └─ .where('total > 3 and total < 4 and total <> 3.5",
        "         │  and length(user) between 3 and 20')",
        "         └─ sink 'a_sink_with_a_long_name': Shelf,",
        "               rows='upsert' by user, window_start,",
        "               window_end",
    ]


def test_explain_and_graph_say_who_is_asked_and_what_becomes_of_a_question_that_fails() -> None:
    flow = sl.Flow("asked")
    orders = flow.source("orders", sl.Rows(schema="user string, at timestamp"), time="at")
    cached = {"cache": sl.Cache("10m", size=9), "ordered": False, "retries": 1}
    tiers = orders.lookup("tier", str.upper, on="user", output="tier string", **cached)
    tiers.lookup("rank", str.lower, on="tier", output="rank string", retries=0, on_error="null")
    said = flow.explain()
    assert "What:  each row with tier, which str.upper is asked for by user." in said
    assert "When:  in its tick, up to 100 calls at a time in each task, each for 2s, 1 more times if need be." in said
    assert "Cache: an answer is used again for 10m, up to 9 of them in each worker." in said
    assert "Order: rows of a key go to all tasks, and come in any order." in said
    assert "A row whose question fails is rejected, with the reason; it is counted, and nobody takes it" in said
    assert "A row whose question fails gets nulls." in said
    assert "   └─ stage 'tier': tier for each user, from str.upper" in flow.graph()
