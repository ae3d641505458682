"""A flow on Spark, killed in the middle, and a table that does not know it.

The flow of `shops` runs in a process of its own, which is killed (SIGKILL) at the worst moment: a tick is committed, and
no sink has its rows. A second process goes on from the state. What is printed was read from the state and the results.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from strandline.demo.panes import COLOURS, clock, described
from strandline.demo.results import Results, differences
from strandline.demo.shops import ROWS, make_flow, undisturbed
from strandline.model.time import Instant

KILLED_IN: Final = 5
LOOK_EVERY: Final = 0.2  # seconds
WIDEST: Final = 100


def show(console: Console) -> bool:
    """Run, kill, run again, compare. Whether everything that is claimed holds."""
    with tempfile.TemporaryDirectory(prefix="strandline-demo-") as name:
        return Demonstration(console, Path(name)).play()


class Demonstration:
    """One showing, in a folder of its own."""

    def __init__(self, console: Console, folder: Path) -> None:
        self.console, self.folder = console, folder
        self.results = Results(folder)
        self.shown = -1  # the last tick that was printed
        self.width = min(console.width, WIDEST)

    def play(self) -> bool:
        """The four acts."""
        self._open()
        self._head("1. The flow runs, in a process of its own")
        killed = self._run({"STRANDLINE_AT": f"committed:{KILLED_IN}=SIGKILL"})
        if killed != -signal.SIGKILL:
            return self._failed("The first process should have been killed.")
        self._head("2. kill -9, at the worst moment")
        committed, published = self.results.committed(), self.results.published()
        self._say(Text("✗ the process is gone, without a word", "bold red"))
        self._say(f"The state is at tick {committed}: committed. The table is at tick {published}: it misses rows.")
        self._head("3. The same command again: it goes on from the state")
        if self._run({}) != 0:
            return self._failed("The second process failed.")
        self._head("4. One window, and all that was ever shown of it")
        self._story()
        return self._verdict(committed)

    def _open(self) -> None:
        self.console.print(Rule("[bold]Strandline[/bold]"), width=self.width)
        self._say(f"What eight shops take in, minute by minute: {ROWS:,} orders, out of order, some very late,")
        self._say("some unreadable. Spark runs it; the results go to SQLite. It takes a minute or two.")
        self.console.print()
        _, stage = make_flow(self.folder)
        self._say(described(stage))

    def _run(self, extra: dict[str, str]) -> int:
        """Run the flow in a child until it ends, printing its ticks as they come; the exit code."""
        self._say(Text("tick   orders  unreadable    watermark   panes   rows changed in the table", "bright_black"))
        with process(self.folder, {**os.environ, **extra}) as child:
            with self.console.status("Spark starts, and makes ticks ..."):
                while True:
                    with suppress(subprocess.TimeoutExpired):
                        child.wait(LOOK_EVERY)
                    self._print_ticks()
                    if child.returncode is not None:
                        break
            return child.returncode

    def _print_ticks(self) -> None:
        for record in self.results.ticks(since=self.shown + 1):
            self.shown = record["tick"]
            books = record["books"].get("orders", {"kept": 0, "rejected": 0})
            watermark = clock(Instant(record["watermarks"]["orders"]))
            line = f"{self.shown:>4} {books['kept']:>8,} {books['rejected']:>11} {watermark:>12}"
            self._say(f"{line:<38} {record['panes'].get('takings', 0):>6} {record['sinks']['table']['rows']:>7}")

    def _story(self) -> None:
        rows = self.results.story()
        grid = Table.grid(padding=(0, 2))
        for row in rows:
            back = row["op"] == "retract"
            style = "strike bright_black" if back else COLOURS[row["pane_timing"]]
            money = f"{row['cents'] / 100:,.2f}"
            sign = Text("− taken back" if back else "+ shown", "bright_black" if back else f"bold {style}")
            timing = row["pane_timing"].replace("_", " ")
            words = (row["shop"], f"{row['window_start']:%H:%M}", f"{row['orders']} orders", money, timing)
            grid.add_row(sign, *(Text(word, style, justify="right") for word in words))
        self._say(grid)

    def _verdict(self, killed_in: int) -> bool:
        self._head("The verdict")
        expected, table, standing = undisturbed(), self.results.table(), self.results.standing()
        counted, unreadable = int(table["orders"].sum()), self.results.rejected()
        numbers = [record["tick"] for record in self.results.ticks(since=0)]
        wrong = [*differences(table, expected)]
        sums = f"{table.height} rows, {counted:,} orders, {table['cents'].sum() / 100:,.2f} taken in"
        claims = [
            (not wrong, f"the table is what one plain group_by gives: {sums}"),
            (standing.equals(table), "all that was shown, less all that was taken back, is the same table"),
            (counted + unreadable == ROWS, f"{ROWS:,} orders = {counted:,} counted + {unreadable} unreadable, kept apart"),
            (numbers == list(range(len(numbers))),
             f"ticks 0 to {numbers[-1]}, each once; tick {killed_in}, in which it was killed, too"),
        ]  # fmt: skip
        for holds, said in claims:
            self._say(Text.assemble(("✓ ", "bold green") if holds else ("✗ ", "bold red"), said))
        for each in wrong:
            self._say(Text(each, "red"))
        self.console.print()
        return all(holds for holds, _ in claims)

    def _failed(self, what: str) -> bool:
        log = _log(self.folder).read_text(encoding="utf-8", errors="replace").splitlines()
        self._say(Text(f"✗ {what} The end of its log:", "bold red"))
        self._say(Text("\n".join(log[-25:])))
        return False

    def _head(self, text: str) -> None:
        self.console.print()
        self.console.print(Rule(Text(text, "bold"), align="left", style="bright_black"), width=self.width)

    def _say(self, what: Any) -> None:
        self.console.print(Padding(what, (0, 0, 0, 2)), width=self.width)


@contextmanager
def process(folder: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """The flow in a process group of its own; whatever is left of it (Spark's JVM, say) goes when this is over."""
    with _log(folder).open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "strandline.demo.shops", str(folder)],
            env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            yield child
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _log(folder: Path) -> Path:
    return folder / "log.txt"
