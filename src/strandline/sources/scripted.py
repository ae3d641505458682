"""What reads pieces that are given, one step in a tick, at times that are given too: a play's script, as the engine reads it.

It does not stand in `testing`, because Spark starts a process for each query that only plans, and would import all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from strandline.sources.contract import EVERY, Limit, Offset, Piece, Place, even_ranges


@dataclass(frozen=True, slots=True, eq=False)
class ScriptedReader:
    """Reads one step in a tick, whatever the limit, and says what time it is then."""

    steps: list[tuple[Piece, ...]]
    times: list[int]
    end: int

    def first(self) -> Offset:
        """Before the first step."""
        return {"step": 0}

    def latest(self, start: Offset, limit: Limit, *, now: int | None = None) -> Offset:
        """One step on."""
        return {"step": min(start["step"] + 1, self.end)}

    def now(self, offset: Offset) -> int:
        """The processing time of the tick that ends here."""
        return self.times[offset["step"] - 1] if offset["step"] else 0

    def parts(self, start: Offset, end: Offset, wanted: int) -> list[Any]:
        """The pieces of the steps between, each cut among the tasks."""
        found: list[Any] = []
        for step in range(start["step"], end["step"]):
            for at, piece in enumerate(self.steps[step]):
                cuts = even_ranges(0, piece.rows.height, wanted) or [(0, 0)]
                found += [(step, at, low, high) for low, high in cuts]
        return found

    def read(self, part: Any) -> Iterator[Piece]:
        """A stretch of a piece; what could not be understood comes with the first."""
        step, at, low, high = part
        piece = self.steps[step][at]
        malformed = piece.malformed if low == 0 else None
        yield Piece(partition=piece.partition, rows=piece.rows.slice(low, high - low), malformed=malformed)

    def places(self, offset: Offset) -> dict[str, Place]:
        """How many steps are made; the play knows by itself that its partitions are caught up."""
        return {EVERY: Place(position=offset["step"], end=self.end)}
