"""The histogram of lags: what it promises about merging and about its quantiles."""

from __future__ import annotations

import json
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strandline.model.lag import LagHistogram, RecentLags
from strandline.model.time import Instant, Span

LAGS = st.lists(
    st.one_of(
        st.integers(-100, 100), st.integers(0, 10**9), st.integers(0, 62).map(lambda e: 2**e), st.integers(0, 2**63 - 1)
    )
)


def counted(lags: list[int]) -> LagHistogram:
    return LagHistogram.of(np.array(lags, dtype=np.int64))


def test_an_event_from_the_future_has_no_lag():
    assert counted([-5]) == counted([0])


def test_nothing_seen_has_no_lag():
    assert counted([]).quantile(0.99) == Span(0)
    assert counted([]).total == 0


def test_lags_under_64_microseconds_are_exact():
    assert [counted([lag]).quantile(1.0) for lag in range(64)] == list(range(64))


def test_bins_adjoin_and_neighbours_around_a_power_of_two_differ():
    edges = [2**e + d for e in range(7, 63) for d in (-1, 0)]
    bins = [counted([lag]).counts[0][0] for lag in edges]
    assert bins == sorted(set(bins))


@given(LAGS, LAGS)
def test_histograms_of_parts_add_up_to_the_histogram_of_the_whole(ours, theirs):
    assert counted(ours) + counted(theirs) == counted(ours + theirs) == counted(theirs) + counted(ours)


@given(LAGS.filter(bool), st.floats(0.01, 1.0))
def test_a_quantile_is_never_too_little_and_less_than_a_32nd_too_much(lags, share):
    true = sorted(max(lag, 0) for lag in lags)[math.ceil(share * len(lags)) - 1]
    assert true <= counted(lags).quantile(share) <= true + true // 32


@given(st.lists(st.tuples(st.integers(0, 50), LAGS)), st.integers(1, 200))
def test_recent_lags_are_all_those_of_the_last_while_and_come_back_from_json(steps, over):
    now, recent, seen = -100, RecentLags(), []
    for waited, lags in steps:
        now += waited
        seen.append((now, lags))
        recent = recent.observe(counted(lags), now=Instant(now), over=Span(over))
    oldest = now - over + max(over // 10, 1)
    surely = sum(len(lags) for when, lags in seen if when >= oldest)
    at_most = sum(len(lags) for when, lags in seen if when > now - over)
    assert surely <= recent.histogram.total <= at_most
    assert RecentLags.from_json(json.loads(json.dumps(recent.to_json()))) == recent
