"""Measure the engine on Spark against Spark's own streaming: same files, same rows per batch, same machine, one run.

    python -m benchmarks.engine [--rows 8000000] [--only tumbling-parquet ...]

Each answer is checked against DuckDB before its speed counts. Batches one and two are left out on both sides. The peer
is tried with 2, 4 and 8 shuffle partitions, and before each we are run once: the best of three on both sides, since Java
goes on getting faster for minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyspark
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import strandline as sl
from benchmarks import native
from benchmarks.streams import Run, Workload, write_events
from strandline.spark.session import session
from strandline.store.journal import records
from strandline.store.storage import storage_at

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """A workload, and how many times as fast as the peer we must be."""

    load: Workload
    at_least: float


def contests(folder: Path, rows: int) -> list[Contest]:
    def load(
        name: str,
        *,
        keys: int = 100_000,
        count: int = rows,
        files: int = 16,
        zipf: bool = False,
        hours: float = 1,
        format: str = "parquet",
        **windows: Any,
    ) -> Workload:
        data = folder / f"{format}-{keys}-{count}-{files}-{'zipf' if zipf else 'even'}"
        write_events(data, format=format, rows=count, files=files, keys=keys, hours=hours, zipf=zipf)
        asked = {"kind": "tumbling", "size": "1 minute", "every": None, **windows}
        return Workload(
            name=name, folder=data, format=format, bound="5 seconds", rows=count, files=files, files_per_tick=1, **asked
        )

    sessions = load("sessions", kind="session", size="10 seconds", keys=1_000, zipf=True, count=rows // 2, files=8)
    hopping = load(
        "hopping", kind="hopping", size="1 hour", every="1 minute", keys=1_000, count=rows // 4, files=8, hours=2
    )
    return [
        Contest(load=load("tumbling-parquet"), at_least=6),
        Contest(load=load("tumbling-json", format="json"), at_least=4),
        Contest(load=load("tumbling-transform", transformed=True), at_least=3.5),
        Contest(load=sessions, at_least=2),
        Contest(load=hopping, at_least=6),
    ]  # fmt: skip


def ours(spark: SparkSession, load: Workload, out: Path) -> Run:
    flow = sl.Flow("bench")
    source = sl.Files(load.pattern).read(format=load.format, schema=load.schema, max_files_per_tick=load.files_per_tick)
    events = flow.source("events", source, time="at", watermark=sl.Bounded("5s"))
    if load.transformed:
        events = events.transform(lambda frame: frame.withColumn("value", frame["value"] * 1.0))
    window: Any = {
        "tumbling": lambda: sl.Tumbling("1m"),
        "hopping": lambda: sl.Hopping("1h", every="1m"),
        "session": lambda: sl.Session(gap="10s", inclusive=True),
    }[load.kind]()
    panes = events.key_by("key").window(window).aggregate("windows", n=sl.Count(), total=sl.Sum("value"))
    columns = ["key", "window_start", "window_end", "n", "total"]
    panes.sink("out", sl.Files(str(out)).write(format="parquet"), rows="append", columns=columns)
    return run_flow(spark, flow, Path(str(out) + "-state"), load.rows_per_tick)


def run_flow(spark: SparkSession, flow: sl.Flow, state: Path, rows_per_tick: int) -> Run:
    """Run a flow over what is there; a tick ends when its record is in the journal."""
    flow.run(state=state, spark=spark, until="caught_up", max_rows_per_tick=1_000_000_000)
    ticks = [each["tick"] for each in records(storage_at(state)) if each["rows"]]
    ends = [(state / "journal" / f"{tick:012}.json").stat().st_mtime for tick in ticks]
    return Run(ends=ends, rows_per_tick=rows_per_tick)


def compare(spark: SparkSession, load: Workload, folder: Path) -> tuple[float, float, int]:
    """Our rows per second and the peer's, each the best of three; and how many rows of our answer were checked."""
    mine, peer, checked = [], [], 0
    for partitions in (2, 4, 8):
        out, other = folder / f"{load.name}-ours", folder / f"{load.name}-{partitions}"
        for old in (*folder.glob(out.name + "*"), *folder.glob(other.name + "*")):
            shutil.rmtree(old, ignore_errors=True)
        mine.append(ours(spark, load, out).rows_per_second)
        checked = check(load, out)
        peer.append(native.run(spark, load, other, partitions).rows_per_second)
        print(f"{load.name}: {mine[-1]:,.0f} rows/s; with {partitions} partitions the peer {peer[-1]:,.0f}", flush=True)
    return max(mine), max(peer), checked


def check(load: Workload, out: Path) -> int:
    """Compare what was shown with DuckDB's answer; say how many rows were compared."""
    shown = pl.read_parquet(f"{out}/**/*.parquet", hive_partitioning=False).select(
        "key", "window_start", "window_end", "n", "total"
    )
    shown = shown.with_columns(pl.col("window_start", "window_end").cast(pl.Datetime("us")))
    last = shown["window_end"].max()
    expected = (_sessions(load) if load.kind == "session" else _windows(load)).filter(pl.col("window_end") <= last)
    both = expected.join(shown, on=["key", "window_start", "window_end"], how="full", suffix="_shown")
    wrong = both.filter(
        ~(pl.col("n").eq_missing(pl.col("n_shown")) & ((pl.col("total") - pl.col("total_shown")).abs() < 1e-6))
    )
    if wrong.height:
        raise SystemExit(
            f"{load.name}: {wrong.height} of {both.height} rows differ from DuckDB's, such as\n{wrong.head(3)}"
        )
    return both.height


def _windows(load: Workload) -> pl.DataFrame:
    reader = "read_parquet" if load.format == "parquet" else "read_json"
    step = 60_000_000
    windows = 60 if load.kind == "hopping" else 1
    query = f"""
        with events as (select key, value, epoch_us("at") as us from {reader}('{load.pattern}')),
        windows as (select key, value, (us // {step}) * {step} - w * {step} as s from events, range({windows}) t(w))
        select key, make_timestamp(s) as window_start, make_timestamp(s + {step * windows}) as window_end, count(*) as n, sum(value) as total
        from windows group by key, s"""
    return duckdb.sql(query).pl()


def _sessions(load: Workload) -> pl.DataFrame:
    gap = 10_000_000
    query = f"""
        with events as (select key, value, epoch_us("at") as us from read_parquet('{load.pattern}')),
        begun as (select *, us - lag(us) over (partition by key order by us) as pause from events),
        counted as (select *, sum(case when pause <= {gap} then 0 else 1 end)
                                  over (partition by key order by us rows unbounded preceding) as session from begun)
        select key, make_timestamp(min(us)) as window_start, make_timestamp(max(us) + {gap}) as window_end,
               count(*) as n, sum(value) as total
        from counted group by key, session"""
    return duckdb.sql(query).pl()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--only", nargs="*", default=None)
    options = parser.parse_args()
    folder = Path(tempfile.gettempdir()) / "strandline-bench"
    spark = session(None, name="bench")
    table = Table("what", "ours rows/s", "native rows/s", "ratio", "at least", "ok", "rows checked")
    lines, fine = [], True
    for contest in contests(folder, options.rows):
        load = contest.load
        if options.only and load.name not in options.only:
            continue
        mine, best, checked = compare(spark, load, folder)
        ratio = mine / best
        fine = fine and ratio >= contest.at_least
        cells = (
            load.name,
            f"{mine:,.0f}",
            f"{best:,.0f}",
            f"{ratio:.2f}",
            f"{contest.at_least:g}",
            "yes" if ratio >= contest.at_least else "NO",
            f"{checked:,}",
        )
        table.add_row(*cells)
        lines.append(dict(zip(("what", "ours", "native", "ratio", "at_least", "ok", "checked"), cells, strict=True)))
        print(cells, flush=True)
    Console(width=140).print(table)
    if not options.only:
        _keep(options.rows, lines)
    sys.exit(0 if fine else 1)


def _keep(rows: int, lines: list[dict[str, str]]) -> None:
    RESULTS.mkdir(exist_ok=True)
    about = {
        "date": f"{datetime.now(timezone.utc):%F}",
        "rows": rows,
        "cores": os.cpu_count(),
        "spark": pyspark.__version__,
    }
    (RESULTS / "engine.json").write_text(json.dumps({**about, "lines": lines}, indent=1) + "\n")
    head = "| " + " | ".join(lines[0]) + " |\n|" + " --- |" * len(lines[0])
    body = "\n".join("| " + " | ".join(line.values()) + " |" for line in lines)
    told = ", ".join(f"{name} {value}" for name, value in about.items())
    (RESULTS / "engine.md").write_text(
        f"# Benchmark: the engine against Spark's own streaming\n\n{told}\n\n{head}\n{body}\n"
    )


if __name__ == "__main__":
    main()
