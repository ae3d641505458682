"""A bound that was chosen from the first half of a stream makes about as many late as was asked for in the second half."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from strandline.errors import DataError
from strandline.model.partitions import SourceState, gather
from strandline.model.progress import advance_source
from strandline.model.time import Instant, Span
from strandline.model.watermarks import Bounded
from strandline.operations.advise import behind as module
from strandline.operations.advise.advice import advise
from strandline.operations.advise.behind import behind
from strandline.operations.advise.sample import Sample
from tests.operations.advise.streams import Drawn, bimodal, log_normal, one_slow_partition, stream, stretch

EVENTS = 300_000


@pytest.mark.parametrize("rate", [0.01, 0.001])
@pytest.mark.parametrize("lags", [log_normal, bimodal, one_slow_partition])
def test_the_late_rate_of_the_second_half_is_within_a_factor_of_two(
    lags: Drawn, rate: float, record_property: Callable[[str, object], None]
) -> None:
    whole = stream(lags, events=EVENTS)
    found = advise(stretch(whole, 0, EVENTS // 2), rate=rate)
    realised = float((behind(whole)[EVENTS // 2 :] > found.bound).mean())
    told = f"{found.bound.text:>12}, realised {realised:.3%}"
    record_property("table", f"{lags.__name__:<20} asked {rate:.2%}, bound {told}")
    assert rate / 2 <= realised <= rate * 2
    assert found.between[0] <= found.late.share <= rate


@pytest.mark.parametrize("batch", [None, Span.of("50ms")])
@pytest.mark.parametrize("bound", ["0s", "4s", "70s"])
def test_an_event_is_late_exactly_where_the_watermark_policy_says_so(bound: str, batch: Span | None) -> None:
    sample, policy, state = stream(one_slow_partition, events=1_000), Bounded(bound), SourceState()
    assert sample.arrivals is not None
    ticks = np.arange(len(sample)) if batch is None else sample.arrivals // batch
    late: list[bool] = []
    for tick in np.unique(ticks):
        now = Instant(sample.arrivals[ticks == tick][-1])
        times, partitions = sample.times[ticks == tick], sample.partitions[ticks == tick]
        late += (times < state.watermark).tolist()
        # The engine knows the partitions of a topic before they speak.
        heard = {name: gather(times[partitions == place], now) for place, name in enumerate(sample.names)}
        state = advance_source(policy, state, heard, now=now, running=Span(0), run="r")
    assert late == (behind(sample, batch_interval=batch) > Span.of(bound)).tolist()
    assert bound == "70s" or any(late)


def test_a_sample_that_is_too_small_for_the_rate_says_so() -> None:
    assert "takes more than" in " ".join(advise(stream(log_normal, events=2_000), rate=0.001).notes)
    assert "takes more than" not in " ".join(advise(stream(log_normal, events=20_000), rate=0.001).notes)


def test_a_partition_that_fell_silent_is_named_because_it_held_the_watermark() -> None:
    sample = stream(log_normal, events=10_000)
    silent = (sample.partitions == 2) & (np.arange(10_000) > 5_000)
    rest = Sample.of(sample.times[~silent], partitions=sample.partitions[~silent])
    assert "The partition '2' brings nothing in the last 4" in " ".join(advise(rest, rate=0.01).notes)
    assert "brings nothing" not in " ".join(advise(sample, rate=0.01).notes)


@pytest.mark.parametrize("rate", [0.5, 0.01, 0.001, 0.00001])
def test_a_proposed_bound_keeps_what_it_promises_on_its_sample(rate: float) -> None:
    found = advise(stream(bimodal, events=30_000), rate=rate)
    allowed = int(rate * 30_000)
    assert 0.8 * allowed <= found.late.events <= allowed
    assert found.dropped.events <= allowed // 100 + 1
    assert [each.events for each in found.bounds] == sorted((each.events for each in found.bounds), reverse=True)
    assert sum(bar.share for bar in found.picture) == pytest.approx(1)


def test_events_in_order_need_no_bound() -> None:
    found = advise(Sample.of(np.arange(1_000) * 1_000), rate=0.01)
    assert (found.bound, found.lateness, found.late.events) == (0, 0, 0)


def test_many_partitions_are_judged_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = stream(one_slow_partition, events=5_000)
    few = behind(sample)
    monkeypatch.setattr(module, "FEW", 1)
    assert (behind(sample) == few).all()


def test_a_key_is_no_partition() -> None:
    with pytest.raises(DataError, match="--key is for others"):
        Sample.of(np.arange(20_000), partitions=np.arange(20_000).tolist())
