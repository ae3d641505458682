"""What the laws are tried on: a stage of one cell of the table (window kind, outermost trigger, mode, lateness), alone
or behind another stage, with steps, crashes, and a number of buckets and tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from hypothesis import reject
from hypothesis import strategies as st

from strandline.errors import CheckFailed
from strandline.model.aggregates import (
    AnyAggregate,
    Collect,
    Count,
    Distinct,
    First,
    Last,
    Max,
    Mean,
    Merge,
    Min,
    Sum,
    TopK,
)
from strandline.model.flow import Flow
from strandline.model.keyed import Keyed
from strandline.model.streams import Stage, Stream
from strandline.model.time import Span
from strandline.model.triggers import AfterClose, AfterCount, AfterWatermark, Repeatedly, Trigger
from strandline.model.watermarks import Bounded
from strandline.model.windows import Hopping, SameWindow, Session, Tumbling, Window
from strandline.sources.rows import Rows
from strandline.testing import Crash
from strandline.testing.ingredients import SCHEMA, SECOND, WINDOWS, aggregates, pace_of, triggers
from strandline.testing.steps import Step
from strandline.testing.strategies import Case, steps

# The rows of the table, and the windows that stand for each. Calendar windows are days long, so time runs faster there.
KINDS: Final[dict[str, tuple[Window, ...]]] = {
    "tumbling": (*WINDOWS["tumbling"], *WINDOWS["calendar"]),
    "hopping": WINDOWS["hopping"],
    "session": (*WINDOWS["session"], *WINDOWS["custom_merging"]),
    "global": WINDOWS["global"],
    "same or custom": (SameWindow(), *WINDOWS["custom"]),
}


class Cell(NamedTuple):
    """A cell of the table."""

    window: str
    trigger: type[Trigger]
    mode: str
    late: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial(Case):
    """A case, and how the kernel shares the work: which must not matter."""

    buckets: int
    tasks: int


@st.composite
def trials(draw: st.DrawFn, cell: Cell, *, most: int = 4, rows: int = 8, alone: bool = True) -> Trial:
    """A trial of a cell, which check() accepts; its stage always stands behind another if it may not be `alone`."""
    window = draw(st.sampled_from(KINDS[cell.window]))
    pace = pace_of(window)
    options: dict[str, Any] = {
        "trigger": draw(triggers(cell.trigger)),
        "mode": cell.mode,
        "lateness": _lateness(draw, pace) if cell.late else Span(0),
        "on_time": draw(st.sampled_from(("if_any", "if_any", "always"))),
        "timestamp": draw(st.sampled_from(("end", "earliest", "latest"))),
        "coalesce": draw(st.booleans()),
    }
    chained = isinstance(window, SameWindow) or not alone or (pace == 1 and draw(st.integers(0, 3)) == 0)
    stage = _chained(draw, window, cell, options) if chained else _alone(draw, window, options)
    played = draw(steps(most=most, rows=rows, pace=pace))
    tasks = draw(st.sampled_from((1, 1, 1, 1, 1, 2, 3)))
    return Trial(
        stream=stage, steps=_crashing(draw, played), buckets=draw(st.sampled_from((64, 5, 1, 16))), tasks=tasks
    )


def _lateness(draw: st.DrawFn, pace: int) -> Span:
    return Span(draw(st.sampled_from((3, 8, 20))) * SECOND * pace)


def _crashing(draw: st.DrawFn, played: tuple[Step, ...]) -> tuple[Step, ...]:
    """The same steps with a crash among them, or none."""
    places = {draw(st.integers(0, len(played))) for _ in range(draw(st.integers(0, 1)))}
    crashed: list[Step] = []
    for at, step in enumerate(played):
        crashed += [step, Crash()] if at in places else [step]
    return tuple(crashed)


def _source() -> Stream:
    return Flow("drawn").source("events", Rows(schema=SCHEMA), time="at", watermark=Bounded("5s"))


def _keyed(draw: st.DrawFn, stream: Stream) -> Keyed:
    return stream.key_by(*draw(st.sampled_from((("user",), ("user",), (), ("user", "kind")))))


def _alone(draw: st.DrawFn, window: Window, options: dict[str, Any]) -> Stage:
    where = draw(st.sampled_from((None, None, "amount is null or amount <> 8")))
    stream = _source().where(where) if where else _source()
    shown = draw(aggregates())
    return _accepted(_keyed(draw, stream).window(window, allow_loss=True, **options).aggregate("only", **shown))


# What a second stage shows: the columns that the triggers ask about, and some others that can take back.
_SECOND: Final[tuple[tuple[str, AnyAggregate], ...]] = (
    ("sum", Sum("n")), ("most", Max("amount")), ("least", Min("n")), ("all", Collect("n")), ("mean", Mean("amount")),
    ("different", Distinct("amount")), ("first", First("n")), ("last", Last("amount")), ("often", TopK("n", 2)),
    ("counted", Merge("n")), ("merged", Merge("amount")),
)  # fmt: skip
_FIRST_WINDOWS: Final[tuple[Window, ...]] = (
    Tumbling("5s"), Tumbling("4s", offset="1s"), Session("4s"), Hopping("8s", every="4s"), *WINDOWS["custom"],
)  # fmt: skip
_FIRST_TRIGGERS: Final[tuple[Trigger, ...]] = (
    AfterWatermark(), AfterWatermark(early=AfterCount(1)), AfterWatermark(early=AfterCount(2), late=AfterCount(1)),
    Repeatedly(AfterCount(1)), AfterWatermark(early=AfterCount(2, exact=True)), AfterClose(),
)  # fmt: skip


def _chained(draw: st.DrawFn, window: Window, cell: Cell, options: dict[str, Any]) -> Stage:
    """The stage behind another, which corrects itself if the second can take that."""
    merging = window in KINDS["session"]
    takes_back = cell.mode != "discarding" and not merging
    hops = isinstance(window, Hopping)  # hopping over hopping is refused
    first_window = draw(st.sampled_from([w for w in _FIRST_WINDOWS if not (hops and isinstance(w, Hopping))]))
    first: dict[str, Any] = {
        "trigger": draw(st.sampled_from(_FIRST_TRIGGERS)),
        "mode": draw(st.sampled_from(("retracting", "retracting", "discarding") if takes_back else ("discarding",))),
        # A stage inherits the lateness, and the length of windows whose panes are older than their end.
        "lateness": _lateness(draw, 1) if cell.late and draw(st.booleans()) else Span(0),
        "timestamp": draw(st.sampled_from(_times(first_window))) if cell.late else "end",
        "on_time": draw(st.sampled_from(("if_any", "if_any", "always"))),
    }
    keyed = _source().key_by(*draw(st.sampled_from((("user",), ("user", "kind")))))
    others = {"amount": Sum("amount"), "zone": Max("zone"), "gap": Max("gap")}
    if "kind" not in keyed.keys:
        others["kind"] = Max("kind")
    earlier = keyed.window(first_window, allow_loss=True, **first).aggregate("first", n=Count(), **others)
    shown = dict(draw(st.lists(st.sampled_from(_SECOND), max_size=2, unique_by=lambda pair: pair[0])))
    again = earlier.key_by(*draw(st.sampled_from(((), ("user",)))))
    return _accepted(again.window(window, allow_loss=True, **options).aggregate("second", n=Count(), **shown))


def _times(window: Window) -> tuple[str, ...]:
    """The times that panes of a first stage may have; sessions' earliest one is refused."""
    return ("end", "latest") if isinstance(window, Session) else ("end", "earliest", "latest")


def _accepted(stage: Stage) -> Stage:
    try:
        stage.flow.check()
    except CheckFailed:
        reject()
    return stage
