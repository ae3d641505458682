"""The live panel of `strandline run`: what the journal says of the last ticks, drawn to fit a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from strandline.model.time import Instant
from strandline.operations.overview import Overview, Totals, overview
from strandline.operations.overview_tables import OverviewTable, Tone, partition_table, sink_table, stage_table
from strandline.operations.said import brief, clock, plural, rated, visible

COLOURS: Final = {"read": "cyan", "step": "green", "waited": "red", "commit": "magenta", "publish": ""}
STYLES: Final[Mapping[Tone, str]] = {"": "", "bold": "bold", "warning": "yellow", "dim": "dim"}
LONGEST_NAME: Final = 24
SHORTEST: Final = 12  # of a name, or of what stands in the last column
BETWEEN: Final = 2
NARROW: Final = 110  # columns: below this a time of day must do, and the hottest key alone
NARROWEST: Final = 70
LESS_NEEDED: Final = ("growth", "early", "on time", "late", "hottest", "left")
"""Columns that are left out where a terminal is narrower than that."""
HEAD: Final = 4
FEW: Final = 3
"""Where fewer rows of a table could be shown than these, and there are more, what matters most is chosen."""


def panel(
    records: Sequence[Mapping[str, Any]], now: Instant, size: tuple[int, int], totals: Totals | None = None
) -> RenderableType:
    """The panel, from the records of the last ticks, for a terminal of so many columns and lines; never more lines than those.

    `now` is what the clock says: a watermark stays behind also while no tick is made. Pure: it reads and writes nothing.
    """
    width, height = size
    found = overview(records, totals)
    if found is None:
        return Text("the first tick is being made; it takes longest", "dim")
    tables = _tables(found, now, width)
    draw = _roomy if height >= _lines_of_roomy(tables) else _tight
    return Group(*draw(found, now, tables, size))


def _tables(found: Overview, now: Instant, width: int) -> list[OverviewTable]:
    """Partitions, stages and sinks, with the columns for which the width suffices."""
    narrow = width < NARROW
    every = partition_table(found, now, narrow=narrow), stage_table(found, narrow=narrow), sink_table(found)
    return [each.without(*LESS_NEEDED) for each in every] if width < NARROWEST else list(every)


def _lines_of_roomy(tables: Sequence[OverviewTable]) -> int:
    return HEAD + sum(2 + min(FEW, len(table.rows)) for table in tables if table.rows)


def _roomy(
    found: Overview, now: Instant, tables: Sequence[OverviewTable], size: tuple[int, int]
) -> list[RenderableType]:
    """All there is, with a line between two tables, and as many rows of each as there is room for."""
    width, height = size
    lines: list[RenderableType] = [_title(found, now), _rates(found), _bar(found, width), _legend(found)]
    for table, rows in zip(tables, _shared([len(table.rows) for table in tables], height - HEAD), strict=True):
        lines += [Text(), _drawn(table.cut(rows), width)] if table.rows else []
    return lines


def _tight(
    found: Overview, now: Instant, tables: Sequence[OverviewTable], size: tuple[int, int]
) -> list[RenderableType]:
    """What matters most where there is little room: who holds the watermark, the stages, and the sinks in a line."""
    (partitions, stages, sinks), (width, height) = tables, size
    holder = _in_a_line(partitions.cut(1).without("watermark", "rows", "left"))
    lines: list[RenderableType] = [_title(found, now), _rates(found), holder, _in_a_line(sinks), _legend(found)]
    del lines[height:]
    left = height - len(lines)
    if stages.rows and left >= 2:
        shown = stages.cut(left - 1)
        lines.insert(3, _drawn(shown, width))
        left -= 1 + len(shown.rows)
    if partitions.rows and left >= 2:  # the line makes room for its table
        lines[2] = _drawn(partitions.cut(left), width)
    return lines


def _in_a_line(table: OverviewTable) -> Text:
    """A table as a line: the most urgent row first, numbers with their titles, and what is empty left out."""
    said = Text(no_wrap=True, overflow="ellipsis").append(f"{table.titles[0]}: ", "dim")
    if not table.rows:
        return said.append("none")
    for place, at in enumerate(table.urgent):
        said.append(" · " if place else "", "dim")
        for column, (title, cell) in enumerate(zip(table.titles, table.rows[at], strict=True)):
            if cell.text:
                said.append(f" {title} " if column and title else " " if column else "", "dim")
                said.append(cell.text, STYLES[cell.tone])
    return said


def _title(found: Overview, now: Instant) -> Text:
    state = "finished" if found.finished else "caught up" if found.caught_up else "reading"
    restarts = f" · {plural(found.restarts, 'restart')}" if found.restarts else ""
    ago = f" · {brief(max(0, now - found.now))} ago"
    return _line(
        (visible(found.flow), "bold"), f" · tick {found.tick:,} at {clock(found.now)}Z{ago} · {state}",
        (restarts, "yellow"),
    )  # fmt: skip


def _rates(found: Overview) -> Text:
    refused = sum(found.totals.rejected.values())
    growing = found.backlog_growth is not None and found.backlog_growth > 0 and found.backlog > 0
    backlog = f"backlog {found.backlog:,}" + (f" (+{rated(found.backlog_growth)})" if growing else "")
    return _line(
        f"in {rated(found.rate_in)}, {found.totals.rows:,} rows so far",
        (f", {refused:,} rejected" if refused else "", "yellow"),
        f" · out {rated(found.rate_out)} · ", (backlog, "yellow" if growing else ""),
    )  # fmt: skip


def _bar(found: Overview, width: int) -> Text:
    """How much of the interval a tick takes, by step; a tick that takes longer fills it all."""
    bar, room = Text(no_wrap=True, overflow="crop"), max(10, width - 2)
    whole = max(int(found.interval), int(found.made), 1)
    left = room
    for step in ("read", "step", "waited", "commit"):
        cells = min(left, -(-int(found.steps[step]) * room // whole) if found.steps[step] else 0)
        bar.append("█" * cells, COLOURS[step])
        left -= cells
    return bar.append("·" * left, "dim")


def _legend(found: Overview) -> Text:
    late = found.made > found.interval > 0
    said: list[str | tuple[str, str]] = [
        (f"tick {brief(found.made)}", "bold yellow" if late else "bold"), f"/{brief(found.interval)}",
    ]  # fmt: skip
    for step, span in found.steps.items():
        beside = step == "publish"  # the next tick is made meanwhile
        said += [" +" if beside else " ", ("" if beside else "■", COLOURS[step]), f"{step} {brief(span)}"]
    return _line(*said)


def _shared(wanted: Sequence[int], height: int) -> list[int]:
    """How many lines of rows each table gets, of a height that holds their titles and a line between them too.

    >>> _shared([3, 1, 1], 40), _shared([64, 2, 2], 17), _shared([9, 9, 9], 4)
    ([3, 1, 1], [7, 2, 2], [1, 1, 1])
    """
    left = height - 2 * sum(1 for count in wanted if count)
    given = [min(1, count) for count in wanted]
    left -= sum(given)
    while left > 0 and any(has < wants for has, wants in zip(given, wanted, strict=True)):
        # Short tables are shown whole before a long one gets more.
        least = min((has, at) for at, (has, wants) in enumerate(zip(given, wanted, strict=True)) if has < wants)[1]
        given[least] += 1
        left -= 1
    return given


def _drawn(table: OverviewTable, width: int) -> Table:
    name, *numbers, last = _widths(table, width)
    drawn = Table(box=None, pad_edge=False, padding=(0, BETWEEN, 0, 0), show_edge=False, header_style="dim")
    for at, (title, room) in enumerate(zip(table.titles, (name, *numbers, last), strict=True)):
        side: Literal["left", "right"] = "left" if table.is_left(at) else "right"
        drawn.add_column(Text(title), justify=side, no_wrap=True, overflow="ellipsis", width=room)
    for row in table.rows:
        drawn.add_row(*(Text(cell.text, STYLES[cell.tone]) for cell in row))
    return drawn


def _widths(table: OverviewTable, width: int) -> list[int]:
    """How wide each column is: no number is cut; the name and the last column share what is left."""
    columns = zip(table.titles, *([cell.text for cell in row] for row in table.rows), strict=True)
    name, *numbers, last = (max(map(cell_len, column)) for column in columns)
    left = width - sum(numbers) - BETWEEN * (len(table.titles) - 1)
    name = min(name, LONGEST_NAME, max(SHORTEST, left - min(last, SHORTEST)))
    return [name, *numbers, min(last, max(1, left - name))]


def _line(*parts: str | tuple[str, str]) -> Text:
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")
