"""A flow on Spark, killed in the middle, and tables that do not know it.

The flow of `shops` runs in a process of its own, which is killed (SIGKILL) at the worst moment: a tick is committed, and
no sink has its rows. A second process goes on from the state. What is printed was read from the state and the results.
"""

from __future__ import annotations

import os
import shutil
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
from strandline.demo.results import EACH_ORDER, Results, differences
from strandline.demo.shops import ROWS, made, make_flow, undisturbed
from strandline.model.time import Instant

KILLED_IN: Final = 5
LOOK_EVERY: Final = 0.2  # seconds
WIDEST: Final = 100
ARRIVING: Final = 6
EVERY: Final = 100
"""So many of the first orders are shown as they come, one of so many."""

NEXT: Final = (
    ("init revenue", "make a project of your own: a flow, data for it, its test, and a README that goes on from there"),
    ("explain revenue/flow.py", "what it means, what it can lose, and when results come"),
    ("run revenue/flow.py --until end", "run it"),
)
"""Where to go from here: commands, and what each is for."""


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
        """The acts, one after the other."""
        self._open()
        self._head("1. The flow runs, in a process of its own")
        killed = self._run({"STRANDLINE_AT": f"committed:{KILLED_IN}=SIGKILL"})
        if killed != -signal.SIGKILL:
            return self._failed("The first process should have been killed.")
        self._head("2. kill -9, at the worst moment")
        committed = self._loss()
        self._head("3. The same command again: it goes on from the state")
        if self._run({}) != 0:
            return self._failed("The second process failed.")
        self._head("4. One window, and all that was ever shown of it")
        self._story()
        self._head("5. Every order once: asked by SQL, from the generator's own list")
        holds = self._count()
        holds = self._verdict(committed) and holds
        self._head("Where to go next")
        self._next()
        return holds

    def _open(self) -> None:
        self.console.print(Rule("[bold]Strandline[/bold]"), width=self.width)
        self._say(
            f"What eight shops take in, minute by minute: {ROWS:,} orders, out of order, some very late, some unreadable. "
            "Spark runs it, the results go to SQLite. It takes about a minute."
        )
        self.console.print()
        _, stage = make_flow(self.folder)
        self._say(described(stage))
        self.console.print()
        self._say(_arriving())

    def _run(self, extra: dict[str, str]) -> int:
        """Run the flow in a child until it ends, printing its ticks as they come; the exit code."""
        titles = Text.assemble(
            ("tick   orders  unreadable    watermark  ", "bright_black"), ("   early", COLOURS["early"]),
            ("  on time", COLOURS["on_time"]), ("   late", COLOURS["late"]), ("  taken back", "bright_black"),
        )  # fmt: skip
        self._say(titles)
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
            panes = record["panes"].get("takings", {})
            counts = [panes.get(timing, 0) for timing in ("early", "on_time", "late", "retract")]
            self._say(
                f"{self.shown:>4} {books['kept']:>8,} {books['rejected']:>11} {watermark:>12} "
                "{:>9} {:>8} {:>6} {:>11}".format(*(each or "·" for each in counts))
            )

    def _loss(self) -> int:
        """What the crash left: the tick that is committed."""
        committed, published = self.results.committed(), self.results.published()
        known = self.results.known()
        self._say(Text("✗ SIGKILL: the process is gone, without a word", "bold red"))
        self._say(
            f"The state is at tick {committed}: committed. The tables are at tick {published}: "
            f"they miss {known - self.results.stored():,} of {known:,} orders."
        )
        return committed

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

    def _count(self) -> bool:
        """The orders of each shop as the generator has them, beside what the sink's tables have."""
        count = self.results.count()
        self._say(Text(EACH_ORDER, "bright_black"))
        self.console.print()
        table = Table(box=None, pad_edge=False, header_style="bold", show_footer=True, footer_style="bold")
        table.add_column("shop", "all", no_wrap=True)
        names = {"made": "made", "once": "stored once", "twice": "twice", "missing": "missing", "counted": "in windows"}
        for column, title in names.items():
            table.add_column(title, f"{count[column].sum():,}", justify="right", no_wrap=True)
        table.add_column("taken in", f"{count['cents'].sum() / 100:,.2f}", justify="right", no_wrap=True)
        for row in count.iter_rows(named=True):
            table.add_row(row["shop"], *(f"{row[column]:,}" for column in names), f"{row['cents'] / 100:,.2f}")
        self._say(table)
        self.console.print()
        once = bool((count["made"] == count["once"]).all() and (count["made"] == count["counted"]).all())
        self._claim(
            once and not count["twice"].sum(), "every order is stored once, and counted in one window of its shop"
        )
        return once

    def _verdict(self, killed_in: int) -> bool:
        expected, table, standing = undisturbed(), self.results.table(), self.results.standing()
        counted, unreadable = int(table["orders"].sum()), self.results.rejected()
        numbers = [record["tick"] for record in self.results.ticks(since=0)]
        wrong = [*differences(table, expected)]
        claims = [
            (not wrong, f"the table of {table.height} windows is what one plain group_by over the list gives"),
            (standing.equals(table), "all that was shown, less all that was taken back, is the same table"),
            (counted + unreadable == ROWS, f"{ROWS:,} orders = {counted:,} counted + {unreadable} unreadable, kept apart"),
            (numbers == list(range(len(numbers))),
             f"ticks 0 to {numbers[-1]}, each once; tick {killed_in}, in which it was killed, too"),
        ]  # fmt: skip
        for holds, said in claims:
            self._claim(holds, said)
        for each in wrong:
            self._say(Text(each, "red"))
        return all(holds for holds, _ in claims)

    def _next(self) -> None:
        for command, purpose in NEXT:
            self._say(Text(purpose, "bright_black"))
            # A command that is broken into two lines cannot be copied.
            self.console.print(Text(f"    {_strandline()} {command}", "bold green"), soft_wrap=True)
        self.console.print()

    def _failed(self, what: str) -> bool:
        log = _log(self.folder).read_text(encoding="utf-8", errors="replace").splitlines()
        self._say(Text(f"✗ {what} The end of its log:", "bold red"))
        self._say(Text("\n".join(log[-25:])))
        return False

    def _claim(self, holds: bool, said: str) -> None:
        self._say(Text.assemble(("✓ ", "bold green") if holds else ("✗ ", "bold red"), said))

    def _head(self, text: str) -> None:
        self.console.print()
        self.console.print(Rule(Text(text, "bold"), align="left", style="bright_black"), width=self.width)

    def _say(self, what: Any) -> None:
        self.console.print(Padding(what, (0, 0, 0, 2)), width=self.width)


def _arriving() -> Text:
    """When some of the first orders happened, in the order in which they come: many behind one that came before."""
    some = made()["at"].gather_every(EVERY).head(ARRIVING)
    line = Text("as they come  ", "bold cyan")
    for at, greatest in zip(some, some.cum_max(), strict=True):
        line.append(f"{at:%H:%M:%S}  " if at == greatest else f"↶ {at:%H:%M:%S}  ", "" if at == greatest else "yellow")
    return line


def _strandline() -> str:
    """How the command is called from here: by its name where that is found, else by where it is."""
    beside = Path(sys.executable).with_name("strandline")
    found = shutil.which("strandline")
    if found is not None and (not beside.exists() or Path(found).samefile(beside)):
        return "strandline"
    return os.path.relpath(beside) if beside.exists() else f"{sys.executable} -m strandline"


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
