"""The live panel in a terminal: a thin shell that asks the clock, and draws the panel again where it stands."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from strandline.cli.following import Followed, Follower, See
from strandline.cli.panel import panel
from strandline.errors import exception_in_words
from strandline.model.time import Instant
from strandline.operations.overview import Totals
from strandline.store.storage import Storage

KEPT: Final = 240
"""Records of so many ticks are enough for what is recent."""


def can_be_drawn(err: IO[str]) -> bool:
    """Whether the panel can be drawn there: a terminal that can move its cursor."""
    console = Console(file=err)
    return console.is_terminal and not console.is_dumb_terminal


class LivePanel(Follower):
    """Draws the panel while a run goes on; the last one stays on the screen."""

    def __init__(self, storage: Storage, err: IO[str], now: Callable[[], Instant], *, see: See | None = None) -> None:
        self._console = Console(file=err, highlight=False)
        super().__init__(storage, self._say, every_tick=True, see=see)
        self._err, self._now = err, now
        self._totals, self._records = Totals(), deque[Mapping[str, Any]](maxlen=KEPT)
        self._new = deque[Mapping[str, Any]]()
        self._live: Live | None = None

    @contextmanager
    def following(self, run: Followed) -> Iterator[None]:
        """Draw while the run goes on, and once more at the end."""
        # Drawn when there is news, by one thread: to be drawn again and again is what flickers.
        self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")
        with self._live:
            try:
                with super().following(run):
                    yield
            finally:
                self.looked()

    def told(self, record: Mapping[str, Any]) -> None:
        """Keep a record for the next picture."""
        self._new.append(record)

    def looked(self) -> None:
        """Draw what there is now. That it cannot be drawn is no failure of the run, and hides none."""
        if self._live is None:
            return
        try:
            self._draw(self._live)
        except Exception as error:
            self._live.stop()
            self._live = None
            self._say(f"the panel cannot be drawn ({exception_in_words(error)}); --plain gives lines")

    def _draw(self, live: Live) -> None:
        while self._new:
            record = self._new.popleft()
            self._records.append(record)
            self._totals = self._totals.after(record)
        columns, lines = self._size()
        self._console.size = (columns, lines)
        live.update(panel(list(self._records), self._now(), (columns, lines - 1), self._totals), refresh=True)

    def _size(self) -> tuple[int, int]:
        """How large the terminal is now. rich would ask the descriptors 0 to 2, of which the last is Spark's meanwhile."""
        try:
            columns, lines = os.get_terminal_size(self._err.fileno())
        except OSError:
            columns = lines = 0
        # A terminal that was given no size says that it has none.
        return max(columns, 40) if columns else 80, max(lines, 2) if lines else 24

    def _say(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)
