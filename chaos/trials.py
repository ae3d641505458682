"""Trials, and the table that sums them up."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyspark

from chaos.judging import Verdict

RESULTS: Final = Path(__file__).parents[1] / "benchmarks" / "results"
HEADINGS: Final = (
    "fault",
    "how",
    "trials",
    "equal",
    "named error",
    "lost",
    "duplicated",
    "wrong",
    "recovery s",
    "most",
)

IN_THE_END: Final = "in the end"  # no fault: what is left when all of them are over
LEAST_IN_ALL: Final = 200
LEAST: Final = {
    "SIGKILL of the driver": 60,
    "SIGKILL of a worker": 20,
    "a zombie wakes": 10,
    "two drivers at once": 1,
    "a full disk": 1,
    "damage": 1,
    "Spark's checkpoint": 2,
    "a clock that steps": 1,
}
LEAST_AT_A_POINT: Final = 4


@dataclass(slots=True, kw_only=True)
class Trial:
    """One fault, and what came of it. `error` is the name of the error that stopped the run that met it, if one did."""

    fault: str
    how: str
    what: str = ""
    error: str = ""
    told: str = ""
    verdict: Verdict = field(default_factory=Verdict)
    amiss: str = ""  # what else is not as it should be, in words
    recovery: float | None = None

    @property
    def fine(self) -> bool:
        return self.verdict.fine and not self.amiss

    def line(self) -> str:
        """The trial in one line."""
        outcome = self.error or "equal" if self.fine else f"WRONG {self.verdict} {self.amiss}"
        recovered = "" if self.recovery is None else f", {self.recovery:.1f} s"
        return f"{self.fault}, {self.how}, {self.what}: {outcome}{recovered}" + (
            f"\n      {self.told}" if self.told else ""
        )


def rows_of(trials: Sequence[Trial]) -> list[tuple[str, ...]]:
    """The lines of the table, by fault and how."""
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial.fault, trial.how), []).append(trial)
    return [_row(fault, how, mine) for (fault, how), mine in groups.items()]


def _row(fault: str, how: str, trials: Sequence[Trial]) -> tuple[str, ...]:
    verdict = sum((trial.verdict for trial in trials), Verdict())
    named = sum(bool(trial.error) for trial in trials)
    amiss = sum(bool(trial.amiss) for trial in trials)
    seconds = [trial.recovery for trial in trials if trial.recovery is not None]
    times = (f"{median(seconds):.1f}", f"{max(seconds):.1f}") if seconds else ("", "")
    equal = sum(trial.fine and not trial.error for trial in trials)
    counts = (len(trials), equal, named, verdict.lost, verdict.duplicated, verdict.wrong + amiss)
    return (fault, how, *map(str, counts), *times)


def too_few(trials: Sequence[Trial], points: Sequence[str]) -> list[str]:
    """Which faults were not tried as often as they should be."""
    counts = {fault: sum(trial.fault.startswith(fault) for trial in trials) for fault in LEAST}
    found = [f"{fault}: {counts[fault]} of {least}" for fault, least in LEAST.items() if counts[fault] < least]
    killed = [trial.how for trial in trials if trial.fault.startswith("SIGKILL of the driver")]
    found += [
        f"killed at {point}: {n} of {LEAST_AT_A_POINT}"
        for point in points
        if (n := killed.count(f"at {point}")) < LEAST_AT_A_POINT
    ]
    return found + ([f"in all: {len(trials)} of {LEAST_IN_ALL}"] if len(trials) < LEAST_IN_ALL else [])


def table(trials: Sequence[Trial]) -> str:
    """The table as Markdown, with a last line for all of it."""
    total = _row("**all**", "", trials)
    lines = [HEADINGS, ("---",) * len(HEADINGS), *rows_of(trials), total]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write(trials: Sequence[Trial], seconds: float, name: str, title: str) -> None:
    """Keep the results under a name, for people and for programs."""
    facts: dict[str, Any] = {
        "cores": os.cpu_count(), "python": platform.python_version(), "pyspark": pyspark.__version__,
        "minutes": round(seconds / 60, 1),
    }  # fmt: skip
    about = ", ".join(f"{name} {value}" for name, value in facts.items())
    (RESULTS / f"{name}.md").write_text(f"# {title}\n\n{about}\n\n{table(trials)}\n")
    told = [{**asdict(trial), "fine": trial.fine} for trial in trials]
    (RESULTS / f"{name}.json").write_text(json.dumps({"machine": facts, "trials": told}, indent=1) + "\n")
