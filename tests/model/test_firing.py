"""What is known of a trigger before it runs."""

from __future__ import annotations

import pytest

from strandline.model.firing import closes, ends, fires_before_close, fires_once, with_late_panes
from strandline.model.time import Span
from strandline.model.triggers import (
    AfterAll,
    AfterAny,
    AfterClose,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    Never,
    OnEvent,
    OrFinally,
    Repeatedly,
    Trigger,
    When,
)  # fmt: skip

NONE, SOME = Span(0), Span.of("1m")
ONE, THREE, SOON, PUNCTUATION = AfterCount(1), AfterCount(3), AfterProcessingTime("10s"), OnEvent("end")
LEAVES = (ONE, THREE, SOON, PUNCTUATION, When("n > 3"))


def test_lateness_without_a_late_trigger_shows_every_tick_that_brought_late_events() -> None:
    early = AfterWatermark(early=THREE)
    assert with_late_panes(early, SOME) == AfterWatermark(early=THREE, late=ONE)
    assert with_late_panes(early, NONE) == early
    assert with_late_panes(AfterWatermark(late=THREE), SOME) == AfterWatermark(late=THREE)
    assert with_late_panes(Repeatedly(early), SOME) == Repeatedly(early)


@pytest.mark.parametrize("trigger", [AfterClose(), Never(), AfterAny(AfterClose(), Never()), Repeatedly(AfterClose())])
def test_what_fires_at_the_close_at_most_shows_a_window_once(trigger: Trigger) -> None:
    assert fires_once(trigger, SOME)
    assert not ends(trigger, SOME)


def test_on_time_without_lateness_is_at_the_close() -> None:
    assert fires_once(AfterWatermark(), NONE)
    assert not fires_once(AfterWatermark(), SOME)
    assert not fires_once(AfterWatermark(early=THREE), NONE)


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_leaf_ends_and_repeating_it_does_not(leaf: Trigger) -> None:
    assert ends(leaf, NONE, outermost=True)
    assert not ends(Repeatedly(leaf), NONE, outermost=True)
    assert not ends(AfterWatermark(early=leaf), NONE, outermost=True)


def test_all_fire_early_only_if_each_can_and_a_sequence_as_soon_as_its_first() -> None:
    assert not fires_before_close(AfterAll(ONE, AfterClose()), NONE)
    assert fires_before_close(AfterAll(ONE, THREE), NONE)
    assert fires_before_close(AfterAny(ONE, AfterClose()), NONE)
    assert fires_before_close(AfterEach(ONE, AfterClose()), NONE)
    assert not fires_before_close(AfterEach(AfterClose(), ONE), NONE)


def test_a_sequence_ends_only_when_each_of_its_parts_may() -> None:
    assert ends(AfterEach(ONE, THREE), NONE)
    assert not ends(AfterEach(ONE, Repeatedly(THREE)), NONE)
    assert not ends(AfterEach(ONE, AfterClose()), NONE)


def test_until_ends_what_it_ends() -> None:
    assert ends(OrFinally(Repeatedly(ONE), THREE), NONE)
    assert not ends(OrFinally(Repeatedly(ONE), AfterClose()), NONE)
    assert ends(OrFinally(ONE, AfterClose()), NONE)


def test_the_watermark_inside_another_trigger_has_no_late_panes_of_its_own() -> None:
    assert ends(AfterWatermark(), SOME)
    assert not ends(AfterWatermark(), SOME, outermost=True)
    assert not ends(AfterWatermark(), NONE)
    assert not ends(AfterWatermark(late=ONE), SOME)


def test_only_some_triggers_are_sure_to_show_what_is_new_at_the_close() -> None:
    sure = (ONE, AfterClose(), AfterWatermark(), AfterProcessingTime("0s"), AfterAny(THREE, AfterClose()))
    assert [trigger for trigger in sure if not closes(trigger, NONE)] == []
    unsure = (THREE, SOON, PUNCTUATION, When("n > 3"), Never(), AfterAll(THREE, AfterClose()), AfterEach(ONE, THREE))
    assert [trigger for trigger in unsure if closes(trigger, NONE)] == []


def test_late_panes_decide_at_the_close_when_there_is_lateness() -> None:
    assert closes(AfterWatermark(), SOME)
    assert closes(AfterWatermark(late=ONE), SOME)
    assert not closes(AfterWatermark(late=THREE), SOME)
    assert closes(AfterWatermark(late=THREE), NONE)


def test_a_time_to_live_ends_without_a_watermark_of_the_window() -> None:
    assert not closes(AfterWatermark(), NONE, ttl=True)
    assert closes(AfterAny(AfterWatermark(), AfterClose()), NONE, ttl=True)
    assert closes(OrFinally(Repeatedly(THREE), AfterClose()), NONE, ttl=True)
    assert closes(Repeatedly(ONE), NONE, ttl=True)
