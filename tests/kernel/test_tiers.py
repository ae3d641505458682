"""The merge plan: bounded work, few segments, each row written seldom."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.kernel.tiers import plan

any_sizes = st.lists(st.integers(0, 20) | st.integers(0, 100_000), max_size=80)


@given(any_sizes, st.integers(2, 10), st.integers(0, 200_000))
def test_runs_are_of_several_neighbours_do_not_overlap_and_fit_the_budget(
    sizes: list[int], fan_out: int, budget: int
) -> None:
    runs = plan(sizes, fan_out=fan_out, budget=budget)
    assert all(stop - start > 1 for start, stop in runs)
    assert all(before[1] <= after[0] for before, after in pairwise(runs))
    assert all(start >= 0 and stop <= len(sizes) for start, stop in runs)
    assert sum(sum(sizes[start:stop]) for start, stop in runs) <= budget


@given(any_sizes, st.integers(2, 10))
def test_following_the_plan_comes_to_rest_with_few_segments(sizes: list[int], fan_out: int) -> None:
    budget = 10**9
    while runs := plan(sizes, fan_out=fan_out, budget=budget):
        sizes = merged(sizes, runs)
    assert len(sizes) <= few(sum(sizes), fan_out)


def merged(sizes: list[int], runs: list[tuple[int, int]]) -> list[int]:
    sizes = list(sizes)
    for start, stop in reversed(runs):
        sizes[start:stop] = [sum(sizes[start:stop])]
    return sizes


def few(total: int, fan_out: int) -> int:
    tiers = math.log(max(total, 1), fan_out) + 1
    return int(2 * fan_out * tiers) + 1


ARRIVALS = {
    "alike": lambda chance: 1000,
    "of any size": lambda chance: int(10 ** chance.uniform(0, 4)),
    "about a tier's edge": lambda chance: chance.choice([4000, 4095, 4096, 4200]),
    "small and seldom great": lambda chance: 20_000 if chance.random() < 0.03 else 5,
    "mostly empty": lambda chance: chance.choice([0, 0, 0, 7]),
}


@pytest.mark.parametrize("arrivals", ARRIVALS.values(), ids=ARRIVALS.keys())
@pytest.mark.parametrize("fan_out", [4, 8])
def test_in_the_long_run_rows_are_written_seldom_and_segments_stay_few(arrivals: object, fan_out: int) -> None:
    chance, sizes, arrived, written = random.Random(7), [], 0, 0
    for _ in range(3000):
        size = arrivals(chance)  # type: ignore[operator]
        sizes.append(size)
        arrived += size
        runs = plan(sizes, fan_out=fan_out, budget=10**9)
        written += size + sum(sum(sizes[start:stop]) for start, stop in runs)
        sizes = merged(sizes, runs)
        assert len(sizes) <= few(arrived, fan_out)
    assert written <= 2 * (math.log(arrived, fan_out) + 1) * arrived
    assert sum(sizes) == arrived


@pytest.mark.parametrize("arrivals", ARRIVALS.values(), ids=ARRIVALS.keys())
def test_with_a_small_budget_only_segments_of_half_of_it_pile_up(arrivals: object) -> None:
    chance, sizes, budget = random.Random(3), [], 50_000
    for _ in range(2000):
        sizes.append(arrivals(chance))  # type: ignore[operator]
        sizes = merged(sizes, plan(sizes, budget=budget))
        settled = sum(2 * size > budget for size in sizes)
        assert len(sizes) <= 2 * settled + few(budget, 8)


def test_a_full_tier_is_merged_and_one_short_of_it_is_not() -> None:
    assert plan([100] * 7, budget=10_000) == []
    assert plan([100] * 8, budget=10_000) == [(0, 8)]


def test_what_does_not_fit_this_time_waits_and_the_cheap_goes_first() -> None:
    sizes = [100] * 8 + [1] * 8
    assert plan(sizes, budget=10_000) == [(0, 8), (8, 16)]
    assert plan(sizes, budget=801) == [(8, 16)]


def test_a_run_dearer_than_the_whole_budget_is_merged_in_parts() -> None:
    assert plan([100] * 8, budget=450) == [(0, 4)]
