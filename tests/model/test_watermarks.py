"""Watermark policies and how they join the partitions of a source."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.errors import DataError, DescriptionError, StateError
from strandline.model.partitions import PartitionState, PartitionStats, SourceState, finish, gather, too_far
from strandline.model.progress import advance_source
from strandline.model.time import Instant, Span
from strandline.model.watermarks import AtEnd, Bounded, FromSource, Monotonic, Percentile, Policy

NOON = Instant.of("2026-01-01T12:00:00Z")


def at(text: str) -> Instant:
    return Instant(NOON + Span.of(text))


@dataclass
class Source:
    """A source in the middle of a run: each call is one tick, ten seconds after the one before."""

    policy: Policy
    state: SourceState = field(default_factory=SourceState)
    now: Instant = NOON
    running: Span = Span(0)
    run: str = "first run"

    def tick(self, after: str = "10s", **partitions: PartitionStats | list[str]) -> Instant:
        self.now, self.running = Instant(self.now + Span.of(after)), Span(self.running + Span.of(after))
        stats = {n: p if isinstance(p, PartitionStats) else self.rows(*p) for n, p in partitions.items()}
        self.state = advance_source(self.policy, self.state, stats, now=self.now, running=self.running, run=self.run)
        return self.state.watermark

    def rows(self, *times: str, **more: object) -> PartitionStats:
        numbers = np.array([at(time) for time in times], dtype=np.int64)
        return gather(numbers, self.now, max_future=self.policy.max_future, **more)

    def restart(self) -> None:
        self.run, self.running = self.run + " again", Span(0)


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


# ---- partitions and idleness ----


def test_the_source_follows_the_least_of_its_partitions():
    assert Source(Bounded("0s")).tick(p=["50s"], q=["7s"]) == at("7s")


def test_a_partition_that_never_spoke_holds_the_source_until_it_is_idle():
    source = Source(Bounded("0s", idle_after="1m"))
    assert source.tick(p=["5s"], q=[]) == Instant.BEFORE_ALL_TIME
    assert source.tick("59s", p=["6s"]) == Instant.BEFORE_ALL_TIME
    assert source.tick("1s", p=["7s"]) == at("7s")


def test_without_idle_after_a_quiet_partition_holds_for_ever():
    source = Source(Bounded("0s"))
    source.tick(p=["5s"], q=["1s"])
    assert source.tick("1d", p=["50s"]) == at("1s")


def test_a_backlog_is_never_idle():
    source = Source(Bounded("0s", idle_after="1m"))
    source.tick(p=["5s"], q=source.rows("1s", position=3, end=9))
    assert source.tick("1h", p=["50s"], q=source.rows(position=3, end=9)) == at("1s")
    assert source.tick("1h", p=["50s"]) == at("1s"), "nor is one of which nothing is heard"


def test_quiet_is_counted_from_when_the_backlog_was_read():
    source = Source(Bounded("0s", idle_after="1m"))
    source.tick(p=["5s"], q=source.rows("1s", position=3, end=9))
    source.tick("1h", p=["50s"], q=source.rows(position=3, end=9))
    assert source.tick("59s", p=["51s"], q=source.rows(position=9, end=9)) == at("1s")
    assert source.tick("1s", p=["52s"], q=source.rows(position=9, end=9)) == at("52s")


def test_quiet_is_counted_in_running_time_and_not_in_processing_time():
    source = Source(Bounded("0s", idle_after="1m"))
    source.tick(p=["5s"], q=["1s"])
    source.now = Instant(source.now + Span.of("3h"))  # a sink was blocked: the clock went on, the run did not
    assert source.tick(p=["6s"]) == at("1s")


def test_the_count_of_quiet_restarts_with_each_run():
    source = Source(Bounded("0s", idle_after="1m"))
    source.tick(p=["5s"], q=["1s"])
    source.tick("50s", p=["6s"])
    source.restart()
    assert source.tick("30s", p=["7s"]) == at("1s")
    assert source.tick("59s", p=["8s"]) == at("1s")
    assert source.tick("1s", p=["9s"]) == at("9s")


def test_a_partition_that_brings_only_rejected_events_becomes_idle():
    source = Source(Bounded("0s", idle_after="1m", max_future="1m"))
    source.tick(p=["5s"], q=["2d"])
    assert source.tick("1m", p=["6s"], q=["3d"]) == at("6s")


def test_when_all_are_idle_the_watermark_holds():
    source = Source(Bounded("0s", idle_after="1m"))
    source.tick(p=["5s"], q=["50s"])
    assert source.tick("1h") == at("5s")
    assert all(p.idle for p in source.state.partitions.values())


def test_when_all_are_idle_the_watermark_may_go_to_the_greatest_of_theirs():
    source = Source(Bounded("10s", idle_after="1m", advance_when_idle=True))
    source.tick(p=["15s"], q=["50s"])
    assert source.tick("59s") == at("5s")
    assert source.tick("1s") == at("40s")


def test_a_new_partition_holds_the_source_and_does_not_move_it_back():
    source = Source(Bounded("0s", idle_after="1m"))
    source.tick(p=["5s"])
    assert source.tick("2h", p=["50s"], q=[]) == at("5s")
    assert source.tick("59s", p=["51s"]) == at("5s"), "its quiet is counted from when it appeared"
    assert source.tick("1s", p=["52s"]) == at("52s")


def test_a_partition_back_from_idle_with_old_events_holds_but_does_not_move_back():
    source = Source(Bounded("0s", idle_after="1m"))
    source.tick(p=["5s"], q=["1s"])
    assert source.tick("1m", p=["30s"]) == at("30s")
    assert source.tick(p=["40s"], q=["2s"]) == at("30s")
    assert not source.state.partitions["q"].idle
    assert source.tick(p=["41s"], q=["35s"]) == at("35s")


# ---- bad clocks, and a user's own policy ----


def test_an_event_too_far_in_the_future_never_moves_the_watermark():
    source = Source(Bounded("0s", max_future="5m"))
    assert source.tick(p=["5s", "1d"]) == at("5s")
    assert source.state.partitions["p"].greatest == at("5s")


def test_exactly_max_future_ahead_is_not_too_far():
    times = np.array([at("5m"), at("5m") + 1])
    assert too_far(times, NOON, Span.of("5m")).tolist() == [False, True]
    assert too_far(times, NOON, None).tolist() == [False, False]


@dataclass(frozen=True)
class Halfway(Policy):
    """Go half the way to the greatest time, `every` so many ticks; keeps a tuple, which JSON makes a list."""

    every: int = 1

    def remember(self, stats, memory):
        return ((memory or [0])[0] + 1,)

    def update(self, stats, state):
        return Instant(state.greatest // 2) if state.memory[0] % self.every == 0 else state.watermark


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


# ---- laws ----

OPTIONS = {"idle_after": "5us", "max_future": "20us"}
POLICIES = st.sampled_from(
    [
        Bounded("3us"),
        Bounded("3us", **OPTIONS),
        Bounded("3us", advance_when_idle=True, **OPTIONS),
        Percentile(0.5, over="20us", fallback=Bounded("4us"), **OPTIONS),
        Monotonic(**OPTIONS),
        FromSource(**OPTIONS),
        Halfway(3, **OPTIONS),
        AtEnd(Bounded("3us")),
    ]
)
MOMENTS = st.integers(-50, 50)


@dataclass(frozen=True)
class Beat:
    """One tick to be played: what came, how much time passed, and whether the run was restarted before."""

    rows: dict[str, tuple[list[int], int, list[int], bool]]
    waited: int
    restart: bool


ROWS = st.tuples(st.lists(MOMENTS, max_size=4), st.integers(0, 1), st.lists(MOMENTS, max_size=1), st.booleans())
BEATS = st.lists(
    st.builds(
        Beat,
        rows=st.dictionaries(st.sampled_from("pqr"), ROWS),
        waited=st.integers(0, 6),
        restart=st.sampled_from([False, False, False, True]),
    ),
    max_size=8,
)


def play(policy, beats, between=lambda state: state):
    """The state after each beat; `between` may do to it what should not matter."""
    state, now, running, runs, states = SourceState(), 0, 0, 0, []
    for number, beat in enumerate(beats):
        runs, running = (runs + 1, 0) if beat.restart else (runs, running)
        now, running = now + beat.waited, running + beat.waited
        stats = {name: _stats(policy, rows, now, number) for name, rows in beat.rows.items()}
        state = advance_source(
            policy, between(state), stats, now=Instant(now), running=Span(running), run=f"run {runs}"
        )
        states.append((state, now, running))
    return states


def _stats(policy, rows, now, position):
    times, behind, asserted, finished = rows
    return gather(
        np.array(times, dtype=np.int64),
        Instant(now),
        max_future=policy.max_future,
        position=position,
        end=position + behind,
        asserted=np.array(asserted, dtype=np.int64) if asserted else None,
        finished=finished and position % 4 == 3,
    )


@given(POLICIES, BEATS)
def test_no_watermark_ever_moves_backwards(policy, beats):
    states = [state for state, _, _ in play(policy, beats)]
    for earlier, later in zip([SourceState(), *states], states, strict=False):
        assert earlier.watermark <= later.watermark
        for name, kept in earlier.partitions.items():
            assert kept.watermark <= later.partitions[name].watermark


@given(POLICIES, BEATS)
def test_an_idle_partition_is_caught_up_and_a_backlog_holds_the_source(policy, beats):
    before = Instant.BEFORE_ALL_TIME
    for state, _, _ in play(policy, beats):
        for kept in state.partitions.values():
            assert kept.caught_up or not kept.idle
            if not kept.idle and not kept.finished:
                assert state.watermark <= max(before, kept.watermark)
        before = state.watermark


@given(POLICIES, BEATS)
def test_the_order_of_partitions_does_not_matter(policy, beats):
    turned = [replace(beat, rows=dict(reversed(beat.rows.items()))) for beat in beats]
    assert [json.dumps(s.to_json()) for s, _, _ in play(policy, beats)] == [
        json.dumps(s.to_json()) for s, _, _ in play(policy, turned)
    ]


@given(POLICIES, BEATS)
def test_state_may_be_written_and_read_between_any_two_ticks(policy, beats):
    def crash(state):
        return SourceState.from_json(json.loads(json.dumps(state.to_json())))

    assert play(policy, beats, between=crash) == play(policy, beats)


# A policy that counts ticks is out: to it an empty tick is something.
@given(
    POLICIES.filter(lambda policy: not isinstance(policy, Halfway)),
    BEATS.filter(bool),
    st.integers(0, 9),
    st.integers(0, 9),
)
def test_a_tick_without_rows_may_be_split_in_two(policy, beats, first, second):
    state, now, running = play(policy, beats)[-1]

    def wait(state, span):
        later, ran = Instant(now + span), Span(running + span)
        return advance_source(policy, state, {}, now=later, running=ran, run=state.run)

    assert wait(wait(state, first), first + second) == wait(state, first + second)


@given(st.lists(MOMENTS), st.lists(MOMENTS), st.lists(MOMENTS, min_size=1), st.sampled_from([None, Span(5)]))
def test_merged_stats_are_the_stats_of_all_rows(ours, theirs, asserted, max_future):
    def stats(times):
        return gather(np.array(times, dtype=np.int64), NOON, max_future=max_future, asserted=np.array(asserted))

    assert stats(ours).merge(stats(theirs)) == stats(ours + theirs) == stats(theirs).merge(stats(ours))


@given(st.lists(MOMENTS), st.lists(MOMENTS, max_size=2), st.booleans())
def test_stats_come_back_from_json_as_they_were(times, asserted, finished):
    known = np.array(asserted, dtype=np.int64) if asserted else None
    stats = gather(np.array(times, dtype=np.int64), Instant(9), position=3, end=5, asserted=known, finished=finished)
    assert PartitionStats.from_json(json.loads(json.dumps(stats.to_json()))) == stats
