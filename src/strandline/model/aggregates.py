"""What is computed: aggregates.

Every aggregate merges: the answer does not depend on how its rows were cut into partials, nor on their order.
Nulls behave as in SQL: they are passed over; an aggregate that saw no value is null, a count is 0.
`where=` is a text expression; rows for which it is not true are passed over.

Taking back (behind a stage that retracts):
    by arithmetic            Count, Sum, Mean, Variance, StdDev, and a user's Aggregate with `remove`
    by a counted multiset    Min, Max, First, Last, Distinct, TopK, Collect
    not at all               ApproxDistinct, Quantile, Ewma, and a user's Aggregate without `remove`
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Any, ClassVar, TypeAlias, Union

from strandline.errors import DescriptionError
from strandline.model.time import Span
from strandline.model.types import Schema, Type

ARITHMETIC, MULTISET, NEVER = "arithmetic", "multiset", "never"


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows; with a column, how many values that are not null. A bigint."""

    column: str | None = None
    _: KW_ONLY
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum: bigint for integers, decimal for decimals (both exact), double for floats.

    A float sum is the same whatever the order, the tasks and the ticks: values are cut on a fixed grid of 32-bit
    slices, the slices of the three highest grid cells in use are added as integers, and the total is rounded once. What lies
    lower (less than 2^-64 of the greatest value) is left out; `exact=True` keeps it, and is the true sum rounded once.
    """

    column: str
    _: KW_ONLY
    where: str | None = None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Mean:
    """The sum divided by the count: double, or decimal(p+4,s+4) for decimal(p,s), as in Spark."""

    column: str
    _: KW_ONLY
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Min:
    """The least value. NaN is greater than every number, as in Spark."""

    column: str
    _: KW_ONLY
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Max:
    """The greatest value. NaN is greater than every number, as in Spark."""

    column: str
    _: KW_ONLY
    where: str | None = None


@dataclass(frozen=True, slots=True)
class First:
    """The value with the least (time, value)."""

    column: str
    _: KW_ONLY
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Last:
    """The value with the greatest (time, value)."""

    column: str
    _: KW_ONLY
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Variance:
    """The sample variance (`population=True`: of the population), from exact sums: rounded once at the end."""

    column: str
    _: KW_ONLY
    where: str | None = None
    population: bool = False


@dataclass(frozen=True, slots=True)
class StdDev:
    """The square root of the variance."""

    column: str
    _: KW_ONLY
    where: str | None = None
    population: bool = False


@dataclass(frozen=True, slots=True)
class Distinct:
    """How many different values, exactly. Keeps every value."""

    column: str
    _: KW_ONLY
    where: str | None = None


@dataclass(frozen=True, slots=True)
class ApproxDistinct:
    """About how many different values: a HyperLogLog of 2^precision registers, standard error 1.04 / sqrt(2^precision)."""

    column: str
    _: KW_ONLY
    where: str | None = None
    precision: int = 12

    def __post_init__(self) -> None:
        if not isinstance(self.precision, int) or not 4 <= self.precision <= 16:
            raise DescriptionError(f"precision={self.precision!r} is out of range.", fix="Give 4 to 16; 12 errs by 1.6 %.")


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile, or several, from a mergeable sketch: each answer is within `error` (relative) of a true quantile.

    Powers of two are cut into equal bins, by the bits of the number: bit-equal under any order and cut.
    One `q` gives a double; several give an array of doubles.
    """

    column: str
    q: float | tuple[float, ...]
    _: KW_ONLY
    where: str | None = None
    error: float = 0.01

    def __post_init__(self) -> None:
        asked = self.q if isinstance(self.q, tuple) else (self.q,)
        if not asked or not all(isinstance(q, int | float) and 0 <= q <= 1 for q in asked):
            raise DescriptionError(f"q={self.q!r} is no quantile.", fix="Give numbers from 0 to 1: 0.95, or (0.5, 0.95).")
        if not 1e-5 <= self.error <= 0.25:
            raise DescriptionError(f"error={self.error!r} is out of range.", fix="Give 0.00001 to 0.25; 0.01 is one per cent.")


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

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or isinstance(self.k, bool) or self.k < 1:
            raise DescriptionError(f"k={self.k!r} keeps nothing.", fix="Give a whole number from 1.")


@dataclass(frozen=True, slots=True)
class Collect:
    """All values as an array, ordered by (time, value). Keeps every value."""

    column: str
    _: KW_ONLY
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Ewma:
    """The mean of values weighted by 2 ** (time / half_life): newer values count more, by event time. A double.

    Bit-equal under any order and cut, as `Sum` is.
    """

    column: str
    _: KW_ONLY
    half_life: Span
    where: str | None = None

    def __init__(self, column: str, *, half_life: str | timedelta | Span, where: str | None = None) -> None:
        span = Span.of(half_life)
        if span <= 0:
            raise DescriptionError("The half-life is not positive.", fix="Give a span such as half_life='10m'.")
        for name, value in (("column", column), ("half_life", span), ("where", where)):
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True)
class Merge:
    """Roll up an aggregate of an earlier stage by its inner state, so that a p95 per hour is no mean of p95s.

    `column` is the name that the earlier stage gave the aggregate.
    """

    column: str
    _: KW_ONLY
    where: str | None = None


class Aggregate(ABC):
    """A user's own aggregate in plain Python: subclass it.

    The accumulator may be any value that JSON can say (it is stored as such, never pickled). `merge` must be
    associative and commutative. Define `remove` too, and the aggregate can take rows back.

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


BuiltIn: TypeAlias = Union[
    Count, Sum, Mean, Min, Max, First, Last, Variance, StdDev, Distinct, ApproxDistinct, Quantile, TopK, Collect, Ewma, Merge
]
AnyAggregate: TypeAlias = Union[BuiltIn, Aggregate]
BUILT_IN = (
    Count, Sum, Mean, Min, Max, First, Last, Variance, StdDev, Distinct, ApproxDistinct, Quantile, TopK, Collect, Ewma, Merge
)  # fmt: skip


def columns_of(aggregate: AnyAggregate) -> tuple[str, ...]:
    """The columns that an aggregate reads."""
    if isinstance(aggregate, Aggregate):
        return tuple(aggregate.columns)
    found = (aggregate.column, aggregate.by if isinstance(aggregate, TopK) else None)
    return tuple(c for c in found if c is not None)


def takes_back(aggregate: AnyAggregate) -> str:
    """How an aggregate takes a row back: "arithmetic", "multiset" or "never"."""
    if isinstance(aggregate, Aggregate):
        return ARITHMETIC if hasattr(aggregate, "remove") else NEVER
    if isinstance(aggregate, Count | Sum | Mean | Variance | StdDev):
        return ARITHMETIC
    if isinstance(aggregate, Min | Max | First | Last | Distinct | TopK | Collect):
        return MULTISET
    return NEVER


def result_type(aggregate: AnyAggregate, schema: Schema) -> Type:
    """The type of what an aggregate shows; a DescriptionError when it cannot take its column's type.

    `Merge` has the type of what it merges, which only the flow knows; ask `strandline.model.flow`.
    """
    if isinstance(aggregate, Aggregate):
        for column in aggregate.columns:
            schema.require(column, type(aggregate).__name__)
        return Type.of(aggregate.result)
    name = type(aggregate).__name__
    types = [schema.require(c, name) for c in columns_of(aggregate)]
    if isinstance(aggregate, Count):
        return Type.of("bigint")
    if isinstance(aggregate, Merge):
        raise DescriptionError("Merge has the type of what it merges.", fix="Ask the stage for its schema.")
    kind = types[0]
    for each, column in zip(types, columns_of(aggregate), strict=True):
        if not each.is_scalar:
            raise DescriptionError(
                f"{name}({column!r}) cannot take {each.text}.", fix="Take a part of it first, with .with_column()."
            )
    if isinstance(aggregate, Sum | Mean | Variance | StdDev | Quantile | Ewma) and not kind.is_number:
        raise DescriptionError(
            f"{name}({aggregate.column!r}) needs a number, not {kind.text}.",
            fix="Aggregate a numeric column, or convert it first: .with_column('n', 'cast(... as double)').",
        )
    return _shown(aggregate, kind, types[-1])


def _shown(aggregate: BuiltIn, kind: Type, by: Type) -> Type:
    if isinstance(aggregate, Sum):
        if kind.name == "decimal":
            return Type.decimal(kind.precision + 10, kind.scale)
        return Type.of("bigint" if kind.is_integer else "double")
    if isinstance(aggregate, Mean) and kind.name == "decimal":
        return Type.decimal(kind.precision + 4, kind.scale + 4)
    if isinstance(aggregate, Distinct | ApproxDistinct):
        return Type.of("bigint")
    if isinstance(aggregate, Min | Max | First | Last):
        return kind
    if isinstance(aggregate, Collect):
        return Type(name="array", element=kind)
    if isinstance(aggregate, TopK):
        second = ("by", by) if aggregate.by is not None else ("count", Type.of("bigint"))
        return Type(name="array", element=Type(name="struct", fields=(("value", kind), second)))
    if isinstance(aggregate, Quantile) and isinstance(aggregate.q, tuple):
        return Type(name="array", element=Type.of("double"))
    return Type.of("double")
