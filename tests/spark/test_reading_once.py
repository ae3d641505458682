"""However many branches a source has, its bytes are read once; counted where they are read, in the workers."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

import strandline as sl
from strandline.model.types import Schema
from strandline.sources.contract import Piece
from strandline.sources.files import FileReader, FileSource
from strandline.store.storage import Storage

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux says what a process has read"),
]
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

ROWS = 100_000


def bytes_taken() -> int:
    """How many bytes this process has read by now, from whatever it reads."""
    return int(Path("/proc/self/io").read_text().split()[1])


class MeteredReader(FileReader):
    """Leaves a note at each read: how many bytes the worker took for it."""

    notes: str

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "notes": self.notes}

    def read(self, part: Any) -> Iterator[Piece]:
        before = bytes_taken()
        found = list(super().read(part))
        Path(self.notes, uuid.uuid4().hex).write_text(str(bytes_taken() - before))
        yield from found


@dataclass(frozen=True)
class Metered:
    """A source of files whose reads are counted."""

    source: FileSource
    notes: str

    @property
    def schema(self) -> Schema:
        return self.source.schema

    def reader(self, storage: Storage | None = None) -> MeteredReader:
        plain = self.source.reader(storage)
        reader = MeteredReader(plain.source, plain.storage)
        reader.notes = self.notes
        return reader


@pytest.fixture
def metered(tmp_path: Path) -> Metered:
    (tmp_path / "in").mkdir()
    (tmp_path / "notes").mkdir()
    # Long lines: beside their bytes what a worker imports at its first read is little.
    rows = pl.select(n=pl.int_range(ROWS), at=pl.lit("2026-01-01T12:00:00Z"), padding=pl.lit("." * 200))
    rows.write_ndjson(tmp_path / "in" / "rows.json")
    source = sl.Files(str(tmp_path / "in")).read(format="json", schema="n bigint, at timestamp")
    return Metered(source, str(tmp_path / "notes"))


def even(frame: DataFrame) -> DataFrame:
    return frame.where(frame["n"] % 2 == 0)


def branches(streams: list[sl.Stream]) -> dict[str, sl.Memory]:
    """A window, rows through PySpark code, and rows as they are: each from one of the streams."""
    windowed, transformed, plain = streams
    shown = {name: sl.Memory(name) for name in ("counted", "even", "few")}
    counts = windowed.with_column("digit", "n % 10").key_by("digit").window(sl.Tumbling("1m"))
    counts.aggregate("counts", count=sl.Count()).sink("counted", shown["counted"], rows="append")
    transformed.transform(even).sink("even", shown["even"], rows="append", columns=["n"])
    plain.where("n % 1000 = 0").sink("few", shown["few"], rows="append", columns=["n"])
    return shown


def times_read(metered: Metered) -> float:
    """How many times as many bytes were read as there are."""
    taken = sum(int(note.read_text()) for note in Path(metered.notes).iterdir())
    return taken / sum(file.stat().st_size for file in Path(metered.source.path).iterdir())


def test_one_source_with_three_branches_reads_its_bytes_once(
    metered: Metered, spark: SparkSession, tmp_path: Path
) -> None:
    flow = sl.Flow("branches")
    shown = branches([flow.source("rows", metered, time="at")] * 3)
    flow.run(state=tmp_path / "state", spark=spark, until="end")
    assert sum(row["count"] for row in shown["counted"].rows) == ROWS
    assert [len(shown["even"].rows), len(shown["few"].rows)] == [ROWS // 2, ROWS // 1000]
    assert 1 <= times_read(metered) < 1.2


def test_the_meter_sees_it_when_bytes_are_read_three_times(
    metered: Metered, spark: SparkSession, tmp_path: Path
) -> None:
    flow = sl.Flow("sources")
    branches([flow.source(name, metered, time="at") for name in ("a", "b", "c")])
    flow.run(state=tmp_path / "state", spark=spark, until="end")
    assert 3 <= times_read(metered) < 3.6
