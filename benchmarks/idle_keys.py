"""Ten million keys that are remembered for a time: state that stops growing, and ticks that idle keys cost nothing.

    python -m benchmarks.idle_keys [plateau] [ticks] [--quick]

`plateau`: a process with a time to live, in columns; each tick brings 100,000 keys that were never seen, a thousand that are
still remembered and must be known, and a thousand that are forgotten and must not be. What is on the disk, looked at twice
a second, must not grow any more once the first keys are forgotten, and some thirty ticks have passed until what only
they were in is removed; ten million are remembered then.

`ticks`: the median tick of 1,000 events, one at a time, on keys drawn from 10 M that are remembered, against the same on
100,000. Every drawn key must be known.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any

import numpy as np
import polars as pl
from pyspark.sql import SparkSession

import strandline as sl
from benchmarks.great_state import DRAWN, small_ticks, write_keys
from benchmarks.plots import panels
from benchmarks.processes import MB, bytes_below, watching
from benchmarks.streams import SECOND, START
from benchmarks.verdicts import Verdict, conclude, place
from strandline.spark.session import session
from strandline.store.journal import records
from strandline.store.storage import storage_at

OUTPUT = "key bigint, count bigint"
HOUR = 3600 * SECOND
BACK = 1_000  # keys in a tick that come again
BUILT = 250_000  # keys in a tick while there are no idle ones yet
MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    keys: int = 10_000_000
    few: int = 100_000
    per_tick: int = 100_000
    lives: int = 3  # for how many times to live keys come
    ticks: int = 60


QUICK = Size(keys=120_000, few=15_000, per_tick=10_000, lives=3, ticks=12)


class Counting(sl.Process):
    """Counts the events of a key, and tells of those that it knew."""

    count = sl.Value("bigint", 0)

    def on_event(self, event: Any, out: Any) -> None:
        self.count += 1
        if self.count > 1:
            out.emit(out.key, count=self.count)


class CountingTogether(sl.TableProcess):
    """The same in columns; of a key there is one event in a tick."""

    count = sl.Value("bigint", 0)

    def on_events(self, events: pl.DataFrame, state: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        after = state.with_columns(pl.col("count") + 1)
        known = events.select("key", "__time").join(after.filter(pl.col("count") > 1), on="key", maintain_order="left")
        return known, after


def write_passing(folder: Path, size: Size) -> int:
    """Files of keys that come once, but for a few that come again after half and one and a half times to live.

    How many of them are still remembered is given back.
    """
    folder.mkdir(parents=True)
    of_a_life = size.keys // size.per_tick
    half, again = of_a_life // 2, 0
    for file in range(of_a_life * size.lives):
        keys = [np.arange(file * size.per_tick, (file + 1) * size.per_tick)]
        if file >= half:
            keys.append((file - half) * size.per_tick + np.arange(BACK))
            again += BACK
        if file >= 3 * half:
            keys.append((file - 3 * half) * size.per_tick + BACK + np.arange(BACK))
        whole = np.concatenate(keys)
        at = START + file * (HOUR // of_a_life) + np.arange(len(whole)) % SECOND
        frame = pl.DataFrame({"key": whole, "at": pl.Series(at).cast(pl.Datetime("us", "UTC"))})
        frame.write_parquet(folder / f"part-{file:05}.parquet")
    return again


def run(spark: SparkSession, folder: Path, data: Path, process: Any, ttl: str) -> list[dict[str, Any]]:
    """Run the process over files, one for each tick; the records of its ticks."""
    flow = sl.Flow("idle")
    source = sl.Files(str(data)).read(format="parquet", schema="key bigint, at timestamp", max_files_per_tick=1)
    events = flow.source("events", source, time="at", watermark=sl.Bounded("5s"))
    known = events.key_by("key").process("keys", process, output=OUTPUT, ttl=sl.TTL(ttl))
    known.sink("out", sl.Files(str(folder / "out")).write(format="parquet"), rows="append", columns=["key", "count"])
    flow.run(state=folder / "state", spark=spark, until="caught_up", max_rows_per_tick=1_000_000_000)
    return [each for each in records(storage_at(folder / "state")) if each["rows"]]


def wrong_in(folder: Path, expected: int) -> int:
    """How many keys were not known that should have been, or the other way round."""
    shown = pl.read_parquet(folder / "out" / "tick-*.parquet")
    return abs(shown.height - expected) + shown.filter(pl.col("count") != 2).height


def plateau(spark: SparkSession, folder: Path, size: Size, quick: bool) -> Iterator[Verdict]:
    again = write_passing(folder / "in", size)
    state, began = folder / "run" / "state" / "state", time()
    with watching(every=0.5, more=lambda: {"disk": bytes_below(state) / MB}) as watch:
        found = run(spark, folder / "run", folder / "in", CountingTogether, "1h")
    wrong = wrong_in(folder / "run", again)
    shutil.rmtree(folder)
    at = [each["now"] / SECOND - began for each in found]
    rows = [each["state"]["keys"]["rows"] / MILLION for each in found]
    seconds, disk = ([sample[name] for sample in watch.samples] for name in ("at", "disk"))
    panels(
        place("idle_keys", "png", quick=quick), "seconds", seconds,
        {"state on disk, MB": {"on disk": disk}, "keys that are remembered, millions": {"keys": (at, rows)}},
    )  # fmt: skip
    turns = [
        at[len(at) * n // 6] for n in (3, 4)
    ]  # the first keys are forgotten at a third, and removed before the half
    before = max(mb for s, mb in zip(seconds, disk, strict=True) if turns[0] <= s < turns[1])
    after = max(mb for s, mb in zip(seconds, disk, strict=True) if s >= turns[1])
    yield Verdict(
        what="state on disk: the last third against the sixth before it", measured=after / before, at_most=1.1,
        notes=f"{after:,.0f} MB, {before:,.0f} MB",
    )  # fmt: skip
    yield Verdict(
        what="rows of state against keys that are remembered", measured=rows[-1] * MILLION / size.keys, at_most=1.3,
        notes=f"{rows[-1]:.1f} M rows, {len(found)} ticks, {watch.samples[-1]['at']:.0f} s",
    )  # fmt: skip
    yield Verdict(what="keys wrongly known or not known", measured=wrong, at_most=0, notes=f"{again:,} came again")


def ticks(spark: SparkSession, folder: Path, size: Size, quick: bool) -> Iterator[Verdict]:
    took = {}
    for name, keys in (("warm-up", size.few), ("few", size.few), ("many", size.keys)):
        write_keys(folder / name, keys, min(BUILT, keys), size.ticks)
        took[name] = small_ticks(run(spark, folder / f"run-{name}", folder / name, Counting, "1d"))
        wrong = wrong_in(folder / f"run-{name}", DRAWN * size.ticks)
        if wrong:
            raise SystemExit(f"{wrong:,} of {DRAWN * size.ticks:,} keys were not known")
    shutil.rmtree(folder)
    few, many = (float(np.median(took[name])) for name in ("few", "many"))
    yield Verdict(
        what=f"tick of 1,000 events on {size.keys:,} keys against one on {size.few:,}", measured=many / few, at_most=1.5,
        notes=f"medians {many:.3f} s, {few:.3f} s of {len(took['many'])} ticks",
    )  # fmt: skip


CASES = {"plateau": plateau, "ticks": ticks}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.idle_keys", description="Measure keys that are idle.")
    parser.add_argument("cases", nargs="*", metavar="case", help=f"some of: {', '.join(CASES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="does it run?")
    asked = parser.parse_args()
    folder, spark = Path(tempfile.mkdtemp(prefix="strandline-idle-")), session(None, name="idle")
    size, verdicts = QUICK if asked.quick else Size(), []
    for name in asked.cases or CASES:
        verdicts += CASES[name](spark, folder / name, size, asked.quick)
    shutil.rmtree(folder)
    about = f"{size.keys:,} keys with a time to live"
    return conclude("-".join(["idle_keys", *asked.cases]), about, verdicts, {}, quick=asked.quick)


if __name__ == "__main__":
    sys.exit(main())
