"""How a tick's room is spread over partitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.sources.contract import Limit
from strandline.sources.kafka.admission import admitted, spread
from strandline.sources.kafka.ranges import OffsetRange, cut

COUNTS = st.lists(st.integers(0, 50), max_size=8)


@given(st.integers(1, 200), COUNTS, st.integers(0, 1000))
def test_all_room_is_used_and_nobody_gets_two_more_than_one_who_wants_more(
    room: int, waiting: list[int], first: int
) -> None:
    taken = spread(room, waiting, first)
    assert sum(taken) == min(room, sum(waiting))
    assert all(0 <= got <= wanted for got, wanted in zip(taken, waiting, strict=True))
    hungry = [got for got, wanted in zip(taken, waiting, strict=True) if got < wanted]
    assert not hungry or max(taken) <= min(hungry) + 1


@given(st.integers(1, 20), st.lists(st.integers(0, 50), min_size=1, max_size=8))
def test_tick_after_tick_everything_is_taken_and_nobody_is_left_waiting_for_long(room: int, waiting: list[int]) -> None:
    left, position, ticks = list(waiting), 0, 0
    idle = [0] * len(left)
    while any(left):
        taken = admitted(Limit(rows=room), left, [1.0] * len(left), position)
        for place, got in enumerate(taken):
            idle[place] = idle[place] + 1 if left[place] and not got else 0
        assert max(idle) <= len(left)
        left = [wanted - got for wanted, got in zip(left, taken, strict=True)]
        position += sum(taken)
        ticks += 1
    assert ticks <= -(-sum(waiting) // room) + len(waiting)


@given(st.integers(1, 5000), COUNTS, st.floats(1, 500))
def test_bytes_bound_a_tick_but_for_the_least_that_always_goes(room: int, waiting: list[int], size: float) -> None:
    taken = admitted(Limit(bytes=room), waiting, [size] * len(waiting))
    assert sum(taken) * size <= room or sum(taken) == 1
    assert any(taken) == any(waiting)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3000), st.integers(1, 5000)), max_size=6), st.integers(1, 9)
)
def test_parts_put_together_are_the_ranges(given_ranges: list[tuple[int, int, int]], wanted: int) -> None:
    ranges = [OffsetRange("t", place, low, low + more) for place, (_, low, more) in enumerate(given_ranges)]
    joined: list[OffsetRange] = []
    for each in (each for part in cut(ranges, wanted) for each in part):
        if joined and joined[-1].partition == each.partition:
            assert joined[-1].high == each.low
            joined[-1] = joined[-1]._replace(high=each.high)
        else:
            joined.append(each)
    assert joined == ranges
    assert len(cut(ranges, wanted)) <= wanted + 1
