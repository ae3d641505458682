"""The live panel of `strandline run`: what the journal says of the last ticks, drawn to fit a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from strandline.model.time import Instant
from strandline.operations.overview import Overview, StageNow, Totals, overview, worst_first
from strandline.operations.partitions import Partition
from strandline.operations.said import brief, clock, counted, rated, sized, why

Lines = list[list[str | Text]]

COLOURS: Final = {"read": "cyan", "step": "green", "waited": "red", "commit": "magenta", "publish": ""}
HOTTEST: Final = 3
NARROW: Final = 110  # columns: below this a time of day must do


def panel(
    records: Sequence[Mapping[str, Any]], now: Instant, size: tuple[int, int], totals: Totals | None = None
) -> RenderableType:
    """The panel, from the records of the last ticks, for a terminal of so many columns and lines.

    `now` is what the clock says: a watermark stays behind also while no tick is made. Pure: it reads and writes nothing.
    """
    width, height = size
    found = overview(records, totals)
    if found is None:
        return Text("no tick yet", "dim")
    head = [_title(found, now), _rates(found), _bar(found, width), _legend(found)]
    tables = [_partitions(found, now, width), _stages(found, width), _sinks(found)]
    shared = _shared([len(rows) for _, rows in tables], height - len(head) - 1)
    drawn = [_drawn(titles, rows, lines) for (titles, rows), lines in zip(tables, shared, strict=True)]
    return Group(*head, *(each for each in drawn if each is not None))


def _title(found: Overview, now: Instant) -> Text:
    state = "finished" if found.finished else "caught up" if found.caught_up else "reading"
    restarts = f" · {found.restarts} restart{'' if found.restarts == 1 else 's'}" if found.restarts else ""
    ago = f" · {brief(max(0, now - found.now))} ago"
    return _line(
        (f"{found.flow}", "bold"), f" · tick {found.tick:,} at {clock(found.now)}Z{ago} · {state}",
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


def _partitions(found: Overview, now: Instant, width: int) -> tuple[list[str], Lines]:
    several = len(found.sources) > 1
    rows: Lines = []
    for each in worst_first(found.partitions):
        behind = now - each.watermark if each.watermark.in_calendar else None
        name = f"{each.source} {each.name}" if several else each.name
        bound = found.bounds.get(each.source)
        far = behind is not None and bound is not None and behind > 2 * max(bound, 1_000_000) and not each.idle
        rows.append([
            Text(_short(name, 24), "bold" if each.holds else ""), _time(each.watermark, width),
            Text("-" if behind is None else brief(behind), "yellow" if far else ""),
            counted(each.rows), counted(each.backlog), Text(why(each), _colour(each)),
        ])  # fmt: skip
    source = "partition" if several else next(iter(found.sources), "partition")
    return [source, "watermark", "behind", "rows", "left", ""], rows


def _colour(each: Partition) -> str:
    return "yellow" if each.holds and each.why else "dim" if each.idle else ""


def _stages(found: Overview, width: int) -> tuple[list[str], Lines]:
    rows: Lines = []
    for each in found.stages:
        shown = [counted(each.panes.get(timing, 0)) for timing in ("early", "on_time", "late")]
        if "rows" in each.panes:  # what operators give has no timing
            shown = ["", f"{counted(each.panes['rows'])} rows", ""]
        rows.append([
            Text(_short(each.name, 20), "bold"), counted(each.rows), _grows(each), sized(each.nbytes), *shown,
            Text(counted(each.late), "yellow" if each.late else ""), _hot(each, 1 if width < NARROW else HOTTEST),
        ])  # fmt: skip
    return ["stage", "open", "growth", "state", "early", "on time", "late", "dropped", "hottest"], rows


def _grows(each: StageNow) -> Text:
    if each.growth is None:
        return Text("-")
    sign = "+" if each.growth > 0 else ""
    return Text(f"{sign}{rated(each.growth)}", "yellow" if each.endless and each.growth > 0 else "")


def _hot(each: StageNow, most: int) -> Text:
    return Text(" ".join(f"{_short(key, 12)} {share:.0%}" for key, share in each.hottest[:most]), "dim")


def _sinks(found: Overview) -> tuple[list[str], Lines]:
    rows: Lines = [
        [
            Text(_short(each.name, 24), "bold"), counted(each.rows), rated(each.rate),
            Text(f"{each.pending} ticks behind", "yellow") if each.pending else "",
        ]
        for each in found.sinks
    ]  # fmt: skip
    return ["sink", "rows", "rate", ""], rows


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


def _drawn(titles: Sequence[str], rows: Lines, lines: int) -> RenderableType | None:
    if not rows:
        return None
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False, header_style="dim")
    for at, title in enumerate(titles):
        plain = at == 0 or title in {"", "watermark", "hottest"}
        table.add_column(title, justify="left" if plain else "right", no_wrap=True, overflow="ellipsis")
    shown = rows if len(rows) <= lines else rows[: max(0, lines - 1)]
    for row in shown:
        table.add_row(*row)
    if len(shown) < len(rows):
        table.add_row(Text(f"and {len(rows) - len(shown):,} more", "dim"))
    return Group(Text(), table)


def _line(*parts: str | tuple[str, str]) -> Text:
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def _time(instant: Instant, width: int) -> str:
    said = clock(instant)
    return said.partition(" ")[2] if width < NARROW and instant.in_calendar else said


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
