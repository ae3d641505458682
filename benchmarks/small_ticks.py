"""Small ticks over great state: cost should follow what is touched, not what is kept."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from time import process_time

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

import strandline as sl
from benchmarks.measure import Figure, profile
from benchmarks.stages import BEGIN, COUNT_AND_SUM, NOW, Size, plan_of
from strandline.kernel.advance import advance
from strandline.kernel.hashing import bucket_of
from strandline.kernel.plan import Plan
from strandline.kernel.preaggregate import preaggregate
from strandline.kernel.segments import Reads
from strandline.kernel.stage import StageKernel
from strandline.kernel.state import State, from_bytes, to_bytes
from strandline.model.ticks import Edge, Tick


class Runaway(Exception):
    """The state grows with the ticks and not with the keys: there is nothing to measure."""


@dataclass(slots=True)
class Life:
    """A stage whose state began in a file, and what each of its ticks took."""

    plan: Plan
    state: State
    keys: int
    number: int
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(3))
    edge: Edge = field(default_factory=lambda: Edge(before=sl.Instant(BEGIN), after=sl.Instant(BEGIN)))
    seconds: list[float] = field(default_factory=list)
    bytes_read: list[int] = field(default_factory=list)

    def tick(self, events_per_tick: int = 1_000) -> None:
        rows = day_of_events(self.random.choice(self.keys, events_per_tick, replace=False))
        reads = Reads()
        started = process_time()
        partials = preaggregate(self.plan, rows, self.edge, NOW)
        tick = Tick(number=self.number, now=NOW, edges={"stage": self.edge})
        self.state = advance(self.plan, self.state, partials, tick, reads=reads).state
        self.seconds.append(process_time() - started)
        self.bytes_read.append(reads.bytes)
        self.number += 1
        assert len(np.unique(bucket_of(partials.table["hash"].to_numpy(), 64))) == 64, "every bucket is touched"

    def ticks(self, count: int) -> None:
        for _ in range(count):
            self.tick()


def day_of_events(users: npt.NDArray[np.int64]) -> pl.DataFrame:
    """One event for each user, all in one window of a day."""
    times = BEGIN + np.arange(len(users)) * 100
    at = pl.Series(times).cast(pl.Datetime("us", "UTC"))
    return pl.DataFrame({"user": users, "amount": np.ones(len(users)), "at": at, "__time": times})


def lived(plan: Plan, keys: int, folder: Path, *, ticks: int = 40) -> Life:
    """A stage that met all its keys over some ticks, so that segments lie as merging leaves them; opened from its file."""
    kernel = StageKernel(plan)
    for users in np.array_split(np.random.default_rng(5).permutation(keys), ticks):
        kernel.tick(day_of_events(users), Edge(before=sl.Instant(BEGIN), after=sl.Instant(BEGIN)), NOW)
        if kernel.state.rows > keys:  # before it fills the memory
            raise Runaway(f"{kernel.state.rows:,} rows of state for {keys:,} keys, each of which came once")
    path = folder / f"{keys}.state"
    path.write_bytes(to_bytes(plan, kernel.state))
    mapped = pa.memory_map(str(path)).read_buffer()
    return Life(plan, from_bytes(plan, memoryview(mapped)), keys, kernel.number)


def small_ticks(size: Size, profiling: bool) -> Iterator[Figure]:
    early = sl.AfterWatermark(early=sl.AfterCount(1))
    for name, trigger, limit in (("on-time panes only", None, 1.5), ("early=AfterCount(1)", early, 3.0)):
        plan = plan_of(sl.Tumbling("1d"), trigger=trigger, **COUNT_AND_SUM)
        try:
            with tempfile.TemporaryDirectory() as folder:
                few, many = (lived(plan, keys, Path(folder)) for keys in (size.small_state, size.state))
                yield from _small_ticks(name, limit, few, many, size, profiling)
        except Runaway as error:
            what = f"tick of 1,000 events on {size.state:,} rows, {name}"
            yield Figure(what=what, ours=inf, peer="", peer_seconds=inf, ratio=inf, limit=limit, notes=str(error))


def _small_ticks(name: str, limit: float, few: Life, many: Life, size: Size, profiling: bool) -> Iterator[Figure]:
    warm_up, layout = 5, f"{sum(map(len, many.state.slices.values()))} segments, {many.state.nbytes / 1e6:.0f} MB"
    for _ in range(warm_up):
        few.tick()
        many.tick()
    if profiling:
        for life in (few, many):
            profile(partial(life.ticks, size.ticks), f"small ticks, {name}, {life.keys} rows of state")
        return
    for _ in range(size.ticks):
        few.tick()
        many.tick()
    rest = slice(warm_up, None)
    for q, bound in ((0.5, limit), (0.95, None)):
        slow, fast = (float(np.quantile(life.seconds[rest], q)) for life in (many, few))
        read = [int(np.quantile(life.bytes_read[rest], q)) for life in (many, few)]
        yield Figure(
            what=f"tick of 1,000 events on {many.keys:,} rows, {name}, p{q * 100:.0f}", ours=slow, peer=f"on {few.keys:,} rows",
            peer_seconds=fast, ratio=slow / fast, limit=bound, notes=f"bytes read {read[0]:,} against {read[1]:,}",
        )  # fmt: skip
    yield Figure(
        what="  first touch (checksums)", ours=max(many.seconds[:warm_up]), peer=f"on {few.keys:,} rows",
        peer_seconds=max(few.seconds[:warm_up]), ratio=max(many.seconds[:warm_up]) / max(few.seconds[:warm_up]),
        notes=f"bytes read {sum(many.bytes_read[:warm_up]):,} in {warm_up} ticks; {layout}",
    )  # fmt: skip
