"""Read Spark SQL text into our own syntax tree. The only module that knows sqlglot."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

from sqlglot import TokenType, exp, parse_one
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from strandline.errors import DescriptionError, ExpressionError
from strandline.model.syntax import VOID, Call, Cast, ColumnRef, Foreign, Literal, Node
from strandline.model.types import Type

BOOLEAN: Final = Type.of("boolean")
STRING: Final = Type.of("string")
INTERVAL: Final = Type.of("interval day to second")

NOT_DETERMINISTIC: Final = frozenset({
    "rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id",
    "spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length",
})  # fmt: skip
OTHER_CLOCKS: Final = frozenset({"current_date", "curdate", "localtimestamp", "current_time"})
_PARENTHESES: Final = "Put parentheses around each comparison."

BINARY: Final[dict[type[exp.Expression], str]] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div",
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>",
    exp.And: "and", exp.Or: "or", exp.DPipe: "||", exp.Nullif: "nullif",
}  # fmt: skip
UNARY: Final[dict[type[exp.Expression], str]] = {
    exp.Neg: "negate", exp.Not: "not", exp.Abs: "abs", exp.Floor: "floor", exp.Ceil: "ceil", exp.Upper: "upper",
    exp.Lower: "lower", exp.Length: "length", exp.UnixMicros: "unix_micros", exp.Hour: "hour", exp.Minute: "minute",
    exp.Second: "second", exp.Year: "year", exp.Month: "month", exp.Day: "day",
}  # fmt: skip
VARIADIC: Final[dict[type[exp.Expression], str]] = {
    exp.Coalesce: "coalesce", exp.Greatest: "greatest", exp.Least: "least",
}  # fmt: skip
_PREDICATES: Final = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.In, exp.Between, exp.Like,
)  # fmt: skip
_NOT_ONE_ROW: Final = (exp.AggFunc, exp.Window, exp.Query, exp.Explode, exp.Star)
_MICROS: Final = {
    "MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6,
    "DAY": 86_400 * 10**6, "WEEK": 7 * 86_400 * 10**6,
}  # fmt: skip
# How sqlglot itself marks what Spark does anyway; any other argument of a node makes it foreign.
_HARMLESS: Final = frozenset({"typed", "safe", "ignore_nulls", "coalesce", "_type"})


def read(text: str) -> tuple[Node, str | None, frozenset[str], bool]:
    """The tree of a text, the name it gives itself (`... as name`), the columns it reads, whether it asks the time."""
    tree = _one_expression(text)
    _refuse_what_never_works(text, tree)
    name = None
    if isinstance(tree, exp.Alias):
        name, tree = tree.alias, tree.this
    elif isinstance(tree, exp.Column):
        name = tree.name
    references = frozenset(_root(c) for c in tree.find_all(exp.Column))
    return _node(tree), name, references, any(_asks_the_time(part) for part in tree.walk())


def _one_expression(text: str) -> exp.Expression:
    try:
        select = parse_one("select " + text, read="spark")
    except SqlglotError as error:
        raise _unreadable(text, _why(error)) from None
    given = {k for k, v in select.args.items() if v} - {"kind", "hint"}
    if not isinstance(select, exp.Select) or given != {"expressions"}:
        raise _unreadable(text, "it is a statement, or nothing at all")
    if len(select.expressions) != 1:
        raise _unreadable(text, f"it holds {len(select.expressions)} expressions")
    found: exp.Expression = select.expressions[0]
    return found


def _why(error: SqlglotError) -> str:
    """The parser's complaint, in words about the text."""
    found = (getattr(error, "errors", None) or [{}])[0]
    said, near = str(found.get("description") or ""), str(found.get("highlight") or "")
    if not said:
        return "a quote is not closed"
    if "Required keyword" in said:
        return "a part of it is missing"
    if said.startswith("Expecting"):
        return f"a {said.removeprefix('Expecting').strip()!r} is missing"
    return f"{near!r} is not expected there" if near else "it is no expression"


def _unreadable(text: str, why: str) -> ExpressionError:
    return ExpressionError(
        f"The expression {text!r} cannot be read: {why}.",
        fix="Write one Spark SQL expression, such as 'amount * 2 as double_amount'.",
    )


def _refuse_what_never_works(text: str, tree: exp.Expression) -> None:
    """What no runner may accept: a second run would give another answer, or it is not about one row."""
    for name, called, empty in _words(text):
        if name in NOT_DETERMINISTIC and called:
            raise ExpressionError(
                f"{name}() in {text!r} gives another answer each time, so a replay would not repeat the first run.",
                fix="Take the value from a column of the source.",
            )
        if name in OTHER_CLOCKS or (name == "unix_timestamp" and empty):
            raise ExpressionError(
                f"{name} in {text!r} reads a clock.",
                fix="Use current_timestamp(), which is the tick's time: cast(current_timestamp() as date).",
            )
    for part in tree.find_all(*_NOT_ONE_ROW):
        if isinstance(part, exp.Star):
            raise ExpressionError(
                f"* in {text!r} stands for every column, where one value is needed.",
                fix="Name the columns: .select('user', 'amount').",
            )
        raise ExpressionError(
            f"{part.sql(dialect='spark')} in {text!r} is not about one row.",
            fix="Aggregate in a window stage: .window(...).aggregate(...).",
        )


def _words(text: str) -> Iterable[tuple[str, bool, bool]]:
    """Every word outside quotes, with whether `(` follows, and whether `()` does."""
    tokens = list(Spark().tokenize(text))
    kinds = [t.token_type for t in tokens] + [TokenType.SEMICOLON] * 2
    for i, token in enumerate(tokens):
        if token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING):
            called = kinds[i + 1] == TokenType.L_PAREN
            yield token.text.lower(), called, called and kinds[i + 2] == TokenType.R_PAREN


def _asks_the_time(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.CurrentTimestamp) or (isinstance(tree, exp.Anonymous) and tree.name.lower() == "now")


def _root(column: exp.Column) -> str:
    return str(column.parts[0].name)


def _node(tree: exp.Expression) -> Node:
    """One rule per kind of node; what has none is left to Spark."""
    rule = _RULES.get(type(tree))
    if isinstance(tree, _PREDICATES) and any(isinstance(v, _PREDICATES) for v in tree.args.values()):
        # Spark and sqlglot group `a = b < c` differently, so neither reading may be guessed.
        return Foreign(tree.sql(dialect="spark"), hint=_PARENTHESES)
    found = rule(tree) if rule is not None else None
    return found if found is not None else Foreign(_spoken(tree))


def _spoken(tree: exp.Expression) -> str:
    if isinstance(tree, exp.Anonymous):
        return f"the function {tree.name.lower()}()"
    return tree.sql(dialect="spark")


def _only(tree: exp.Expression, *expected: str) -> bool:
    return all(k in expected or k in _HARMLESS or not v for k, v in tree.args.items())


def _call(name: str, *args: exp.Expression) -> Call:
    return Call(name, tuple(_node(a) for a in args))


def _binary(tree: Any) -> Node | None:
    return _call(BINARY[type(tree)], tree.this, tree.expression) if _only(tree, "this", "expression") else None


def _unary(tree: Any) -> Node | None:
    if isinstance(tree, exp.Neg) and isinstance(tree.this, exp.Literal) and not tree.this.is_string:
        return _number("-" + tree.this.this)
    arg = tree.this.this if isinstance(tree.this, exp.TsOrDsToDate) else tree.this
    return _call(UNARY[type(tree)], arg) if _only(tree, "this") else None


def _variadic(tree: Any) -> Node | None:
    return _call(VARIADIC[type(tree)], tree.this, *tree.expressions) if _only(tree, "this", "expressions") else None


def _literal(tree: Any) -> Node | None:
    return Literal(tree.this, STRING) if tree.is_string else _number(tree.this)


def _number(text: str) -> Node:
    """Spark's rule: the least of int, bigint, decimal that holds it; with an exponent, a double."""
    if "e" in text.lower():
        return Literal(float(text), Type.of("double"))
    if "." not in text:
        for name, bits in (("int", 31), ("bigint", 63)):
            if -(2**bits) <= int(text) < 2**bits:
                return Literal(int(text), Type.of(name))
    value = Decimal(text)
    _, digits, exponent = value.as_tuple()
    scale = -int(exponent)
    precision = max(len(digits), scale, 1)
    return Literal(value, Type.decimal(precision, scale)) if precision <= 38 else Foreign(f"the number {text}")


def _case(tree: Any) -> Node | None:
    args: list[Node] = []
    for branch in tree.args["ifs"]:
        condition = _node(branch.this)
        args.append(Call("=", (_node(tree.this), condition)) if tree.this else condition)
        args.append(_node(branch.args["true"]))
    default = tree.args.get("default")
    return Call("case", (*args, _node(default) if default else Literal(None, VOID)))


def _if(tree: Any) -> Node | None:
    otherwise = tree.args.get("false")
    return _call("case", tree.this, tree.args["true"], otherwise) if otherwise else None


def _is(tree: Any) -> Node | None:
    if isinstance(tree.expression, exp.Null):
        return _call("is null", tree.this)
    return _call("<=>", tree.this, tree.expression) if isinstance(tree.expression, exp.Boolean) else None


def _is_distinct(tree: Any) -> Node | None:
    return Call("not", (_call("<=>", tree.this, tree.expression),))


def _in(tree: Any) -> Node | None:
    return _call("in", tree.this, *tree.expressions) if _only(tree, "this", "expressions") else None


def _between(tree: Any) -> Node | None:
    if not _only(tree, "this", "low", "high"):
        return None
    return Call("and", (_call(">=", tree.this, tree.args["low"]), _call("<=", tree.this, tree.args["high"])))


def _like(tree: Any, escape: str = "\\") -> Node | None:
    if not _only(tree, "this", "expression", "negate") or not tree.expression.is_string:
        return None
    found = Call("like", (_node(tree.this), _node(tree.expression), Literal(escape, STRING)))
    return Call("not", (found,)) if tree.args.get("negate") else found


def _escape(tree: Any) -> Node | None:
    return _like(tree.this, tree.expression.this) if isinstance(tree.this, exp.Like) else None


def _cast(tree: Any) -> Node | None:
    if tree.args.get("safe") or not _only(tree, "this", "to"):
        return None
    try:
        return Cast(
            _node(tree.this),
            Type.of("timestamp" if tree.to.this == exp.DType.TIMESTAMP else tree.to.sql(dialect="spark").lower()),
        )
    except DescriptionError:
        return None


def _trim(tree: Any) -> Node | None:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(tree.args.get("position")), "trim")
    return _call(name, tree.this) if _only(tree, "this", "position") else None


def _substring(tree: Any) -> Node | None:
    length = [tree.args["length"]] if tree.args.get("length") else []
    return (
        _call("substring", tree.this, tree.args["start"], *length) if _only(tree, "this", "start", "length") else None
    )


def _round(tree: Any) -> Node | None:
    digits = tree.args.get("decimals") or exp.Literal.number(0)
    return _call("round", tree.this, digits) if _only(tree, "this", "decimals") else None


def _concat(tree: Any) -> Node | None:
    # sqlglot reads 'it''s' as two texts side by side; Spark 4 reads a quote. Only a written concat() says "safe".
    return _call("concat", *tree.expressions) if tree.args.get("safe") else None


def _date_trunc(tree: Any) -> Node | None:
    unit = Literal(tree.args["unit"].name.lower(), STRING)
    return Call("date_trunc", (unit, _node(tree.this))) if _only(tree, "this", "unit") else None


def _interval(tree: Any) -> Node | None:
    unit = tree.args.get("unit")
    micros = _MICROS.get(unit.name.upper().removesuffix("S")) if isinstance(unit, exp.Var) else None
    try:
        total = Decimal(tree.this.this) * (micros or 0)
    except (ArithmeticError, AttributeError, TypeError):
        return None
    if micros is None or total != int(total):
        return None
    return Literal(timedelta(microseconds=int(total)), INTERVAL)


def _anonymous(tree: Any) -> Node | None:
    name, args = tree.name.lower(), tree.expressions
    if name == "now" and not args:
        return Call("current_timestamp", ())
    if name == "isnull" and len(args) == 1:
        return _call("is null", *args)
    if name == "isnotnull" and len(args) == 1:
        return Call("not", (_call("is null", *args),))
    return Cast(_node(args[0]), Type.of("bigint")) if name == "bigint" and len(args) == 1 else None


_RULES: Final[dict[type[exp.Expression], Callable[[Any], Node | None]]] = {
    **dict.fromkeys(BINARY, _binary), **dict.fromkeys(UNARY, _unary), **dict.fromkeys(VARIADIC, _variadic),
    exp.Literal: _literal,
    exp.Boolean: lambda tree: Literal(bool(tree.this), BOOLEAN),
    exp.Null: lambda tree: Literal(None, VOID),
    exp.Paren: lambda tree: _node(tree.this),
    exp.Column: lambda tree: ColumnRef(tree.name) if not tree.table else None,
    exp.CurrentTimestamp: lambda tree: None if tree.this else Call("current_timestamp", ()),
    exp.NullSafeNEQ: _is_distinct, exp.Case: _case, exp.If: _if, exp.Is: _is, exp.In: _in, exp.Between: _between, exp.Like: _like,
    exp.Escape: _escape, exp.Cast: _cast, exp.TryCast: _cast, exp.Trim: _trim, exp.Substring: _substring,
    exp.Round: _round, exp.Concat: _concat, exp.TimestampTrunc: _date_trunc, exp.Interval: _interval,
    exp.Anonymous: _anonymous,
}  # fmt: skip
