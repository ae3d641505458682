"""What the laws of stages other than windows are tried on: two sources, with disorder, late rows and crashes."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from strandline.model.flow import Flow
from strandline.model.streams import Stream
from strandline.model.time import Instant
from strandline.sources.rows import Rows
from strandline.testing import Crash, Events, Tick
from strandline.testing.steps import Step

SECOND: Final = 1_000_000
NOON: Final = int(Instant.of("2026-01-01T12:00:00Z"))
LEFT: Final = "user string, x double, n bigint, at timestamp"
RIGHT: Final = "user string, v bigint, tags array<bigint>, at timestamp"


def sources() -> tuple[Stream, Stream]:
    """Two sources of one flow."""
    flow = Flow("drawn")
    return (
        flow.source("left", Rows(schema=LEFT), time="at"),
        flow.source("right", Rows(schema=RIGHT), time="at"),
    )


users: Final = st.sampled_from(("ann", "bob", "cid", None))
floats: Final = st.sampled_from((0.0, -0.0, 1.5, float("nan"), None))
numbers: Final = st.sampled_from((1, 2, 3, None))
left_rows: Final = st.fixed_dictionaries({"user": users, "x": floats, "n": numbers})
right_rows: Final = st.fixed_dictionaries({"user": users, "v": numbers, "tags": st.lists(numbers, max_size=1)})


@st.composite
def meetings(draw: st.DrawFn, /, *, most: int = 5, rows: int = 6, finish: bool = True) -> tuple[Step, ...]:
    """Ticks of both sources: events around each one's watermark, which moves by itself, up to 14 seconds a tick.

    The end of time comes with the last events, as in batch, or behind them.
    """
    marks = {"left": NOON, "right": NOON}
    made: list[Step] = []
    ticks, with_the_last = draw(st.integers(2, most)), finish and draw(st.booleans())
    for at in range(ticks):
        events: list[Any] = []
        moved: dict[str, int] = {}
        for name, each in (("left", left_rows), ("right", right_rows)):
            drawn = draw(st.lists(st.tuples(each, st.integers(0, 24)), max_size=rows))
            timed = [{**row, "at": Instant(marks[name] + (n - (12 if at else 4)) * SECOND)} for row, n in drawn]
            events.append(Events(timed, source=name))
            marks[name] += max(0, draw(st.integers(-6, 14))) * SECOND if at else 0
            moved |= {name: marks[name]} if at else {}
        made.append(Tick(events, watermark=Instant.END_OF_TIME if with_the_last and at == ticks - 1 else moved))
        if draw(st.integers(0, 3)) == 0:
            made.append(Crash())
    return (*made, *([Tick(watermark=Instant.END_OF_TIME)] if finish else []))


@st.composite
def clocked(draw: st.DrawFn, /) -> tuple[Step, ...]:
    """The same with a clock, which moves by up to four seconds a tick."""
    made: list[Step] = []
    clock = NOON
    for step in draw(meetings()):
        if isinstance(step, Tick):
            clock += draw(st.integers(0, 4)) * SECOND
            made.append(Tick(step.events, step.watermark, clock))
        else:
            made.append(step)
    return tuple(made)
