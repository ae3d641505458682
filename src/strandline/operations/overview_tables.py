"""The tables of a run at a glance: titles and cells, which a terminal and a notebook draw each in its own way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from strandline.model.time import Instant
from strandline.operations.overview import Overview, StageNow, worst_first
from strandline.operations.partitions import Partition
from strandline.operations.said import brief, clock, counted, plural, rated, sized, visible, why

Tone = Literal["", "bold", "warning", "dim"]

HOTTEST: Final = 3
_KEY: Final = 12  # signs of a key
_TEXTS: Final = frozenset({"", "watermark", "hottest"})  # columns that stand to the left, as the first does


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in a cell, and how it is meant."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewTable:
    """A table: its first column says of what a row tells.

    `urgent` has the places of the rows, that first which is shown where there is room for one alone.
    """

    titles: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    urgent: tuple[int, ...]

    def cut(self, most: int) -> OverviewTable:
        """The most urgent rows, as they stood; the first title says how many there are.

        >>> cells = [(Cell(name),) for name in ("a", "b", "c")]
        >>> table = OverviewTable(titles=("stage",), rows=tuple(cells), urgent=(2, 0, 1)).cut(2)
        >>> table.titles, [row[0].text for row in table.rows]
        (('stage, 2 of 3',), ['a', 'c'])
        """
        if len(self.rows) <= most:
            return self
        shown = sorted(self.urgent[:most])
        title = f"{self.titles[0]}, {len(shown)} of {len(self.rows):,}"
        return replace(
            self, titles=(title, *self.titles[1:]), rows=tuple(self.rows[at] for at in shown), urgent=tuple(range(len(shown)))
        )  # fmt: skip

    def without(self, *titles: str) -> OverviewTable:
        """The same without some of its columns."""
        left = [at for at, title in enumerate(self.titles) if title not in titles]
        rows = tuple(tuple(row[at] for at in left) for row in self.rows)
        return replace(self, titles=tuple(self.titles[at] for at in left), rows=rows)

    def is_left(self, column: int) -> bool:
        """Whether a column has words, which begin at the left; numbers end at the right."""
        return column == 0 or self.titles[column] in _TEXTS


def partition_table(found: Overview, now: Instant, *, narrow: bool = False) -> OverviewTable:
    """The partitions, the worst first. `now` is what the clock says; where it is narrow a time of day must do."""
    several = len(found.sources) > 1
    title = "partition" if several else visible(next(iter(found.sources), "partition"))
    rows = tuple(
        (
            Cell(visible(_named(each) if several else each.name), "bold" if each.holds else ""),
            Cell(_time(each.watermark, narrow=narrow)), _behind(each, found, now), Cell(counted(each.rows)),
            Cell(counted(each.backlog)), _why(each),
        )
        for each in worst_first(found.partitions)
    )  # fmt: skip
    return OverviewTable(
        titles=(title, "watermark", "behind", "rows", "left", ""), rows=rows, urgent=tuple(range(len(rows)))
    )


def _time(instant: Instant, *, narrow: bool) -> str:
    said = clock(instant)
    return said.partition(" ")[2] if narrow and instant.in_calendar else said


def _named(each: Partition) -> str:
    """A partition with its source, unless its name says that already: that of a topic may."""
    return each.name if each.name.startswith(f"{each.source}/") else f"{each.source} {each.name}"


def _behind(each: Partition, found: Overview, now: Instant) -> Cell:
    if not each.watermark.in_calendar:
        return Cell("-")
    behind, bound = now - each.watermark, found.bounds.get(each.source)
    far = bound is not None and behind > 2 * max(bound, 1_000_000) and not each.idle
    return Cell(brief(behind), "warning" if far else "")


def _why(each: Partition) -> Cell:
    return Cell(why(each), "warning" if each.holds and each.why else "dim" if each.idle else "")


def stage_table(found: Overview, *, narrow: bool = False) -> OverviewTable:
    """The stages, in the order of the flow; the largest is the most urgent. Where it is narrow one hot key must do."""
    titles = ("stage", "state", "open", "growth", "early", "on time", "late", "dropped", "hottest")
    rows = tuple(
        (
            Cell(visible(each.name), "bold"), Cell(sized(each.nbytes)), Cell(_open(each)), _growth(each), *_panes(each),
            Cell(counted(each.dropped), "warning" if each.dropped else ""),
            Cell(" ".join(_hot(each, 1 if narrow else HOTTEST)), "dim"),
        )
        for each in found.stages
    )  # fmt: skip
    largest = sorted(range(len(rows)), key=lambda at: -found.stages[at].nbytes)
    return OverviewTable(titles=titles, rows=rows, urgent=tuple(largest))


def _open(each: StageNow) -> str:
    """The windows that are open, or what another stage keeps: between two numbers, where some may be counted again."""
    return counted(each.rows) if each.at_least == each.rows else f"{counted(each.at_least)}–{counted(each.rows)}"


def _growth(each: StageNow) -> Cell:
    if each.growth is None:
        return Cell("-")
    sign = "+" if each.growth > 0 else ""
    return Cell(f"{sign}{rated(each.growth)}", "warning" if each.endless and each.growth > 0 else "")


def _panes(each: StageNow) -> Sequence[Cell]:
    if "rows" in each.panes:  # what operators give has no timing
        return (Cell(""), Cell(f"{counted(each.panes['rows'])} rows"), Cell(""))
    return [Cell(counted(each.panes.get(timing, 0))) for timing in ("early", "on_time", "late")]


def _hot(each: StageNow, most: int) -> Iterator[str]:
    for key, share in each.hottest[:most]:
        name = visible(key)
        yield f"{name if len(name) <= _KEY else f'{name[: _KEY - 1]}…'} {share:.0%}"


def sink_table(found: Overview) -> OverviewTable:
    """The sinks, in the order of the flow; one that is behind is the most urgent."""
    rows = tuple(
        (
            Cell(visible(each.name), "bold"), Cell(counted(each.rows)), Cell(rated(each.rate)),
            Cell(f"{plural(each.pending, 'tick')} behind" if each.pending else "", "warning"),
        )
        for each in found.sinks
    )  # fmt: skip
    furthest = sorted(range(len(rows)), key=lambda at: -found.sinks[at].pending)
    return OverviewTable(titles=("sink", "rows", "rate", ""), rows=rows, urgent=tuple(furthest))
