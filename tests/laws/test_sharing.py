"""Laws about how the work is shared and repeated: none of it may be seen in the answer."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from strandline.kernel.advance import advance
from strandline.kernel.plan import plan_stage
from strandline.kernel.preaggregate import preaggregate
from strandline.kernel.stage import StageKernel
from strandline.kernel.state import State, from_bytes, to_bytes
from strandline.kernel.unite import unite
from strandline.model.lineage import carried
from strandline.model.nodes import SourceNode, StageNode
from strandline.model.ticks import Tick
from strandline.testing import Crash, play
from strandline.testing.runners.kernel import KernelRunner
from strandline.testing.source import PlayedSource
from strandline.testing.steps import as_tick
from strandline.testing.strategies import Case, cases
from tests.lanes import examples

pytestmark = pytest.mark.slow


@settings(max_examples=examples(10))
@given(cases(stages=None, most=6), st.integers(1, 64), st.integers(2, 5))
def test_the_numbers_of_buckets_and_tasks_change_nothing_not_even_the_order(
    case: Case, buckets: int, tasks: int
) -> None:
    plain = play(case.stream, case.steps, runner="kernel")
    shared = play(case.stream, case.steps, runner="kernel", buckets=buckets, tasks=tasks)
    assert [repr(panes) for panes in plain] == [repr(panes) for panes in shared]
    assert plain.books == shared.books
    assert plain.watermarks == shared.watermarks


@settings(max_examples=examples(10))
@given(cases(stages=None, most=6, crashes=False))
def test_a_replay_is_the_first_run_byte_for_byte(case: Case) -> None:
    """Play itself compares panes and state bytes at each crash, and raises where they differ."""
    crashing = [each for step in case.steps for each in (step, Crash())]
    again = play(case.stream, crashing, runner="kernel", tasks=2)
    plain = play(case.stream, case.steps, runner="kernel")
    assert [repr(panes) for panes in again[::2]] == [repr(panes) for panes in plain]


def kernels(case: Case) -> Any:
    """Each tick of a stage that stands alone: its kernel after the tick, and what it was given."""
    source, stage = case.stream.flow.nodes[0], case.stream.node
    assert isinstance(source, SourceNode)
    assert isinstance(stage, StageNode)
    runner, origin = KernelRunner(case.stream.flow), PlayedSource(source)
    kernel = StageKernel(plan_stage(stage, carry=carried(case.stream.flow, stage)))
    for number, step in enumerate(case.steps):
        arrived = origin.tick(as_tick(step), f"Tick {number}")
        rows = runner.read(arrived.rows, origin.schema)
        for node in case.stream.flow.nodes[1:-1]:
            rows = runner.stateless(node, rows, arrived.now)  # type: ignore[arg-type]
        outcome = kernel.tick(rows, arrived.edge, arrived.now)
        yield kernel, outcome, rows, arrived


@settings(max_examples=examples(10))
@given(cases(most=6))
def test_state_that_went_through_bytes_is_the_same_state(case: Case) -> None:
    for kernel, *_ in kernels(case):
        data = to_bytes(kernel.plan, kernel.state)
        decoded = from_bytes(kernel.plan, data)
        assert to_bytes(kernel.plan, decoded) == data
        numbers = sorted(kernel.state.slices)
        assert sorted(decoded.slices) == numbers
        assert decoded.whole(numbers, kernel.plan.state_schema).equals(
            kernel.state.whole(numbers, kernel.plan.state_schema)
        )


@settings(max_examples=examples(10))
@given(cases(most=6))
def test_two_runs_leave_the_same_bytes(case: Case) -> None:
    def run() -> list[tuple[bytes, pl.DataFrame]]:
        return [(kernel.encode(), outcome.panes) for kernel, outcome, *_ in kernels(case)]

    for (one, panes), (other, again) in zip(run(), run(), strict=True):
        assert one == other
        assert panes.equals(again)


@settings(max_examples=examples(10))
@given(cases(most=6), st.permutations(range(3)))
def test_the_order_of_partials_does_not_matter(case: Case, order: list[int]) -> None:
    """Each tick is read by three tasks, whose partials come in another order; state and panes are those of one task."""
    state = State()
    for kernel, outcome, rows, arrived in kernels(case):
        assume(not kernel.plan.exact)  # where events are counted one at a time, partials come in order of arrival
        cuts = [rows.height * part // 3 for part in range(4)]
        parts = [preaggregate(kernel.plan, rows[cuts[at] : cuts[at + 1]], arrived.edge, arrived.now) for at in order]
        tick = Tick(number=kernel.number - 1, now=arrived.now, edges={kernel.plan.stage.name: arrived.edge})
        shared = advance(kernel.plan, state, unite(kernel.plan, parts), tick)
        state = shared.state
        assert shared.panes.equals(outcome.panes)
        assert shared.books == outcome.books
        assert to_bytes(kernel.plan, state) == kernel.encode()
