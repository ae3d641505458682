"""The kernel beside a plain Polars `group_by` over the same rows, which is the floor any engine on Polars pays.

`python -m benchmarks.kernel` measures everything, prints a table, writes results/kernel.json and .md, and exits with 1 if
a figure is over its limit. `python -m benchmarks.kernel sessions --profile` says where the time of some cases goes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

import strandline as sl
from benchmarks.measure import Figure, profile, race, show, use_one_core, write
from benchmarks.small_ticks import small_ticks
from benchmarks.stages import BEGIN, COUNT_AND_SUM, FULL, HOUR, MINUTE, NOW, QUICK, SECOND, Size, plan_of
from strandline.kernel.plan import Plan
from strandline.kernel.stage import StageKernel
from strandline.model.ticks import Edge

Array = npt.NDArray[Any]


# The stream and the two ways to run over it


def events(users: Array, span: int, tick: int) -> pl.DataFrame:
    """Events in order of time but for five seconds of disorder inside each tick, so that none is late."""
    random = np.random.default_rng(7)
    times = BEGIN + np.sort(random.integers(0, span, len(users)))
    arrival = np.lexsort((times + random.integers(0, 5 * SECOND, len(users)), np.arange(len(users)) // tick))
    times = times[arrival]
    return pl.DataFrame({
        "user": users, "amount": random.exponential(20.0, len(users)),
        "at": pl.Series(times).cast(pl.Datetime("us", "UTC")), "__time": times,
    })  # fmt: skip


def uniform(keys: int, size: Size) -> Array:
    return np.random.default_rng(1).integers(0, keys, size.events)


def zipf(keys: int, size: Size) -> Array:
    weights = 1 / np.arange(1, keys + 1)
    return np.random.default_rng(1).choice(keys, size.events, p=weights / weights.sum())


def ours(plan: Plan, rows: pl.DataFrame, size: Size) -> pl.DataFrame:
    """All panes: the watermark is the greatest time so far after each tick, and the end of time after the last."""
    kernel, edge, panes = StageKernel(plan), Edge.first(), []
    for batch in rows.iter_slices(size.tick):
        edge = edge.moved_to(sl.Instant(batch["__time"].to_numpy().max()))
        panes.append(kernel.tick(batch, edge, NOW).panes)
    panes.append(kernel.tick(rows.clear(), edge.moved_to(sl.Instant.END_OF_TIME), NOW).panes)
    return pl.concat(panes)


def peer(rows: pl.DataFrame, *what: pl.Expr, every: int = MINUTE) -> pl.DataFrame:
    """Plain Polars, all rows at once. Whole division is the cheapest way there is to say the window."""
    return rows.group_by("user", (pl.col("__time") // every).alias("window")).agg(*what)


PEER_COUNT_AND_SUM = (pl.len().alias("n"), pl.col("amount").sum().alias("total"))
PEER_NAME = "group_by(key, minute)"


def same(got: pl.DataFrame, wanted: pl.DataFrame, on: list[str], values: dict[str, float]) -> None:
    """Stop unless both have the same rows, and values within a relative tolerance."""
    both = got.join(wanted, on=on, how="inner", suffix="_wanted")
    if not got.height == wanted.height == both.height:
        sys.exit(f"error: wrong answer: {got.height} rows, {wanted.height} wanted, {both.height} in common")
    for name, tolerance in values.items():
        off = (both[name] - both[f"{name}_wanted"]).abs() > tolerance * both[f"{name}_wanted"].abs()
        if off.any():
            sys.exit(f"error: wrong answer: {off.sum()} of {both.height} values of {name!r} are off")


def by_minute(panes: pl.DataFrame) -> pl.DataFrame:
    return panes.with_columns(window=pl.col("window_start").dt.epoch("us") // MINUTE)


# Tumbling


def tumbling(size: Size, profiling: bool) -> Iterator[Figure]:
    users = uniform(100_000, size)
    for name, key in (("integer", "bigint"), ("string", "string")):
        rows = events(users, HOUR, size.tick)
        if key == "string":
            rows = rows.with_columns(pl.format("user_{}", "user").alias("user"))
        plan = plan_of(sl.Tumbling("1m"), key=key, **COUNT_AND_SUM)
        mine = partial(ours, plan, rows, size)
        if profiling:
            profile(mine, f"tumbling, {name} keys")
            continue
        best, answers = race(size.rounds, ours=mine, peer=partial(peer, rows, *PEER_COUNT_AND_SUM))
        same(by_minute(answers["ours"]), answers["peer"], ["user", "window"], {"n": 0, "total": 1e-9})
        yield Figure(
            what=f"tumbling 1 min, 100,000 {name} keys", ours=best["ours"], peer=PEER_NAME, peer_seconds=best["peer"],
            ratio=best["ours"] / best["peer"], limit=3, notes=f"{size.events / best['ours'] / 1e6:.2f} M events/s",
        )  # fmt: skip


# Hopping


@dataclass(frozen=True, slots=True, kw_only=True)
class HoppingCase:
    name: str
    aggregates: dict[str, Any]
    peer: tuple[pl.Expr, ...]
    limit: float
    check: Callable[[pl.DataFrame, pl.DataFrame], None]


def same_counts(panes: pl.DataFrame, rows: pl.DataFrame) -> None:
    """Every window from the counts and sums of its minutes, put together by Polars."""
    wanted = _from_minutes(peer(rows, *PEER_COUNT_AND_SUM)).agg(pl.col("n").sum(), pl.col("total").sum())
    same(by_minute(panes), wanted, ["user", "window"], {"n": 0, "total": 1e-9})


def same_maxima(panes: pl.DataFrame, rows: pl.DataFrame) -> None:
    wanted = _from_minutes(peer(rows, pl.col("amount").max().alias("top"))).agg(pl.col("top").max())
    same(by_minute(panes), wanted, ["user", "window"], {"top": 0})


def _from_minutes(minutes: pl.DataFrame) -> Any:
    starts = pl.int_ranges(pl.col("window") - 59, pl.col("window") + 1)
    return minutes.with_columns(window=starts).explode("window").group_by("user", "window")


def near_quantiles(panes: pl.DataFrame, rows: pl.DataFrame) -> None:
    """A few windows, each answer within 1 % of its neighbours: all of them would be 60 times the events."""
    for start in (BEGIN - 30 * MINUTE, BEGIN, BEGIN + 45 * MINUTE):
        held = rows.filter(pl.col("__time").is_between(start, start + HOUR, closed="left")).group_by("user")
        bounds = held.agg(
            pl.col("amount").quantile(0.95, "lower").alias("least"),
            pl.col("amount").quantile(0.95, "higher").alias("greatest"),
        )
        got = panes.filter(pl.col("window_start").dt.epoch("us") == start).join(bounds, on="user")
        close = got["p95"].is_between(got["least"] * 0.99, got["greatest"] * 1.01)
        if got.height != bounds.height or not close.all():
            sys.exit(f"error: wrong answer: {(~close).sum()} of {bounds.height} quantiles are off by more than 1 %")


HOPPING = (
    HoppingCase(name="count + sum", aggregates=COUNT_AND_SUM, peer=PEER_COUNT_AND_SUM, limit=2, check=same_counts),
    HoppingCase(
        name="Max", aggregates={"top": sl.Max("amount")}, peer=(pl.col("amount").max().alias("top"),), limit=4, check=same_maxima
    ),
    HoppingCase(
        name="Quantile 0.95", aggregates={"p95": sl.Quantile("amount", 0.95)}, peer=(pl.col("amount").quantile(0.95),), limit=4,
        check=near_quantiles,
    ),
)  # fmt: skip


def hopping(size: Size, profiling: bool) -> Iterator[Figure]:
    rows = events(uniform(1_000, size), 2 * HOUR, size.tick)
    for case in HOPPING:
        hop = partial(ours, plan_of(sl.Hopping("60m", every="1m"), **case.aggregates), rows, size)
        tumble = partial(ours, plan_of(sl.Tumbling("1m"), **case.aggregates), rows, size)
        if profiling:
            profile(hop, f"hopping, {case.name}")
            profile(tumble, f"tumbling for comparison, {case.name}")
            continue
        best, answers = race(size.rounds, hop=hop, tumble=tumble, peer=partial(peer, rows, *case.peer))
        case.check(answers["hop"], rows)
        cost = {name: best[name] / (rows.height + answers[name].height) for name in best}
        floor: dict[str, Any] = {"peer": PEER_NAME, "peer_seconds": best["peer"]}
        yield Figure(
            what=f"hopping 60 min every 1 min, {case.name}", ours=best["hop"], peer="our tumbling 1 min", peer_seconds=best["tumble"],
            ratio=cost["hop"] / cost["tumble"], limit=case.limit,
            notes=f"per (input + output row): {cost['hop'] * 1e9:.0f} ns against {cost['tumble'] * 1e9:.0f} ns",
        )  # fmt: skip
        yield Figure(what="  the same", ours=best["hop"], **floor, ratio=best["hop"] / best["peer"])
        yield Figure(
            what="  tumbling 1 min, 1,000 keys", ours=best["tumble"], **floor, ratio=best["tumble"] / best["peer"]
        )


# Sessions


def sessions_in_polars(rows: pl.DataFrame, gap: int) -> pl.DataFrame:
    """The sessions of all rows at once: a new one begins where the time since the key's last event is the gap or more."""
    begins = (pl.col("__time").diff() >= gap).fill_null(True).over("user")
    ordered = rows.sort("user", "__time").with_columns(session=begins.cum_sum())
    found = ordered.group_by("session").agg(
        pl.col("user").first(), pl.col("__time").min().alias("start"), *PEER_COUNT_AND_SUM
    )
    return found.drop("session")


def sessions(size: Size, profiling: bool) -> Iterator[Figure]:
    rows = events(zipf(1_000, size), HOUR, size.tick)
    mine = partial(ours, plan_of(sl.Session(gap="10s"), **COUNT_AND_SUM), rows, size)
    if profiling:
        profile(mine, "sessions")
        return
    racers = {"peer": partial(peer, rows, *PEER_COUNT_AND_SUM), "whole": partial(sessions_in_polars, rows, 10 * SECOND)}
    best, answers = race(size.rounds, ours=mine, **racers)
    got = answers["ours"].with_columns(start=pl.col("window_start").dt.epoch("us"))
    same(got, answers["whole"], ["user", "start"], {"n": 0, "total": 1e-9})
    what = "sessions, gap 10 s, 1,000 Zipf keys"
    yield Figure(
        what=what, ours=best["ours"], peer=PEER_NAME, peer_seconds=best["peer"], ratio=best["ours"] / best["peer"], limit=4,
        notes=f"{got.height} sessions",
    )  # fmt: skip
    yield Figure(
        what="  the same", ours=best["ours"], peer="sessions in Polars, all at once", peer_seconds=best["whole"],
        ratio=best["ours"] / best["whole"],
    )  # fmt: skip


CASES = {"tumbling": tumbling, "hopping": hopping, "sessions": sessions, "small_ticks": small_ticks}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernel", description="Measure the kernel.")
    parser.add_argument("cases", nargs="*", metavar="case", help=f"some of: {', '.join(CASES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the rows: does it run?")
    parser.add_argument("--profile", action="store_true", help="print where the time goes, and measure nothing")
    asked = parser.parse_args()
    if unknown := set(asked.cases) - set(CASES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    use_one_core()
    size = QUICK if asked.quick else FULL
    figures = [figure for name in asked.cases or CASES for figure in CASES[name](size, asked.profile)]
    if asked.profile:
        return 0
    show(figures)
    if not asked.quick and not asked.cases:
        write("kernel", figures)
    return 0 if asked.quick or all(figure.ok for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
