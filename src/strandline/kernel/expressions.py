"""Run a text expression over columns: the same answers as `strandline.model.evaluate`, a column at a time.

Polars runs what it computes as Spark does. Whole numbers are checked for overflow in NumPy. What is rare and delicate
(decimals, reading text, rounding) is run value by value with the plain steps of `evaluate`, so there is one truth.

Law: for every row, `compile_expression` gives what `evaluate` gives, and fails when it fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, Final

import numpy as np
import polars as pl

from strandline.errors import DataError
from strandline.kernel import checked
from strandline.kernel.checked import Refused
from strandline.kernel.schema import polars_type
from strandline.model.coerce import Bound
from strandline.model.evaluate import no_time, run, strict
from strandline.model.expressions import Expression, bind
from strandline.model.syntax import VOID
from strandline.model.time import Instant
from strandline.model.types import INTEGERS, Schema, Type

Active = pl.Series | None
"""The rows for which a step is needed; None: all of them. A step must not fail for a row that has no need of it."""


def compile_expression(expression: Expression, schema: Schema, *, now: Instant | None = None) -> pl.Expr:
    """The expression as a Polars expression over a frame of this schema.

    >>> from strandline.model.expressions import parse
    >>> frame = pl.DataFrame({"a": [1, None, 3]}, schema={"a": pl.Int64})
    >>> frame.select(b=compile_expression(parse("a * 2"), Schema.of("a bigint")))["b"].to_list()
    [2, None, 6]
    """
    if expression.uses_now and now is None:
        raise no_time()
    return _Compiler(expression.text, now).whole(bind(expression, schema))


def evaluate_columns(
    expression: Expression, frame: pl.DataFrame, schema: Schema, now: Instant | None = None
) -> pl.Series:
    """The values of an expression for the rows of a frame, in order; as many as there are rows.

    >>> from strandline.model.expressions import parse
    >>> evaluate_columns(parse("7 as seven"), pl.DataFrame({"a": [1, 2]}), Schema.of("a bigint")).to_list()
    [7, 7]
    """
    compiled = compile_expression(expression, schema, now=now)
    found = frame.select(compiled.alias(expression.name or "value")).to_series()
    return found if len(found) == frame.height else found.new_from_index(0, frame.height)


class _Compiler:
    """Steps as Polars expressions, once their arguments are. `text` is for messages."""

    def __init__(self, text: str, now: Instant | None) -> None:
        self.text = text
        self.now = now

    def whole(self, bound: Bound) -> pl.Expr:
        """A tree in which nothing can fail is one Polars expression; else it is run with care, step by step."""
        if not fails_within(bound):
            return self.simple(bound)
        columns = [pl.col(name) for name in sorted(columns_of(bound))] or [pl.int_range(pl.len())]
        return checked.batch(
            lambda found: _Careful(self, pl.DataFrame(found)).step(bound, None), columns, dtype_of(bound)
        )

    def simple(self, bound: Bound) -> pl.Expr:
        if bound.op == "column":
            return pl.col(bound.value)
        if columns_of(bound):
            return self.combine(bound, [self.simple(a) for a in bound.args])
        value, kind = run(bound, {}, self.now), dtype_of(bound)
        return pl.lit(value, dtype=kind) if _plain(bound.type) else pl.lit(pl.Series([value], dtype=kind)).first()

    def combine(self, bound: Bound, args: Sequence[pl.Expr]) -> pl.Expr:
        if bound.op in _NATIVE:
            return _NATIVE[bound.op](bound, *args)
        return _CHECKED[bound.op](self, bound, args)

    def named(self, error: DataError) -> Refused:
        return Refused(f"In {self.text!r}: {error.what}\n  fix: {error.fix}")

    def numbers(self, function: Callable[..., Any], bound: Bound, args: Sequence[pl.Expr]) -> pl.Expr:
        """A step on NumPy arrays without nulls, which may raise DataError."""
        kind = dtype_of(bound)
        return checked.batch(lambda columns: checked.over_arrays(function, columns, kind, self.named), args, kind)

    def each(self, bound: Bound, args: Sequence[pl.Expr]) -> pl.Expr:
        """A step value by value, by the plain rule of `evaluate`."""
        kind = dtype_of(bound)
        rule = partial(strict, bound)
        return checked.batch(lambda columns: checked.over_values(rule, columns, kind, self.named), args, kind)


class _Careful:
    """A walk that makes a column of every step that can fail, and shows it only the rows that need it.

    One expression would have to repeat each condition in every step it guards: twice as long at each level.
    """

    def __init__(self, compiler: _Compiler, frame: pl.DataFrame) -> None:
        self.compiler = compiler
        self.frame = frame

    def step(self, bound: Bound, active: Active) -> pl.Series:
        if not fails_within(bound):
            return self.spread(self.frame.select(self.compiler.simple(bound).alias("value")).to_series())
        if not columns_of(bound):
            return self.constant(bound, active)
        args = self.arguments(bound, active)
        if active is not None and may_fail(bound):
            args[0] = args[0].zip_with(active, args[0].clear(len(active)))
        table = pl.DataFrame({str(i): arg for i, arg in enumerate(args)})
        return table.select(self.compiler.combine(bound, [pl.col(name) for name in table.columns])).to_series()

    def spread(self, column: pl.Series) -> pl.Series:
        height = self.frame.height
        return column if len(column) == height else column.new_from_index(0, height)

    def constant(self, bound: Bound, active: Active) -> pl.Series:
        """A part without columns is run once; should it fail, it fails only if some row needs it."""
        try:
            value = run(bound, {}, self.compiler.now)
        except DataError as error:
            if self.frame.height and (active is None or active.any()):
                raise self.compiler.named(error) from None
            value = None
        return self.spread(pl.Series("value", [value], dtype=dtype_of(bound)))

    def arguments(self, bound: Bound, active: Active) -> list[pl.Series]:
        """The arguments in the order in which they are needed; each may decide who needs the next."""
        if bound.op == "case":
            return self.branches(bound, active)
        order = (1, 0) if bound.op in ("/", "%", "div") else range(len(bound.args))
        found: dict[int, pl.Series] = {}
        for place in order:
            found[place] = self.step(bound.args[place], active)
            active = _narrow(bound.op, found[place], active)
        return [found[i] for i in range(len(bound.args))]

    def branches(self, bound: Bound, active: Active) -> list[pl.Series]:
        """A value is needed where its condition holds; what comes after, where it does not."""
        found: list[pl.Series] = []
        for condition, value in zip(bound.args[:-1:2], bound.args[1:-1:2], strict=True):
            holds = self.step(condition, active).fill_null(value=False)
            found += [holds, self.step(value, _both(active, holds))]
            active = _both(active, ~holds)
        return [*found, self.step(bound.args[-1], active)]


def _narrow(op: str, last: pl.Series, active: Active) -> Active:
    """Who needs the next argument, after the last one."""
    if op in _NULL_DECIDES:
        return _both(active, last.is_not_null())
    if op in ("and", "or"):
        return _both(active, (last if op == "and" else ~last).fill_null(value=True))
    if op == "coalesce":
        return _both(active, last.is_null())
    return active


def _both(active: Active, further: pl.Series) -> pl.Series:
    return further if active is None else active & further


def columns_of(bound: Bound) -> frozenset[str]:
    """The names of the columns that a step reads."""
    if bound.op == "column":
        return frozenset({bound.value})
    return frozenset[str]().union(*(columns_of(a) for a in bound.args))


def dtype_of(bound: Bound) -> pl.DataType:
    """The Polars type of what a step gives."""
    return pl.Null() if bound.type == VOID else polars_type(bound.type)


def _plain(type: Type) -> bool:
    return type.name in (*INTEGERS, "float", "double", "boolean", "string", "void")


def fails_within(bound: Bound) -> bool:
    """Whether some value could make a step, or one below it, fail."""
    return may_fail(bound) or any(fails_within(a) for a in bound.args)


def may_fail(bound: Bound) -> bool:
    """Whether some value could make this step fail."""
    if bound.op == "cast":
        return not _always_fits(bound.args[0].type, bound.type)
    if bound.op in ("+", "-", "*", "negate", "abs", "round"):
        return not bound.type.is_float
    return bound.op in ("/", "%", "div") or (bound.op in ("floor", "ceil") and bound.type.name == "decimal")


def _always_fits(source: Type, target: Type) -> bool:
    if source.is_integer and target.is_integer:
        return INTEGERS.index(source.name) <= INTEGERS.index(target.name)
    if source.name in _MOMENTS and target.name in _MOMENTS:
        return True
    return source.name != "string" and target.name in ("boolean", "float", "double", "string")


def _case(bound: Bound, *args: pl.Expr) -> pl.Expr:
    *branches, found = args
    for holds, chosen in zip(branches[-2::-2], branches[::-2], strict=True):
        found = pl.when(holds).then(chosen).otherwise(found)
    return found


def _arithmetic(compiler: _Compiler, bound: Bound, args: Sequence[pl.Expr]) -> pl.Expr:
    if bound.type.name == "decimal":
        return compiler.each(bound, args)
    if bound.type.is_float and bound.op in "+-*":
        return {"+": args[0] + args[1], "-": args[0] - args[1], "*": args[0] * args[1]}[bound.op]
    if bound.type.is_float:
        return compiler.numbers(checked.FLOAT_STEPS[bound.op], bound, args)
    if bound.type.is_integer:
        return compiler.numbers(checked.integer_step(bound.op, bound.type), bound, args)
    return compiler.numbers(checked.time_step(bound.op, bound.type), bound, args)


def _signed(compiler: _Compiler, bound: Bound, args: Sequence[pl.Expr]) -> pl.Expr:
    if bound.type.name == "decimal":
        return compiler.each(bound, args)
    if bound.type.is_float:
        return -args[0] if bound.op == "negate" else args[0].abs()
    return compiler.numbers(checked.sign_step(bound.op, bound.type), bound, args)


def _whole_part(compiler: _Compiler, bound: Bound, args: Sequence[pl.Expr]) -> pl.Expr:
    if bound.type.name == "decimal":
        return compiler.each(bound, args)
    return compiler.numbers(
        lambda x: checked.saturated(np.floor(x) if bound.op == "floor" else np.ceil(x)), bound, args
    )


def _round(compiler: _Compiler, bound: Bound, args: Sequence[pl.Expr]) -> pl.Expr:
    return compiler.each(bound, args)


def _cast(compiler: _Compiler, bound: Bound, args: Sequence[pl.Expr]) -> pl.Expr:
    source, target, arg = bound.args[0].type, bound.type, args[0]
    if source.is_number and target.name == "boolean" and source.name != "decimal":
        return arg != 0
    if (source.is_integer or source.name == "boolean") and (target.is_integer or target.is_float):
        return arg.cast(polars_type(target)) if _always_fits(source, target) else _to_integer(compiler, bound, args)
    if source.is_float and target.is_integer:
        return _to_integer(compiler, bound, args)
    if source.is_float and target.name == "double":
        return arg.cast(pl.Float64)
    if source.name == "boolean" and target.is_integer:
        return arg.cast(polars_type(target))
    if source.name in _MOMENTS and target.name in _MOMENTS:
        return _between_moments(arg, source, target)
    return compiler.each(bound, args)


def _to_integer(compiler: _Compiler, bound: Bound, args: Sequence[pl.Expr]) -> pl.Expr:
    return compiler.numbers(lambda x: checked.to_integer(x, bound.type), bound, args)


_MOMENTS: Final = ("date", "timestamp", "timestamp_ntz")


def _between_moments(arg: pl.Expr, source: Type, target: Type) -> pl.Expr:
    if target.name == "date":
        return arg.dt.date()
    local = arg.cast(pl.Datetime("us")) if source.name == "date" else arg
    return local.dt.replace_time_zone("UTC" if target.name == "timestamp" else None)


def _extreme(bound: Bound, *args: pl.Expr) -> pl.Expr:
    def further(best: pl.Series, each: pl.Series) -> pl.Series:
        beats = each > best if bound.op == "greatest" else each < best
        return each.zip_with(best.is_null() | beats.fill_null(value=False), best)

    return checked.batch(lambda columns: reduce(further, columns), args, dtype_of(bound))


def _length(bound: Bound, arg: pl.Expr) -> pl.Expr:
    return (arg.str.len_chars() if bound.args[0].type.name == "string" else arg.bin.size()).cast(pl.Int32)


def _substring(bound: Bound, text: pl.Expr, *places: pl.Expr) -> pl.Expr:
    size, zero = text.str.len_chars().cast(pl.Int64), pl.lit(0, dtype=pl.Int64)
    position = places[0].cast(pl.Int64)
    start = pl.when(position > 0).then(position - 1).when(position < 0).then(size + position).otherwise(zero)
    end = start + places[1].cast(pl.Int64) if len(places) > 1 else size
    low = pl.max_horizontal(start, zero)
    known = reduce(lambda a, b: a & b, [p.is_not_null() for p in (text, *places)])
    return pl.when(known).then(text.str.slice(low, pl.max_horizontal(end - low, zero)))


_TRUNCATIONS: Final = {
    "second": "1s", "minute": "1m", "hour": "1h", "day": "1d", "week": "1w", "month": "1mo", "quarter": "1q", "year": "1y",
}  # fmt: skip
_NULL_DECIDES: Final = ("+", "-", "*", "/", "%", "div", "=", "<>", "<", "<=", ">", ">=")
_CHECKED: Final[dict[str, Callable[[_Compiler, Bound, Sequence[pl.Expr]], pl.Expr]]] = {
    **dict.fromkeys(("+", "-", "*", "/", "%", "div"), _arithmetic),
    "negate": _signed, "abs": _signed, "floor": _whole_part, "ceil": _whole_part, "round": _round, "cast": _cast,
}  # fmt: skip
_NATIVE: Final[dict[str, Callable[..., pl.Expr]]] = {
    "=": lambda _, a, b: a == b,
    "<>": lambda _, a, b: a != b,
    "<": lambda _, a, b: a < b,
    "<=": lambda _, a, b: a <= b,
    ">": lambda _, a, b: a > b,
    ">=": lambda _, a, b: a >= b,
    "<=>": lambda _, a, b: a.eq_missing(b),
    "and": lambda _, a, b: a & b,
    "or": lambda _, a, b: a | b,
    "not": lambda _, a: ~a,
    "case": _case,
    "coalesce": lambda _, *args: pl.coalesce(args),
    "is null": lambda _, a: a.is_null(),
    "in": lambda _, a, *choices: reduce(lambda x, y: x | y, [a == c for c in choices]),
    "like": lambda bound, a: a.str.contains(bound.value),
    "greatest": _extreme, "least": _extreme,
    "upper": lambda _, a: a.str.to_uppercase(),
    "lower": lambda _, a: a.str.to_lowercase(),
    "trim": lambda _, a: a.str.strip_chars(" "),
    "ltrim": lambda _, a: a.str.strip_chars_start(" "),
    "rtrim": lambda _, a: a.str.strip_chars_end(" "),
    "length": _length, "substring": _substring,
    "concat": lambda _, *parts: pl.concat_str(parts, ignore_nulls=False),
    **{unit: lambda bound, a: getattr(a.dt, bound.op)().cast(pl.Int32)
       for unit in ("year", "month", "day", "hour", "minute", "second")},
    "unix_micros": lambda _, a: a.cast(pl.Int64),
    "date_trunc": lambda bound, a: a.dt.truncate(_TRUNCATIONS[bound.value]),
}  # fmt: skip
