"""One table of expressions judges both evaluators; random expressions hold them to each other."""

import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.errors import DataError
from strandline.kernel.expressions import compile_expression, evaluate_columns
from strandline.kernel.schema import polars_schema
from strandline.model.evaluate import evaluate
from strandline.model.expressions import parse
from strandline.model.time import Instant
from strandline.model.types import Schema

SCHEMA = Schema.of(
    "i int, j int, l bigint, t tinyint, f float, x double, y double, m decimal(10,2), s string, r string, b boolean, "
    "c boolean, at timestamp, day date, local timestamp_ntz, gap interval day to second, raw binary, n int"
)
NOON = datetime(2026, 3, 4, 12, 34, 56, 789_000, tzinfo=timezone.utc)
NOON_THERE = datetime(2026, 3, 4, 12)  # noqa: DTZ001 - a local time has no zone
ROW = {
    "i": 7, "j": -3, "l": 2**40, "t": 100, "f": 0.5, "x": 2.5, "y": math.nan, "m": Decimal("12.35"), "s": "Hello, wörld",
    "r": " pad ", "b": True, "c": False, "at": NOON, "day": date(2026, 3, 4), "local": NOON_THERE,
    "gap": timedelta(minutes=5), "raw": b"\x00\xff", "n": None,
}  # fmt: skip
NOW = Instant.of("2026-03-05T00:00:00Z")


def both(text, row=ROW, schema=SCHEMA):
    """The value by row and the value by column, or DataError in place of either."""
    return by_row(text, row, schema), by_column(text, [row], schema)[0]


def by_row(text, row, schema=SCHEMA):
    try:
        return evaluate(parse(text), row, schema=schema, now=NOW)
    except DataError:
        return DataError


def by_column(text, rows, schema=SCHEMA):
    frame = pl.DataFrame(rows, schema=polars_schema(schema), orient="row")
    try:
        return evaluate_columns(parse(text), frame, schema, NOW).to_list()
    except DataError:
        return [DataError] * len(rows)


def same(left, right):
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    return type(left) is type(right) and left == right


ANSWERS = [
    # arithmetic
    ("i + j", 4), ("i - j", 10), ("i * j", -21), ("i / j", 7 / -3), ("i % j", 1), ("j % i", -3), ("j % 2", -1), ("i div j", -2),
    ("-i", -7), ("abs(j)", 3), ("i + n", None), ("n / 0", None), ("i / 0", DataError), ("i % 0", DataError), ("x / 0", DataError),
    ("x % 0", DataError), ("i div 0", DataError), ("l * l", DataError), ("t + t", DataError), ("t + 100", 200),
    ("i + 2147483647", DataError), ("l + 2147483647", 2**40 + 2**31 - 1), ("i + 2147483647L", 2**31 + 6),
    ("-9223372036854775808 div -1", DataError), ("(l - l - 9223372036854775807 - 1) % -1", 0),
    ("abs(l - l - 9223372036854775807 - 1)", DataError), ("x * 2", 5.0), ("x % 2", 0.5), ("-x % 2", -0.5), ("f * 3", 1.5),
    ("f + f", 1.0), ("x * 1e308 * 10", math.inf),
    # decimals
    ("m + 1", Decimal("13.35")), ("m * 2", Decimal("24.70")), ("m / 3", Decimal("4.116667")), ("m % 5", Decimal("2.35")),
    ("-m", Decimal("-12.35")), ("i * 1.5", Decimal("10.5")), ("m * x", 30.875), ("m / 0", DataError), ("m > 12", True),
    ("m = 12.350", True), ("m in (1, 12.35)", True), ("m * m * m * m * m * m", Decimal("3548148.153456")),
    ("m > x", True), ("floor(m)", Decimal(12)), ("ceil(m)", Decimal(13)), ("round(m, 1)", Decimal("12.4")),
    ("cast(99999999.99 + m as decimal(10,2))", DataError), ("abs(-m)", Decimal("12.35")),
    # three-valued logic
    ("n is null", True), ("i is not null", True), ("n = 1", None), ("n <=> null", True), ("i <=> null", False), ("i <=> 7", True),
    ("c and n = 1", False), ("b and n = 1", None), ("b or n = 1", True), ("c or n = 1", None), ("not n = 1", None), ("not b", False),
    ("(n = 1) is true", False), ("(n = 1) is not true", True), ("i in (1, 7, n)", True), ("i in (1, n)", None),
    ("i not in (1, n)", None), ("n in (1)", None), ("i between 1 and 7", True), ("i not between 1 and 7", False),
    ("i between n and 3", False), ("i == 7 and i != 8 and i <> 9 and i >= 7 and i <= 7 and i > 6 and i < 8", True),
    # NaN
    ("y = y", True), ("y > 1e300", True), ("y >= y", True), ("greatest(x, y)", math.nan), ("least(x, y)", 2.5), ("x < y", True),
    ("y in (x, y)", True), ("0.0D = -0.0D", True),
    # what is not needed is not run
    ("j = -3 or i / 0 > 1", True), ("b and i / 0 > 1", DataError), ("c and i / 0 > 1", False), ("c and 1 / 0 > 1", False),
    ("case when i <> 7 then 1 / (i - 7) else 0 end", 0.0), ("if(i = 7, 0, i % 0)", 0), ("coalesce(i, i % 0)", 7),
    ("coalesce(n, i % 0)", DataError), ("n + i % 0", None), ("i % 0 + n", DataError), ("if(b, 1, cast(s as int))", 1),
    # choices
    ("case when i > 100 then 'a' when i > 5 then 'b' else 'c' end", "b"), ("case i when 7 then 'seven' end", "seven"),
    ("case when n = 1 then 1 end", None), ("coalesce(n, j, i)", -3), ("nullif(i, 7)", None), ("nullif(i, 8)", 7), ("ifnull(n, 5)", 5),
    ("greatest(i, n, j)", 7), ("least(i, n, j)", -3), ("greatest(n, n)", None), ("if(n = 1, 1, 2)", 2),
    # rounding
    ("round(x)", 3.0), ("round(-x)", -3.0), ("round(1.005D * x / 2.5D, 2)", 1.01), ("round(-0.4D * x / 2.5D)", 0.0), ("floor(x)", 2),
    ("ceil(-x)", -2), ("floor(y)", 0), ("ceil(x * 1e300)", 2**63 - 1), ("floor(i)", 7), ("round(i, 2)", 7), ("round(y, 1)", math.nan),
    # text
    ("upper(s)", "HELLO, WÖRLD"), ("lower(s)", "hello, wörld"), ("length(s)", 12), ("length(raw)", 2), ("trim(r)", "pad"),
    ("ltrim(r)", "pad "), ("rtrim(r)", " pad"), ("substring(s, 1, 5)", "Hello"), ("substring(s, 0, 2)", "He"), ("substring(s, 9)", "örld"),
    ("substring(s, -5, 2)", "wö"), ("substring(s, -20, 10)", "He"), ("substring(s, -14, 3)", "H"), ("substring(s, 3, -1)", ""),
    ("substring(s, 50, 1)", ""), ("substring(s, n, 1)", None), ("substring(s from 2 for 3)", "ell"), ("s || r", "Hello, wörld pad "),
    ("concat(s, null)", None), ("concat('x', i, b, m, day)", "x7true12.352026-03-04"), ("concat(at)", "2026-03-04 12:34:56.789"),
    ("s like 'Hello%'", True), ("s like 'hello%'", False), ("s like '%w_rld'", True), ("s not like '%z%'", True), ("'a.c' like 'abc'", False),
    (r"concat(s, '%') like '%\%'", True), (r"s like '%\%'", False), ("s like '%!%' escape '!'", False), ("s < 'Z'", True),
    ("concat(s, '\n') like '%d'", False), ("concat('a', '\n', r) like 'a% pad '", True),
    # times, in UTC
    ("year(at)", 2026), ("month(day)", 3), ("day(at)", 4), ("hour(at)", 12), ("minute(at)", 34), ("second(at)", 56),
    ("unix_micros(at)", 1_772_627_696_789_000), ("at > '2026-03-04'", True), ("at = '2026-03-04 12:34:56.789'", True),
    ("at = timestamp'2026-03-04T13:34:56.789+01:00'", True), ("day = '2026-03-04'", True), ("day < at", True), ("at < now()", True),
    ("day = date'2026-03-04'", True), ("current_timestamp()", NOW.moment), ("at + interval 1 hour 30 minutes", NOON + timedelta(hours=1.5)),
    ("at - interval '2' day", NOON - timedelta(days=2)), ("gap + at", NOON + timedelta(minutes=5)), ("now() - at > interval 11 hours", True),
    ("at + interval 3000000 days", DataError), ("-gap", timedelta(minutes=-5)), ("gap > interval 4 minutes", True),
    ("local + gap", NOON_THERE + timedelta(minutes=5)), ("date_trunc('hour', at)", NOON.replace(minute=0, second=0, microsecond=0)),
    ("date_trunc('week', at)", datetime(2026, 3, 2, tzinfo=timezone.utc)), ("local = day", False),
    ("date_trunc('quarter', at)", datetime(2026, 1, 1, tzinfo=timezone.utc)), ("at between '2026-03-04' and '2026-03-05'", True),
    ("hour(day)", 0), ("hour(local)", 12), ("date_trunc('month', day)", datetime(2026, 3, 1, tzinfo=timezone.utc)),
    ("unix_micros(day)", 1_772_582_400_000_000), ("i is distinct from n", True), ("n is not distinct from null", True),
    ("greatest(m, 1)", Decimal("12.35")), ("greatest(s, r)", "Hello, wörld"), ("least(b, c)", False), ("greatest(day, at)", NOON),
    ("least(raw, null)", b"\x00\xff"), ("greatest(gap, -gap, gap + gap)", timedelta(minutes=10)), ("least(m, 12.3, i)", Decimal("7.00")),
    # conversions
    ("cast(x as int)", 2), ("cast(-x as int)", -2), ("cast(y as int)", DataError), ("cast(x * 1e10 as int)", DataError),
    ("cast(l as int)", DataError), ("cast(i as tinyint)", 7), ("cast(i as boolean)", True), ("cast(b as int)", 1), ("cast(i as double)", 7.0),
    ("cast(concat(' ', i, ' ') as int)", 7), ("cast(s as int)", DataError), ("cast('1e3' as double)", 1000.0), ("cast('1.5' as decimal(3,1))", Decimal("1.5")),
    ("cast(x as decimal(5,0))", Decimal(3)), ("cast(y as decimal(5,0))", None), ("cast(i as string)", "7"), ("cast(b as string)", "true"),
    ("cast(at as date)", date(2026, 3, 4)), ("cast(day as timestamp)", datetime(2026, 3, 4, tzinfo=timezone.utc)), ("cast(m as int)", 12),
    ("cast(m as double)", 12.35), ("cast(concat('yes', '') as boolean)", True), ("cast(local as timestamp)", datetime(2026, 3, 4, 12, tzinfo=timezone.utc)),
    ("cast(x * 1e300 as float)", math.inf), ("cast(16777217 + i - i as float)", 16777216.0), ("cast(f as double)", 0.5), ("bigint(i)", 7),
    ("cast(m as boolean)", True), ("cast(b as decimal(3,1))", Decimal("1.0")), ("cast(null as int)", None), ("x::int", 2),
    ("cast(concat(day, ' 01:02') as timestamp)", datetime(2026, 3, 4, 1, 2, tzinfo=timezone.utc)), ("null", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), ANSWERS, ids=[text for text, _ in ANSWERS])
def test_row_by_row_and_by_columns_give_the_known_answer(text, expected):
    by_rows, by_columns = both(text)
    assert same(by_rows, expected), by_rows
    assert same(by_columns, expected) or by_columns == expected, by_columns


@pytest.mark.parametrize("text", [text for text, expected in ANSWERS if expected is not DataError])
def test_columns_have_the_type_that_was_promised_even_without_rows(text):
    empty = pl.DataFrame(schema=polars_schema(SCHEMA))
    found = evaluate_columns(parse(text), empty, SCHEMA, NOW)
    promised = parse(text).type_in(SCHEMA)
    assert len(found) == 0
    assert found.dtype == (pl.Null if promised.name == "void" else polars_schema(Schema((("v", promised),)))["v"])


def test_a_row_that_needs_no_division_does_not_stop_one_that_does():
    rows = [ROW | {"i": 0}, ROW | {"i": 2}, ROW | {"i": None}]
    assert by_column("case when i <> 0 then 10 / i else -1 end", rows) == [-1.0, 5.0, -1.0]
    assert by_column("i <> 0 and 10 % i = 0", rows) == [False, True, None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" + ".join(["i * j"] * 60), -21 * 60),
        (" and ".join(["10 / i > 1"] * 60), True),
        ("case " + " ".join(f"when i + {k} = 0 then i * {k}" for k in range(60)) + " else i end", 7),
        ("greatest(" + ", ".join(["i + 1"] * 60) + ")", 8),
    ],
    ids=["sum", "and", "case", "greatest"],
)
def test_the_work_grows_with_the_length_of_the_text_and_not_faster(text, expected):
    assert both(text) == (expected, expected)


def test_errors_keep_their_fix_when_polars_passes_them_on():
    frame = pl.DataFrame({"i": [1, 0]}, schema={"i": pl.Int32})
    compiled = compile_expression(parse("1 / i"), Schema.of("i int"))
    for attempt in (lambda: frame.select(compiled), lambda: frame.lazy().filter(compiled > 1).collect()):
        with pytest.raises(DataError) as error:
            attempt()
        assert error.value.what == "In '1 / i': Division by zero."
        assert "nullif" in error.value.fix


# Random expressions, by the type that they have.

NUMBERS = ["i", "j", "n", "l", "t", "x", "y", "f", "m", "0", "1", "-2", "2.5", "1e0"]
TEXTS = ["s", "r", "'a'", "''", "'%b'", "null"]
TIMES = ["at", "day", "now()", "timestamp'2026-01-01T00:00:00Z'"]


def numbers(inner):
    n, b, s, t = inner
    return st.one_of(
        st.builds("({} {} {})".format, n, st.sampled_from(["+", "-", "*", "/", "%"]), n),
        st.builds("{}({})".format, st.sampled_from(["-", "abs", "floor", "ceil", "round"]), n),
        st.builds("{}({}, {})".format, st.sampled_from(["coalesce", "greatest", "least", "nullif"]), n, n),
        st.builds("if({}, {}, {})".format, b, n, n),
        st.builds("case when {} then {} when {} then {} end".format, b, n, b, n),
        st.builds(
            "cast({} as {})".format,
            n,
            st.sampled_from(["int", "bigint", "double", "float", "decimal(12,3)", "smallint"]),
        ),
        st.builds("length({})".format, s),
        st.builds("{}({})".format, st.sampled_from(["year", "month", "day"]), t),
    )


def booleans(inner):
    n, b, s, t = inner
    compare = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])
    return st.one_of(
        st.builds("({} {} {})".format, n, compare, n),
        st.builds("({} {} {})".format, s, compare, s),
        st.builds("({} {} {})".format, t, compare, t),
        st.builds("({} {} {})".format, b, st.sampled_from(["and", "or", "=", "<=>"]), b),
        st.builds("(not {})".format, b),
        st.builds("({} is {})".format, n, st.sampled_from(["null", "not null"])),
        st.builds("({} in ({}, {}))".format, n, n, n),
        st.builds("({} between {} and {})".format, n, n, n),
        st.builds("({} like {})".format, s, st.sampled_from(["'a%'", "'_'", "'%b_'", r"'%\\%'"])),
    )


def texts(inner):
    _, b, s, _ = inner
    return st.one_of(
        st.builds("{}({})".format, st.sampled_from(["upper", "lower", "trim", "ltrim", "rtrim"]), s),
        st.builds(
            "substring({}, {}, {})".format,
            s,
            st.sampled_from(["i", "j", "0", "-1", "2"]),
            st.sampled_from(["n", "j", "1", "3"]),
        ),
        st.builds("({} || {})".format, s, s),
        st.builds("coalesce({}, {})".format, s, s),
        st.builds("if({}, {}, {})".format, b, s, s),
    )


def expressions(depth):
    times = st.sampled_from(TIMES)
    inner = (st.sampled_from(NUMBERS), st.sampled_from(["b", "c", "true", "null"]), st.sampled_from(TEXTS), times)
    for _ in range(depth):
        n, b, s, t = inner
        inner = (
            n | numbers(inner),
            b | booleans(inner),
            s | texts(inner),
            t | st.builds("coalesce({}, {})".format, t, t),
        )
    return st.one_of(*inner)


WHOLE = {"i": 32, "j": 32, "n": 32, "l": 64, "t": 8}
VALUES = {
    **{
        name: st.one_of(st.integers(-9, 9), st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)) for name, bits in WHOLE.items()
    },
    "f": st.floats(width=32), "x": st.floats(), "y": st.sampled_from([0.0, -0.0, 0.5, 1.5, math.nan, math.inf, -math.inf]),
    "m": st.decimals(-99_999_999, 99_999_999, places=2), "s": st.text("aAb %_ß\n", max_size=5), "r": st.text(" ab", max_size=4),
    "b": st.booleans(), "c": st.booleans(),
    "at": st.integers(-(10**15), 3 * 10**15).map(lambda micros: Instant(micros).moment),
    "day": st.dates(date(1960, 1, 1), date(2060, 1, 1)), "local": st.none(), "gap": st.none(), "raw": st.none(),
}  # fmt: skip
ROWS = st.fixed_dictionaries({name: st.none() | VALUES[name] for name in SCHEMA})


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(text=expressions(3), rows=st.lists(ROWS, min_size=1, max_size=4))
def test_by_columns_every_row_has_the_value_that_it_has_alone(text, rows):
    alone = [(row, by_row(text, row)) for row in rows]
    fine = [row for row, value in alone if value is not DataError]
    if len(fine) < len(rows):
        assert by_column(text, rows) == [DataError] * len(rows)
    expected = [value for _, value in alone if value is not DataError]
    assert all(same(a, b) or a == b for a, b in zip(expected, by_column(text, fine), strict=True))
