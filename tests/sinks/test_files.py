"""Rows as files: layouts, readers, compaction."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from strandline.errors import DescriptionError, SinkError
from strandline.model.types import Schema
from strandline.sinks import filelog
from strandline.sinks.compact import compact
from strandline.sinks.files import FileSink
from strandline.sinks.reading import read_files
from strandline.store.storage import storage_at
from tests.sinks.delivering import EVERYTHING, LOG, TARGET, delivery, delivery_of
from tests.store.serving import BUCKET, Server, serving

FORMATS = ("parquet", "json", "csv")
LAYOUTS = ("ticks", "log")


def publish(sink: FileSink, *ticks: int) -> None:
    publisher = sink.prepare(TARGET)
    for tick in ticks:
        publisher.publish(delivery(TARGET, tick, (f"tick {tick}", tick), (None, -tick)))
    publisher.close()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("format", FORMATS)
def test_what_was_published_is_read(format: Any, layout: Any, tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "out", format=format, layout=layout)
    publish(sink, 1, 2, 30)
    assert sink.reader().frame().rows() == [
        ("tick 1", 1), (None, -1), ("tick 2", 2), (None, -2), ("tick 30", 30), (None, -30),
    ]  # fmt: skip


def test_a_column_alone_is_not_written_as_csv_where_a_null_would_be_a_blank_line(tmp_path: Path) -> None:
    target = replace(TARGET, schema=Schema.of("n int"))
    with pytest.raises(SinkError, match="would be a blank line"):
        FileSink(tmp_path, format="csv").prepare(target)
    assert not any(tmp_path.iterdir())


def test_any_tool_reads_the_files_of_ticks(tmp_path: Path) -> None:
    publish(FileSink(tmp_path), 1, 2)
    assert [path.name[:17] for path in sorted(tmp_path.glob("tick-*.parquet"))] == [
        "tick-000000000001",
        "tick-000000000002",
    ]
    assert pl.read_parquet(tmp_path / "tick-*.parquet").height == 4


@pytest.mark.parametrize("name", ["_log/000000000001.json", "data"])
def test_a_byte_that_changed_in_a_log_or_in_its_files_is_found_when_it_is_read(name: str, tmp_path: Path) -> None:
    publish(FileSink(tmp_path, layout="log"), 1, 2)
    path = sorted((tmp_path / "data").iterdir())[1] if name == "data" else tmp_path / name
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(SinkError, match=path.name):
            read_files(tmp_path)
    path.write_bytes(whole)
    assert read_files(tmp_path).height == 4


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_changelog_has_op(layout: Any, tmp_path: Path) -> None:
    sink = FileSink(tmp_path, format="json", layout=layout)
    sink.prepare(LOG).publish(delivery(LOG, 1, ("a", 1, "retract"), ("a", 2, "insert")))
    assert read_files(tmp_path).rows() == [("a", 1, "retract"), ("a", 2, "insert")]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_before_the_first_tick_there_are_no_rows(layout: Any, tmp_path: Path) -> None:
    FileSink(tmp_path, layout=layout).prepare(TARGET)
    assert read_files(tmp_path).schema == pl.Schema({"k": pl.String, "n": pl.Int64})


@pytest.mark.parametrize("format", FORMATS)
def test_every_type_survives_a_compaction(format: Any, tmp_path: Path) -> None:
    target = replace(TARGET, schema=EVERYTHING)
    table = pl.DataFrame({name: [None] * 2 for name in EVERYTHING}, schema=pl.Schema(_types()))
    publisher = FileSink(tmp_path, format=format, layout="log").prepare(target)
    for tick in range(3):
        publisher.publish(delivery_of(target, tick, table))
    compact(tmp_path)
    assert_frame_equal(read_files(tmp_path), pl.concat([table] * 3))


def _types() -> dict[str, pl.DataType]:
    from strandline.kernel.schema import polars_schema

    return polars_schema(EVERYTHING)


def test_names_of_columns_may_hold_anything(tmp_path: Path) -> None:
    names = ('a "b"', "c,d", "e f", "ü\n")
    schema = Schema(tuple((name, Schema.of("x bigint")["x"]) for name in names))
    for format in FORMATS:
        target = replace(TARGET, schema=schema)
        FileSink(tmp_path / format, format=format).prepare(target).publish(delivery(target, 1, (1, 2, 3, 4)))
        assert read_files(tmp_path / format).to_dicts() == [dict(zip(names, (1, 2, 3, 4), strict=True))]


@pytest.mark.parametrize(
    ("sink", "target", "said"),
    [
        ({"format": "json"}, {}, "holds files with format 'parquet'"),
        ({"layout": "log"}, {}, "holds files with layout 'ticks'"),
        ({}, {"rows": "changelog"}, "holds files with rows 'append'"),
        ({}, {"schema": Schema.of("k string")}, "holds files with schema k string, n bigint"),
        ({}, {"sink": "other"}, "of the sink 's' of the flow 'f'"),
    ],
)
def test_a_folder_holds_files_of_one_kind(sink: Any, target: Any, said: str, tmp_path: Path) -> None:
    publish(FileSink(tmp_path), 1)
    with pytest.raises(SinkError, match=said):
        FileSink(tmp_path, **sink).prepare(replace(TARGET, **target))


@pytest.mark.parametrize(
    "given", [{"format": "xml"}, {"layout": "hive"}, {"path": ""}, {"path": 3}, {"path": "ftp://x/y"}]
)
def test_what_makes_no_sense_is_refused_when_said(given: dict[str, Any]) -> None:
    with pytest.raises(DescriptionError):
        FileSink(**{"path": "out", **given})


def test_a_place_that_cannot_be_written_is_refused_before_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="could not be"):
        FileSink(tmp_path / "file" / "out").prepare(TARGET)


def test_a_folder_that_is_emptied_under_a_run_stops_it(tmp_path: Path) -> None:
    publisher = FileSink(tmp_path / "out").prepare(TARGET)
    publisher.publish(delivery(TARGET, 1, ("a", 1)))
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(SinkError, match=r"owner\.json is gone from .*/out"):
        publisher.publish(delivery(TARGET, 2, ("a", 2)))


def test_a_folder_without_a_sink_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="No file sink has written"):
        read_files(tmp_path)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    publish(FileSink(tmp_path), 1)
    (file,) = tmp_path.glob("tick-*")
    file.write_bytes(b"PAR1 no more")
    with pytest.raises(SinkError, match=file.name):
        read_files(tmp_path)


def test_a_data_file_that_is_missing_is_named(tmp_path: Path) -> None:
    publish(FileSink(tmp_path, layout="log"), 1)
    (file,) = (tmp_path / "data").iterdir()
    file.unlink()
    with pytest.raises(SinkError, match=file.name):
        read_files(tmp_path)


def test_a_compaction_swaps_many_files_for_one_and_changes_no_row(tmp_path: Path) -> None:
    sink = FileSink(tmp_path, layout="log")
    publish(sink, *range(1, 11))
    before = read_files(tmp_path)
    done = compact(tmp_path)
    assert (done.before, done.after) == (10, 1)
    assert_frame_equal(read_files(tmp_path), before)
    publish(sink, 10, 11)
    assert read_files(tmp_path).rows() == [*before.rows(), ("tick 11", 11), (None, -11)]


def test_a_compaction_keeps_to_its_size_and_the_order(tmp_path: Path) -> None:
    publish(FileSink(tmp_path, format="json", layout="log"), *range(1, 11))
    before = read_files(tmp_path)
    size = filelog.latest(storage_at(tmp_path)).files[0].nbytes
    assert compact(tmp_path, target_bytes=3 * size + 2).after == 4
    assert_frame_equal(read_files(tmp_path), before)
    assert compact(tmp_path, target_bytes=1).after == 4


def test_a_publisher_beside_a_compaction_of_many_entries_loses_no_tick(tmp_path: Path) -> None:
    publisher = FileSink(tmp_path, format="json", layout="log").prepare(TARGET)
    for tick in range(60):
        publisher.publish(delivery(TARGET, tick, ("a", tick)))
    size = filelog.latest(storage_at(tmp_path)).files[0].nbytes
    for _ in range(2):  # the first writes many entries, and the second deletes those that the publisher stands at
        compact(tmp_path, target_bytes=2 * size + 4)
        compact(tmp_path, target_bytes=9 * size)
    for tick in (60, 61):
        assert publisher.publish(delivery(TARGET, tick, ("a", tick))).rows == 1
    assert read_files(tmp_path)["n"].to_list() == list(range(62))
    assert (
        FileSink(tmp_path, format="json", layout="log").prepare(TARGET).publish(delivery(TARGET, 61, ("a", 61))).skipped
    )


@pytest.mark.parametrize("before", ["one", "zero", "a"])
def test_an_entry_whose_name_was_freed_while_its_publisher_slept_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """The log's marker may be of another incarnation, which was taken over: it says nothing of this one's ticks."""
    old = replace(TARGET, incarnation=before)
    FileSink(tmp_path, format="json", layout="log").prepare(old).publish(delivery(old, 0, ("a", 0)))
    publisher = FileSink(tmp_path, format="json", layout="log").prepare(replace(TARGET, acknowledged=True))
    slept: list[int] = []

    def sleep_once(*args: Any, **about: Any) -> Any:
        if not slept:
            slept.append(1)
            for _ in range(30):  # others write and clean up, and entry 1 is free again
                snapshot = filelog.latest(publisher.storage)
                entry = filelog.Entry(entry=snapshot.entry + 1, marker=snapshot.marker, add=())
                filelog.write_entry(publisher.storage, snapshot, entry, snapshot=True)
            publisher.storage.delete(filelog.garbage(publisher.storage))
            assert not publisher.storage.exists(filelog.entry_name(1))
        return written(*args, **about)

    written = filelog.write_data
    monkeypatch.setattr(filelog, "write_data", sleep_once)
    assert publisher.publish(delivery(TARGET, 1, ("a", 1))).rows == 1
    assert read_files(tmp_path)["n"].to_list() == [0, 1]


def test_old_files_go_only_after_the_grace(tmp_path: Path) -> None:
    sink = FileSink(tmp_path, layout="log")
    publish(sink, *range(5))
    assert compact(tmp_path, grace=3).deleted == 0
    publish(sink, 5, 6)
    assert compact(tmp_path, grace=9).deleted == 0
    publish(sink, 7, 8)
    compact(tmp_path, grace=3)
    live = {file.name for file in filelog.latest(storage_at(tmp_path)).files}
    assert len(live) == 1
    assert read_files(tmp_path)["n"].abs().max() == 8


def test_a_file_that_a_dead_publisher_left_is_cleaned_up_and_a_strangers_is_not(tmp_path: Path) -> None:
    sink = FileSink(tmp_path, layout="log")
    publish(sink, 0, 1)
    orphan, coming = tmp_path / "data/000000000001-dead.parquet", tmp_path / "data/000000000009-new.parquet"
    stranger = tmp_path / "data/notes.txt"
    for path in (orphan, coming, stranger):
        path.write_bytes(b"")
    (tmp_path / "_log/notes.txt").write_bytes(b"")
    compact(tmp_path)
    assert [path.exists() for path in (orphan, coming, stranger)] == [False, True, True]
    assert read_files(tmp_path).height == 4


@pytest.mark.slow
def test_the_log_is_not_read_from_its_start(tmp_path: Path) -> None:
    publish(FileSink(tmp_path, layout="log"), *range(230))
    compact(tmp_path, grace=5)
    publish(FileSink(tmp_path, layout="log"), *range(230, 240))
    compact(tmp_path, grace=5)
    entries = sorted(int(path.stem) for path in (tmp_path / "_log").iterdir())
    assert entries[0] == 230
    assert read_files(tmp_path).height == 480


def test_ticks_cannot_be_compacted(tmp_path: Path) -> None:
    publish(FileSink(tmp_path), 1)
    with pytest.raises(SinkError, match="layout 'ticks'"):
        compact(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_reader_beside_500_ticks_and_5_compactions_sees_whole_ticks_each_once(layout: Any, tmp_path: Path) -> None:
    ticks = 500
    sink = FileSink(tmp_path, format="json", layout=layout)
    publisher = sink.prepare(TARGET)
    seen: list[int] = []
    wrong: list[object] = []
    finished = threading.Event()

    def read() -> None:
        while not finished.is_set() or not seen or seen[-1] < ticks:
            try:
                rows = sink.reader().frame()["n"].to_list()
            except Exception as error:
                wrong.append(error)
                return
            last = len(rows) // 2
            if rows != [n for tick in range(1, last + 1) for n in (tick, -tick)] or (seen and last < seen[-1]):
                wrong.append(rows)
                return
            seen.append(last)

    reader = threading.Thread(target=read)
    reader.start()
    for tick in range(1, ticks + 1):
        publisher.publish(delivery(TARGET, tick, ("a", tick), (None, -tick)))
        if layout == "log" and tick % 90 == 0:
            compact(tmp_path, grace=3)
    finished.set()
    reader.join()
    assert wrong == []
    assert seen[-1] == ticks
    assert len(set(seen)) > 5


@pytest.mark.slow
def test_compactions_beside_each_other_and_a_publisher_lose_nothing(tmp_path: Path) -> None:
    sink = FileSink(tmp_path, format="json", layout="log")
    publisher = sink.prepare(TARGET)
    publisher.publish(delivery(TARGET, 0, ("a", 0)))
    finished = threading.Event()
    wrong: list[BaseException] = []

    def compacting() -> None:
        try:
            while not finished.is_set():
                compact(tmp_path, grace=50)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=compacting) for _ in range(2)]
    for thread in threads:
        thread.start()
    for tick in range(1, 100):
        publisher.publish(delivery(TARGET, tick, ("a", tick)))
    finished.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert read_files(tmp_path)["n"].to_list() == list(range(100))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving() as found:
        for name, value in found.options:
            monkeypatch.setenv(f"AWS_{name.upper()}", value)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        yield found


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_object_store_will_do(layout: Any, server: Server) -> None:
    place = f"s3://{BUCKET}/out"
    publish(FileSink(place, layout=layout), 1, 2)
    publish(FileSink(place, layout=layout), 2, 3)
    if layout == "log":
        assert compact(place).after == 1
    assert read_files(place)["n"].to_list() == [1, -1, 2, -2, 3, -3]


def test_an_object_store_that_writes_over_what_is_there_is_refused(server: Server) -> None:
    server.ignores_conditions = True
    with pytest.raises(SinkError, match="ignores conditional create"):
        FileSink(f"s3://{BUCKET}/out").prepare(TARGET)
