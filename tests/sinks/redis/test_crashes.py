"""Whatever dies, and whenever: the entries are in the end what an undisturbed publisher leaves."""

from __future__ import annotations

import pytest

from tests import servers
from tests.sinks.redis.dying import DIED, LEFT, TICKS, die_at, publish
from tests.sinks.redis.serving import entries, new_prefix


def test_undisturbed() -> None:
    url, prefix = servers.redis(), new_prefix()
    assert publish(url, prefix, TICKS) == [False, False]
    assert entries(url, prefix) == LEFT


@pytest.mark.slow
def test_a_publisher_that_dies_at_any_moment_and_again_leaves_what_an_undisturbed_one_does() -> None:
    url, died, states = servers.redis(), 0, set()
    for number in range(1, 80):
        prefix = new_prefix()
        ended = die_at(url, prefix, number)
        if ended == 0:
            break
        assert ended == DIED
        died += 1
        states.add(repr(sorted(entries(url, prefix).items())))
        if number % 4 == 0:
            assert die_at(url, prefix, max(number // 2, 8)) in (DIED, 0)
        publish(url, prefix, TICKS)
        assert entries(url, prefix) == LEFT, number
    assert ended == 0
    assert died >= 20
    assert len(states) >= 5  # it died at moments when more or less of the ticks was there
