from __future__ import annotations

import gzip
import json
import os
import re
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.errors import DataError, DescriptionError, StateError
from strandline.sources.contract import EVERY, Limit, Place
from strandline.sources.files import FileReader, FileSource
from strandline.sources.lines import CUT_OFF, blocks, lines_of
from strandline.store.local import LocalStorage
from tests.lanes import examples
from tests.sources.reading import NO_LIMIT, everything, malformed_of, offsets, pieces, rows_of

SCHEMA = "n bigint, name string"


def put(folder: Path, name: str, numbers: range, format: str = "json") -> Path:
    """A file as a careful writer leaves it: under another name first, then renamed."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pl.DataFrame(
        {"n": list(numbers), "name": [f"row {n}" for n in numbers]}, schema={"n": pl.Int64, "name": pl.String}
    )
    hidden = path.with_name("_" + path.name)
    if format == "parquet":
        table.write_parquet(hidden, row_group_size=max(1, len(numbers) // 4))
    elif format == "csv":
        table.write_csv(hidden)
    else:
        table.write_ndjson(hidden)
    hidden.rename(path)
    return path


def reader_of(folder: Path, format: Any = "json", schema: str = SCHEMA, **options: Any) -> FileReader:
    return FileSource(folder / "in", format=format, schema=schema, **options).reader(LocalStorage(folder / "state"))


def numbers(rows: list[tuple[Any, ...]]) -> list[int]:
    return sorted(row[0] for row in rows)


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
@pytest.mark.parametrize("wanted", [1, 2, 3, 16])
def test_however_the_ticks_and_parts_are_cut_the_rows_are_the_same(
    tmp_path: Path, format: str, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.sources.ranges.SMALLEST", 50)
    for name, count in (("c", 100), ("a", 3), ("b", 0), ("d", 1000)):
        put(tmp_path / "in", name, range(count), format)
    whole = everything(reader_of(tmp_path, format))
    assert len(whole) == 1103
    for limit in (NO_LIMIT, Limit(rows=150), Limit(bytes=1), Limit(rows=1, bytes=10_000)):
        assert everything(reader_of(tmp_path, format), limit, wanted) == whole


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=5), st.integers(1, 20))
@settings(max_examples=examples(200), deadline=None)
def test_every_line_is_read_once_however_a_file_is_cut(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cuts: list[int], size: int
) -> None:
    path = tmp_path_factory.mktemp("cut") / "file"
    path.write_bytes(data.replace(b"0", b"\n"))
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    found = [
        line
        for low, high in pairwise(edges)
        for block in blocks(str(path), low, high, size)
        for line in lines_of(block)
    ]
    assert found == lines_of(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=5), st.integers(1, 20))
@settings(max_examples=examples(200), deadline=None)
def test_which_lines_are_too_long_does_not_depend_on_how_a_file_is_cut(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cuts: list[int], size: int
) -> None:
    path = tmp_path_factory.mktemp("cut") / "file"
    path.write_bytes(data.replace(b"0", b"\n"))
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    found = b"".join(block for low, high in pairwise(edges) for block in blocks(str(path), low, high, size, longest=20))
    lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    assert found == b"\n".join(line if len(line) <= 20 else line[:20] + CUT_OFF for line in lines)


def test_a_file_written_as_one_long_line_is_rejected_and_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.sources.reading.LONGEST", 40)
    put(tmp_path / "in", "good.json", range(3))
    (tmp_path / "in" / "one_line.json").write_text(json.dumps([{"n": n} for n in range(100)]))
    reader = reader_of(tmp_path)
    found = pieces(reader, reader.first(), reader.latest(reader.first(), NO_LIMIT))
    assert numbers(rows_of(found)) == [0, 1, 2]
    bad = [raw for piece in found if piece.malformed is not None for raw in piece.malformed["raw"]]
    assert bad == ['[{"n": 0}, {"n": 1}, {"n": 2}, {"n": 3},' + CUT_OFF.decode()]


def test_a_file_that_sorts_before_those_that_were_read_is_not_lost(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    put(tmp_path / "in", "b.json", range(5))
    first = reader.latest(reader.first(), NO_LIMIT)
    put(tmp_path / "in", "a.json", range(5, 9))
    put(tmp_path / "in", "deep/er/c.json", range(9, 12))
    second = reader.latest(first, NO_LIMIT)
    assert (first, second) == ({"files": 1, "of": 1}, {"files": 3, "of": 3})
    assert numbers(rows_of(pieces(reader, reader.first(), first))) == list(range(5))
    assert numbers(rows_of(pieces(reader, first, second))) == list(range(5, 12))


def test_a_path_may_be_a_url_as_for_sinks(tmp_path: Path) -> None:
    put(tmp_path / "my data", "a.json", range(3))
    source = FileSource((tmp_path / "my data").as_uri(), format="json", schema=SCHEMA)
    assert source.path == str(tmp_path / "my data")


def test_after_a_restart_the_same_offsets_give_the_same_rows(tmp_path: Path) -> None:
    before = reader_of(tmp_path)
    put(tmp_path / "in", "z.json", range(5))
    end = before.latest(before.first(), NO_LIMIT)
    rows = rows_of(pieces(before, before.first(), end))
    put(tmp_path / "in", "a.json", range(5, 9))
    after = reader_of(tmp_path)
    assert rows_of(pieces(after, after.first(), end)) == rows
    assert after.latest(end, NO_LIMIT) == {"files": 2, "of": 2}


def test_two_that_plan_at_once_agree_on_the_numbers_of_the_files(tmp_path: Path) -> None:
    one, other = reader_of(tmp_path), reader_of(tmp_path)
    put(tmp_path / "in", "a.json", range(3))
    assert one.latest(one.first(), NO_LIMIT) == other.latest(other.first(), NO_LIMIT)
    put(tmp_path / "in", "c.json", range(3, 6))
    one.latest(one.first(), NO_LIMIT)
    put(tmp_path / "in", "b.json", range(6, 9))
    assert other.latest(other.first(), NO_LIMIT)["of"] == 3
    one.latest(one.first(), NO_LIMIT)
    assert (
        [file.path for file in one.log.files]
        == [file.path for file in other.log.files]
        == ["a.json", "c.json", "b.json"]
    )


@pytest.mark.slow
def test_the_log_of_many_ticks_is_read_from_few_files(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    offset = reader.first()
    for number in range(205):
        put(tmp_path / "in", f"{number}.json", range(number, number + 1))
        offset = reader.latest(offset, NO_LIMIT)
    again = reader_of(tmp_path)
    again.log.follow()
    assert again.log.files == reader.log.files
    assert len(LocalStorage(tmp_path / "state").names("joined/")) == 2
    assert numbers(everything(again)) == list(range(205))


def test_a_log_with_any_byte_changed_or_cut_off_is_refused_by_name(tmp_path: Path) -> None:
    put(tmp_path / "in", "a.json", range(3))
    storage = LocalStorage(tmp_path / "log")
    source = FileSource(tmp_path / "in", format="json", schema=SCHEMA)
    end = source.reader(storage).latest({"files": 0, "of": 0}, NO_LIMIT)
    name = "log/000000000000.json"
    whole = storage.read(name)
    for at in range(len(whole)):
        for data in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], whole[:at] + whole[at + 1 :]):
            storage.replace(name, data)
            if json_or_none(data) != json.loads(whole):  # a blank less between two words is no damage
                with pytest.raises(StateError, match=name):
                    source.reader(storage).latest(end, NO_LIMIT)


def json_or_none(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def test_a_folder_that_has_settled_is_listed_again_when_it_changes(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    put(tmp_path / "in", "a/1.json", range(1))
    later = os.stat(tmp_path / "in" / "a").st_mtime_ns // 1000 + 10_000_000
    first = reader.latest(reader.first(), NO_LIMIT, now=later)
    assert set(reader.listing.settled) == {"", "a"}
    put(tmp_path / "in", "a/2.json", range(1))
    put(tmp_path / "in", "b/3.json", range(1))
    assert reader.latest(first, NO_LIMIT, now=later) == {"files": 3, "of": 3}


@pytest.mark.parametrize("settled", [False, True])
def test_a_link_to_a_folder_that_is_read_already_gives_no_file_a_second_time(tmp_path: Path, settled: bool) -> None:
    reader = reader_of(tmp_path)
    put(tmp_path / "elsewhere", "b.json", range(3, 4))
    put(tmp_path / "in", "2026/a.json", range(3))
    (tmp_path / "in/other").symlink_to(tmp_path / "elsewhere")
    later = os.stat(tmp_path / "in").st_mtime_ns // 1000 + 10_000_000 if settled else None
    end = reader.latest(reader.first(), NO_LIMIT, now=later)
    assert end["files"] == 2
    for name in ("a", "latest", "z", "2026/back", "0/0"):  # whichever of them is listed first
        (tmp_path / "in" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "in" / name).symlink_to(tmp_path / "in/2026")
        assert reader.latest(end, NO_LIMIT, now=later) == end


def test_a_folder_that_is_removed_while_it_is_listed_was_never_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "in", "a/1.json", range(1))
    put(tmp_path / "in", "b/2.json", range(2))
    list_folder = os.scandir

    def removing(path: str) -> Any:
        if path.endswith("/a"):
            Path(path).rename(tmp_path / "gone")
        return list_folder(path)

    monkeypatch.setattr(os, "scandir", removing)
    assert numbers(everything(reader_of(tmp_path))) == [0, 1]


def test_a_folder_that_cannot_be_listed_stops_the_flow_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(path: str) -> Any:
        raise PermissionError(13, "Permission denied", path)

    put(tmp_path / "in", "1.json", range(1))
    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(DataError, match=r"The folder .*/in/? cannot be listed: Permission denied"):
        everything(reader_of(tmp_path))


def test_hidden_and_temporary_files_are_passed_over(tmp_path: Path) -> None:
    for name in ("_a.json", ".b.json", "c.json.tmp", "_folder/d.json", ".folder/e.json"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("no json")
    put(tmp_path / "in", "f.json", range(2))
    assert numbers(everything(reader_of(tmp_path))) == [0, 1]


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("in/*/x", None, [1, 2]),
        ("in/**/*.json", None, [1, 3]),
        ("in", "*.json", [1, 3]),
        ("in/[ab]", "*.txt", [2]),
        ("in/a/x/1.json", None, [1]),
        ("in", "c/?.json", [3]),
        ("in/nothing*", None, []),
    ],
)
def test_paths_may_have_wildcards_and_names_a_pattern(
    tmp_path: Path, path: str, pattern: str | None, expected: list[int]
) -> None:
    for name, number in (("a/x/1.json", 1), ("b/x/2.txt", 2), ("c/3.json", 3)):
        put(tmp_path / "in", name, range(number, number + 1))
    source = FileSource(tmp_path / path, format="json", schema=SCHEMA, pattern=pattern)
    assert numbers(everything(source.reader(LocalStorage(tmp_path / "state")))) == expected


def test_a_file_that_grew_after_it_was_found_stops_the_flow_by_name(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    path = put(tmp_path / "in", "a.json", range(3))
    end = reader.latest(reader.first(), NO_LIMIT)
    parts = reader.parts(reader.first(), end, 1)
    with path.open("a") as file:
        file.write('{"n": 9}\n')
    with pytest.raises(DataError, match=r"a\.json has \d+ bytes, not \d+"):
        list(reader.read(parts[0]))
    with pytest.raises(DataError, match="changed after it was found"):
        reader.latest(end, NO_LIMIT)


def test_a_file_that_was_found_half_written_is_read_whole_when_it_is_whole(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    path = put(tmp_path / "in", "a.json", range(3))
    put(tmp_path / "in", "b.json", range(5, 6))
    end = reader.latest(reader.first(), NO_LIMIT)
    with path.open("a") as file:
        file.write('{"n": 3}\n')
    with pytest.raises(DataError, match="start again when it is whole"):
        pieces(reader, reader.first(), end)
    again = reader_of(tmp_path)  # nothing was committed: the next run begins where this one did
    assert again.latest(again.first(), NO_LIMIT) == end
    assert numbers(rows_of(pieces(again, again.first(), end))) == [0, 1, 2, 3, 5]
    assert numbers(everything(reader_of(tmp_path))) == [0, 1, 2, 3, 5]


def test_in_a_great_backlog_too_a_changed_file_is_read_as_it_is(tmp_path: Path) -> None:
    for number in range(300):
        put(tmp_path / "in", f"{number:03}.json", range(number, number + 1))
    reader = reader_of(tmp_path, max_files_per_tick=5)
    reader.latest(reader.first(), NO_LIMIT)
    put(tmp_path / "in", "003.json", range(300, 302))
    end = reader.latest(reader.first(), NO_LIMIT)
    assert numbers(rows_of(pieces(reader, reader.first(), end))) == [0, 1, 2, 4, 300, 301]


def test_an_empty_file_in_place_of_one_that_was_lost_lets_the_flow_go_on(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    path = put(tmp_path / "in", "a.json", range(3))
    reader.latest(reader.first(), NO_LIMIT)
    path.unlink()
    put(tmp_path / "in", "b.json", range(5, 6))
    with pytest.raises(DataError, match="or an empty file in its place"):
        reader.latest(reader.first(), NO_LIMIT)
    path.touch()
    assert numbers(everything(reader_of(tmp_path))) == [5]


def test_files_that_are_read_may_be_copied_elsewhere_without_their_times(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    path = put(tmp_path / "in", "a.json", range(3))
    end = reader.latest(reader.first(), NO_LIMIT)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert reader.latest(end, NO_LIMIT) == end


def test_another_folder_is_refused_unless_the_files_were_moved_there_with_their_names(tmp_path: Path) -> None:
    state = LocalStorage(tmp_path / "state")
    put(tmp_path / "data/orders", "a.json", range(3))
    below, above, moved = (
        FileSource(tmp_path / f, format="json", schema=SCHEMA) for f in ("data/orders", "data", "there")
    )
    end = below.reader(state).latest({"files": 0, "of": 0}, NO_LIMIT)
    with pytest.raises(StateError, match=r"read from .*/data/orders, and none of them is below .*/data\."):
        above.reader(state)
    (tmp_path / "data/orders").rename(tmp_path / "there")
    put(tmp_path / "there", "b.json", range(3, 5))
    reader = moved.reader(state)
    assert numbers(rows_of(pieces(reader, end, reader.latest(end, NO_LIMIT)))) == [3, 4]


def test_a_source_of_one_file_may_be_moved_and_may_not_become_another(tmp_path: Path) -> None:
    state = LocalStorage(tmp_path / "state")
    put(tmp_path, "a.json", range(3))
    put(tmp_path, "b.json", range(4))
    before, moved, other, below = (
        FileSource(tmp_path / name, format="json", schema=SCHEMA)
        for name in ("a.json", "there.json", "b.json", "b.json/a.json")
    )
    end = before.reader(state).latest({"files": 0, "of": 0}, NO_LIMIT)
    for wrong in (other, below):
        with pytest.raises(StateError, match=r"read from .*/a\.json, and none of them is below .*/b\.json"):
            wrong.reader(state)
    (tmp_path / "a.json").rename(tmp_path / "there.json")
    assert moved.reader(state).latest(end, NO_LIMIT) == end


def test_a_file_that_is_gone_before_it_was_read_is_named(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    path = put(tmp_path / "in", "a.json", range(3))
    end = reader.latest(reader.first(), NO_LIMIT)
    parts = reader.parts(reader.first(), end, 1)
    path.unlink()
    with pytest.raises(DataError, match=r"a\.json was found, and is gone"):
        list(reader.read(parts[0]))
    with pytest.raises(DataError, match="is gone before it was read"):
        reader.latest(reader.first(), NO_LIMIT)
    assert reader.latest(end, NO_LIMIT) == end  # once read, it may go


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    with pytest.raises(DataError, match="There is no folder"):
        reader.latest(reader.first(), NO_LIMIT)


def test_files_and_bytes_of_a_tick_are_limited(tmp_path: Path) -> None:
    for number in range(5):
        put(tmp_path / "in", f"{number}.json", range(10))
    size = (tmp_path / "in" / "0.json").stat().st_size
    assert [end["files"] for _, end in offsets(reader_of(tmp_path, max_files_per_tick=2))] == [2, 4, 5]
    assert [end["files"] for _, end in offsets(reader_of(tmp_path), Limit(bytes=3 * size))] == [3, 5]
    assert [end["files"] for _, end in offsets(reader_of(tmp_path), Limit(rows=10))] == [1, 2, 3, 4, 5]
    assert reader_of(tmp_path).places({"files": 2, "of": 5}) == {"0": Place(position=2, end=5)}


def test_a_big_parquet_file_is_cut_by_row_groups(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pl.DataFrame({"n": range(400_000), "name": "x"}).write_parquet(
        folder / "a.parquet", row_group_size=50_000, compression="uncompressed"
    )
    reader = reader_of(tmp_path, "parquet")
    end = reader.latest(reader.first(), NO_LIMIT)
    parts = reader.parts(reader.first(), end, 4)
    assert [sum(piece.rows.height for piece in reader.read(part)) for part in parts] == [100_000] * 4
    assert reader.latest(reader.first(), Limit(rows=1)) == end


def test_partition_by_gives_a_piece_for_each_value(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"n":1,"name":"x"}\n{"n":2}\nbad\n{"n":3,"name":"x"}\n')
    reader = reader_of(tmp_path, partition_by="name")
    found = pieces(reader, reader.first(), reader.latest(reader.first(), NO_LIMIT))
    assert [(piece.partition, piece.rows["n"].to_list()) for piece in found] == [
        (EVERY, []),
        ("x", [1, 3]),
        ("null", [2]),
    ]
    assert [raw for raw, _ in malformed_of(found)] == ["bad"]
    assert reader.places({"files": 1, "of": 1}) == {EVERY: Place(position=1, end=1)}


def test_compressed_lines_are_read(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    lines = "".join(json.dumps({"n": n}) + "\n" for n in range(1000))
    (tmp_path / "in" / "a.json.gz").write_bytes(gzip.compress(lines.encode()))
    assert numbers(everything(reader_of(tmp_path), Limit(rows=5), wanted=4)) == list(range(1000))


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_a_name_of_which_not_every_byte_is_text_stops_no_flow(tmp_path: Path, format: str) -> None:
    good = put(tmp_path / "in", f"good.{format}", range(2), format)
    good.rename(good.with_name(f"gr\udcfcn.{format}"))
    good.with_name(f"gr\udcfcn.bad.{format}").write_bytes(b"{\n")
    reader = reader_of(tmp_path, format)
    found = pieces(reader, reader.first(), reader.latest(reader.first(), NO_LIMIT))
    assert numbers(rows_of(found)) == [0, 1]
    [(raw, _)] = malformed_of(found)
    assert raw == "{" or Path(raw).name == f"gr\\xfcn.bad.{format}"


def test_a_compressed_file_that_was_cut_off_is_rejected_by_name(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json.gz").write_bytes(gzip.compress(b'{"n": 1}\n' * 1000)[:-20])
    reader = reader_of(tmp_path)
    found = pieces(reader, reader.first(), reader.latest(reader.first(), NO_LIMIT))
    assert [Path(raw).name for raw, _ in malformed_of(found)] == ["a.json.gz"]


@pytest.mark.parametrize("line", ['{"n": 1, "name": "x"}', "{", '{"name": "' + "x" * 600 + '"}', "x" * 600])
def test_what_is_held_in_memory_at_once_is_bounded_whatever_the_lines_are(
    tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.sources.reading._LINES", 10)
    monkeypatch.setattr("strandline.sources.reading._BYTES", 2_000)
    (tmp_path / "in").mkdir()
    for number in range(30):
        (tmp_path / "in" / f"{number}.json").write_text(f"{line}\n")
    reader = reader_of(tmp_path)
    found = pieces(reader, reader.first(), reader.latest(reader.first(), NO_LIMIT))
    counts = [len(rows_of([piece])) + len(malformed_of([piece])) for piece in found]
    assert sum(counts) == 30
    assert max(counts) == (10 if len(line) < 100 else 4)


def test_with_on_bad_fail_the_first_bad_line_stops_the_flow(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"n":1}\n{"n":"x"}\n')
    with pytest.raises(DataError, match=r"a\.json holds what cannot be understood: column 'n': 'x' is no bigint"):
        everything(reader_of(tmp_path, on_bad="fail"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"format": "xml"}, "format='xml' is not known"),
        ({"on_bad": "ignore"}, "on_bad='ignore' is not known"),
        ({"partition_by": "nmae"}, "asks for the column 'nmae'"),
        ({"header": "no"}, "neither True nor False"),
        ({"separator": ",,"}, "cannot separate"),
        ({"separator": '"'}, "cannot separate"),
        ({"pattern": ""}, "matches no name"),
        ({"pattern": "[z-a]*"}, "cannot be read: bad character range z-a"),
        ({"max_files_per_tick": 0}, "is no number of files"),
        ({"path": ""}, "names no folder"),
        ({"path": "s3://bucket/x"}, "cannot be read from 's3://bucket/x'"),
        ({"schema": "n number"}, "not known"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_described(options: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"path": "x", "format": "json", "schema": SCHEMA, **options}
    with pytest.raises(DescriptionError, match=words):
        FileSource(given.pop("path"), **given)


def csv_rows(folder: Path, text: str, **options: Any) -> list[tuple[Any, ...]]:
    (folder / "in").mkdir()
    (folder / "in" / "a.csv").write_text(text)
    return everything(reader_of(folder, "csv", **options), wanted=3)


def test_columns_of_csv_go_by_the_names_in_the_header(tmp_path: Path) -> None:
    assert csv_rows(tmp_path, "\ufeffmore,name,n\nx,ann,1\n,bob,2") == [(1, "ann"), (2, "bob")]


def test_blanks_around_the_names_in_a_header_do_not_count_unless_the_schema_has_them(tmp_path: Path) -> None:
    assert csv_rows(tmp_path, "more, n\t, name \nx,1,ann\n", schema="n bigint, ` name ` string") == [(1, "ann")]


@pytest.mark.parametrize("before", ["\n", "\ufeff\r\n", " \n\t\n\n"])
def test_blank_lines_before_the_header_do_not_count(
    tmp_path: Path, before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.sources.ranges.SMALLEST", 1)
    assert csv_rows(tmp_path, f"{before}name,n\nann,1\n\nbob,2") == [(1, "ann"), (2, "bob")]


def test_a_file_of_blank_lines_has_no_rows(tmp_path: Path) -> None:
    assert csv_rows(tmp_path, " \n\n") == []


def test_a_column_that_the_header_does_not_name_is_null(tmp_path: Path) -> None:
    assert csv_rows(tmp_path, "n\n1\n2\n") == [(1, None), (2, None)]


def test_without_a_header_columns_of_csv_go_by_their_order(tmp_path: Path) -> None:
    assert csv_rows(tmp_path, "1;ann\n2;bob\n", header=False, separator=";") == [(1, "ann"), (2, "bob")]


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    assert csv_rows(tmp_path, "") == []


def test_a_header_with_none_of_the_columns_is_rejected_once_with_the_name_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.sources.ranges.SMALLEST", 2)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1,ann\n2,bob\n3,cid\n")
    reader = reader_of(tmp_path, "csv")
    found = pieces(reader, reader.first(), reader.latest(reader.first(), NO_LIMIT), wanted=4)
    assert rows_of(found) == []
    [(raw, reason)] = malformed_of(found)
    assert Path(raw).name == "a.csv"
    assert "the header names no column" in reason


@pytest.mark.parametrize("wanted", [1, 2, 7, 40])
def test_line_ends_in_quotes_are_read_however_a_file_of_csv_is_cut(
    tmp_path: Path, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.sources.ranges.SMALLEST", 1)
    texts = ["plain", "two\nlines", "x\n1,2\ny", 'quo"te\n"', "", None, "a,b", "cr\r\nx", "\n\n", " sp "] * 10
    (tmp_path / "in").mkdir()
    table = pl.DataFrame({"n": range(len(texts)), "name": texts})
    table.write_csv(tmp_path / "in" / "a.csv", include_bom=True)
    assert everything(reader_of(tmp_path, "csv"), wanted=wanted) == table.rows()


def test_of_a_quote_that_nobody_closes_a_bounded_part_of_the_file_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.sources.ranges.SMALLEST", 1)
    monkeypatch.setattr("strandline.sources.records.LONGEST", 10)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("n,name\n" + "1,ann\n" * 10 + '2,"bob\n' + "3,cid\n" * 10)
    reader = reader_of(tmp_path, "csv")
    found = pieces(reader, reader.first(), reader.latest(reader.first(), NO_LIMIT), wanted=5)
    assert rows_of(found) == [(1, "ann")] * 10
    [(raw, reason)] = malformed_of(found)
    assert Path(raw).name == "a.csv"
    assert re.match("the file cannot be read to its end: a quote is not closed .*bob", reason)


UNREADABLE_HEADERS = [
    "n,größe".encode("latin-1"),
    "n,name".encode("utf-16"),
    b'n,"name',
    b'"n"x,name',
    b"n,name\r1,ann\r",
]


@pytest.mark.parametrize("header", UNREADABLE_HEADERS)
def test_a_header_that_cannot_be_read_refuses_its_file_once_and_no_other(
    tmp_path: Path, header: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.sources.ranges.SMALLEST", 2)
    put(tmp_path / "in", "good.csv", range(2), "csv")
    (tmp_path / "in" / "bad.csv").write_bytes(header + b"\n1,ann\n2,bob\n")
    reader = reader_of(tmp_path, "csv")
    found = pieces(reader, reader.first(), reader.latest(reader.first(), NO_LIMIT), wanted=4)
    assert rows_of(found) == [(0, "row 0"), (1, "row 1")]
    [(raw, reason)] = malformed_of(found)
    assert Path(raw).name == "bad.csv"
    assert reason.startswith("the header cannot be read: ")
    with pytest.raises(DataError, match=r"bad\.csv holds what cannot be understood: the header cannot be read"):
        everything(reader_of(tmp_path, "csv", on_bad="fail"))


def test_intervals_are_read_as_the_file_sink_writes_them(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"late_by": "PT1M30S"}\n{"late_by": "-P2DT0.5S"}\n{"late_by": "PT"}\n')
    found = everything(reader_of(tmp_path, schema="late_by interval day to second"))
    assert found == [(timedelta(seconds=90),), (-timedelta(days=2, seconds=0.5),)]
