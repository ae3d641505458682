"""A run at a glance as HTML, for notebooks: self-contained, and nothing in it is taken for markup."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from strandline.model.time import Instant
from strandline.operations.overview import Overview
from strandline.operations.overview_tables import Cell, OverviewTable, Tone, partition_table, sink_table, stage_table
from strandline.operations.said import brief, clock, counted, rated, visible

MOST: Final = 12
"""Rows of a table; how many there are stands in its title."""
_TABLE: Final = "border-collapse:collapse;margin:.4em 0;font-variant-numeric:tabular-nums"
_CELL: Final = "padding:.1em 1em .1em 0;text-align:"
_TONES: Final[dict[Tone, str]] = {
    "": "font-weight:normal", "bold": "font-weight:bold", "warning": "color:#b7791f", "dim": "font-weight:normal;opacity:.6",
}  # fmt: skip
_COLOURS: Final = {"read": "#1b9e9e", "step": "#3a9d3a", "waited": "#c0392b", "commit": "#9b59b6"}


def overview_html(name: str, found: Overview | None, now: Instant, *, running: bool) -> str:
    """A run at a glance. `now` is what the clock says."""
    state = "running" if running else "stopped"
    if found is None:
        return f"<div><b>{escape(visible(name))}</b> · {state} · no tick yet</div>"
    state = "finished" if found.finished else state
    refused = sum(found.totals.rejected.values())
    ago = brief(max(0, now - found.now))
    read = f"in the last {found.totals.ticks:,} ticks {counted(found.totals.rows)} rows, {counted(refused)} rejected"
    rates = f"in {rated(found.rate_in)} · out {rated(found.rate_out)} · backlog {counted(found.backlog)}"
    head = [
        f"<b>{escape(visible(name))}</b> · {state} · tick {found.tick:,} at {clock(found.now)}Z, {ago} ago",
        f"{rates} · {read}",
    ]
    return "\n".join([
        '<div style="font:13px/1.5 system-ui,sans-serif">', *(f"<div>{line}</div>" for line in head), _bar(found),
        _table(partition_table(found, now)), _table(stage_table(found)), _table(sink_table(found)), "</div>",
    ])  # fmt: skip


def _bar(found: Overview) -> str:
    whole = max(int(found.interval), sum(int(found.steps[step]) for step in _COLOURS), 1)
    parts = "".join(
        f'<span style="display:inline-block;height:8px;width:{100 * int(found.steps[step]) / whole:.1f}%;background:{colour}"></span>'
        for step, colour in _COLOURS.items()
    )
    steps = ", ".join(f"{step} {brief(span)}" for step, span in found.steps.items())
    bar = f'<div style="width:24em;background:rgba(128,128,128,.25);line-height:0">{parts}</div>'
    return f"{bar}<div>a tick takes {brief(found.made)} of {brief(found.interval)}: {steps}</div>"


def _table(table: OverviewTable) -> str:
    if not table.rows:
        return ""
    shown = table.cut(MOST)
    lines = [_row("th", shown, [Cell(title, "dim") for title in shown.titles])]
    lines += [_row("td", shown, row) for row in shown.rows]
    return f'<table style="{_TABLE}">{"".join(lines)}</table>'


def _row(kind: str, table: OverviewTable, cells: Sequence[Cell]) -> str:
    inside = (
        f'<{kind} style="{_CELL}{"left" if table.is_left(at) else "right"};{_TONES[cell.tone]}">{escape(cell.text)}</{kind}>'
        for at, cell in enumerate(cells)
    )
    return f"<tr>{''.join(inside)}</tr>"
