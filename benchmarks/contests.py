"""A stage of ours against Spark's own: the same files, the same rows per batch, one session, the best of each.

Before each try of the peer's we are run once: Java goes on getting faster for minutes, and a busy moment hits both. Batches
one and two are left out on both sides, and what each of them showed is checked before its speed counts.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from benchmarks.streams import Run
from benchmarks.verdicts import Verdict

SHUFFLES = (2, 4, 8)
ROWS_OF_PARQUET = "**/*.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """One of those that are measured: run it into a folder, and look at what it showed; SystemExit if that is wrong."""

    name: str
    run: Callable[[Path], Run]
    check: Callable[[pl.DataFrame], None]


def race(folder: Path, rounds: Sequence[Sequence[Runner]]) -> dict[str, list[float]]:
    """Rows per second of all runners, by name, in each round in which they ran."""
    found: dict[str, list[float]] = {}
    for runners in rounds:
        for runner in runners:
            out = folder / "run"
            speed = runner.run(out / "out").rows_per_second
            runner.check(shown_in(out / "out"))
            shutil.rmtree(out)
            found.setdefault(runner.name, []).append(speed)
            print(f"{runner.name}: {speed:,.0f} rows/s", flush=True)
    return found


def shown_in(out: Path) -> pl.DataFrame:
    """All rows in a folder of parquet, times without their zone, which DuckDB does not tell."""
    rows = pl.read_parquet(out / ROWS_OF_PARQUET, hive_partitioning=False)
    return rows.with_columns(pl.col(pl.Datetime("us", "UTC")).dt.replace_time_zone(None))


def same_rows(who: str, shown: pl.DataFrame, expected: pl.DataFrame) -> None:
    """Refuse rows that are not those which were expected, in any order."""
    columns = expected.columns
    if not shown.select(columns).sort(columns).equals(expected.sort(columns)):
        raise SystemExit(f"{who}: {shown.height:,} rows were shown, and they are not the {expected.height:,} expected")


def verdicts(what: str, speeds: dict[str, list[float]], at_least: float, peers: Sequence[str]) -> Iterator[Verdict]:
    """How many times as fast as the best of its peers the first runner is; and how fast each of them is."""
    mine = next(iter(speeds))
    best = {name: max(found) for name, found in speeds.items()}
    peer = max(peers, key=lambda name: best[name])
    yield Verdict(
        what=f"{what}: ours against {peer}", measured=best[mine] / best[peer], at_least=at_least,
        notes=f"ours {best[mine]:,.0f}/s, peer {best[peer]:,.0f}/s",
    )  # fmt: skip
    for name, found in speeds.items():
        yield Verdict(
            what=f"{what}, {name}",
            measured=best[name],
            unit="rows/s",
            notes=f"best of {len(found)}, least {min(found):,.0f}",
        )
