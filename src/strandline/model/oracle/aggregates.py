"""What is shown: every aggregate over the events of a window, from scratch.

Events taken back are set against equal ones first, or count as minus one where the aggregate is arithmetic.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

from strandline.errors import DataError
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
    Merge,
    Min,
    Quantile,
    StdDev,
    Sum,
    TopK,
    Variance,
)  # fmt: skip
from strandline.model.hashing import hash_value
from strandline.model.oracle.arithmetic import Digits, deviation_of, ewma_of, mean_of, sum_of, values, variance_of
from strandline.model.oracle.values import Entry, holds, rank
from strandline.model.types import Schema
from strandline.model.users import ask, kept_text, output_of

CARRIED = "__rows."


@dataclass(frozen=True)
class Reading:
    """What must be known to read a stage's rows: their columns, whether some take back, and what they carry.

    `merged` holds, for each column that a Merge rolls up, the aggregate that saw the events.
    """

    schema: Schema | None = None
    taking_back: bool = False
    merged: Mapping[str, AnyAggregate] = field(default_factory=dict)


@runtime_checkable
class _TakesBack(Protocol):
    """A user's aggregate that can take rows back."""

    def remove(self, accumulator: Any, *values: Any) -> Any: ...


def compute(aggregate: AnyAggregate, entries: Sequence[Entry], reading: Reading) -> Any:
    """What an aggregate shows for these events."""
    if isinstance(aggregate, Merge):
        inner = reading.merged[aggregate.column]
        # The events inside are read by the values they have: this stage's columns are others.
        inside = Reading(schema=None, taking_back=reading.taking_back)
        return _compute(inner, carried(aggregate, entries, reading), inside, _digits_merged(aggregate, reading))
    return _compute(aggregate, entries, reading, _digits(aggregate, reading))


def carried(aggregate: AnyAggregate, entries: Sequence[Entry], reading: Reading) -> list[Entry]:
    """The events behind an aggregate: of a Merge, those that the merged panes carry, each as often as its pane."""
    if not isinstance(aggregate, Merge):
        return list(entries)
    return [
        Entry(inner.time, inner.weight * pane.weight, inner.row, inner.now)
        for pane in chosen(aggregate.where, entries, reading)
        for inner in pane.row[CARRIED + aggregate.column]
    ]


def chosen(where: str | None, entries: Sequence[Entry], reading: Reading) -> list[Entry]:
    """The events for which `where` is true."""
    return [entry for entry in entries if where is None or holds(where, entry, reading.schema)]


def _compute(aggregate: AnyAggregate, entries: Sequence[Entry], reading: Reading, digits: Digits) -> Any:
    entries = chosen(aggregate.where, entries, reading)
    if isinstance(aggregate, Aggregate):
        return _users(aggregate, entries)
    if isinstance(aggregate, Sum):
        return sum_of(aggregate, entries, digits, exact=aggregate.exact or reading.taking_back)
    if isinstance(aggregate, Mean):
        return mean_of(aggregate, entries, digits, exact=reading.taking_back)
    return RULES[type(aggregate)](aggregate, entries)


def _digits(aggregate: AnyAggregate, reading: Reading) -> Digits:
    """Spark's decimals: a sum has ten digits more, a mean four more behind the point, 38 at most."""
    kind = reading.schema.get(aggregate.column) if reading.schema and isinstance(aggregate, Sum | Mean) else None
    if kind is None or kind.name != "decimal":
        return Digits()
    if isinstance(aggregate, Sum):
        return Digits(min(38, kind.precision + 10), kind.scale)
    return Digits(min(38, kind.precision + 4), min(38, kind.scale + 4))


def _digits_merged(aggregate: Merge, reading: Reading) -> Digits:
    """What is merged shows as the column did that the earlier stage showed."""
    kind = reading.schema.get(aggregate.column) if reading.schema else None
    return Digits(kind.precision, kind.scale) if kind is not None and kind.name == "decimal" else Digits()


def remaining(items: Sequence[tuple[tuple[Any, ...], int]]) -> list[tuple[Any, ...]]:
    """The items, sorted, less those that were taken back.

    >>> remaining([(("a", 1), 1), (("b", 1), 1), (("a", 1), 1), (("a", 1), -1)])
    [('a', 1), ('b', 1)]
    """
    counts: dict[tuple[Any, ...], int] = {}
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for item, weight in items:
        ranks = tuple(rank(part) for part in item)
        counts[ranks] = counts.get(ranks, 0) + weight
        found[ranks] = item
    return [found[ranks] for ranks in sorted(found) for _ in range(counts[ranks])]


def _left(column: str, entries: Sequence[Entry]) -> list[Any]:
    return [value for (value,) in remaining([((value,), weight) for value, weight in values(column, entries)])]


def _left_in_time(column: str, entries: Sequence[Entry]) -> list[Any]:
    items = [((e.time, e.row[column]), e.weight) for e in entries if e.row[column] is not None]
    return [value for _, value in remaining(items)]


def _count(aggregate: Count, entries: Sequence[Entry]) -> int:
    if aggregate.column is None:
        return sum(e.weight for e in entries)
    return sum(weight for _, weight in values(aggregate.column, entries))


def _min(aggregate: Min, entries: Sequence[Entry]) -> Any:
    return next(iter(_left(aggregate.column, entries)), None)


def _max(aggregate: Max, entries: Sequence[Entry]) -> Any:
    return next(reversed(_left(aggregate.column, entries)), None)


def _first(aggregate: First, entries: Sequence[Entry]) -> Any:
    return next(iter(_left_in_time(aggregate.column, entries)), None)


def _last(aggregate: Last, entries: Sequence[Entry]) -> Any:
    return next(reversed(_left_in_time(aggregate.column, entries)), None)


def _collect(aggregate: Collect, entries: Sequence[Entry]) -> list[Any]:
    return _left_in_time(aggregate.column, entries)


def _distinct(aggregate: Distinct, entries: Sequence[Entry]) -> int:
    return len({rank(value) for value in _left(aggregate.column, entries)})


def _top(aggregate: TopK, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    if aggregate.by is not None:
        return _top_by(aggregate.column, aggregate.by, entries)[: aggregate.k]
    counts: dict[tuple[int, Any], dict[str, Any]] = {}
    for value in _left(aggregate.column, entries):
        counts.setdefault(rank(value), {"value": value, "count": 0})["count"] += 1
    # Values come sorted, and sorting keeps the order of equals: ties stand by value.
    return sorted(counts.values(), key=lambda item: -item["count"])[: aggregate.k]


def _top_by(column: str, by: str, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    items = [
        ((e.time, e.row[column], e.row[by]), e.weight)
        for e in entries
        if e.row[column] is not None and e.row[by] is not None
    ]
    ordered = sorted(remaining(items), key=lambda item: rank(item[2]), reverse=True)
    return [{"value": value, "by": judged_by} for _, value, judged_by in ordered]


def _approximate(aggregate: ApproxDistinct, entries: Sequence[Entry]) -> int:
    """HyperLogLog: each register keeps the longest run of zeros among the hashes that fall into it."""
    size, rest_bits = 1 << aggregate.precision, 64 - aggregate.precision
    registers = [0] * size
    for value, _ in values(aggregate.column, entries):
        hashed = hash_value(value)
        zeros = rest_bits - (hashed & ((1 << rest_bits) - 1)).bit_length()
        register = hashed >> rest_bits
        registers[register] = max(registers[register], zeros + 1)
    return round(_estimate(registers))


def _estimate(registers: Sequence[int]) -> float:
    size, unused = len(registers), registers.count(0)
    alpha = {16: 0.673, 32: 0.697, 64: 0.709}.get(size, 0.7213 / (1 + 1.079 / size))
    harmonic = sum(Fraction(1, 2**longest) for longest in registers)
    estimate = alpha * size * size / float(harmonic)
    return size * math.log(size / unused) if estimate <= 2.5 * size and unused else estimate


def _quantile(aggregate: Quantile, entries: Sequence[Entry]) -> float | list[float] | None:
    bits = next(b for b in range(53) if 2.0 ** -(b + 1) <= aggregate.error)
    ordered = sorted((_middle(float(v), bits) for v in _left(aggregate.column, entries)), key=rank)
    if not ordered:
        return None
    asked = aggregate.q if isinstance(aggregate.q, tuple) else (aggregate.q,)
    found = [ordered[math.floor(q * (len(ordered) - 1))] for q in asked]
    return found if isinstance(aggregate.q, tuple) else found[0]


def _middle(value: float, bits: int) -> float:
    """The middle of the bin of a number: of all that share its sign, its exponent and `bits` bits of its fraction."""
    if value == 0 or not math.isfinite(value):
        return value
    shift = 52 - bits
    (pattern,) = struct.unpack("<q", struct.pack("<d", abs(value)))
    (middle,) = struct.unpack("<d", struct.pack("<q", (pattern >> shift << shift) + (1 << (shift - 1))))
    return math.copysign(middle, value)


def _users(aggregate: Aggregate, entries: Sequence[Entry]) -> Any:
    name = type(aggregate).__name__
    accumulator = _kept(aggregate, ask(f"{name}.start", aggregate.start))
    for entry in entries:
        given = [entry.row[column] for column in aggregate.columns]
        if any(value is None for value in given):
            continue
        if entry.weight > 0:
            accumulator = _kept(aggregate, ask(f"{name}.add", aggregate.add, accumulator, *given))
        elif isinstance(aggregate, _TakesBack):
            accumulator = _kept(aggregate, ask(f"{name}.remove", aggregate.remove, accumulator, *given))
        else:
            raise DataError(f"{name} cannot take rows back.", fix=f"Define {name}.remove(accumulator, *values).")
    return output_of(aggregate, accumulator)


def _kept(aggregate: Aggregate, accumulator: Any) -> Any:
    """An accumulator as it comes back from state: state may be written after any row."""
    return json.loads(kept_text(aggregate, accumulator))


RULES: Mapping[type, Callable[[Any, Sequence[Entry]], Any]] = {
    Count: _count, Min: _min, Max: _max, First: _first, Last: _last, Variance: variance_of, StdDev: deviation_of,
    Distinct: _distinct, ApproxDistinct: _approximate, Quantile: _quantile, TopK: _top, Collect: _collect, Ewma: ewma_of,
}  # fmt: skip
