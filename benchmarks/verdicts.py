"""What was measured against what was asked: the table, the files and the exit code of a measurement."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyspark
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
HEADINGS = ("what", "measured", "unit", "limit", "ok", "notes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One number, and the most (or least) that it may be; without a limit it is for information."""

    what: str
    measured: float
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None
    notes: str = ""

    @property
    def ok(self) -> bool:
        low = self.at_least is None or self.measured >= self.at_least
        return low and (self.at_most is None or self.measured <= self.at_most)

    @property
    def cells(self) -> tuple[str, ...]:
        limits = [f"{sign} {n:g}" for sign, n in (("≤", self.at_most), ("≥", self.at_least)) if n is not None]
        verdict = ("yes" if self.ok else "NO") if limits else ""
        return self.what, f"{self.measured:,.4g}", self.unit, ", ".join(limits), verdict, self.notes


def place(name: str, ending: str, *, quick: bool) -> Path:
    """Where a result is kept: among the results, or out of the way if it was only tried whether it runs."""
    folder = HERE.parent / "build" / "benchmarks" if quick else HERE / "results"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.{ending}"


def conclude(name: str, about: str, verdicts: Sequence[Verdict], data: Mapping[str, Any], *, quick: bool) -> int:
    """Print the table, keep it as JSON and as a page, and say 1 if a limit is broken; at quick sizes none is meant."""
    table = Table(*HEADINGS, title=about)
    for verdict in verdicts:
        table.add_row(*verdict.cells, style=None if verdict.ok else "bold red")
    Console(width=None if Console().is_terminal else 180).print(table)
    facts = {
        "date": f"{datetime.now(timezone.utc):%F}", "cores": os.cpu_count(), "python": platform.python_version(),
        "pyspark": pyspark.__version__, "quick": quick,
    }  # fmt: skip
    found = [{**asdict(verdict), "ok": verdict.ok} for verdict in verdicts]
    place(name, "json", quick=quick).write_text(
        json.dumps({"about": about, "facts": facts, "verdicts": found, "data": data}, indent=1) + "\n"
    )
    rows = [HEADINGS, ("---",) * len(HEADINGS), *(verdict.cells for verdict in verdicts)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    told = ", ".join(f"{key} {value}" for key, value in facts.items() if key != "quick")
    place(name, "md", quick=quick).write_text(f"# {name}\n\n{about} ({told})\n\n" + "\n".join(lines) + "\n")
    return 0 if quick or all(verdict.ok for verdict in verdicts) else 1
