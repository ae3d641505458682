"""Streams to measure on: files of events in nearly the order of their times, and what is asked of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

START = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
SECOND = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Files of events, and the windows that both engines compute over them."""

    name: str
    folder: Path
    format: str
    kind: str
    size: str
    every: str | None
    bound: str
    rows: int
    files: int
    files_per_tick: int
    transformed: bool = False
    schema: str = "key string, value double, at timestamp"

    @property
    def rows_per_tick(self) -> int:
        return self.rows // self.files * self.files_per_tick

    @property
    def pattern(self) -> str:
        return f"{self.folder}/*.{self.format}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """When each batch or tick of a run was done."""

    ends: list[float]
    rows_per_tick: int

    @property
    def rows_per_second(self) -> float:
        """Over all batches but the first two, in which things are still being warmed up."""
        counted = self.ends[1:]
        return (len(counted) - 1) * self.rows_per_tick / (counted[-1] - counted[0])


def write_events(
    folder: Path,
    *,
    format: str,
    rows: int,
    files: int,
    keys: int,
    hours: float,
    zipf: bool = False,
    hot: bool = False,
    seed: int = 7,
) -> None:
    """Events over some hours, up to five seconds out of order, one file after the other."""
    if folder.exists():
        return
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    per_file, span = rows // files, int(hours * 3600 * SECOND)
    for number in range(files):
        first = START + span * number // files
        at = np.sort(random.integers(first, first + span // files, per_file)) - random.integers(0, 5 * SECOND, per_file)
        drawn = random.zipf(1.2, per_file) % keys if zipf else random.integers(0, keys, per_file)
        if hot:
            drawn = np.where(random.random(per_file) < 0.5, 0, drawn)
        frame = pl.DataFrame({
            "key": pl.Series([f"k{n}" for n in range(keys)]).gather(drawn),
            "value": random.random(per_file).round(3),
            "at": pl.Series(at).cast(pl.Datetime("us", "UTC")),
        })  # fmt: skip
        path = folder / f"part-{number:05}.{format}"
        if format == "parquet":
            frame.write_parquet(path)
        else:
            frame.with_columns(pl.col("at").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")).write_ndjson(path)
