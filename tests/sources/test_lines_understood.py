"""JSON and CSV: what is understood, and what is handed back as raw text with a reason."""

from __future__ import annotations

import csv
import json
import re
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from io import StringIO
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strandline.kernel.schema import polars_schema
from strandline.model.types import Schema, Type
from strandline.sources import jsonobjects
from strandline.sources.csvlines import Layout, read_csv
from strandline.sources.jsonlines import read_json
from strandline.sources.lines import lines_of
from strandline.sources.moments import read_moments
from strandline.sources.records import UnclosedQuote, record_ends, records_of, whole_records
from tests.lanes import examples

UTC = timezone.utc
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("boolean", "true", True),
        ("tinyint", "-128", -128),
        ("smallint", "32767", 32767),
        ("int", "-2147483648", -(2**31)),
        ("bigint", "9223372036854775807", 2**63 - 1),
        ("float", "0.5", 0.5),
        ("double", "1e3", 1000.0),
        ("double", "7", 7.0),
        ("double", '"Infinity"', float("inf")),
        ("float", '"-Infinity"', float("-inf")),
        ("decimal(5,2)", "1.5", Decimal("1.50")),
        ("decimal(5,2)", '"1.50"', Decimal("1.50")),
        ("decimal(38,10)", "1234567890123456789012345678.0123456789", Decimal("1234567890123456789012345678.0123456789")),
        ("decimal(38,0)", "12345678901234567890123456789012345678", Decimal(12345678901234567890123456789012345678)),
        ("string", r'"caf\u00e9 \ud83d\ude00"', "café 😀"),
        ("string", "12", "12"),
        ("binary", '"AGFi"', b"\x00ab"),
        ("date", '"2026-01-31"', date(2026, 1, 31)),
        ("timestamp", '"2026-01-01T12:00:00Z"', NOON),
        ("timestamp", '"2026-01-01T13:00:00+01:00"', NOON),
        ("timestamp", '"2026-01-01T13:00:00+0100"', NOON),
        ("timestamp", '"2026-01-01T11:30:00.000-0030"', NOON),
        ("timestamp", '"2026-01-01 12:00:00"', NOON),
        ("timestamp", '"2026-01-01T12:00:00.000001999Z"', NOON + timedelta(microseconds=1)),
        ("timestamp", "1767268800000000", NOON),
        ("timestamp", '"0001-01-01T00:00:00Z"', datetime(1, 1, 1, tzinfo=UTC)),
        ("timestamp_ntz", '"2026-01-01T12:00:00"', NOON.replace(tzinfo=None)),
        ("interval", '"1m30s"', timedelta(seconds=90)),
        ("interval", "-5", timedelta(microseconds=-5)),
        ("array<int>", "[1, null]", [1, None]),
        ("array<timestamp>", '["2026-01-01T12:00:00Z"]', [NOON]),
        ("struct<a:int,b:string>", '{"b": "x", "c": 1}', {"a": None, "b": "x"}),
        ("struct<a:decimal(5,2)>", '{"a": 1.25}', {"a": Decimal("1.25")}),
    ],
)  # fmt: skip
def test_a_value_of_json_fits_its_column(kind: str, text: str, value: Any) -> None:
    schema = Schema.of(f"x {kind}")
    found = read_json(f'{{"x": {text}}}\n{{"x": null}}\n{{"y": 1}}'.encode(), schema)
    assert found.raws == []
    assert dict(found.rows.schema) == polars_schema(schema)
    assert found.rows["x"].to_list() == [value, None, None]


def test_what_is_no_number_is_read_as_the_sink_writes_it_and_rows_keep_their_order() -> None:
    lines = b'{"v": 1.5, "s": "NaN"}\n{"v": "NaN", "s": "x"}\n{"v": "nan"}\n{"v": 2}\n'
    found = read_json(lines, Schema.of("v double, s string"))
    assert str(found.rows.rows()) == "[(1.5, 'NaN'), (nan, 'x'), (2.0, None)]"
    assert found.reasons == ["column 'v': 'nan' is no double"]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("boolean", "1"),
        ("tinyint", "128"),
        ("int", "1.5"),
        ("int", "1.0"),
        ("int", '"1"'),
        ("int", "true"),
        ("int", "[1]"),
        ("bigint", "9223372036854775808"),
        ("double", '"1"'),
        ("double", "1e999"),
        ("float", "1e39"),
        ("double", "NaN"),
        ("decimal(5,2)", "1.555"),
        ("decimal(5,2)", "1234.5"),
        ("decimal(5,2)", '"x"'),
        ("decimal(5,2)", '"1_0"'),
        ("decimal(5,2)", '"٣"'),
        ("decimal(38,20)", "0.123456789012345678901"),
        ("string", r'"\ud800"'),
        ("string", r'"\ude00 \ud83d"'),
        ("binary", '"!"'),
        ("date", '"2026-02-30"'),
        ("date", "5"),
        ("timestamp", '"2026-01-01T25:00:00Z"'),
        ("timestamp", '"soon"'),
        ("timestamp", '""'),
        ("timestamp", "1.5"),
        ("timestamp", '"0001-01-01T00:00:00+01:00"'),
        ("timestamp_ntz", '"2026-01-01T12:00:00Z"'),
        ("interval", '"long"'),
        ("array<int>", '["a"]'),
        ("array<int>", "5"),
        ("array<date>", '["2026-13-01"]'),
        ("struct<a:int>", '{"a": "x"}'),
        ("struct<a:int>", "3"),
    ],
)
def test_a_value_of_json_that_does_not_fit_makes_its_line_malformed(kind: str, text: str) -> None:
    line = f'{{"x": {text}, "n": 1}}'
    found = read_json(f'{{"n": 0}}\n{line}\n{{"n": 2}}\n'.encode(), Schema.of(f"x {kind}, n int"))
    assert found.rows["n"].to_list() == [0, 2]
    assert found.raws == [line]
    assert len(found.reasons) == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"n": 1', "no JSON: Expecting ',' delimiter at character 8"),
        (b"hello", "no JSON: Expecting value at character 1"),
        (b"[1]", "no JSON object"),
        (b"null", "no JSON object"),
        (b'{"n": 1}{"n": 2}', "no JSON: Extra data at character 9"),
        (b'{"n": 1, "s": "\xff"}', "no UTF-8 text: byte 16 is 0xff"),
        (b'{"n": "x"}', "column 'n': 'x' is no int"),
        (b'{"n": 1.5}', "column 'n': 1.5 is no int"),
    ],
)
def test_a_line_that_is_no_object_comes_back_as_it_was_with_the_reason(line: bytes, reason: str) -> None:
    found = read_json(b'{"n": 7}\r\n\n' + line + b"\r\n  \n" + b'{"n": 8}', Schema.of("n int"))
    assert found.rows.rows() == [(7,), (8,)]
    assert found.raws == [line.decode(errors="backslashreplace")]
    assert found.reasons == [reason]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.text()
    | st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01", "1.5", "12", "1s"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2), max_leaves=4,
)  # fmt: skip
# As others write them: the same value may stand there as many texts, and some only Python or only Polars reads.
TEXTS = st.sampled_from(
    ["1.10", "1.0", "1e2", "-0.0", "1e400", "1e-400", "1e99999999999999999999", "12345678901234567890123", '"NaN"',
     '"-Infinity"', '"\\u004eaN"', '{"a": "NaN", "b": 1.10}', '[{"a": 1, "b": 1.10}]', '{"a": "é"}', '"\\ud800"']
)  # fmt: skip
OBJECTS = st.dictionaries(st.sampled_from("nsatdlxfgi"), TEXTS | JSON.map(json.dumps), max_size=5).map(
    lambda fields: "{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}"
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    line = bytearray(draw(OBJECTS).encode())
    line[draw(st.integers(0, len(line) - 1))] = draw(st.integers(0, 255).filter(lambda byte: byte != ord("\n")))
    return bytes(line)


LINES = st.lists(OBJECTS.map(str.encode) | damaged() | st.sampled_from([b"", b"{", b"[]", b" "]))
COLUMNS = [
    Schema.of("n int, s string, a array<struct<a:int,b:string>>, t timestamp, d decimal(6,2), l tinyint"),
    Schema.of("s string, f double"),
    Schema.of("s string, f double, g array<double>, t timestamp, i struct<a:float,b:string>"),
    Schema.of("s string, f float, a array<struct<a:timestamp,b:string>>, t timestamp, i struct<a:decimal(9,2)>"),
]


@pytest.mark.slow
@given(LINES, st.sampled_from(COLUMNS))
@example([b'{"d": 0.12345678901234567}', b'{"s": 0.5}'], COLUMNS[0])
@example([b'{"s": 1.10}', b'{"f": "NaN"}'], COLUMNS[1])
@example([b'{"f": 1e400}', b'{"f": "NaN"}'], COLUMNS[1])
@example([b'{"s": {"a": "\xc3\xa9"}, "t": 1.0}', b'{"g": ["NaN", 1]}'], COLUMNS[2])
@settings(max_examples=examples(300), deadline=None)
def test_what_a_line_means_does_not_depend_on_its_neighbours(lines: list[bytes], schema: Schema) -> None:
    whole = read_json(b"\n".join(lines), schema)
    alone = [read_json(line, schema) for line in lines]
    assert repr(whole.rows.rows()) == repr([row for each in alone for row in each.rows.rows()])
    assert sorted(zip(whole.raws, whole.reasons, strict=True)) == sorted(
        refused for each in alone for refused in zip(each.raws, each.reasons, strict=True)
    )
    assert whole.rows.height + len(whole.raws) == len(lines_of(b"\n".join(lines)))


@pytest.mark.parametrize("beside", [b"", b"{", b'{"f": "NaN"}', b'{"f": ""}'])
@pytest.mark.parametrize("value", [b"1.5", b"12345678901234.5", b'"NaN"'])
def test_a_line_that_is_too_deep_for_python_is_one_row_or_none_whatever_stands_beside_it(
    value: bytes, beside: bytes
) -> None:
    line = b'{"n": 7, "d": ' + value + b', "x": ' + b"[" * 1000 + b"]" * 1000 + b"}"
    for schema in (Schema.of("n int, f double"), Schema.of("n int, d decimal(16,1), f double")):
        alone, found = read_json(line, schema), read_json(line + b"\n" + beside, schema)
        assert alone.rows.height + len(alone.raws) == 1
        assert found.rows.filter(n=7).rows() == alone.rows.rows()
        assert found.raws.count(line.decode()) == len(alone.raws)


def test_a_number_in_a_text_column_is_the_same_text_whatever_the_line_holds_besides() -> None:
    lines = b'{"s": 1.10}\n{"s": 1.10, "f": "NaN"}\n{"s": 1.10, "a": ["2026-01-01"]}\n'
    for schema in ("s string", "s string, f double", "s string, f double, a array<date>"):
        assert read_json(lines, Schema.of(schema)).rows["s"].to_list() == ["1.1"] * 3


def test_a_decimal_is_read_again_only_where_a_double_may_lose_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    again: list[bytes] = []
    monkeypatch.setattr(
        "strandline.sources.jsonlines.exact_values", lambda line: again.append(line) or jsonobjects.exact_values(line)
    )
    texts = ["1.5", '"2.50"', "12345678901.345", "1e3", "1.2345678901234567", "12345678901234567e-16"]
    lines = [f'{{"d": {text}}}'.encode() for text in texts]
    found = read_json(b"\n".join(lines), Schema.of("d decimal(38,18)"))
    assert found.rows["d"].to_list() == [Decimal(text.strip('"')) for text in texts]
    assert again == lines[4:]


def test_words_for_what_is_no_number_may_stand_in_arrays_and_structs() -> None:
    lines = b'{"x": ["NaN", 1], "y": {"a": "Infinity"}}\n{"x": [2], "y": {"a": 2}}\n{"x": ["nan"]}\n'
    found = read_json(lines, Schema.of("x array<double>, y struct<a:double>"))
    assert repr(found.rows.rows()) == "[([nan, 1.0], {'a': inf}), ([2.0], {'a': 2.0})]"
    assert found.raws == ['{"x": ["nan"]}']


def test_many_bad_lines_among_many_good_ones_are_all_found() -> None:
    lines = [f'{{"n": {n}}}' if n % 7 else f'{{"n": "{n}"}}' for n in range(20_000)]
    found = read_json("\n".join(lines).encode(), Schema.of("n int"))
    assert found.rows["n"].to_list() == [n for n in range(20_000) if n % 7]
    assert found.raws == [lines[n] for n in range(0, 20_000, 7)]


CSV = Layout(("user", "n", "at"))
CSV_SCHEMA = Schema.of("user string, n int, at timestamp")


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (b"ann,1,2026-01-01T12:00:00Z", ("ann", 1, NOON)),
        (b'"a,b",1,', ("a,b", 1, None)),
        (b'"say ""hi""",,', ('say "hi"', None, None)),
        (b'"",1,', ("", 1, None)),
        (b",,", (None, None, None)),
        (b'a"b"c,"2",""', ('a"b"c', 2, None)),
        ("é,1,".encode(), ("é", 1, None)),
        (b'"two\nlines",1,', ("two\nlines", 1, None)),
        (b'"a\r\n\n""1,2,3""\nb",1,', ('a\r\n\n"1,2,3"\nb', 1, None)),
    ],
)
def test_a_line_of_csv_is_a_row(line: bytes, row: tuple[Any, ...]) -> None:
    found = read_csv(b"x,5,\n" + line + b"\r\n\ny,6,\n", CSV_SCHEMA, CSV)
    assert found.rows.rows() == [("x", 5, None), row, ("y", 6, None)]
    assert found.raws == []


@pytest.mark.parametrize("end", [b"", b"\n", b"\r", b"\r\n", b"\r\r", b"\r\r\n"])
@pytest.mark.parametrize("before", [b"", b"\n", b"x,5\n"])
def test_how_a_line_of_csv_ends_is_no_part_of_its_last_field(before: bytes, end: bytes) -> None:
    found = read_csv(before + b"ann,1" + end, Schema.of("user string, n int"), Layout(("user", "n")))
    assert found.rows.rows()[-1] == ("ann", 1)
    assert found.raws == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"ann,1", "2 fields where the file has 3 columns"),
        (b"ann,1,,", "4 fields where the file has 3 columns"),
        (b"ann,x,", "column 'n': 'x' is no int"),
        (b"ann, 1,", "column 'n': ' 1' is no int"),
        (b"ann,1,soon", "column 'at': 'soon' is no timestamp"),
        (b'5" pipe,1,', "a quote that is not closed"),
        (b'"ann\n1,2,3\nbob"cid,1,', None),
        (b'"ann\n1,2,3\nbob",1', "2 fields where the file has 3 columns"),
        (b"\xff,1,", "no UTF-8 text: byte 1 is 0xff"),
        (b'"a"b,1,', None),
    ],
)
def test_a_line_of_csv_that_is_no_row_comes_back_as_it_was(line: bytes, reason: str | None) -> None:
    found = read_csv(b"x,5,\n" + line + b"\r\ny,6,\n", CSV_SCHEMA, CSV)
    assert found.rows.rows() == [("x", 5, None), ("y", 6, None)]
    assert found.raws == [line.decode(errors="backslashreplace")]
    assert reason is None or found.reasons == [reason]


@pytest.mark.parametrize(("kind", "text"), [("float", "1e39"), ("float", "-1e400"), ("double", "1e400")])
def test_a_number_of_csv_that_is_too_large_is_not_infinite(kind: str, text: str) -> None:
    found = read_csv(f"inf\n{text}\n-Infinity\n1.5".encode(), Schema.of(f"x {kind}"), Layout(("x",)))
    assert found.rows.rows() == [(float("inf"),), (-float("inf"),), (1.5,)]
    assert found.reasons == [f"column 'x': {text!r} is no {kind}"]


@pytest.mark.parametrize("text", ["[1e99999999999999999999]", "1e-99999999999999999999", "[" * 5000, "[", "[1,]"])
@pytest.mark.parametrize("kind", ["array<int>", "array<decimal(5,2)>", "struct<a:double>"])
def test_a_field_of_csv_that_is_no_array_or_struct_makes_its_record_malformed(kind: str, text: str) -> None:
    found = read_csv(f'"{text}",0\n,1\n'.encode(), Schema.of(f"x {kind}, n int"), Layout(("x", "n")))
    assert found.rows.rows() == [(None, 1)]
    assert found.raws == [f'"{text}",0']


def test_a_quote_that_is_not_closed_takes_what_follows_with_it_and_makes_no_row_of_it() -> None:
    found = read_csv(b'x,5,\n"ann,1,\ny,6,\n"z",7,\nw,8,\n"ann,1,\ny,6,\n', CSV_SCHEMA, CSV)
    assert found.rows.rows() == [("x", 5, None), ("w", 8, None)]
    assert found.raws == ['"ann,1,\ny,6,\n"z",7,', '"ann,1,\ny,6,']
    assert found.reasons == ["a quote that is not closed"] * 2


FIELD = st.text(st.sampled_from('ab1"\t, é\r\n\ufeff'), max_size=4)
QUOTED = FIELD.map(lambda text: '"' + text.replace('"', '""') + '"')
RECORD = st.lists(FIELD | QUOTED, min_size=1, max_size=3).map(lambda fields: ",".join(fields).encode())


def is_one_record(text: bytes) -> bool:
    return record_ends(text + b"\n", ",").tolist() == [len(text) + 1]


@pytest.mark.slow
@given(st.lists(RECORD.filter(is_one_record)))
@example([b"b,2", "\ufeffa,1".encode()])  # only at the start of a file it is a mark
@settings(max_examples=examples(200), deadline=None)
def test_what_a_record_of_csv_means_does_not_depend_on_its_neighbours(records: list[bytes]) -> None:
    schema, layout = Schema.of("a string, b int"), Layout(("a", "b"))
    whole = read_csv(b"\n".join(records), schema, layout)
    alone = [read_csv(record, schema, layout) for record in records]
    assert whole.rows.rows() == [row for each in alone for row in each.rows.rows()]
    assert sorted(whole.raws) == sorted(raw for each in alone for raw in each.raws)
    assert whole.rows.height + len(whole.raws) == len(records_of(b"\n".join(records), ","))


@pytest.mark.slow
@given(st.lists(RECORD).map(b"\n".join), st.integers(1, 5))
@settings(max_examples=examples(200), deadline=None)
def test_how_a_file_is_cut_into_blocks_changes_no_record(text: bytes, lines_each: int) -> None:
    lines = re.findall(rb"[^\n]*\n|[^\n]+", text)
    blocks = [b"".join(lines[at : at + lines_each]) for at in range(0, len(lines), lines_each)]
    found = list(whole_records(blocks, ","))
    assert b"".join(found) == text
    assert [record for block in found for record in records_of(block, ",")] == records_of(text, ",")


@given(st.lists(RECORD).map(b"\n".join), st.integers(1, 5))
@example(b'1",\n1234567', 1)
@settings(max_examples=examples(200), deadline=None)
def test_how_a_file_is_cut_into_blocks_does_not_change_which_record_is_too_long(text: bytes, lines_each: int) -> None:
    def whole(lines_each: int) -> bytes:
        lines, found = re.findall(rb"[^\n]*\n|[^\n]+", text), b""
        blocks = (b"".join(lines[at : at + lines_each]) for at in range(0, len(lines), lines_each))
        with suppress(UnclosedQuote):
            for block in whole_records(blocks, ","):
                found += block
        return found

    with pytest.MonkeyPatch.context() as short:
        short.setattr("strandline.sources.records.LONGEST", 6)
        assert whole(lines_each) == whole(len(text) + 1)


@given(st.lists(st.tuples(st.text(), st.text(), st.text())))
@settings(max_examples=examples(200), deadline=None)
def test_records_are_those_that_were_written(rows: list[tuple[str, str, str]]) -> None:
    file = StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    layout = Layout(("a", "b", "c"))
    found = read_csv(file.getvalue().encode(errors="replace"), Schema.of("a string, b string, c string"), layout)
    assert found.raws == []
    assert found.rows.rows() == [tuple(text.encode(errors="replace").decode() for text in row) for row in rows]


MOMENTS = st.datetimes(timezones=st.just(UTC) | st.integers(-1000, 1000).map(lambda m: timezone(timedelta(minutes=m))))


def test_whole_numbers_are_moments_and_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = pl.Series(["0", "-1", "2026-01-01", None, "1767225600000000", "9" * 18])
    monkeypatch.setattr("strandline.sources.moments._single", None)
    assert read_moments(texts, Type.of("timestamp")).to_list() == [
        0,
        -1,
        1767225600000000,
        None,
        1767225600000000,
        None,
    ]
    monkeypatch.undo()
    others = pl.Series(["9" * 19, "+5", " 5", "٣", "-", ""])
    assert read_moments(others, Type.of("timestamp")).null_count() == len(others)
    assert read_moments(texts, Type.of("timestamp_ntz")).null_count() == len(texts) - 1


@given(
    st.lists(
        st.none()
        | st.tuples(
            MOMENTS, st.sampled_from(["auto", "seconds", "milliseconds", "microseconds"]), st.sampled_from("T ")
        )
    )
)
@settings(max_examples=examples(200), deadline=None)
def test_text_of_a_moment_reads_back_as_the_moment(given_moments: list[Any]) -> None:
    text, expected = [], []
    for each in given_moments:
        iso = None if each is None else each[0].isoformat(each[2], each[1])
        utc = (
            None
            if iso is None
            else (datetime.fromisoformat(iso) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        )
        inside = utc is not None and -62_135_596_800_000_000 <= utc <= 253_402_300_799_999_999
        text.append(iso.replace("+00:00", "Z") if iso is not None else None)
        expected.append(utc if inside else None)
    assert read_moments(pl.Series(text, dtype=pl.String), Type.of("timestamp")).to_list() == expected
