"""Laws of operators behind windows that close late: rows come behind the watermark, and are taken all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strandline as sl
from strandline.model.nodes import SourceNode, lineage
from strandline.model.streams import Stage, Stream
from strandline.testing import play
from strandline.testing.steps import Step
from tests.lanes import examples
from tests.laws.comparing import differences
from tests.laws.meeting import meetings, sources
from tests.laws.test_dedupe import of_left
from tests.laws.test_joins import CHOICES, bounds
from tests.laws.test_processes import Counting

spreads = st.sampled_from(((64, 1), (1, 1), (16, 3), (7, 2)))


def closed(lateness: str) -> tuple[Stage, Stream]:
    """Panes of the left source, each of which comes `lateness` behind the watermark; and the right source."""
    left, right = sources()
    windows = left.key_by("user").window(sl.Tumbling("3s"), lateness=lateness, trigger=sl.AfterClose())
    return windows.aggregate("closed", n=sl.Count(), most=sl.Max("x")), right


def joined(panes: Stage, right: Stream, data: st.DataObject) -> Stage:
    how, match = data.draw(st.sampled_from(CHOICES))
    within = data.draw(bounds)
    panes = panes.select("user", "n", "most", "pane_index")  # type: ignore[assignment]  # windows have columns of their own
    ours, theirs = panes.key_by("user"), right.key_by("user")
    turned = data.draw(st.booleans())
    return (theirs if turned else ours).join("meet", ours if turned else theirs, within=within, how=how, match=match)


def with_table(panes: Stage, right: Stream, data: st.DataObject) -> Stage:
    ttl, as_of = data.draw(st.sampled_from((None, "9s", "40s"))), data.draw(st.booleans())
    if data.draw(st.booleans()):
        return panes.join_table("known", panes.flow.table("t", right, key="user", ttl=ttl), as_of=as_of)
    return right.join_table("known", panes.flow.table("t", panes, key="user", ttl=ttl), as_of=as_of)


def once(panes: Stage, right: Stream, data: st.DataObject) -> Stage:
    return panes.dedupe("once", on=["user", "n"], within=data.draw(st.sampled_from(("2s", "7s", "30s"))))


def features(panes: Stage, right: Stream, data: st.DataObject) -> Stage:
    emit, own = data.draw(st.sampled_from(("arrival", "watermark"))), data.draw(st.booleans())
    asked: dict[str, Any] = {"often": sl.Count(within="9s"), "sum": sl.Sum("n", within="20s")}
    plain = panes.select("user", "n", "most")
    return plain.key_by("user").over("features", emit=emit, include_current=own, **asked)


def counting(panes: Stage, right: Stream, data: st.DataObject) -> Stage:
    order, ttl = (
        data.draw(st.sampled_from(("arrival", "event_time"))),
        data.draw(st.sampled_from((None, sl.TTL("9s"), sl.TTL("20s", since="read")))),
    )
    return panes.key_by("user").process("counting", Counting, output="user string, count bigint", order=order, ttl=ttl)


def found(panes: Stage, right: Stream, data: st.DataObject) -> Stage:
    pattern = sl.sequence(sl.step("one", "n = 1"), sl.step("more", "n > 1"), within="15s", skip="to_next")
    return panes.key_by("user").detect("found", pattern)


def table(panes: Stage, right: Stream, data: st.DataObject) -> Stage:
    ttl, order = data.draw(st.sampled_from((None, "9s", "40s"))), data.draw(st.sampled_from(("offset", "n")))
    return panes.flow.table("t", panes, key="user", ttl=ttl, order=order).changes


OPERATORS: tuple[Callable[..., Stage], ...] = (joined, with_table, once, features, counting, found, table)


def sources_of(stream: Stream) -> list[SourceNode]:
    return [node for node in lineage(stream.node) if isinstance(node, SourceNode)]


@pytest.mark.slow
@pytest.mark.parametrize("operator", OPERATORS)
@settings(max_examples=examples(10))
@given(data=st.data(), steps=meetings(), spread=spreads, lateness=st.sampled_from(("0s", "2s", "11s")))
def test_kernel_and_oracle_agree_on_operators_behind_windows_that_close_late(
    operator: Callable[..., Stage], data: st.DataObject, steps: tuple[Step, ...], spread: tuple[int, int], lateness: str
) -> None:
    stream, (buckets, tasks) = operator(*closed(lateness), data), spread
    steps = steps if len(sources_of(stream)) > 1 else of_left(steps)
    oracle = play(stream, steps, runner="oracle")
    kernel = play(stream, steps, runner="kernel", buckets=buckets, tasks=tasks)
    different = differences(stream, oracle, kernel)
    assert not different, "\n".join(["oracle < > kernel", *different])
    assert all(row.get("pane_index") is None for rows in oracle.late for row in rows), "a pane is never late"
