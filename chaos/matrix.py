"""A matrix from the command line: which of its parts are played, what is printed and kept, and the exit code."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from chaos.trials import IN_THE_END, Trial, table, write


class Play(Protocol):
    """Does the faults of some parts."""

    def __call__(self, folder: Path, parts: Collection[str], *, quick: bool) -> list[Trial]:
        """The trials, in their order; a part of each if it must be `quick`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Faults in parts. A whole run is kept under the name `results`, and must have tried each fault often enough."""

    program: str
    about: str | None
    parts: Collection[str]
    play: Play
    too_few: Callable[[Sequence[Trial]], list[str]]
    results: str
    title: str

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Play, print, and keep the result of a whole run; 1 if anything is wrong, or was tried too seldom."""
        parser = argparse.ArgumentParser(prog=f"python -m {self.program}", description=self.about)
        parser.add_argument("--only", nargs="+", choices=self.parts, metavar="PART", help=", ".join(self.parts))
        parser.add_argument("--quick", action="store_true", help="a part of each; nothing is written")
        given = parser.parse_args(arguments)
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="strandline-chaos-") as folder:
            trials = self.play(Path(folder), given.only or self.parts, quick=given.quick)
        seconds = time.monotonic() - began
        print("\n" + table(trials))
        wrong = [trial.line() for trial in trials if not trial.fine]
        if not (given.only or given.quick):
            wrong += self.too_few(trials)
            write(trials, seconds, self.results, self.title)
        faults = sum(trial.fault != IN_THE_END for trial in trials)
        print(f"\n{faults} faults, {seconds / 60:.1f} minutes", *wrong, sep="\n")
        return 1 if wrong else 0
