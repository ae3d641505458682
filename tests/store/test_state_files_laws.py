"""Laws: state that lies in files, shared out as one likes, is the state."""

from __future__ import annotations

import tempfile

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from strandline.kernel.preaggregate import preaggregate
from strandline.kernel.segments import GREATEST_HASH
from strandline.kernel.share import share
from strandline.kernel.state import INDEXES
from strandline.model.ticks import Edge
from strandline.model.time import Instant
from strandline.store.state_files import open_state
from strandline.store.storage import storage_at
from strandline.testing.strategies import Case, cases
from tests.lanes import examples
from tests.laws.test_layout import HOSTILE, Layout
from tests.store.playing import EVERYTHING, StoredStage, ranges, ticks_of

pytestmark = pytest.mark.slow

CUTS = st.lists(st.integers(1, 7).map(lambda n: n * (GREATEST_HASH // 8)) | st.integers(1, GREATEST_HASH), max_size=3)


@settings(max_examples=examples(30))
@given(cases(most=6), HOSTILE | st.just(Layout()), st.data())
def test_a_stage_whose_state_is_in_files_shows_what_one_in_memory_shows(
    case: Case, layout: Layout, data: st.DataObject
) -> None:
    """The number of shares changes at every tick. StoredStage itself opens again what it wrote, and compares."""
    with layout.laid(), tempfile.TemporaryDirectory() as folder:
        stored = None
        for kernel, outcome, rows, edge, now in ticks_of(case):
            stored = stored or StoredStage(kernel.plan, storage_at(folder))
            moved = stored.tick(rows, edge, now, ranges(data.draw(CUTS)))
            shown = pl.concat([part.panes for part in moved])
            assert repr(shown.to_dicts()) == repr(outcome.panes.to_dicts())
            holds = [part.hold for part in moved if part.hold is not None]
            assert min([edge.after, *holds]) == outcome.watermark


@settings(max_examples=examples(25))
@given(cases(most=6), HOSTILE | st.just(Layout()), CUTS)
def test_however_state_was_shared_it_can_be_opened_in_other_shares(case: Case, layout: Layout, cuts: list[int]) -> None:
    with layout.laid(), tempfile.TemporaryDirectory() as folder:
        stored = None
        for kernel, _, rows, edge, now in ticks_of(case):
            stored = stored or StoredStage(kernel.plan, storage_at(folder))
            stored.tick(rows, edge, now, ranges(cuts[: stored.number % 3]))
        assert stored is not None
        whole = open_state(stored.plan, stored.storage, stored.record, *EVERYTHING)
        parts = [open_state(stored.plan, stored.storage, stored.record, *each) for each in ranges(cuts)]
        for part, (least, greatest) in zip(parts, ranges(cuts), strict=True):
            expected = whole.within(least, greatest)
            numbers = sorted(expected.slices)
            assert sorted(part.slices) == numbers
            schema = stored.plan.state_schema
            assert part.whole(numbers, schema).equals(expected.whole(numbers, schema))
            for name in INDEXES:
                found, wanted = getattr(part, name), getattr(expected, name)
                assert found.due(Instant.END_OF_TIME).equals(wanted.due(Instant.END_OF_TIME))


@settings(max_examples=examples(30))
@given(cases(most=6), CUTS, st.integers(0, 2**40))
def test_until_something_is_due_a_stage_without_input_has_nothing_to_do(case: Case, cuts: list[int], far: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stored = None
        for kernel, _, rows, edge, now in ticks_of(case):
            stored = stored or StoredStage(kernel.plan, storage_at(folder))
            stored.tick(rows, edge, now, ranges(cuts))
            assert stored.record is not None
            event, timer, hold = (stored.record.due[name] for name in ("event", "processing", "hold"))
            later = int(edge.after) + far if event is None else min(event - 1, int(edge.after) + far)
            moment = now if timer is None else Instant(max(now, timer - 1))
            if later > Instant.END_OF_TIME or (timer is not None and timer <= now):
                continue
            quiet = StoredStage(stored.plan, stored.storage, stored.record, stored.number)
            idle = quiet.tick(rows.clear(), Edge(before=edge.after, after=Instant(later)), moment, [EVERYTHING])
            assert idle[0].panes.is_empty()
            assert quiet.record is not None
            assert quiet.record.rows == stored.record.rows
            assert idle[0].hold == hold


@settings(max_examples=examples(25))
@given(cases(most=5, finish=False), CUTS)
def test_shares_that_nothing_concerns_need_not_be_stepped(case: Case, cuts: list[int]) -> None:
    """The last rows come once more while the watermark stands still: the shares that get none of them are left alone."""
    with tempfile.TemporaryDirectory() as folder:
        stored = None
        for kernel, _, rows, edge, now in ticks_of(case):
            stored = stored or StoredStage(kernel.plan, storage_at(folder))
            stored.tick(rows, edge, now, ranges(cuts))
        assert stored is not None
        assume(not rows.is_empty())
        still = Edge(before=edge.after, after=edge.after)
        partials = preaggregate(stored.plan, rows, still, now)
        parts = {each: share(stored.plan, partials, *each) for each in ranges(cuts)}
        concerned = [each for each, part in parts.items() if part.table.height or part.raw.height] or [EVERYTHING]
        few, all_of_them = (StoredStage(stored.plan, stored.storage, stored.record, stored.number) for _ in range(2))
        some = few.tick(rows, still, now, concerned)
        every = all_of_them.tick(rows, still, now, ranges(cuts))
        assert repr([p.panes.to_dicts() for p in some if p.panes.height]) == repr(
            [p.panes.to_dicts() for p in every if p.panes.height]
        )
        end = Edge(before=edge.after, after=Instant.END_OF_TIME)
        last, same = (each.tick(rows.clear(), end, now, [EVERYTHING]) for each in (few, all_of_them))
        assert repr(last[0].panes.to_dicts()) == repr(same[0].panes.to_dicts())
