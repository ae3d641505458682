"""What a flow has seen says which bound it needs; what it read of a backlog says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.errors import DescriptionError, StateError
from strandline.model.time import Span
from strandline.model.watermarks import Bounded
from strandline.operations.advise.behind import behind
from strandline.operations.advise.journal import advise_journal
from strandline.operations.advise.sample import Sample
from strandline.store.journal import record_of_tick
from tests.operations.advise.streams import log_normal, manifests, one_slow_partition, stream, stretch

TICK = Span.of("1s")


def journal(sample: Sample, **more: Any) -> list[dict[str, Any]]:
    ticks = manifests(sample, every=TICK, policy=Bounded("5s"), **more)
    return [record_of_tick(each, took={}, delivered={}) for each in ticks]


@pytest.mark.parametrize("rate", [0.01, 0.001])
@pytest.mark.parametrize("lags", [log_normal, one_slow_partition])
def test_the_bound_of_the_first_half_fits_the_second_half_tick_by_tick(lags: Any, rate: float) -> None:
    whole = stream(lags, events=120_000)
    found = advise_journal(journal(stretch(whole, 0, 60_000)), rate=rate)
    realised = float((behind(whole, batch_interval=TICK)[60_000:] > found.bound).mean())
    assert rate / 2 <= realised <= rate * 2


def test_the_late_events_of_the_flow_s_own_bound_are_told_as_the_flow_counted_them() -> None:
    sample = stream(log_normal, events=20_000)
    found = advise_journal(journal(sample), rate=0.01, bound=Span.of("5s"))
    late = int((behind(sample, batch_interval=TICK) > Span.of("5s")).sum())
    assert f"With the flow's own bound, 5s, {late:,} events came late." in found.notes[0]
    assert found.late.events == pytest.approx(late, rel=0.15)  # lags are known to an eighth


def test_a_backlog_says_nothing_of_how_late_events_come() -> None:
    with pytest.raises(StateError, match="of a backlog would have come"):
        advise_journal(journal(stream(log_normal, events=5_000), backlog=10), rate=0.01)


def test_a_source_that_is_not_there_is_said() -> None:
    with pytest.raises(DescriptionError, match="Did you mean 'events'"):
        advise_journal(journal(stream(log_normal, events=5_000)), rate=0.01, source="event")
