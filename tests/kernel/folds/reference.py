"""What each aggregate means, in plain Python: one list of rows, exact fractions, nothing clever."""

from __future__ import annotations

import math
import sys
from collections import Counter
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from strandline.kernel.hashing import hash_columns
from strandline.kernel.schema import polars_type
from strandline.model import aggregates as agg
from strandline.model.result_types import result_type
from strandline.model.types import Schema, Type


@dataclass(frozen=True)
class Row:
    group: int
    time: int
    v: Any
    by: Any = None
    keep: bool | None = True
    weight: int = 1


def canonical(value: Any) -> Any:
    if isinstance(value, float):
        return math.nan if math.isnan(value) else value + 0.0
    return value


def rank(value: Any) -> Any:
    """A sort key: NaN stands above every number."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


def nearest(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def grid_total(values: list[tuple[float, int]]) -> Fraction:
    """The sum of x * 2**k, each cut toward zero to three cells below the highest in use."""
    numbers = [(x, k) for x, k in values if x != 0]
    if not numbers:
        return Fraction(0)
    top = max((math.frexp(x)[1] - 1 + k) // 32 for x, k in numbers)
    unit = Fraction(2) ** (32 * (top - 2))
    return sum((math.trunc(Fraction(x) * Fraction(2) ** k / unit) * unit for x, k in numbers), Fraction(0))


def special(values: list[float]) -> float | None:
    plus, minus = math.inf in values, -math.inf in values
    if any(math.isnan(x) for x in values) or (plus and minus):
        return math.nan
    return math.inf if plus else -math.inf if minus else None


def float_sum(values: list[float], *, exact: bool) -> float:
    found = special(values)
    if found is not None:
        return found
    total = sum(map(Fraction, values), Fraction(0)) if exact else grid_total([(x, 0) for x in values])
    return nearest(total)


def whole_sum(values: list[Any]) -> Any:
    if isinstance(values[0], int):
        return sum(values)
    total = Decimal(0)
    for value in values:
        total = Context(prec=60).add(total, value)
    return total


def to_float(value: Any) -> float:
    return nearest(Fraction(value)) if isinstance(value, Decimal) else float(value)


def mean(values: list[Any], exact: bool, result: Type) -> Any:
    if isinstance(values[0], float):
        return float_sum(values, exact=exact) / len(values)
    if isinstance(values[0], int):
        return float(sum(values)) / len(values)
    total = sum((Fraction(v) for v in values), Fraction(0)) / len(values) * 10**result.scale
    whole = (abs(total) * 2 + 1) // 2
    return Decimal(int(whole if total >= 0 else -whole)).scaleb(-result.scale, Context(prec=50, rounding=ROUND_HALF_UP))


def variance(values: list[Any], population: bool) -> float | None:
    divisor = len(values) - (0 if population else 1)
    if divisor <= 0:
        return None
    if isinstance(values[0], float) and not all(map(math.isfinite, values)):
        return math.nan
    exact = [Fraction(v) for v in values]
    middle = sum(exact) / len(exact)
    return nearest(sum((x - middle) ** 2 for x in exact) / divisor)


def bin_middle(x: float, error: float) -> float:
    if x == 0 or not math.isfinite(x):
        return canonical(x)
    bits = next(b for b in range(53) if 2.0 ** -(b + 1) <= error)
    step = 1 << (52 - bits)
    pattern = int(np.array([abs(x)]).view(np.int64)[0]) // step * step
    lower, upper = (float(np.array([p], dtype=np.int64).view(np.float64)[0]) for p in (pattern, pattern + step // 2))
    assert lower <= abs(x)
    return math.copysign(upper, x)


def quantile(values: list[float], q: float, error: float) -> float:
    middles = sorted((bin_middle(x, error) for x in values), key=rank)
    return middles[math.floor(q * (len(values) - 1))]


def approx_distinct(values: list[Any], type: pl.DataType, precision: int) -> int:
    m, registers = 1 << precision, {}
    for h in hash_columns([pl.Series(values, dtype=type)]).tolist() if values else ():
        register, rest = h >> (64 - precision), h & ((1 << (64 - precision)) - 1)
        registers[register] = max(registers.get(register, 0), 64 - precision - rest.bit_length() + 1)
    zeros = m - len(registers)
    alpha = {16: 0.673, 32: 0.697, 64: 0.709}.get(m, 0.7213 / (1 + 1.079 / m))
    estimate = alpha * m * m / math.fsum([zeros, *(2.0**-r for r in registers.values())])
    return round(m * math.log(m / zeros) if estimate <= 2.5 * m and zeros else estimate)


def round53(number: Fraction) -> Fraction:
    """To 53 bits, whatever the exponent."""
    if number == 0:
        return number
    shift = math.floor(math.log2(abs(number.numerator)) - math.log2(number.denominator))
    return Fraction(float(number / Fraction(2) ** shift)) * Fraction(2) ** shift


def ewma(pairs: list[tuple[int, float]], half_life: int) -> float:
    found = special([x for _, x in pairs])
    if found is not None:
        return found
    weighted, weights = [], []
    for time, x in pairs:
        k, rest = divmod(time, half_life)
        w = float(np.exp2(rest / half_life))
        fraction, exponent = math.frexp(x)
        weighted.append((fraction * w, k + exponent))
        weights.append((w, k))
    (above, high), (below, low) = scaled_total(weighted), scaled_total(weights)
    mean = nearest(round53(above) / round53(below) * Fraction(2) ** max(-5000, min(5000, high - low)))
    return max(-sys.float_info.max, min(sys.float_info.max, mean))


def scaled_total(values: list[tuple[float, int]]) -> tuple[Fraction, int]:
    """(a, e) so that a * 2**e is the total on the grid; whole cells are moved to e, lest the fractions grow without end."""
    whole = max((k // 32 * 32 for x, k in values if x != 0), default=0)
    return grid_total([(x, max(k - whole, -5000)) for x, k in values]), whole


def shown(aggregate: Any, schema: Schema, rows: list[Row], taking_back: bool = False) -> Any:
    """What an aggregate shows of the column `v`; rows are there once each (weights settled before)."""
    rows = [r for r in rows if r.keep]
    if isinstance(aggregate, agg.Count):
        return sum(1 for r in rows if aggregate.column is None or r.v is not None)
    rows = [r for r in rows if r.v is not None]
    pairs = sorted(((r.time, canonical(r.v)) for r in rows), key=lambda p: (p[0], rank(p[1])))
    if isinstance(aggregate, agg.Distinct | agg.ApproxDistinct | agg.Collect | agg.TopK):
        return of_many(aggregate, schema, rows, [v for _, v in pairs])
    return of_one(aggregate, schema, pairs, taking_back) if pairs else None


def of_many(aggregate: Any, schema: Schema, rows: list[Row], values: list[Any]) -> Any:
    counts = Counter(map(repr, values))
    named = {repr(v): v for v in values}
    if isinstance(aggregate, agg.Distinct):
        return len(counts)
    if isinstance(aggregate, agg.ApproxDistinct):
        return approx_distinct(values, polars_type(schema["v"]), aggregate.precision)
    if isinstance(aggregate, agg.Collect):
        return values
    if isinstance(aggregate, agg.TopK) and aggregate.by is None:
        best = sorted(((named[r], n) for r, n in counts.items()), key=lambda p: (-p[1], rank(p[0])))
        return [{"value": v, "count": n} for v, n in best[: aggregate.k]]
    judged = [(r.time, canonical(r.v), canonical(r.by)) for r in rows if r.by is not None]
    judged.sort(key=lambda j: (j[0], rank(j[1])))
    judged.sort(key=lambda j: rank(j[2]), reverse=True)  # a stable sort, also in reverse
    return [{"value": v, "by": by} for _, v, by in judged[: aggregate.k]]


def of_one(aggregate: Any, schema: Schema, pairs: list[tuple[int, Any]], taking_back: bool) -> Any:
    values = [v for _, v in pairs]
    ordered = sorted(values, key=rank)
    exact = taking_back or getattr(aggregate, "exact", False)
    doubles = [to_float(v) for v in values] if schema["v"].is_number else []
    match aggregate:
        case agg.Sum():
            return float_sum(values, exact=exact) if isinstance(values[0], float) else whole_sum(values)
        case agg.Mean():
            return mean(values, exact, result_type(aggregate, schema))
        case agg.Min():
            return ordered[0]
        case agg.Max():
            return ordered[-1]
        case agg.First():
            return values[0]
        case agg.Last():
            return values[-1]
        case agg.Variance():
            return variance(values, aggregate.population)
        case agg.StdDev():
            found = variance(values, aggregate.population)
            return None if found is None else math.sqrt(found)
        case agg.Quantile():
            if isinstance(aggregate.q, tuple):
                return [quantile(doubles, q, aggregate.error) for q in aggregate.q]
            return quantile(doubles, aggregate.q, aggregate.error)
        case agg.Ewma():
            return ewma([(t, to_float(v)) for t, v in pairs], aggregate.half_life)
    raise AssertionError(aggregate)
