"""Laws about how state is laid out: blocks, segments, slices and the hash may be as unlucky as they like.

The laws elsewhere play a few rows, which fit into one block and one tier, and whose keys never share a hash. Here blocks
hold two rows, merges happen at every chance or hardly ever, windows share slices, and keys collide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from strandline.kernel import due, hold, keys, segments, state
from strandline.kernel import plan as planning
from strandline.kernel.hashing import hash_columns
from strandline.kernel.plan import plan_stage
from strandline.kernel.tiers import MERGE_BUDGET, Run
from strandline.kernel.tiers import plan as plan_merges
from strandline.model.nodes import StageNode, stage_before
from strandline.model.streams import Stage
from strandline.model.triggers import KINDS as TRIGGERS
from strandline.testing import play
from strandline.testing.strategies import MODES, Case, cases
from tests.lanes import examples
from tests.laws.comparing import differences
from tests.laws.drawing import KINDS, Cell, Trial, trials

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Layout:
    """How state is laid out for one play."""

    block_rows: int = segments.BLOCK_ROWS
    fan_out: int = 8
    budget: int = MERGE_BUDGET
    shortest_slice: int = planning.SECOND  # windows shorter than this share a slice
    holds_at_once: int = hold.AT_ONCE
    hashes: int | None = None  # how many different ones there are; None: all

    @contextmanager
    def laid(self) -> Iterator[None]:
        """Let the kernel lay state out in this way."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(segments, "BLOCK_ROWS", self.block_rows)
            patch.setattr(state, "plan_merges", self._plan)
            patch.setattr(due, "plan", self._plan)
            patch.setattr(planning, "SECOND", self.shortest_slice)
            patch.setattr(hold, "AT_ONCE", self.holds_at_once)
            if self.hashes is not None:
                patch.setattr(keys, "hash_columns", _colliding(self.hashes))
            yield

    def _plan(self, sizes: list[int], *, budget: int) -> list[Run]:
        return plan_merges(sizes, fan_out=self.fan_out, budget=min(budget, self.budget))


def _colliding(count: int) -> Callable[[pl.DataFrame], Any]:
    """A hash with so many values, which lie far apart: in the buckets of different tasks."""
    apart = np.uint64((2**64 - 1) // count)
    return lambda found: hash_columns(found) % np.uint64(count) * apart


HOSTILE = st.builds(
    Layout,
    block_rows=st.sampled_from((2, 1, 3)),
    fan_out=st.sampled_from((2, 3)),
    budget=st.sampled_from((MERGE_BUDGET, 6)),
    shortest_slice=st.sampled_from((planning.SECOND, 30 * planning.SECOND)),
    holds_at_once=st.sampled_from((1, 2)),
)
FEW_HASHES = st.builds(Layout, hashes=st.sampled_from((1, 2)))
BOTH = st.builds(Layout, block_rows=st.just(2), fan_out=st.just(2), holds_at_once=st.just(1), hashes=st.sampled_from((1, 2)))  # fmt: skip


def cells(window: str) -> st.SearchStrategy[Cell]:
    return st.builds(Cell, st.just(window), st.sampled_from(TRIGGERS), st.sampled_from(MODES), st.booleans())


def _counts_panes_exactly(stage: Stage) -> bool:
    node = stage.node
    assert isinstance(node, StageNode)
    return stage_before(node.parent) is not None and plan_stage(node).exact


def assert_oracle_agrees(case: Case, layout: Layout, **shared: int) -> None:
    # Panes of one tick come in order of their keys' hashes, and who counts them one at a time can tell.
    assume(layout.hashes is None or not _counts_panes_exactly(case.stream))
    oracle = play(case.stream, case.steps, runner="oracle")
    with layout.laid():
        kernel = play(case.stream, case.steps, runner="kernel", **shared)
    found = differences(case.stream, oracle, kernel)
    assert not found, "\n".join(["oracle < > kernel", *found])


@pytest.mark.parametrize("window", KINDS)
@settings(max_examples=examples(8))
@given(st.data(), HOSTILE)
def test_blocks_merges_and_slices_change_no_answer(window: str, data: st.DataObject, layout: Layout) -> None:
    trial: Trial = data.draw(cells(window).flatmap(trials))
    assert_oracle_agrees(trial, layout, buckets=trial.buckets, tasks=trial.tasks)


@pytest.mark.parametrize("window", KINDS)
@settings(max_examples=examples(8))
@given(st.data(), FEW_HASHES | BOTH)
def test_keys_that_share_a_hash_are_still_different_keys(window: str, data: st.DataObject, layout: Layout) -> None:
    trial: Trial = data.draw(cells(window).flatmap(trials))
    assert_oracle_agrees(trial, layout, buckets=trial.buckets, tasks=trial.tasks)


@settings(max_examples=examples(12))
@given(cases(stages=2, late=True, most=6, crashes=True), HOSTILE | FEW_HASHES | BOTH, st.integers(1, 3))
def test_stages_behind_stages_that_hold_the_watermark_back_agree_too(case: Case, layout: Layout, tasks: int) -> None:
    assert_oracle_agrees(case, layout, tasks=tasks)
