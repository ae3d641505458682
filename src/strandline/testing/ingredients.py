"""What the strategies draw from: small windows, trigger trees, aggregates, and rows that share keys and edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from strandline.model.aggregates import (
    AnyAggregate,
    ApproxDistinct,
    Collect,
    Count,
    Distinct,
    Ewma,
    First,
    Last,
    Max,
    Mean,
    Min,
    Quantile,
    StdDev,
    Sum,
    TopK,
    Variance,
)
from strandline.model.time import Instant, Span
from strandline.model.triggers import (
    AfterAll,
    AfterAny,
    AfterClose,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    Never,
    OnEvent,
    OrFinally,
    Repeatedly,
    Trigger,
    When,
)
from strandline.model.types import Schema
from strandline.model.windows import CustomWindow, Global, Hopping, Session, Tumbling, Window

Row: TypeAlias = dict[str, Any]

SCHEMA: Final = Schema.of(
    "user string, kind int, amount bigint, price double, gap interval day to second, zone string, at timestamp"
)
SECOND: Final = 1_000_000
_USERS: Final = ("ann", "bob", "ann", None)
_KINDS: Final = (1, 2)
_AMOUNTS: Final = (1, 2, 3, -4, 5, 8, 0, None)
_PRICES: Final = (0.1, 0.2, 1e16, -1e16, 3.0, -0.0, None, 2.5)
_GAPS: Final = ("2s", "5s", "7s", "5s")
_ZONES: Final = ("UTC", "Europe/Berlin", "America/New_York", "UTC")


class Blocks(CustomWindow):
    """A window of a user's own that does not merge: four-second blocks, and for kind 2 the ten seconds around as well."""

    longest = Span(20 * SECOND)

    def assign(self, time: Instant, row: Any) -> Sequence[tuple[int, int]]:
        """One or two windows."""
        block = time - time % (4 * SECOND)
        around = time - time % (10 * SECOND)
        return [(block, block + 4 * SECOND)] + ([(around, around + 10 * SECOND)] if row["kind"] == 2 else [])


class Visits(CustomWindow):
    """A merging window of a user's own: three seconds, six for kind 2."""

    merging = True
    longest = Span(6 * SECOND)

    def assign(self, time: Instant, row: Any) -> Sequence[tuple[int, int]]:
        """One window that others may join."""
        return [(time, time + (6 if row["kind"] == 2 else 3) * SECOND)]


WINDOWS: Final[dict[str, tuple[Window, ...]]] = {
    "tumbling": (Tumbling("10s"), Tumbling("7s", offset="2s"), Tumbling("10s", offset="-3s")),
    "calendar": (Tumbling("1d", zone="Europe/Berlin"), Tumbling("1w", zone="America/New_York"), Tumbling("1d", zone_column="zone")),
    "hopping": (Hopping("10s", every="5s"), Hopping("10s", every="4s"), Hopping("6s", every="6s"), Hopping("9s", every="2s", offset="1s")),
    "session": (Session("5s"), Session("5s", inclusive=True), Session(gap_column="gap")),
    "global": (Global(), Global(ttl="15s"), Global(ttl="4s")),
    "custom": (Blocks(),),
    "custom_merging": (Visits(),),
}  # fmt: skip


def pace_of(window: Window) -> int:
    """How much faster time must run for a window: those of a calendar are days long, the others seconds."""
    return 4 * 3600 if window in WINDOWS["calendar"] else 1


def windows(kind: str | None = None) -> st.SearchStrategy[Window]:
    """A window of a kind of `WINDOWS`, or of any."""
    return st.sampled_from(WINDOWS[kind] if kind else [window for every in WINDOWS.values() for window in every])


# The first stand twice: a window that was shown early is where the interesting things happen.
_LEAVES: Final[st.SearchStrategy[Trigger]] = st.sampled_from([
    AfterCount(1), AfterCount(2), AfterCount(1), AfterCount(2), AfterCount(3), AfterCount(2, exact=True), AfterCount(3, exact=True),
    AfterProcessingTime("0s"), AfterProcessingTime("3s"), AfterProcessingTime(aligned_to="5s"),
    When("n >= 3"), When("n % 2 = 0", crossing=True), When("n >= 2", crossing=True), OnEvent("amount > 4"), OnEvent("kind = 2"),
    AfterWatermark(), AfterClose(), Never(),
])  # fmt: skip


def triggers(outermost: type[Trigger] | None = None, *, depth: int = 2) -> st.SearchStrategy[Trigger]:
    """A trigger tree, `depth` levels of composites deep at most, whose outermost kind may be fixed."""
    inner = _LEAVES if depth <= 1 else st.one_of(_LEAVES, triggers(depth=depth - 1))
    parts = st.lists(inner, min_size=1, max_size=3)
    kinds: dict[type[Trigger], st.SearchStrategy[Trigger]] = {
        AfterWatermark: st.builds(AfterWatermark, early=st.none() | inner, late=st.none() | inner),
        AfterAny: parts.map(lambda some: AfterAny(*some)),
        AfterAll: parts.map(lambda some: AfterAll(*some)),
        AfterEach: parts.map(lambda some: AfterEach(*some)),
        Repeatedly: inner.map(Repeatedly),
        OrFinally: st.builds(OrFinally, inner, inner),
    }
    if outermost is None:
        return st.one_of(_LEAVES, *kinds.values())
    return kinds.get(outermost, _LEAVES.filter(lambda leaf: isinstance(leaf, outermost)))


_AGGREGATES: Final[tuple[tuple[str, AnyAggregate], ...]] = (
    ("n_amount", Count("amount")), ("total", Sum("amount")), ("price", Sum("price")), ("exact", Sum("price", exact=True)),
    ("mean", Mean("price")), ("least", Min("amount")), ("most", Max("price")), ("first", First("amount")),
    ("last", Last("kind")), ("variance", Variance("amount")), ("deviation", StdDev("price")), ("users", Distinct("user")),
    ("about", ApproxDistinct("amount", precision=4)), ("median", Quantile("price", 0.5)), ("many", Quantile("amount", (0.1, 0.9))),
    ("often", TopK("amount", 2)), ("best", TopK("user", 2, by="amount")), ("all", Collect("amount")),
    ("recent", Ewma("amount", half_life="5s")), ("big", Count(where="amount > 2")), ("paid", Sum("price", where="kind = 1")),
)  # fmt: skip


@st.composite
def aggregates(draw: st.DrawFn, *, most: int = 2) -> dict[str, AnyAggregate]:
    """`n`, a count, which the triggers ask about; and up to `most` others."""
    others = draw(st.lists(st.sampled_from(_AGGREGATES), max_size=most, unique_by=lambda pair: pair[0]))
    return {"n": Count(), **dict(others)}


_SECONDS: Final = 30
# One whole number says a row: cheap to draw, and shrinks towards the first of everything.
CODES: Final = st.integers(0, len(_USERS) * len(_KINDS) * len(_AMOUNTS) * len(_PRICES) * len(_GAPS) * _SECONDS - 1)


def row_of(code: int, base: int, back: int, pace: int) -> Row:
    """A row less than 30 - `back` seconds after the base, and up to `back` before it."""
    row: Row = {}
    for name, values in (("user", _USERS), ("kind", _KINDS), ("amount", _AMOUNTS)):
        code, at = divmod(code, len(values))
        row[name] = values[at]
    code, seconds = divmod(code, _SECONDS)
    code, at = divmod(code, len(_GAPS))
    row |= {"gap": _GAPS[at], "zone": _ZONES[at], "price": _PRICES[code]}
    return {**row, "at": Instant(base + (seconds - back) * SECOND * pace)}
