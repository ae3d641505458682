"""Laws of places: that the rows of a key are spread, and others copied, changes no answer; and where they go."""

from __future__ import annotations

from collections import Counter
from typing import Any, get_args

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.kernel.operators.places import Places
from strandline.model.aggregates import Count, Sum
from strandline.model.nodes import How, Match
from strandline.model.salting import SALTS
from strandline.model.streams import Stage, Stream
from strandline.model.windows import Tumbling
from strandline.testing import play
from strandline.testing.steps import Step
from tests.lanes import examples
from tests.laws.comparing import differences
from tests.laws.meeting import meetings, sources
from tests.laws.test_joins import CHOICES, bounds
from tests.laws.test_tables import orders, table_of, ttls

SALTED = [(how, match) for how, match in CHOICES if how != "full"]
salts = st.sampled_from(SALTS[:3])
spreads = st.sampled_from(((64, 1), (5, 1), (1, 1), (16, 3), (7, 2)))


def joined(within: Any, how: How, match: Match, salt: int | None) -> Stream:
    left, right = sources()
    return left.key_by("user").join("meet", right.key_by("user"), within=within, how=how, match=match, salt=salt)


def with_table(order: str, ttl: str | None, **options: Any) -> Stage:
    left, table = table_of(order, ttl, broadcast=True)
    stage: Stage = left.join_table("with_table", table, **options)
    return stage


def agree(stream: Stream, steps: tuple[Step, ...], spread: tuple[int, int]) -> None:
    """Kernel = oracle, which knows nothing of places: rows, what is put aside, books and watermarks."""
    buckets, tasks = spread
    oracle = play(stream, steps, runner="oracle")
    kernel = play(stream, steps, runner="kernel", buckets=buckets, tasks=tasks)
    found = differences(stream, oracle, kernel)
    assert not found, "\n".join(["oracle < > kernel", *found])


@pytest.mark.slow
@pytest.mark.parametrize(("how", "match"), SALTED)
@settings(max_examples=examples(8))
@given(data=st.data())
def test_salt_changes_no_pair(how: How, match: Match, data: st.DataObject) -> None:
    agree(joined(data.draw(bounds), how, match, data.draw(salts)), data.draw(meetings()), data.draw(spreads))


@pytest.mark.slow
@pytest.mark.parametrize("as_of", [False, True])
@settings(max_examples=examples(15))
@given(order=orders, ttl=ttls, how=st.sampled_from(("left", "inner")), steps=meetings(), spread=spreads)
def test_a_broadcast_table_is_the_same_table(
    as_of: bool, order: str, ttl: str | None, how: str, steps: tuple[Step, ...], spread: tuple[int, int]
) -> None:
    agree(with_table(order, ttl, as_of=as_of, how=how), steps, spread)


@pytest.mark.slow
@settings(max_examples=examples(8))
@given(how=st.sampled_from([how for how in get_args(How) if how != "full"]), within=bounds, steps=meetings())
def test_the_order_in_which_spread_rows_come_does_not_depend_on_tasks(
    how: How, within: Any, steps: tuple[Step, ...]
) -> None:
    stream = joined(within, how, "all", 4)
    played = [play(stream, steps, runner="kernel", buckets=b, tasks=t) for b, t in ((64, 1), (16, 3), (7, 2))]
    for ticks in zip(*(each.ticks for each in played), strict=True):
        one, *others = [repr(tick.panes) for tick in ticks]
        assert all(other == one for other in others)


@pytest.mark.slow
@settings(max_examples=examples(8))
@given(how=st.sampled_from(("inner", "left", "right")), within=bounds, steps=meetings())
def test_windows_behind_a_salted_join_count_the_same(how: How, within: Any, steps: tuple[Step, ...]) -> None:
    stream = joined(within, how, "all", 8)
    counted = stream.key_by("user").window(Tumbling("5s")).aggregate("counted", n=Count(), sum=Sum("v"))
    agree(counted, steps, (16, 3))


hashes = st.lists(st.integers(0, 2**64 - 1), max_size=20)


@settings(max_examples=examples(15))
@given(hashes=hashes, count=st.sampled_from(SALTS), spread=st.sampled_from((0, 1)))
def test_every_row_meets_every_row_of_its_key_in_one_place(hashes: list[int], count: int, spread: int) -> None:
    places = Places(count=count, spread=spread, columns=("n",))
    given_hashes = pl.Series(hashes, dtype=pl.UInt64)
    rows = pl.DataFrame({"n": np.arange(len(hashes)), "hash": given_hashes})
    once, copied = places.sent(spread, rows, "hash"), places.sent(1 - spread, rows, "hash")
    assert once["n"].to_list() == rows["n"].to_list()
    meet = once.join(copied, on="hash").filter(pl.col("n") == pl.col("n_right"))
    assert Counter(meet["n"]) == Counter(rows["n"].to_list())
    assert not places.are_copies(spread, once["hash"].to_numpy()).any()
    own = copied.filter(~pl.Series(places.are_copies(1 - spread, copied["hash"].to_numpy())))
    assert own["n"].to_list() == rows["n"].to_list()
