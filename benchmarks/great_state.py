"""Great state: five gigabytes with small workers, and what ten million rows of it cost a small tick.

    python -m benchmarks.great_state [wide] [ticks] [--quick]

`wide`: 5 GB of state, rows of some 500 bytes, built tick by tick, then touched at drawn keys. No worker may take more than
512 MB that no file stands behind (RssAnon of each worker, looked at five times a second): state is mapped from its files,
and pages of files go when the machine needs them. The limit is measured and not enforced, because the limits of the
system count what is reserved, not what is used.

`ticks`: the median tick of 1,000 events on keys drawn from 10 M rows of state, against the same ticks on a state that has
none but theirs. The default trigger has a limit; early panes, for which every touched row is looked up, are told beside it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from pyspark.sql import SparkSession

import strandline as sl
from benchmarks.processes import watching
from benchmarks.streams import SECOND, START
from benchmarks.verdicts import Verdict, conclude
from strandline.spark.session import session
from strandline.store.journal import records
from strandline.store.storage import storage_at

GB = 1_000_000_000
DRAWN = 1_000  # events in a small tick
PADDING = "." * 400
WARM_UP = 5  # small ticks that are left out
EARLY = sl.AfterWatermark(early=sl.AfterCount(2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    wide_bytes: float = 5 * GB
    wide_rows: int = 10_500_000
    rows: int = 10_000_000
    per_tick: int = 250_000
    wide_per_tick: int = 50_000
    ticks: int = 60


QUICK = Size(wide_bytes=0.2 * GB, wide_rows=450_000, rows=1_000_000, ticks=12)


def write_keys(folder: Path, rows: int, per_tick: int, ticks: int, *, build: bool = True) -> None:
    """Files that bring every key once, in any order, then files of a thousand drawn keys; all in one day."""
    random = np.random.default_rng(11)
    folder.mkdir(parents=True)
    parts = np.array_split(random.permutation(rows), rows // per_tick) if build else []
    drawn = random.choice(rows, DRAWN * ticks, replace=False).reshape(ticks, DRAWN)
    for number, keys in enumerate([*parts, *drawn]):
        at = pl.Series(START + 3600 * SECOND + number * SECOND + np.arange(len(keys))).cast(pl.Datetime("us", "UTC"))
        frame = pl.DataFrame({"key": keys.astype(np.int64), "value": np.ones(len(keys)), "at": at})
        frame.write_parquet(folder / f"part-{number:05}.parquet")


def run(
    spark: SparkSession, folder: Path, data: Path, *, trigger: Any = None, wide: bool = False
) -> list[dict[str, Any]]:
    """Run a flow over files, one for each tick; the records of its ticks."""
    flow = sl.Flow("great")
    source = sl.Files(str(data)).read(
        format="parquet", schema="key bigint, value double, at timestamp", max_files_per_tick=1
    )
    events = flow.source("events", source, time="at")
    aggregates: dict[str, Any] = {"n": sl.Count(), "total": sl.Sum("value")}
    if wide:
        events = events.with_column("text", f"concat(cast(key as string), '{PADDING}')")
        aggregates["text"] = sl.Last("text")
    windows = events.key_by("key").window(sl.Tumbling("1d"), trigger=trigger, mode="discarding")
    panes = windows.aggregate("rows", **aggregates)
    panes.sink("out", sl.Files(str(folder / "out")).write(format="parquet"), rows="append", columns=["key", "n"])
    flow.run(state=folder / "state", spark=spark, until="caught_up", max_rows_per_tick=1_000_000_000)
    return [each for each in records(storage_at(folder / "state")) if each["rows"]]


def small_ticks(found: list[dict[str, Any]]) -> list[float]:
    """How long the ticks of a thousand events took, from the end of the one before, in seconds."""
    ends = [(each["now"] + sum(each["took"][k] for k in ("make", "commit", "publish"))) / 1e6 for each in found]
    small = [sum(each["rows"]["events"].values()) == DRAWN for each in found]
    took = [after - before for before, after, mine in zip(ends, ends[1:], small[1:], strict=False) if mine]
    return took[WARM_UP:]


def wide(spark: SparkSession, folder: Path, size: Size) -> Iterator[Verdict]:
    write_keys(folder / "wide", size.wide_rows, size.wide_per_tick, size.ticks)
    with watching(every=0.2) as watch:
        found = run(spark, folder / "run", folder / "wide", trigger=EARLY, wide=True)
    shown = pl.read_parquet(folder / "run" / "out" / "tick-*.parquet")
    shutil.rmtree(folder)
    state = found[-1]["state"]["rows"]
    wrong = abs(shown.height - DRAWN * size.ticks) + shown.filter(pl.col("n") != 2).height
    yield Verdict(
        what="state",
        measured=state["bytes"] / GB,
        unit="GB",
        at_least=size.wide_bytes / GB,
        notes=f"{state['rows']:,} rows, {found[-1]['tick'] + 1} ticks",
    )
    yield Verdict(what="greatest worker, without files", measured=watch.peak("greatest_worker"), unit="MB", at_most=512)
    yield Verdict(what="greatest driver, with files", measured=watch.peak("rss_driver"), unit="MB")
    yield Verdict(
        what="panes of drawn keys that are wrong or missing", measured=wrong, at_most=0, notes=f"{shown.height:,} panes"
    )
    yield Verdict(what="median tick of 1,000 events on it", measured=float(np.median(small_ticks(found))), unit="s")


def ticks(spark: SparkSession, folder: Path, size: Size) -> Iterator[Verdict]:
    for name, build in (("none", False), ("many", True)):
        write_keys(folder / name, size.rows, size.per_tick, size.ticks, build=build)
    run(spark, folder / "warm-up", folder / "none")  # the first flow of a session is slower than all others
    for what, trigger, limit in (("on-time panes", None, 1.5), ("early panes", EARLY, None)):
        took = {
            name: small_ticks(run(spark, folder / f"run-{what}-{name}", folder / name, trigger=trigger))
            for name in ("none", "many")
        }
        none, many = (float(np.median(took[name])) for name in ("none", "many"))
        yield Verdict(
            what=f"tick on {size.rows:,} rows against one on none, {what}", measured=many / none, at_most=limit,
            notes=f"medians {many:.3f} s, {none:.3f} s of {len(took['many'])} ticks",
        )  # fmt: skip
    shutil.rmtree(folder)


CASES = {"wide": wide, "ticks": ticks}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.great_state", description="Measure great state.")
    parser.add_argument("cases", nargs="*", metavar="case", help=f"some of: {', '.join(CASES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="does it run?")
    asked = parser.parse_args()
    folder, spark = Path(tempfile.mkdtemp(prefix="strandline-great-")), session(None, name="great")
    size, verdicts = QUICK if asked.quick else Size(), []
    for name in asked.cases or CASES:
        verdicts += CASES[name](spark, folder / name, size)
    shutil.rmtree(folder)
    name = "-".join(["great_state", *asked.cases])
    return conclude(name, "great state: small workers, small ticks", verdicts, {}, quick=asked.quick)


if __name__ == "__main__":
    sys.exit(main())
