"""Timing side by side, and the table, files and exit code that come of it."""

from __future__ import annotations

import cProfile
import gc
import json
import os
import platform
import pstats
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"
HEADINGS = ("what", "ours s", "peer", "peer s", "ratio", "limit", "ok", "notes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table. Without a limit it is for information. `ratio` need not be that of the seconds: see `notes`."""

    what: str
    ours: float
    peer: str
    peer_seconds: float
    ratio: float
    limit: float | None = None
    notes: str = ""

    @property
    def ok(self) -> bool:
        return self.limit is None or self.ratio <= self.limit

    @property
    def cells(self) -> tuple[str, ...]:
        limit = "" if self.limit is None else f"{self.limit:g}"
        verdict = "" if self.limit is None else ("yes" if self.ok else "NO")
        return (
            self.what, f"{self.ours:.4g}", self.peer, f"{self.peer_seconds:.4g}", f"{self.ratio:.2f}", limit, verdict, self.notes,
        )  # fmt: skip


def use_one_core() -> None:
    """One thread for Arrow too. The process is not pinned: beside other work, a pinned one would be the slower for it."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)


def race(rounds: int, **runners: Callable[[], Any]) -> tuple[dict[str, float], dict[str, Any]]:
    """The best time and the last answer of each. They take turns, so that a busy moment of the machine hits all of them.

    The time is the processor's, of all threads: where one core is used, what the clock says on a machine with nothing else
    to do, and nearly the same on a busy one.
    """
    best: dict[str, float] = {}
    answers: dict[str, Any] = {}
    for _ in range(rounds):
        for name, run in runners.items():
            answers.pop(name, None)
            gc.collect()
            started = process_time()
            answers[name] = run()
            best[name] = min(best.get(name, np.inf), process_time() - started)
    return best, answers


def profile(run: Callable[[], Any], what: str, lines: int = 30) -> None:
    """Where the time of one run goes."""
    profiler = cProfile.Profile()
    profiler.runcall(run)
    print(f"\n=== {what}")
    for order in ("tottime", "cumulative"):
        pstats.Stats(profiler).sort_stats(order).print_stats(lines)


def machine() -> Mapping[str, Any]:
    """What the figures depend on and nobody needs to keep to themselves."""
    versions = {"polars": pl.__version__, "pyarrow": pa.__version__, "numpy": np.__version__}
    return {
        "cores": os.cpu_count(),
        "cores_used": 1,
        "architecture": platform.machine(),
        "python": platform.python_version(),
        **versions,
    }


def show(figures: Sequence[Figure]) -> None:
    """Print the table."""
    table = Table(title="The kernel against a plain Polars group_by, one core, best of several")
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading in ("ours s", "peer s", "ratio", "limit") else "left")
    for figure in figures:
        table.add_row(*figure.cells, style=None if figure.ok else "bold red")
    Console(width=None if Console().is_terminal else 200).print(table)


def write(name: str, figures: Sequence[Figure]) -> None:
    """Keep the results as JSON for programs and as a page for people."""
    RESULTS.mkdir(exist_ok=True)
    facts = machine()
    found = [{**asdict(figure), "ok": figure.ok} for figure in figures]
    found = [{key: None if value == inf else value for key, value in line.items()} for line in found]  # JSON has no inf
    (RESULTS / f"{name}.json").write_text(json.dumps({"machine": facts, "figures": found}, indent=2) + "\n")
    rows = [HEADINGS, ("---",) * len(HEADINGS), *(figure.cells for figure in figures)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    about = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in facts.items())
    (RESULTS / f"{name}.md").write_text(f"# Benchmark: {name}\n\n{about}\n\n" + "\n".join(lines) + "\n")
