"""What is computed: aggregates.

Every aggregate merges: the answer does not depend on how its rows were cut into partials, nor on their order.
Nulls behave as in SQL: they are passed over; an aggregate that saw no value is null, a count is 0.
`where=` is a text expression; rows for which it is not true are passed over. `within=` is for `.over()` alone: the time
before each event that counts.

Taking back (behind a stage that retracts):
    by arithmetic            Count, Sum, Mean, Variance, StdDev, and a user's Aggregate with `remove`
    by a counted multiset    Min, Max, First, Last, Distinct, TopK, Collect
    not at all               ApproxDistinct, Quantile, Ewma, and a user's Aggregate without `remove`
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Any, ClassVar, TypeAlias

from strandline.errors import DescriptionError, told
from strandline.model.options import require_boolean
from strandline.model.time import Span

ARITHMETIC, MULTISET, NEVER = "arithmetic", "multiset", "never"


class _OfAColumn:
    """An aggregate that reads a column: names and conditions are text, whatever the caller had at hand."""

    __slots__ = ()

    def __post_init__(self) -> None:
        _require_texts(self)
        for option in ("exact", "population"):
            require_boolean(option, getattr(self, option, False))


def _require_texts(aggregate: object) -> None:
    name = type(aggregate).__name__
    column = getattr(aggregate, "column", None)
    if not isinstance(column, str) and not (column is None and isinstance(aggregate, Count)):
        raise DescriptionError(
            f"{name} takes the name of a column as text, not {told(column)}.",
            fix=f"Write {name}('amount'); compute a value first with .with_column('amount', '...').",
        )
    _require_within(aggregate)
    for option in ("where", "by"):
        value = getattr(aggregate, option, None)
        if value is not None and not isinstance(value, str):
            raise DescriptionError(
                f"{option}= of {name} takes text, not {told(value)}.",
                fix='Write where="amount > 3" (Spark SQL).' if option == "where" else "Name the column: by='amount'.",
            )


def _require_within(aggregate: object) -> None:
    """Let `within` be a positive span, if it is given."""
    within = getattr(aggregate, "within", None)
    if within is not None:
        span = Span.of(within)
        if span <= 0:
            raise DescriptionError(
                f"within={span.text!r} is not positive.",
                fix="Give the time before each event that counts: within='1h'.",
            )
        object.__setattr__(aggregate, "within", span)


@dataclass(frozen=True, slots=True)
class Count(_OfAColumn):
    """How many rows; with a column, how many values that are not null. A bigint."""

    column: str | None = None
    _: KW_ONLY
    where: str | None = None
    within: str | timedelta | Span | None = None


@dataclass(frozen=True, slots=True)
class Sum(_OfAColumn):
    """The sum: bigint for integers, decimal for decimals (both exact), double for floats.

    A float sum is the same whatever the order, the tasks and the ticks: values are cut on a fixed grid of 32-bit
    slices, the slices of the three highest grid cells in use are added as integers, and the total is rounded once. What lies
    lower (less than 2^-64 of the greatest value) is left out; `exact=True` keeps it, and is the true sum rounded once.
    """

    column: str
    _: KW_ONLY
    where: str | None = None
    within: str | timedelta | Span | None = None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Mean(_OfAColumn):
    """The sum divided by the count: double, or decimal(p+4,s+4) for decimal(p,s), as in Spark."""

    column: str
    _: KW_ONLY
    where: str | None = None
    within: str | timedelta | Span | None = None


@dataclass(frozen=True, slots=True)
class Min(_OfAColumn):
    """The least value. NaN is greater than every number, as in Spark."""

    column: str
    _: KW_ONLY
    where: str | None = None
    within: str | timedelta | Span | None = None


@dataclass(frozen=True, slots=True)
class Max(_OfAColumn):
    """The greatest value. NaN is greater than every number, as in Spark."""

    column: str
    _: KW_ONLY
    where: str | None = None
    within: str | timedelta | Span | None = None


@dataclass(frozen=True, slots=True)
class First(_OfAColumn):
    """The value with the least (time, value)."""

    column: str
    _: KW_ONLY
    where: str | None = None
    within: str | timedelta | Span | None = None


@dataclass(frozen=True, slots=True)
class Last(_OfAColumn):
    """The value with the greatest (time, value)."""

    column: str
    _: KW_ONLY
    where: str | None = None
    within: str | timedelta | Span | None = None


@dataclass(frozen=True, slots=True)
class Variance(_OfAColumn):
    """The sample variance (`population=True`: of the population), from exact sums: rounded once at the end."""

    column: str
    _: KW_ONLY
    where: str | None = None
    within: str | timedelta | Span | None = None
    population: bool = False


@dataclass(frozen=True, slots=True)
class StdDev(_OfAColumn):
    """The square root of the variance."""

    column: str
    _: KW_ONLY
    where: str | None = None
    within: str | timedelta | Span | None = None
    population: bool = False


@dataclass(frozen=True, slots=True)
class Distinct(_OfAColumn):
    """How many different values, exactly. Keeps every value."""

    column: str
    _: KW_ONLY
    where: str | None = None
    within: str | timedelta | Span | None = None


@dataclass(frozen=True, slots=True)
class ApproxDistinct:
    """About how many different values: a HyperLogLog of 2^precision registers, standard error 1.04 / sqrt(2^precision)."""

    column: str
    _: KW_ONLY
    where: str | None = None
    within: str | timedelta | Span | None = None
    precision: int = 12

    def __post_init__(self) -> None:
        _require_texts(self)
        if not isinstance(self.precision, int) or not 4 <= self.precision <= 16:
            raise DescriptionError(
                f"precision={self.precision!r} is out of range.", fix="Give 4 to 16; 12 errs by 1.6 %."
            )


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile, or several, from a mergeable sketch: each answer is within `error` (relative) of a true quantile.

    Powers of two are cut into equal bins, by the bits of the number: bit-equal under any order and cut. The error holds for
    normal doubles: not for those nearer to zero than 2.3e-308, which have fewer bits than their bin asks for.
    One `q` gives a double; several give an array of doubles.
    """

    column: str
    q: float | tuple[float, ...]
    _: KW_ONLY
    where: str | None = None
    within: str | timedelta | Span | None = None
    error: float = 0.01

    def __post_init__(self) -> None:
        _require_texts(self)
        asked = self.q if isinstance(self.q, tuple) else (self.q,)
        if not asked or not all(_is_share(q) for q in asked):
            raise DescriptionError(
                f"q={self.q!r} is no quantile.", fix="Give numbers from 0 to 1: 0.95, or (0.5, 0.95)."
            )
        if not isinstance(self.error, float) or not 1e-5 <= self.error <= 0.25:
            raise DescriptionError(
                f"error={self.error!r} is out of range.", fix="Give 0.00001 to 0.25; 0.01 is one per cent."
            )


def _is_share(q: object) -> bool:
    return isinstance(q, int | float) and not isinstance(q, bool) and 0 <= q <= 1


@dataclass(frozen=True, slots=True)
class TopK:
    """The k values that occur most often, with their counts; or, with `by=`, the k values whose `by` is greatest.

    Ties: by time and then value where `by=` is given; by value for counts. An array of structs, greatest first.
    """

    column: str
    k: int
    _: KW_ONLY
    by: str | None = None
    where: str | None = None
    within: str | timedelta | Span | None = None

    def __post_init__(self) -> None:
        _require_texts(self)
        if not isinstance(self.k, int) or isinstance(self.k, bool) or self.k < 1:
            raise DescriptionError(f"k={self.k!r} is no number of values to keep.", fix="Give a whole number from 1.")


@dataclass(frozen=True, slots=True)
class Collect(_OfAColumn):
    """All values as an array, ordered by (time, value). Keeps every value."""

    column: str
    _: KW_ONLY
    where: str | None = None
    within: str | timedelta | Span | None = None


@dataclass(frozen=True, slots=True)
class Ewma:
    """The mean of values weighted by 2 ** (time / half_life): newer values count more, by event time. A double.

    Bit-equal under any order and cut, as `Sum` is.
    """

    column: str
    _: KW_ONLY
    half_life: Span
    where: str | None = None
    within: str | timedelta | Span | None = None

    def __init__(
        self,
        column: str,
        *,
        half_life: str | timedelta | Span,
        where: str | None = None,
        within: str | timedelta | Span | None = None,
    ) -> None:
        span = Span.of(half_life)
        if span <= 0:
            raise DescriptionError("The half-life is not positive.", fix="Give a span such as half_life='10m'.")
        for name, value in (("column", column), ("half_life", span), ("where", where), ("within", within)):
            object.__setattr__(self, name, value)
        _require_texts(self)


@dataclass(frozen=True, slots=True)
class Merge(_OfAColumn):
    """Roll up an aggregate of an earlier stage by its inner state, so that a p95 per hour is no mean of p95s.

    `column` is the name that the earlier stage gave the aggregate.
    """

    column: str
    _: KW_ONLY
    where: str | None = None


class Aggregate(ABC):
    """A user's own aggregate in plain Python: subclass it.

    As in SQL, nulls are passed over: a row in which one of `columns` is null is never given to `add`.
    The accumulator may be any value that JSON can say and gives back unchanged (it is stored as such, never pickled):
    lists, not tuples, and dicts with text keys. What `output` gives must be of the type that `result` says, or null; it
    may be asked of the accumulator of no rows, too. `merge`
    must be associative and commutative, and `add` too must not depend on the order of rows: rows of one tick come in any
    order. Define `remove(accumulator, *values)` too, and the aggregate can take rows back; a row may be taken back from
    an accumulator that never saw it, and merged later, so merge(a, remove(b, x)) must equal remove(merge(a, b), x).

    >>> class Product(Aggregate):
    ...     columns = ("x",)
    ...     result = "double"
    ...     def start(self): return 1.0
    ...     def add(self, accumulator, x): return accumulator * x
    ...     def merge(self, left, right): return left * right
    ...     def output(self, accumulator): return accumulator
    """

    columns: tuple[str, ...]
    result: ClassVar[str]
    where: str | None = None
    within: str | timedelta | Span | None = None

    @abstractmethod
    def start(self) -> Any:
        """The accumulator of no rows."""

    @abstractmethod
    def add(self, accumulator: Any, *values: Any) -> Any:
        """The accumulator with one more row, given as the values of `columns`."""

    @abstractmethod
    def merge(self, left: Any, right: Any) -> Any:
        """The accumulator of both sides' rows."""

    @abstractmethod
    def output(self, accumulator: Any) -> Any:
        """The value to show."""


BuiltIn: TypeAlias = (
    Count
    | Sum
    | Mean
    | Min
    | Max
    | First
    | Last
    | Variance
    | StdDev
    | Distinct
    | ApproxDistinct
    | Quantile
    | TopK
    | Collect
    | Ewma
    | Merge
)
AnyAggregate: TypeAlias = BuiltIn | Aggregate
BUILT_IN = (
    Count, Sum, Mean, Min, Max, First, Last, Variance, StdDev, Distinct, ApproxDistinct, Quantile, TopK, Collect, Ewma, Merge
)  # fmt: skip


def columns_of(aggregate: AnyAggregate) -> tuple[str, ...]:
    """The columns that an aggregate reads."""
    if isinstance(aggregate, Aggregate):
        return tuple(aggregate.columns)
    found = (aggregate.column, aggregate.by if isinstance(aggregate, TopK) else None)
    return tuple(c for c in found if c is not None)


def within_of(aggregate: AnyAggregate) -> Span | None:
    """The time before each event that a feature looks back."""
    within = None if isinstance(aggregate, Merge) else aggregate.within
    return None if within is None else Span.of(within)


def takes_back(aggregate: AnyAggregate) -> str:
    """How an aggregate takes a row back: "arithmetic", "multiset" or "never"."""
    if isinstance(aggregate, Aggregate):
        return ARITHMETIC if hasattr(aggregate, "remove") else NEVER
    if isinstance(aggregate, Count | Sum | Mean | Variance | StdDev):
        return ARITHMETIC
    if isinstance(aggregate, Min | Max | First | Last | Distinct | TopK | Collect):
        return MULTISET
    return NEVER
