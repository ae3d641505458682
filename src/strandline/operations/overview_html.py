"""A run at a glance as HTML, for notebooks: self-contained, and nothing in it is taken for markup."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from strandline.model.time import Instant
from strandline.operations.overview import Overview, worst_first
from strandline.operations.said import brief, clock, counted, rated, sized, why

MOST: Final = 12
"""Rows of a table; the rest is counted."""
_TABLE: Final = "border-collapse:collapse;margin:.4em 0;font-variant-numeric:tabular-nums"
_CELL: Final = "padding:.1em 1em .1em 0;text-align:"
_DIM: Final = "opacity:.6"
_COLOURS: Final = {"read": "#1b9e9e", "step": "#3a9d3a", "waited": "#c0392b", "commit": "#9b59b6"}


def overview_html(name: str, found: Overview | None, now: Instant, *, running: bool) -> str:
    """A run at a glance. `now` is what the clock says."""
    state = "running" if running else "stopped"
    if found is None:
        return f"<div><b>{escape(name)}</b> · {state} · no tick yet</div>"
    state = "finished" if found.finished else state
    refused = sum(found.totals.rejected.values())
    ago = brief(max(0, now - found.now))
    read = f"in the last {found.totals.ticks:,} ticks {counted(found.totals.rows)} rows, {counted(refused)} rejected"
    rates = f"in {rated(found.rate_in)} · out {rated(found.rate_out)} · backlog {counted(found.backlog)}"
    head = [
        f"<b>{escape(name)}</b> · {state} · tick {found.tick:,} at {clock(found.now)}Z, {ago} ago",
        f"{rates} · {read}",
    ]
    return "\n".join([
        '<div style="font:13px/1.5 system-ui,sans-serif">', *(f"<div>{line}</div>" for line in head), _bar(found),
        _table(["partition", "watermark", "behind", "left", ""], _partitions(found, now)),
        _table(["stage", "open", "growth", "state", "early", "on time", "late", "dropped", "hottest"], _stages(found)),
        _table(["sink", "rows", "rate", "ticks behind"], _sinks(found)), "</div>",
    ])  # fmt: skip


def _bar(found: Overview) -> str:
    whole = max(int(found.interval), int(found.made), 1)
    parts = "".join(
        f'<span style="display:inline-block;height:8px;width:{100 * int(found.steps[step]) / whole:.1f}%;background:{colour}"></span>'
        for step, colour in _COLOURS.items()
    )
    steps = ", ".join(f"{step} {brief(span)}" for step, span in found.steps.items())
    bar = f'<div style="width:24em;background:rgba(128,128,128,.25);line-height:0">{parts}</div>'
    return f"{bar}<div>a tick takes {brief(found.made)} of {brief(found.interval)}: {steps}</div>"


def _partitions(found: Overview, now: Instant) -> list[list[str]]:
    return [
        [
            f"{each.source} {each.name}", clock(each.watermark),
            brief(now - each.watermark) if each.watermark.in_calendar else "-", counted(each.backlog), why(each),
        ]
        for each in worst_first(found.partitions)
    ]  # fmt: skip


def _stages(found: Overview) -> list[list[str]]:
    return [
        [
            each.name, counted(each.rows), rated(each.growth), sized(each.nbytes),
            *(counted(each.panes.get(timing, 0)) for timing in ("early", "on_time", "late")), counted(each.late),
            ", ".join(f"{key} {share:.0%}" for key, share in each.hottest),
        ]
        for each in found.stages
    ]  # fmt: skip


def _sinks(found: Overview) -> list[list[str]]:
    return [[each.name, counted(each.rows), rated(each.rate), f"{each.pending}"] for each in found.sinks]


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [_row("th", titles), *(_row("td", row) for row in rows[:MOST])]
    if len(rows) > MOST:
        lines.append(f'<tr><td style="{_DIM}" colspan="{len(titles)}">and {len(rows) - MOST:,} more</td></tr>')
    return f'<table style="{_TABLE}">{"".join(lines)}</table>'


def _row(kind: str, cells: Sequence[str]) -> str:
    weight = ";font-weight:normal;opacity:.6" if kind == "th" else ""
    sides = ["left", *["right"] * (len(cells) - 2), "left"]
    inside = (
        f'<{kind} style="{_CELL}{side}{weight}">{escape(cell)}</{kind}>'
        for side, cell in zip(sides, cells, strict=True)
    )
    return f"<tr>{''.join(inside)}</tr>"
