"""How much a tick may read: as much as ticks of the wanted length have been able to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strandline.model.time import Span

FIRST: Final = 200_000
LEAST: Final = 1_000
GREATEST: Final = 20_000_000


@dataclass(slots=True)
class Admission:
    """The rows that a tick may take, from how long the last ones took.

    A tick that was cut short by the limit tells how fast the flow is; one that had less to do says little, unless it took
    too long. The limit at most doubles in a tick, and is never less than half of what the tick took in, so that one odd
    tick does not decide.

    >>> admission = Admission(target=Span.of("1s"))
    >>> admission.observe(rows=200_000, took=Span.of("4s"))
    >>> admission.limit
    100000
    """

    target: Span
    limit: int = FIRST

    def observe(self, *, rows: int, took: Span, more: bool = False) -> None:
        """Learn from a tick, its publishing included: how many rows it took in, rejected ones too, and whether `more` wait.

        A source may count what gives no rows (gaps in a topic, say): then there are few, although the limit was reached.
        """
        if not rows or took <= 0:
            return
        able = int(rows * self.target / took)
        if took > self.target:
            # Half of what it took in, not of a limit that it may have been far below: what waits is more by now.
            self.limit = max(able, min(rows, self.limit) // 2)
        elif more or 2 * rows >= self.limit:
            self.limit = min(max(able, self.limit), 2 * self.limit)
        self.limit = max(LEAST, min(self.limit, GREATEST))
