"""Watermark policies, built in and a user's own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from strandline.errors import DataError, DescriptionError, StateError
from strandline.model.partitions import PartitionState, PartitionStats, SourceState, finish, gather, too_far
from strandline.model.time import Instant, Span
from strandline.model.watermarks import AtEnd, Bounded, FromSource, Monotonic, Percentile, Policy
from tests.model.one_source import NOON, Halfway, Source, at

# ---- the policies ----


def test_a_bound_of_20_s_and_a_greatest_time_of_12_00_50_give_12_00_30():
    watermark = Source(Bounded("20s")).tick(p=["50s", "10s"])
    assert watermark == at("30s")
    assert watermark >= at("30s"), "the window that ends at 12:00:30 is complete"
    assert not watermark >= at("31s"), "the one that ends at 12:00:31 is not"
    assert not at("30s") < watermark, "an event at the watermark is not late"


def test_before_the_first_event_the_watermark_stands_before_all_time():
    assert Source(Bounded("20s")).tick() == Instant.BEFORE_ALL_TIME
    assert Source(Bounded("20s")).tick(p=[]) == Instant.BEFORE_ALL_TIME


def test_events_before_1970_move_the_watermark():
    long_ago = Instant.of("1914-06-28T10:00:00Z")
    stats = gather(np.array([long_ago]), NOON)
    assert Source(Bounded("1s")).tick(p=stats) == long_ago - Span.of("1s")


def test_an_older_event_does_not_move_the_watermark_back():
    source = Source(Bounded("20s"))
    source.tick(p=["50s"])
    assert source.tick(p=["5s"]) == at("30s")


def test_a_monotonic_partition_is_complete_up_to_its_greatest_time():
    assert Source(Monotonic()).tick(p=["3s", "50s"]) == at("50s")


def test_a_source_that_asserts_progress_is_believed_and_its_events_are_not_asked():
    source = Source(FromSource("watermark"))
    assert source.tick(p=["50s"]) == Instant.BEFORE_ALL_TIME
    assert source.tick(p=source.rows(asserted=np.array([at("20s"), at("15s")]))) == at("20s")
    assert source.tick(p=["59s"]) == at("20s")


def test_an_assertion_too_far_in_the_future_is_not_believed():
    source = Source(FromSource(max_future="1m"))
    asserted = np.array([at("20s"), Instant.of("9999-01-01T00:00:00Z")])
    assert source.tick(p=source.rows(asserted=asserted)) == at("20s")


def test_a_partition_that_ended_and_is_read_holds_nobody_back():
    source = Source(FromSource())
    assert source.tick(p=source.rows("5s", position=1, end=2, finished=True)) == Instant.BEFORE_ALL_TIME
    assert source.tick(p=source.rows("6s", position=2, end=2, finished=True), q=source.rows()) == (
        Instant.BEFORE_ALL_TIME
    )
    assert source.tick(q=source.rows(asserted=np.array([at("7s")]))) == at("7s")
    assert source.tick(q=source.rows(finished=True)) == Instant.END_OF_TIME


def test_a_partition_that_is_only_idle_is_not_carried_to_the_end_by_finished_ones():
    source = Source(Bounded("0s", idle_after="1m", advance_when_idle=True))
    source.tick(p=["5s"], q=["8s"])
    assert source.tick("5m", p=source.rows(finished=True)) == at("8s")


def test_a_drain_moves_everything_to_the_end_of_time():
    source = Source(Bounded("20s"))
    source.tick(p=["50s"], q=[])
    ended = finish(source.state)
    assert ended.watermark == Instant.END_OF_TIME
    assert all(p.finished for p in ended.partitions.values())
    source.state = ended
    assert source.tick(p=["55s"]) == Instant.END_OF_TIME


def test_in_batch_nothing_is_complete_until_everything_is_read():
    source = Source(AtEnd(Bounded("0s", idle_after="1s", max_future="5m")))
    assert source.tick(p=["50s"], q=["9s"]) == Instant.BEFORE_ALL_TIME
    assert source.tick("1h") == Instant.BEFORE_ALL_TIME
    assert source.tick(p=source.rows(finished=True)) == Instant.BEFORE_ALL_TIME
    assert source.tick(q=source.rows(finished=True)) == Instant.END_OF_TIME
    assert source.policy.max_future == Span.of("5m")


# ---- the learnt bound ----


def live(source: Source, lag: str, count: int = 100) -> PartitionStats:
    now = source.now + Span.of("10s")
    return gather(np.full(count, now - Span.of(lag)), Instant(now))


def test_a_percentile_learns_its_delay_from_live_data():
    source = Source(Percentile(0.99, over="10m"))
    source.tick(p=[])
    stats = live(source, "2s")
    watermark = source.tick(p=stats)
    delay = stats.greatest - watermark
    assert Span.of("2s") <= delay < Span.of("2s") * 33 // 32


def test_a_percentile_leaves_the_rare_stragglers_to_lateness():
    source = Source(Percentile(0.9))
    source.tick(p=[])
    stats = live(source, "1s", 95).merge(live(source, "1h", 5))
    assert stats.greatest - source.tick(p=stats) < Span.of("2s")


def test_a_percentile_falls_back_while_too_few_events_have_come():
    source = Source(Percentile(0.99, fallback=Bounded("30s")))
    source.tick(p=[])
    stats = live(source, "2s", count=99)
    assert source.tick(p=stats) == stats.greatest - Span.of("30s")


def test_a_percentile_falls_back_while_catching_up_and_does_not_learn_from_old_data():
    source = Source(Percentile(0.9, fallback=Bounded("5s")))
    source.tick(p=[])
    source.tick(p=live(source, "1s"))
    known = source.state.partitions["p"].lags
    old = replace(live(source, "1s"), position=5, end=9)
    assert source.tick(p=old) == old.greatest - Span.of("5s")
    last_of_the_backlog = replace(live(source, "2h"), position=9, end=9)
    source.tick(p=last_of_the_backlog)
    assert source.state.partitions["p"].lags == known


def test_what_came_while_the_flow_was_stopped_is_old_data():
    source = Source(Percentile(0.9, fallback=Bounded("30s")))
    source.tick(p=[])
    source.tick(p=live(source, "1s"))
    known = source.state.partitions["p"].lags
    source.restart()
    source.tick(p=live(source, "2h"))
    assert source.state.partitions["p"].lags == known


def test_a_fallback_is_never_less_careful_than_what_was_learnt():
    source = Source(Percentile(0.9, fallback=Bounded("1s")))
    source.tick(p=[])
    source.tick(p=live(source, "1m"))
    backlog = replace(live(source, "0s"), position=5, end=9)
    assert source.tick(p=backlog) <= backlog.greatest - Span.of("1m")


def test_a_percentile_forgets_lags_older_than_over():
    source = Source(Percentile(0.9, over="5m"))
    source.tick(p=[])
    source.tick(p=live(source, "1h"))
    assert source.state.partitions["p"].lags.histogram.total == 100
    before = source.state.watermark
    assert source.tick("4m") == source.tick("2m") == before
    assert source.state.partitions["p"].lags.slices == ()


# ---- bad clocks, and a user's own policy ----


def test_an_event_too_far_in_the_future_never_moves_the_watermark():
    source = Source(Bounded("0s", max_future="5m"))
    assert source.tick(p=["5s", "1d"]) == at("5s")
    assert source.state.partitions["p"].greatest == at("5s")


def test_exactly_max_future_ahead_is_not_too_far():
    times = np.array([at("5m"), at("5m") + 1])
    assert too_far(times, NOON, Span.of("5m")).tolist() == [False, True]
    assert too_far(times, NOON, None).tolist() == [False, False]


def test_a_users_own_policy_has_a_memory():
    source = Source(Halfway(2, idle_after="1m"))
    assert source.policy.idle_after == Span.of("1m")
    assert source.tick(p=gather(np.array([100]), NOON)) == Instant.BEFORE_ALL_TIME
    assert source.tick() == 50
    assert source.state.partitions["p"].memory == [2]


class Answers(Policy):
    """Gives what it is told to."""

    answer: object = None
    kept: object = None

    def remember(self, stats, memory):
        return self.kept

    def update(self, stats, state):
        return self.answer


def test_a_users_policy_that_gives_no_instant_is_named():
    with pytest.raises(DataError, match=r"Answers\.update gave None"):
        Source(Answers()).tick(p=[])


def test_a_users_policy_that_remembers_what_json_cannot_say_is_named():
    class Hoards(Answers):
        kept = object()

    with pytest.raises(DataError, match=r"Hoards\.remember"):
        Source(Hoards()).tick(p=[])


def test_a_users_policy_cannot_leave_time():
    class Overshoots(Answers):
        answer = np.int64(2**63 - 1)

    assert Source(Overshoots()).tick(p=[]) == Instant.END_OF_TIME


@pytest.mark.parametrize(
    "make",
    [
        lambda: Bounded("-1s"),
        lambda: Bounded(20),
        lambda: Bounded("20s", idle_after="0s"),
        lambda: Percentile(1.0),
        lambda: Percentile(99),
        lambda: Percentile(0.9, over="0s"),
        lambda: Percentile(0.9, fallback="1m"),
        lambda: FromSource(""),
    ],
)
def test_a_policy_that_cannot_mean_anything_is_refused(make):
    with pytest.raises(DescriptionError):
        make()


def test_stats_that_contradict_themselves_are_refused():
    with pytest.raises(DataError, match="no sense"):
        PartitionStats(now=NOON, count=1)


@pytest.mark.parametrize("kind", [PartitionStats, PartitionState, SourceState])
def test_state_of_an_unknown_version_is_refused(kind):
    with pytest.raises(StateError, match="version 99"):
        kind.from_json({"version": 99})


def test_policies_are_equal_by_what_they_say():
    assert Bounded("60s", idle_after="1m") == Bounded("1m", idle_after="60s")
    assert Bounded("1m") != Bounded("1m", advance_when_idle=True)
    assert len({Monotonic(), Monotonic(), FromSource()}) == 2
