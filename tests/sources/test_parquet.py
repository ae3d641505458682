from __future__ import annotations

import re
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strandline.errors import DataError
from strandline.kernel.schema import polars_schema
from strandline.model.types import Schema
from strandline.sources.files import FileSource
from strandline.sources.parquet import DamagedFile, read_parquet, row_groups
from strandline.store.local import LocalStorage
from tests.sources.reading import NO_LIMIT, malformed_of, pieces, rows_of

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
MICROS = int(NOON.timestamp()) * 1_000_000


def written(folder: Path, values: pa.Array) -> str:
    path = folder / "x.parquet"
    pq.write_table(pa.table({"more": pa.nulls(len(values)), "x": values}), path)
    return str(path)


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (pa.array([1, None], pa.int64()), "tinyint", [1, None]),
        (pa.array([1], pa.uint8()), "bigint", [1]),
        (pa.array([[1, 2], None, [3, None]], pa.list_(pa.int64(), 2)), "array<bigint>", [[1, 2], None, [3, None]]),
        (pa.array([1], pa.int32()), "double", [1.0]),
        (pa.array([0.5, float("nan")], pa.float32()), "double", None),
        (pa.array([Decimal("1.50")], pa.decimal128(10, 4)), "decimal(5,2)", [Decimal("1.50")]),
        (pa.array(["a", "b"]).dictionary_encode(), "string", ["a", "b"]),
        (pa.array(["a"], pa.large_string()), "string", ["a"]),
        (pa.array([b"\x00"]), "binary", [b"\x00"]),
        (pa.array([MICROS * 1000 + 999], pa.timestamp("ns")), "timestamp", [NOON]),
        (pa.array([MICROS // 1000], pa.timestamp("ms", "Europe/Berlin")), "timestamp", [NOON]),
        (pa.array([MICROS], pa.timestamp("us")), "timestamp_ntz", [NOON.replace(tzinfo=None)]),
        (pa.array([[1, None]], pa.list_(pa.int64())), "array<int>", [[1, None]]),
        (pa.array([{"a": 1, "b": 2}]), "struct<a:bigint,b:bigint>", [{"a": 1, "b": 2}]),
        (pa.array([{"a": 1, "b": 2}, None]), "struct<b:int,c:array<int>>", [{"b": 2, "c": None}, None]),
        (pa.array([[{"a": [0.5]}, None], None, []]), "array<struct<a:array<float>>>", [[{"a": [0.5]}, None], None, []]),
        (pa.array([[MICROS * 1000 + 999]], pa.list_(pa.timestamp("ns"))), "array<timestamp>", [[NOON]]),
        (pa.nulls(2), "int", [None, None]),
        (pa.nulls(2), "array<struct<a:int>>", [None, None]),
    ],
)
def test_a_column_is_read_in_its_type(tmp_path: Path, values: pa.Array, kind: str, expected: list[Any] | None) -> None:
    schema = Schema.of(f"x {kind}, missing string")
    table = read_parquet(written(tmp_path, values), schema, 0, None).rows
    assert dict(table.schema) == polars_schema(schema)
    assert expected is None or table["x"].to_list() == expected
    assert table["missing"].null_count() == len(values)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([1.0]), "int"),
        (pa.array(["1"]), "int"),
        (pa.array([1]), "timestamp"),
        (pa.array([1]), "string"),
        (pa.array([MICROS], pa.timestamp("us", "UTC")), "timestamp_ntz"),
        (pa.array([["a"]]), "array<int>"),
        (pa.array([1]), "struct<a:int>"),
    ],
)
def test_values_of_another_kind_are_not_understood(tmp_path: Path, values: pa.Array, kind: str) -> None:
    """One file that somebody wrote in another way must not stop what reads all the others."""
    schema = Schema.of(f"x {kind}")
    found = read_parquet(written(tmp_path, pa.concat_arrays([values, pa.nulls(1, values.type)])), schema, 0, None)
    assert dict(found.rows.schema) == polars_schema(schema)
    assert found.rows.rows() == [(None,)]
    assert found.reasons == [f"column 'x': {pl.Series(values).to_list()[0]!r} is no {kind}"]


def test_of_values_with_parts_only_the_row_whose_part_does_not_fit_is_not_understood(tmp_path: Path) -> None:
    path = written(tmp_path, pa.array([[1], [300, 2], None, [3, None]], pa.list_(pa.int64())))
    found = read_parquet(path, Schema.of("x array<tinyint>"), 0, None)
    assert found.rows["x"].to_list() == [[1], None, [3, None]]
    assert found.reasons == ["column 'x': [300, 2] is no array<tinyint>"]


def test_a_file_with_none_of_the_columns_has_rows_of_nulls(tmp_path: Path) -> None:
    path = written(tmp_path, pa.array([1, 2, 3]))
    assert read_parquet(path, Schema.of("y int"), 0, None).rows.rows() == [(None,)] * 3
    assert read_parquet(path, Schema.of("y int"), 1, 1).rows.rows() == [(None,)]


@pytest.mark.parametrize(
    ("values", "kind", "value"),
    [
        (pa.array([1, 128, None, 3]), "tinyint", "128"),
        (pa.array([0.5, 0.1, None, 2.0]), "float", "0.1"),
        (pa.array([1, 2**53 + 1, None, 3]), "double", "9007199254740993"),
        (pa.array([Decimal("1.500"), Decimal("1.505"), None, Decimal(3)]), "decimal(5,2)", r"Decimal\('1.505'\)"),
        (pa.array([[0.5, None], [2.0, 0.1], None, []]), "array<float>", r"\[2.0, 0.1\]"),
        (pa.array([[1], [2**53 + 1], None, [3]]), "array<double>", r"\[9007199254740993\]"),
        (
            pa.array([{"a": Decimal("1.50")}, {"a": Decimal("1.55")}, None, {"a": None}]),
            "struct<a:decimal(5,1)>",
            r"{'a': Decimal\('1.55'\)}",
        ),
    ],
)
def test_a_row_with_a_value_that_would_lose_something_is_not_understood(
    tmp_path: Path, values: pa.Array, kind: str, value: str
) -> None:
    found = read_parquet(written(tmp_path, values), Schema.of(f"x {kind}"), 0, None)
    assert found.rows.height == 3
    assert found.rows["x"].null_count() == 1
    (reason,), (raw,) = found.reasons, found.raws
    assert re.fullmatch(rf"column 'x': {value} is no {re.escape(kind)}", reason)
    assert raw.startswith('{"x": ')


FAR = 1 << 61  # microseconds: the year 75039


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([MICROS, FAR, None], pa.timestamp("us", "UTC")), "timestamp"),
        (pa.array([MICROS, -FAR, None], pa.timestamp("us")), "timestamp"),
        (pa.array([MICROS, 253_402_300_800_000_000, None], pa.timestamp("us")), "timestamp_ntz"),
        (pa.array([0, FAR, None], pa.timestamp("ms")), "timestamp"),
        (pa.array([0, 1 << 30, None], pa.date32()), "date"),
        (pa.array([[MICROS], [None, FAR], []], pa.list_(pa.timestamp("us", "UTC"))), "array<timestamp>"),
        (pa.array([{"at": 0}, {"at": FAR}, {"at": None}], pa.struct({"at": pa.timestamp("ms")})), "struct<at:timestamp>"),
        (pa.array([[{"at": 0}], [{"at": FAR}], [None]], pa.list_(pa.struct({"at": pa.timestamp("us")}))),
         "array<struct<at:timestamp_ntz>>"),
    ],
)  # fmt: skip
def test_a_time_that_no_calendar_has_is_not_understood(tmp_path: Path, values: pa.Array, kind: str) -> None:
    """What is read from text refuses it too: no sink could show it."""
    found = read_parquet(written(tmp_path, values), Schema.of(f"x {kind}"), 0, None)
    assert found.rows.height == 2
    assert str(found.rows.rows())
    (reason,), (raw,) = found.reasons, found.raws
    assert re.fullmatch(rf"column 'x': .*\d{{9,}}.* is no {re.escape(kind)}", reason)
    assert re.search(r"\d{9,}", raw)


@pytest.mark.parametrize("damage", ["no parquet", "cut off", "footer", "page", "empty"])
def test_a_damaged_file_is_rejected_by_name_or_stops_the_flow(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pl.DataFrame({"n": range(10_000)}).write_parquet(folder / "good.parquet")
    data = bytearray((folder / "good.parquet").read_bytes())
    if damage == "page":
        data[4:400] = b"\xff" * 396
    elif damage == "footer":
        data[-60:-8] = b"\xff" * 52
    (folder / "bad.parquet").write_bytes(
        {"no parquet": b"hello", "cut off": data[:-100], "empty": b""}.get(damage, data)
    )
    for on_bad in ("reject", "fail"):
        source = FileSource(folder, format="parquet", schema="n bigint", on_bad=on_bad)  # type: ignore[arg-type]
        reader = source.reader(LocalStorage(tmp_path / on_bad))
        end = reader.latest(reader.first(), NO_LIMIT)
        if on_bad == "fail":
            with pytest.raises(DataError, match=r"bad\.parquet"):
                pieces(reader, reader.first(), end)
        else:
            found = pieces(reader, reader.first(), end)
            assert [Path(raw).name for raw, _ in malformed_of(found)] == ["bad.parquet"]
            assert len(rows_of(found)) == 10_000


def test_a_file_over_which_polars_panics_is_damaged() -> None:
    """One bit of it was flipped. A panic is no `Exception`."""
    with pytest.raises(DamagedFile):
        read_parquet(str(Path(__file__).parent / "panics.parquet"), Schema.of("k string"), 0, None)


def test_a_file_whose_column_has_a_name_that_is_no_text_has_no_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"name": [1]}), path)
    path.write_bytes(path.read_bytes().replace(b"name", b"n\xffme"))
    assert row_groups(str(path)) == []
