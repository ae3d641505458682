"""No refinement is ever dropped: whatever a stage shows, takes back and shows again reaches the stage behind it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strandline as sl
from strandline.model.triggers import KINDS as TRIGGERS
from strandline.testing import play
from strandline.testing.ingredients import SCHEMA, Visits
from strandline.testing.strategies import MODES, steps
from tests.lanes import examples
from tests.laws.drawing import KINDS, Cell, Trial, trials

# Windows of a calendar are days long, and the first stage's are seconds.
CELLS = st.builds(
    Cell,
    st.sampled_from([kind for kind in KINDS if kind != "tumbling"]),
    st.sampled_from(TRIGGERS),
    st.sampled_from(MODES),
    st.booleans(),
)


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(CELLS.flatmap(lambda cell: trials(cell, most=6, alone=False)))
def test_no_pane_comes_too_late_for_the_stage_behind(trial: Trial) -> None:
    books = play(trial.stream, trial.steps, runner="kernel").books["second"]
    assert (books.late, books.missed) == (0, 0)


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(
    st.sampled_from([sl.Session("10s"), sl.Session(gap_column="gap"), Visits()]),
    st.sampled_from(["end", "latest"]),
    st.sampled_from([sl.AfterWatermark(), sl.AfterWatermark(early=sl.AfterProcessingTime("20s"))]),
    st.sampled_from([sl.Tumbling("1s"), sl.Hopping("4s", every="3s"), sl.SameWindow(), sl.Global(ttl="1s")]),
    st.sampled_from(["1s", "3s", "8s"]),
    steps(most=9, rows=4),
)
def test_sessions_that_grow_are_counted_once_by_the_stage_behind(
    window: sl.Window, timestamp: Any, trigger: sl.Trigger, second: sl.Window, lateness: str, ticks: Any
) -> None:
    """They may have been shown, and go on growing for ever before they are shown again."""
    if isinstance(window, sl.Session) and window.gap is None:
        timestamp = "end"  # nothing bounds the others
    events = sl.Flow("growing").source("events", sl.Rows(schema=SCHEMA), time="at", watermark=sl.Bounded("5s"))
    sessions = (
        events.key_by()
        .window(window, trigger=trigger, lateness=lateness, mode="retracting", timestamp=timestamp)
        .aggregate("first", n=sl.Count())
    )
    each = sl.Repeatedly(sl.AfterAny(sl.AfterCount(1), sl.AfterClose()))
    totals = (
        sessions.key_by()
        .window(second, trigger=each, mode="retracting")
        .aggregate("second", n=sl.Sum("n"), sessions=sl.Count())
    )
    played = play(totals, ticks, runner="kernel")
    books = played.books["second"]
    assert (books.late, books.missed) == (0, 0)
    # What stands in the end holds each event that was kept, once; or, in windows that overlap, once for each.
    standing = sum(pane["n"] * (1 if pane["op"] == "insert" else -1) for tick in played.ticks for pane in tick.panes)
    kept = played.books["first"].kept
    assert standing == kept if not isinstance(second, sl.Hopping) else kept <= standing <= 2 * kept
