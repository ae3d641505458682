"""Reading text expressions: names, columns, types, and what is refused."""

import pytest

from strandline.errors import DataError, DescriptionError, ExpressionError
from strandline.model.evaluate import evaluate
from strandline.model.expressions import parse, require_text
from strandline.model.syntax import OutsideSubset
from strandline.model.time import Instant
from strandline.model.types import Schema

SCHEMA = Schema.of(
    "i int, l bigint, t tinyint, f float, x double, m decimal(10,2), s string, b boolean, at timestamp, day date, "
    "local timestamp_ntz, gap interval day to second, raw binary, `full name` string, xs array<int>"
)


@pytest.mark.parametrize(
    ("text", "name", "references"),
    [
        ("i + l as total", "total", {"i", "l"}),
        ("i", "i", {"i"}),
        ("`full name`", "full name", {"full name"}),
        ("i + 1", None, {"i"}),
        ("mystery(i, xs)", None, {"i", "xs"}),
        ("transform(xs, y -> y + i)", None, {"i", "xs"}),
        ("1", None, set()),
        ("place.town", "town", {"place"}),
    ],
)
def test_an_expression_knows_its_name_and_its_columns(text, name, references):
    expression = parse(text)
    assert (expression.name, expression.references) == (name, references)


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("i + l", "bigint"), ("t + t", "tinyint"), ("t + 1", "int"), ("i + x", "double"), ("f + f", "float"), ("i + f", "double"),
        ("i / i", "double"), ("i div i", "bigint"), ("l % i", "bigint"), ("-m", "decimal(10,2)"),
        ("m + m", "decimal(11,2)"), ("m + 1", "decimal(11,2)"), ("m * 2", "decimal(12,2)"), ("m * i", "decimal(21,2)"),
        ("m / 3", "decimal(14,6)"), ("m % 3", "decimal(3,2)"), ("m * x", "double"), ("m * m * m * m", "decimal(38,6)"),
        ("i * 1.5", "decimal(13,1)"), ("0.5", "decimal(1,1)"), ("1e3", "double"), ("3000000000", "bigint"),
        ("1L", "bigint"), ("round(m, 1)", "decimal(10,1)"), ("round(x, 1)", "double"), ("round(i, 1)", "int"),
        ("floor(x)", "bigint"), ("ceil(m)", "decimal(9,0)"), ("abs(t)", "tinyint"),
        ("i > 3 and b", "boolean"), ("i in (1, 2)", "boolean"), ("s like 'a%'", "boolean"), ("not b", "boolean"),
        ("case when b then i else l end", "bigint"), ("coalesce(null, day, at)", "timestamp"), ("nullif(i, 0)", "int"),
        ("if(b, 1, 2.5)", "decimal(11,1)"), ("greatest(i, x)", "double"), ("greatest(m, 1)", "decimal(12,2)"), ("upper(s)", "string"), ("length(raw)", "int"),
        ("concat(s, i, at)", "string"), ("at - at", "interval day to second"), ("at + interval 5 minutes", "timestamp"),
        ("at > '2026-01-01'", "boolean"), ("unix_micros(at)", "bigint"), ("hour(at)", "int"), ("now()", "timestamp"),
        ("date_trunc('hour', at)", "timestamp"), ("xs", "array<int>"), ("xs is null", "boolean"), ("cast(s as float)", "float"),
    ],
)  # fmt: skip
def test_types_are_those_that_spark_gives(text, type):
    assert parse(text).type_in(SCHEMA).text == type


@pytest.mark.parametrize(
    "text",
    ["mystery(i)", "xs[0]", "s rlike 'a'", "pow(x, 2)", "try_cast(s as int)", "cast(x as string)", "day + 1", "i & 1",
     "i = l < x", "i = l in (1)", "s like s", "round(x, -1)", "trim(both 'x' from s)", "'it''s'", "interval 1 month"],
)  # fmt: skip
def test_what_only_spark_knows_has_no_type_here_and_is_not_run(text):
    assert parse(text).type_in(SCHEMA) is None
    with pytest.raises(OutsideSubset) as error:
        evaluate(parse(text), {}, schema=SCHEMA)
    assert "spark" in error.value.fix or "parentheses" in error.value.fix


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("i +", "cannot be read", "one Spark SQL expression"),
        ("", "cannot be read", "one Spark SQL expression"),
        ("i, l", "2 expressions", "one Spark SQL expression"),
        ("i from t", "statement", "one Spark SQL expression"),
        ("rand() > 0.5", "rand()", "column of the source"),
        ("coalesce(s, uuid())", "uuid()", "column of the source"),
        ("monotonically_increasing_id()", "monotonically_increasing_id()", "column"),
        ("current_date()", "clock", "current_timestamp()"),
        ("unix_timestamp()", "clock", "current_timestamp()"),
        ("sum(i)", "not about one row", "window"),
        ("lag(i) over (order by at)", "not about one row", "window"),
        ("(select 1)", "not about one row", "window"),
    ],
)
def test_text_that_no_runner_may_take_is_refused_when_read(text, what, fix):
    with pytest.raises(ExpressionError) as error:
        parse(text)
    assert what in error.value.what
    assert fix in error.value.fix


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("amuont + i", "'amuont'", "Known"),
        ("dya", "'dya'", "Did you mean 'day'?"),
        ("mystery(dya)", "'dya'", "Did you mean 'day'?"),
        ("s + 1", "does not take (string, int)", "cast"),
        ("s = 1", "does not take (string, int)", "cast"),
        ("upper(i)", "upper takes string", "cast(... as string)"),
        ("s || i", "|| takes string", "cast(... as string)"),
        ("i and b", "and takes boolean", "cast"),
        ("case when i then 1 end", "takes boolean", "cast"),
        ("at > 'yesterday'", "'yesterday' cannot become timestamp", "Filter"),
        ("cast('x' as int)", "'x' cannot become int", "Filter"),
        ("coalesce(s, i)", "coalesce does not take (string, int)", "Convert"),
        (r"s like 'a\\b'", "escape", "escape '!'"),
        ("greatest(i)", "two arguments", "greatest(a, b)"),
    ],
)
def test_what_cannot_work_is_said_before_the_start(text, what, fix):
    with pytest.raises(ExpressionError) as error:
        parse(text).type_in(SCHEMA)
    assert what in error.value.what
    assert fix in error.value.fix


def test_a_misspelt_function_is_named_with_the_one_that_was_meant():
    with pytest.raises(ExpressionError, match=r"uper\(\)") as error:
        evaluate(parse("uper(s)"), {"s": "a"})
    assert "'upper'" in error.value.fix
    assert 'runner="spark"' in error.value.fix


def test_words_inside_quotes_and_plain_columns_are_not_taken_for_functions():
    assert evaluate(parse("concat(rand, ' rand() ', `uuid`)"), {"rand": "a", "uuid": "b"}) == "a rand() b"


def test_the_current_time_is_the_ticks_and_must_be_given():
    now = Instant.of("2026-01-01T12:00:00Z")
    assert parse("at < now()").uses_now
    assert not parse("at < '2026-01-01'").uses_now
    assert evaluate(parse("current_timestamp()"), {}, now=now) == now.moment
    with pytest.raises(ExpressionError, match="no tick"):
        evaluate(parse("now()"), {})


def test_without_a_schema_the_types_are_those_of_the_values():
    assert evaluate(parse("n + 1"), {"n": 2**31 - 1}) == 2**31
    assert evaluate(parse("coalesce(n, 1)"), {"n": None}) == 1


def test_an_error_in_the_data_names_the_expression():
    with pytest.raises(DataError, match="In 'i / 0': Division by zero"):
        evaluate(parse("i / 0"), {"i": 1})


def test_a_column_object_is_answered_with_the_text_to_write():
    class Column: ...

    with pytest.raises(DescriptionError, match=r"\.where takes a text expression in Spark SQL, got Column") as error:
        require_text(".where", Column())
    assert "amount > 3" in error.value.fix
