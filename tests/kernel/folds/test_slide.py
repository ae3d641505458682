"""Windows slid along slices are the merge of their slices, whichever way a fold does it."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strandline as sl
from strandline.kernel.folds import compile_fold
from strandline.kernel.folds import slide as slide_module
from strandline.kernel.folds.slide import Cells, slide
from strandline.kernel.groups import Groups
from strandline.model.types import Schema

SCHEMA = Schema.of("x double")
AGGREGATES = [sl.Count(), sl.Sum("x"), sl.Mean("x"), sl.Max("x"), sl.Quantile("x", 0.5), sl.Sum("x", exact=True)]
# Values whose highest bits lie in different cells of the grid, so that sums sink under one another; and specials.
VALUES = st.sampled_from([0.0, 0.1, -1.5, 3e10, -7e25, 2.0**-90, float("inf"), float("nan")])


@pytest.mark.slow
@pytest.mark.parametrize("aggregate", AGGREGATES, ids=repr)
@pytest.mark.parametrize("largest", [0, slide_module.LARGEST_TABLE])
@given(data=st.data())
def test_a_window_is_the_merge_of_its_slices(aggregate: object, largest: int, data: st.DataObject) -> None:
    entries = data.draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), VALUES), min_size=1, max_size=30))
    entries.sort(key=lambda entry: entry[:2])
    places = [entry[:2] for entry in entries]
    fold = compile_fold(aggregate, SCHEMA, taking_back=False, mask=None)  # type: ignore[arg-type]
    rows = pl.DataFrame({"x": [entry[2] for entry in entries]})
    groups = Groups.of_ids(np.array([5 * cell + key for cell, key in places]))
    parts = fold.fold(rows, np.zeros(len(entries), np.int64), None, groups)
    firsts = [places[start] for start in groups.starts]
    cells = Cells(np.array([cell for cell, _ in firsts]), np.array([key for _, key in firsts]), 5, 3)
    windows = [(0, 2), (0, 3), (1, 4), (3, 5), (4, 5)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slide_module, "LARGEST_TABLE", largest)
        for (first, last), found in zip(windows, slide(fold, parts, cells, windows), strict=True):
            shown = fold.show(found).to_list()
            for key in range(3):
                held = [i for i, (cell, k) in enumerate(firsts) if k == key and first <= cell < last]
                mine = [part.gather(held) for part in parts]
                merged = fold.merge(mine, Groups.of_lengths([len(held)])) if held else fold.empty(1)
                assert repr(shown[key]) == repr(fold.show(merged).to_list()[0])
