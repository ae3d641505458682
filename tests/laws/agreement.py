"""Kernel = oracle, cell by cell, with the table that says how much was tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Final
from zlib import crc32

from hypothesis import HealthCheck, Phase, given, seed, settings

from strandline.model.triggers import KINDS as TRIGGERS
from strandline.testing import play
from strandline.testing.strategies import traits
from tests.lanes import LANE, examples
from tests.laws.comparing import differences
from tests.laws.drawing import KINDS, Cell, Trial, trials

EXAMPLES: Final = examples(30)
# What must have happened in a fifth of the examples of a window kind, in each mode. A global window misses nothing.
RARE: Final[dict[str, tuple[str, ...]]] = {
    "tumbling": ("late", "dropped"),
    "hopping": ("late", "dropped"),
    "session": ("late", "dropped", "merged"),
    "global": ("late",),
    "same or custom": ("late", "dropped"),
}
assert set(RARE) == set(KINDS)


class Agreement:
    """The examples of one window kind in one mode: tried, counted, and told as a part of the table."""

    def __init__(self, window: str, mode: str) -> None:
        self.window, self.mode = window, mode
        self.counts: Counter[Cell] = Counter()
        self.seen: Counter[str] = Counter()

    def cells(self) -> list[Cell]:
        """The cells of this window kind and mode."""
        return [Cell(self.window, trigger, self.mode, late) for trigger, late in product(TRIGGERS, (False, True))]

    def attempt(self, cell: Cell) -> None:
        """Try the examples of one cell; Hypothesis raises the smallest that differs."""

        @settings(
            max_examples=EXAMPLES, database=None, suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        )  # fmt: skip
        @given(trials(cell))
        def kernel_and_oracle_agree(trial: Trial) -> None:
            oracle = play(trial.stream, trial.steps, runner="oracle")
            kernel = play(trial.stream, trial.steps, runner="kernel", buckets=trial.buckets, tasks=trial.tasks)
            found = differences(trial.stream, oracle, kernel)
            assert not found, "\n".join(["oracle < > kernel", *found])
            self.counts[cell] += 1
            self.seen.update(["all", *traits(trial, oracle)])

        # In CI the same examples each time, but others in each cell; the long lane draws afresh.
        told = seed(crc32(repr(cell).encode()))(kernel_and_oracle_agree) if LANE == "ci" else kernel_and_oracle_agree
        told()

    def table(self) -> str:
        """Examples per cell, and what happened in them."""
        lines = [f"{f'{self.window}, {self.mode}':32}{'lateness 0':>12}{'> 0':>12}"]
        for trigger in TRIGGERS:
            numbers = [self.counts[Cell(self.window, trigger, self.mode, late)] for late in (False, True)]
            lines.append(f"  {trigger.__name__:30}" + "".join(f"{number:>12}" for number in numbers))
        shares = ", ".join(
            f"{name} {self.seen[name] / max(1, self.seen['all']):.0%}" for name in ("late", "dropped", "merged")
        )
        return "\n".join([*lines, f"  of {self.seen['all']} examples: {shares}"])

    def thin(self) -> list[str]:
        """What was not tried often enough."""
        cells = [f"{cell} has {self.counts[cell]} examples" for cell in self.cells() if self.counts[cell] < EXAMPLES]
        rare = [f"{name} in {self.seen[name]}" for name in RARE[self.window] if self.seen[name] * 5 < self.seen["all"]]
        return cells + rare


def disagreements(agreement: Agreement, record_property: Callable[[str, object], None]) -> list[str]:
    """Try all cells, print the table, and tell every difference and every thin cell."""
    failed: list[str] = []
    for cell in agreement.cells():
        try:
            agreement.attempt(cell)
        except Exception as error:  # noqa: PERF203 - the other cells are tried all the same, and all is told
            notes = "\n".join(getattr(error, "__notes__", ()))
            failed.append(f"{cell}: {type(error).__name__}: {error}\n{notes}")
    record_property("table", agreement.table())
    return [*failed, *agreement.thin()]
