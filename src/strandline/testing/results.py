"""What a play shows: panes per step, and beside them all that was late, rejected, replaced and counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from strandline.errors import DataError
from strandline.model.time import Instant

Shown: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """Where the rows went that reached a source or a stage.

    `kept` in at least one window, `late` for all of them, or `rejected`; `missed` counts (event, window) pairs.

    Law: rows = kept + late + rejected.

    >>> Books(rows=3, kept=2, late=1) + Books(rows=1, rejected=1)
    Books(rows=4, kept=2, late=1, rejected=1, missed=0)
    """

    rows: int = 0
    kept: int = 0
    late: int = 0
    rejected: int = 0
    missed: int = 0

    @classmethod
    def of(cls, books: object) -> Books:
        """The books of any runner, which name the same five counts."""
        return cls(**{each.name: int(getattr(books, each.name)) for each in fields(cls)})

    def __add__(self, other: Books) -> Books:
        return Books(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)})

    def balance(self, owner: str, *, rows: int, late: list[Shown], rejected: list[Shown], windows: bool = True) -> None:
        """Raise unless the books agree with themselves, with what came in, and with what was put aside.

        Only `windows` can keep a row that came too late for some of them.
        """
        wholly = sum(not row["kept"] for row in late) if windows else len(late)
        told = Books(
            rows=rows,
            kept=rows - len(rejected) - wholly,
            late=wholly,
            rejected=len(rejected),
            missed=sum(len(row["missed"]) for row in late) if windows else 0,
        )
        if told != self or self.rows != self.kept + self.late + self.rejected:
            raise DataError(
                f"The books of {owner!r} do not balance: it says {self}, but its rows say {told}.",
                fix="This is a fault in Strandline: please report it with the steps that led here.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedTick:
    """What one step showed."""

    panes: list[Shown] = field(default_factory=list)
    late: list[Shown] = field(default_factory=list)
    rejected: list[Shown] = field(default_factory=list)
    replaced: list[Shown] = field(default_factory=list)
    books: dict[str, Books] = field(default_factory=dict)
    watermarks: dict[str, Instant] = field(default_factory=dict)


class Played(list[list[Shown]]):
    """The rows of the played stream, one list per step; each row a dict of its columns.

    `late`, `rejected` and `replaced` are lists per step too, of all stages (and the source) on the way; those of one
    stage alone are shown by playing its side: `play(stage.late, steps)`. `books` are the totals by name; `watermarks`
    says, per step, where each source and stage stood after it.
    """

    def __init__(self, ticks: Iterable[PlayedTick]) -> None:
        self.ticks = tuple(ticks)
        super().__init__(tick.panes for tick in self.ticks)

    @property
    def late(self) -> list[list[Shown]]:
        """The events that missed a window, with the windows they missed and by how much."""
        return [tick.late for tick in self.ticks]

    @property
    def rejected(self) -> list[list[Shown]]:
        """The rows that could not be used, with the reason."""
        return [tick.rejected for tick in self.ticks]

    @property
    def replaced(self) -> list[list[Shown]]:
        """The windows that merged into others after they were shown."""
        return [tick.replaced for tick in self.ticks]

    @property
    def watermarks(self) -> list[dict[str, Instant]]:
        """The watermark of each source and stage after each step."""
        return [tick.watermarks for tick in self.ticks]

    @property
    def books(self) -> dict[str, Books]:
        """The books of the source and of each stage, over all steps."""
        total: dict[str, Books] = {}
        for tick in self.ticks:
            for name, books in tick.books.items():
                total[name] = total.get(name, Books()) + books
        return total
