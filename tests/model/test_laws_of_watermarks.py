"""Laws about watermarks: they never go back, and nothing but what came decides."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from strandline.model.partitions import PartitionStats, SourceState, gather
from strandline.model.progress import advance_source
from strandline.model.time import Instant, Span
from strandline.model.watermarks import AtEnd, Bounded, FromSource, Monotonic, Percentile
from tests.model.one_source import NOON, Halfway

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
@example(  # q is idle after 5 us, and p alone decides; after 6 us both are
    policy=Bounded("3us", **OPTIONS),
    beats=[
        Beat(rows={"p": ([], 0, [], False), "q": ([], 0, [], False)}, waited=0, restart=False),
        Beat(rows={"p": ([0], 0, [], False)}, waited=1, restart=False),
    ],
    first=4,
    second=1,
)
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
