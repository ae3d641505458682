"""A window that is not forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from strandline.model.oracle.triggers import State
from strandline.model.oracle.values import Entry

Pane = dict[str, Any]
# What keys are told apart by: the ranks of their values.
Key = tuple[tuple[int, Any], ...]


@dataclass(eq=False)
class Living:
    """A window of one key, and all that is known of it.

    values          its key, as it is shown
    content         its events; in discarding mode those since its last pane
    new             how many events came since its last pane
    net             events added less events taken back, in all its life
    earliest/latest event times in all its life, of events added
    index           how many panes it has shown
    shown           its last pane, unless that was withdrawn
    ghosts          the last panes of windows that merged into it, until they are withdrawn or replaced
    touched         whether events came in this tick
    """

    key: Key
    values: tuple[Any, ...]
    start: int
    end: int
    trigger: State
    content: list[Entry] = field(default_factory=list)
    new: int = 0
    net: int = 0
    earliest: int | None = None
    latest: int | None = None
    index: int = 0
    shown: Pane | None = None
    ghosts: list[Pane] = field(default_factory=list)
    touched: bool = False

    def add(self, entry: Entry) -> None:
        """Take an event, or take one back."""
        self.content.append(entry)
        self.new += 1
        self.net += entry.weight
        self.touched = True
        if entry.weight > 0:
            self.earliest = _least(self.earliest, entry.time)
            self.latest = _greatest(self.latest, entry.time)

    def inherit(self, olds: Sequence[Living]) -> None:
        """Take over what the windows that merged into this one held and had shown."""
        for old in olds:
            self.content += old.content
            self.new += old.new
            self.net += old.net
            self.earliest = _least(self.earliest, old.earliest)
            self.latest = _greatest(self.latest, old.latest)
            self.ghosts += old.standing

    @property
    def standing(self) -> list[Pane]:
        """The panes that were shown and neither withdrawn nor replaced, by window."""
        found = [*self.ghosts, *([] if self.shown is None else [self.shown])]
        return sorted(found, key=lambda pane: (pane["__window_start"], pane["__window_end"]))


def _least(one: int | None, other: int | None) -> int | None:
    return min((time for time in (one, other) if time is not None), default=None)


def _greatest(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)
