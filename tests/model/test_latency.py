"""What explain says of delays: true for each trigger, however it is composed, and in the words of the calendar."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

import strandline as sl
from strandline.model.latency import waits_in_words
from strandline.model.lengths import length_of
from strandline.model.sizes import Load, size_of
from tests.model.sinking import orders, stage
from tests.model.test_explain import triggers

END = "once an event comes that is at or past the end of the window"
CLOSE = "once an event comes that is 1h (the lateness) past the end of the window"
TEN_COME = "in the next tick once 10 new events have come"
ZERO_COMES = "in the next tick once an event has come for which `n = 0` holds"
TEN_SECONDS = "10s by the clock after its first new event"
MINUTE = "at most 1m by the clock after its first new event"
ON_TIME = f"On time: {END}. An event waits for that up to 1m (the window)."
TEN, CLOCK, AT_CLOSE = sl.AfterCount(10), sl.AfterProcessingTime("10s"), sl.AfterClose()
DELAYS: list[tuple[Any, list[str]]] = [
    (sl.AfterWatermark(), [ON_TIME, "Late: in the next tick after a late event has come."]),
    (sl.AfterWatermark(late=TEN), [ON_TIME, f"Late: {TEN_COME}."]),
    (sl.AfterWatermark(late=CLOCK), [ON_TIME, f"Late: {TEN_SECONDS}."]),
    (sl.AfterWatermark(late=AT_CLOSE), [ON_TIME, f"Late: {CLOSE}."]),
    (
        sl.AfterWatermark(early=CLOCK, late=sl.OrFinally(sl.Repeatedly(TEN), AT_CLOSE)),
        [ON_TIME, f"Early: {TEN_SECONDS}.", f"Late: {TEN_COME}; at the latest {CLOSE}."],
    ),
    (AT_CLOSE, [f"O{CLOSE[1:]}."]),
    (
        sl.OrFinally(sl.Repeatedly(CLOCK), AT_CLOSE),
        [f"{TEN_SECONDS}; at the latest {CLOSE}."],
    ),
    (sl.Repeatedly(sl.When("N > 3", crossing=True)), ["In the next tick in which `N > 3` begins to hold."]),
    (
        sl.AfterAny(sl.AfterEach(TEN, sl.OnEvent("n = 0")), sl.AfterAny(AT_CLOSE)),
        [f"At the first of these: (first ({TEN_COME}), then ({ZERO_COMES})) or ({CLOSE})."],
    ),
    (
        sl.AfterAll(sl.AfterWatermark(early=sl.AfterProcessingTime(aligned_to="1m"), late=TEN), CLOCK),
        [f"At the last of these: ({END}; until then {MINUTE}; afterwards {TEN_COME}) and ({TEN_SECONDS})."],
    ),
    (
        sl.AfterAll(TEN, sl.When("n > 3")),
        [f"Once all of these are so in one tick: ({TEN_COME}) and (in the next tick in which `n > 3` holds)."],
    ),
    (sl.Never(), ["Never."]),
]


def delays(**options: Any) -> list[str]:
    return [*waits_in_words(stage(**options).node)]


@pytest.mark.parametrize(("trigger", "said"), DELAYS)
def test_the_delay_of_each_trigger_is_that_of_its_panes(trigger: Any, said: list[str]) -> None:
    assert delays(trigger=trigger, lateness="1h") == said


@given(trigger=triggers)
def test_every_trigger_has_a_delay_however_it_is_composed(trigger: Any) -> None:
    for sentence in delays(trigger=trigger, lateness="1h"):
        assert sentence.count("(") == sentence.count(")")
        assert sentence[0].isupper() or sentence[0].isdigit()


def test_without_lateness_nothing_is_late_and_the_close_is_the_end() -> None:
    assert delays(trigger=sl.AfterWatermark(late=TEN)) == [ON_TIME]
    assert delays(trigger=AT_CLOSE) == [f"O{END[1:]}."]


def test_a_window_without_an_end_is_shown_when_the_input_ends_or_its_key_is_forgotten() -> None:
    assert delays(window=sl.Global(), lateness="1h") == ["On time: when the input ends, for the window has no end."]
    assert delays(window=sl.Global(), trigger=AT_CLOSE) == ["When the input ends."]
    (said,) = delays(window=sl.Global(ttl="1d"), trigger=AT_CLOSE, lateness="1h")
    assert said == "Once an event comes that is 1d1h past the latest of its key, which is forgotten then."


@pytest.mark.parametrize(
    ("window", "waits"),
    [
        (sl.Tumbling("1d", zone="Europe/Berlin"), "1d1h10s at most (the day and the bound)"),
        (sl.Tumbling("2d", zone="UTC"), "2d10s (the 2 days and the bound)"),
        (sl.Tumbling("1w", zone_column="user"), "7d1h10s at most (the week and the bound)"),
        (sl.Tumbling("1mo"), "31d10s at most (the month and the bound)"),
        (sl.Tumbling("3mo"), "92d10s at most (the 3 months and the bound)"),
        (sl.Tumbling("1y"), "366d10s at most (the year and the bound)"),
        (sl.Tumbling("1d"), "1d10s (the window and the bound)"),
    ],
)
def test_a_window_of_the_calendar_is_as_long_as_the_calendar_says(window: Any, waits: str) -> None:
    panes = orders(watermark=sl.Bounded("10s")).key_by("user").window(window).aggregate("one", n=sl.Count())
    (said,) = waits_in_words(panes.node)
    assert said.endswith(f" An event waits for that from 10s (the bound) to {waits}.")


def test_the_size_of_windows_of_the_calendar_names_them_too() -> None:
    size = size_of(stage(sl.Tumbling("1d", zone="Europe/Berlin"), lateness="1h").node, Load(keys=10))
    assert (size.rows, size.words) == (30, "10 keys × 3 windows (the day, 1h of lateness)")
    month = length_of(sl.Tumbling("1mo", zone="Europe/Berlin"))
    assert month is not None
    assert (month.least, month.most) == (sl.Span.of("27d23h"), sl.Span.of("31d1h"))
