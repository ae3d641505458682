"""What the strategies draw from: small windows, trigger trees, aggregates, and rows that share keys and edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from strandline.errors import DescriptionError, did_you_mean
from strandline.model.aggregates import (
    Aggregate,
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
from strandline.model.types import Schema, Type
from strandline.model.windows import CustomWindow, Global, Hopping, Session, Tumbling, Window

Row: TypeAlias = dict[str, Any]

SCHEMA: Final = Schema.of(
    "user string, kind int, amount bigint, price double, gap interval day to second, zone string, at timestamp"
)
SECOND: Final = 1_000_000
_USERS: Final = ("ann", "bob", "ann", None)
_KINDS: Final = (1, 2)
_AMOUNTS: Final = (1, 2, 3, -4, 5, 8, 0, None)
_PRICES: Final = (0.1, 0.2, 1e16, -1e16, 3.0, -0.0, None, 2.5, float("nan"), float("-inf"))
_GAPS: Final = ("2s", "5s", "7s", "5s")
_ZONES: Final = ("UTC", "Europe/Berlin", "America/New_York", "UTC")


class Blocks(CustomWindow):
    """A window of a user's own that does not merge: four-second blocks, and for kind 2 the ten seconds around as well."""

    longest = Span(10 * SECOND)

    def __repr__(self) -> str:
        return "Blocks()"

    def assign(self, time: Instant, row: Any) -> Sequence[tuple[int, int]]:
        """One or two windows."""
        block = time - time % (4 * SECOND)
        around = time - time % (10 * SECOND)
        return [(block, block + 4 * SECOND)] + ([(around, around + 10 * SECOND)] if row["kind"] == 2 else [])


class Visits(CustomWindow):
    """A merging window of a user's own: three seconds, six for kind 2."""

    merging = True
    longest = Span(6 * SECOND)

    def __repr__(self) -> str:
        return "Visits()"

    def assign(self, time: Instant, row: Any) -> Sequence[tuple[int, int]]:
        """One window that others may join."""
        return [(time, time + (6 if row["kind"] == 2 else 3) * SECOND)]


class Told(Aggregate):
    """An aggregate of a user's own: the rows in Python's words, which say more of a value than that it is equal."""

    columns = ("price", "at")
    result = "string"

    def __repr__(self) -> str:
        return "Told()"

    def start(self) -> list[str]:
        """Nothing is told."""
        return []

    def add(self, accumulator: list[str], *values: Any) -> list[str]:
        """One row more."""
        return sorted([*accumulator, repr(values)])

    def merge(self, left: list[str], right: list[str]) -> list[str]:
        """The rows of both."""
        return sorted([*left, *right])

    def output(self, accumulator: list[str]) -> str:
        """All of it as one text."""
        return " ".join(accumulator)


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
    if kind is not None and kind not in WINDOWS:
        raise DescriptionError(f"There is no kind of window {kind!r}.", fix=did_you_mean(str(kind), WINDOWS))
    return st.sampled_from(
        WINDOWS[kind] if kind is not None else [window for every in WINDOWS.values() for window in every]
    )


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
    ("told", Told()),
)  # fmt: skip


@st.composite
def aggregates(draw: st.DrawFn, *, most: int = 2) -> dict[str, AnyAggregate]:
    """`n`, a count, which the triggers ask about; and up to `most` others."""
    others = draw(st.lists(st.sampled_from(_AGGREGATES), max_size=most, unique_by=lambda pair: pair[0]))
    return {"n": Count(), **dict(others)}


_SECONDS: Final = 30
_CODES: Final = len(_USERS) * len(_KINDS) * len(_AMOUNTS) * _SECONDS * len(_GAPS) * len(_PRICES)


def placed_rows(
    schema: Schema, time: str, values: Mapping[str, st.SearchStrategy[Any]] | None = None
) -> st.SearchStrategy[tuple[Row, int]]:
    """Rows without their time, and a number from 0 to 29 to place them in time by.

    `values` says what to draw for a column; for the others it is a few small values of their type, and null.
    """
    if schema is SCHEMA and not values:
        return st.integers(0, _CODES - 1).map(_decoded)
    for name in values or {}:
        schema.require(name, "values=")
    schema.require(time, "time=")
    if time in (values or {}):
        raise DescriptionError(
            f"values= names {time!r}, the time, which is drawn around the watermark.", fix="Leave it out of values=."
        )
    columns = {name: (values or {}).get(name, few(kind)) for name, kind in schema.columns if name != time}
    return st.tuples(st.fixed_dictionaries(columns), st.integers(0, _SECONDS - 1))


def _decoded(code: int) -> tuple[Row, int]:
    """A row of `SCHEMA` from one whole number: cheap to draw, and it shrinks towards the first of everything."""
    row: Row = {}
    for name, values in (("user", _USERS), ("kind", _KINDS), ("amount", _AMOUNTS)):
        code, at = divmod(code, len(values))
        row[name] = values[at]
    code, seconds = divmod(code, _SECONDS)
    code, at = divmod(code, len(_GAPS))
    return {**row, "gap": _GAPS[at], "zone": _ZONES[at], "price": _PRICES[code]}, seconds


_FEW: Final[dict[str, tuple[Any, ...]]] = {
    "boolean": (True, False),
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), (0, 1, 2, 5, -3)),
    **dict.fromkeys(("float", "double"), (0.0, 0.1, 2.5, -3.0, 1e10)),
    "string": ("a", "b", "ab", ""),
    "binary": (b"", b"a"),
    "date": ("2026-01-01", "2026-01-02"),
    "timestamp": ("2026-01-01T12:00:00Z", "2026-01-01T12:00:07Z"),
    "timestamp_ntz": ("2026-01-01T12:00:00", "2026-01-01T12:00:07"),
    "interval day to second": ("1s", "5s", "8s"),
}


def few(kind: Type) -> st.SearchStrategy[Any]:
    """A few values of a type, and null: so few that keys meet again."""
    if kind.element is not None:
        return st.none() | st.lists(few(kind.element), max_size=2)
    if kind.name == "struct":
        return st.none() | st.fixed_dictionaries({name: few(field) for name, field in kind.fields})
    if kind.name == "decimal":
        return st.sampled_from((*(Decimal((sign, (1,), -kind.scale)) for sign in (0, 1)), 0, None))
    return st.sampled_from((*_FEW[kind.name], None))
