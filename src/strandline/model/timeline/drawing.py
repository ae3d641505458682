"""An example as text: for each step the events on a line of event time, how far the watermark is, and what is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from strandline.model.panes import HIDDEN, PANE_COLUMNS, RETRACT, TIME, WINDOW_COLUMNS
from strandline.model.time import Instant, Span
from strandline.model.timeline.playing import Example, Played

LINE: Final = 34  # letters of the line of event time
MOST_SHOWN: Final = 4  # rows of one step
MOST_COLUMNS: Final = 3
_DAY: Final = Span.of("20h")  # so much of a day needs its date
_OF_PANES: Final = frozenset(name for name, _ in (*WINDOW_COLUMNS, *PANE_COLUMNS))


def heading(example: Example) -> str:
    """What an example is of, as a sentence."""
    first = next((row for played in example.steps for _, row in played.step.rows), {})
    held = [f"{name} = {_value(first[name])}" for name in example.keys if name in first]
    of = f", here for {', '.join(held)}" if held else ""
    bound = f"{example.bound.text} behind the greatest time" if example.bound else "which is the greatest time"
    names = " and ".join(map(repr, example.through))
    through = f" Its input is what {names} shows of these events." if names else ""
    return f"An example, played just now{of}; ● an event, ━▶ the watermark, {bound}.{through}"


def drawn(example: Example) -> list[str]:
    """The lines of an example."""
    axis = _Axis.of(example)
    return [axis.labels(), *(line for played in example.steps for line in _step(example, axis, played))]


@dataclass(frozen=True, slots=True)
class _Axis:
    """Event time from left to right: its ends, the windows that are shown, and how its instants are written."""

    first: int
    last: int
    marks: tuple[int, ...]
    style: str

    @classmethod
    def of(cls, example: Example) -> _Axis:
        """From the first to the last event, with the bounds of the first window that is shown."""
        times = [row[TIME] for played in example.steps for _, row in played.step.rows]
        known = [played.step.watermark for played in example.steps]
        reached = [int(each) for each in known if Instant.BEFORE_ALL_TIME < each < Instant.END_OF_TIME]
        marks = _bounds(example)
        ends = [*times, *marks, *(each for each in reached if each >= min(times))]
        first, last = min(ends), max(ends)
        if marks:  # a long lateness would leave no room for the window itself: what is further away stands at the end
            last = min(last, marks[1] + 2 * (marks[1] - marks[0]))
        span = Span(max(ends) - first)
        style = "%m-%d %H:%M" if span > _DAY else "%H:%M:%S" if span >= 10_000_000 else "%S.%f"
        return cls(first, max(last, first + 1), tuple(marks), style)

    def place(self, time: int) -> int:
        """Where an instant stands on the line."""
        return max(0, min(LINE - 1, (time - self.first) * (LINE - 1) // (self.last - self.first)))

    def labels(self) -> str:
        """The times of the bounds, above the line."""
        line = " " * LINE
        for mark in self.marks or (self.first, self.last):
            label = self.told(mark)
            at = min(self.place(mark), LINE - len(label))
            if line[max(0, at - 1) : at + len(label) + 1].strip():
                continue
            line = line[:at] + label + line[at + len(label) :]
        return f"  {line}"

    def line(self, times: Sequence[int], watermark: int) -> str:
        """The events of a step, the watermark, and the bounds of a window."""
        cells = ["─"] * LINE
        for mark in self.marks:
            cells[self.place(mark)] = "┆"
        if watermark > self.first:
            for at in range(self.place(watermark)):
                cells[at] = "┿" if cells[at] == "┆" else "━"
            cells[self.place(watermark)] = "▶"
        for time in times:
            cells[self.place(time)] = "●"
        return "".join(cells)

    def told(self, time: int) -> str:
        """An instant as it is written here."""
        if time <= Instant.BEFORE_ALL_TIME or time >= Instant.END_OF_TIME:
            return "the end" if time > 0 else "-"
        text = Instant(time).moment.strftime(self.style)
        return text[:-3] if self.style.endswith("%f") else text


def _bounds(example: Example) -> list[int]:
    for played in example.steps:
        for row in played.shown:
            if isinstance(row.get("window_start"), datetime) and isinstance(row.get("window_end"), datetime):
                return [int(Instant.of(row["window_start"])), int(Instant.of(row["window_end"]))]
    return []


def _step(example: Example, axis: _Axis, played: Played) -> Iterator[str]:
    rows = played.step.rows
    line = axis.line([row[TIME] for _, row in rows], played.step.watermark)
    yield f"  {line}  {_comes(example, axis, played)}"
    for sign, words in _given(axis, example, played):
        yield f"  {'':{LINE}}  {sign} {words}"


def _comes(example: Example, axis: _Axis, played: Played) -> str:
    rows, note = played.step.rows, played.step.note
    if not rows:
        return f"{note}, to {axis.told(played.step.clock)}" if played.step.only_clock else note
    port, row = rows[0]
    many = f"{len(rows)} events from " if len(rows) > 1 else ""
    where = f"{example.ports[port]} " if len(example.ports) > 1 else ""
    used = {
        name: value
        for name, value in row.items()
        if name not in example.keys and (not example.used or name in example.used)
    }
    said = f"{where}{many}{axis.told(row[TIME])}{_columns(used | _of_another(example, row), [])}"
    return f"{said}  ({note})" if note else said


def _given(axis: _Axis, example: Example, played: Played) -> Iterator[tuple[str, str]]:
    for row in played.shown[:MOST_SHOWN]:
        yield ("-" if row.get("op") == RETRACT else "+"), _shown(example, axis, row)
    if len(played.shown) > MOST_SHOWN:
        yield "+", f"… and {len(played.shown) - MOST_SHOWN} more"
    for row in played.late:
        if row.get("kept", False):
            continue
        yield "→", f"late, by {Span.of(row['late_by']).text}: dropped, to .late"
    for row in played.rejected:
        yield "→", f"rejected: {row['reason']}"


def _shown(example: Example, axis: _Axis, row: Mapping[str, Any]) -> str:
    timing = f"{str(row['pane_timing']).replace('_', ' ')}: " if "pane_timing" in row else ""
    window = ""
    if isinstance(row.get("window_start"), datetime) and isinstance(row.get("window_end"), datetime):
        start, end = (axis.told(int(Instant.of(row[name]))) for name in ("window_start", "window_end"))
        window = f"{start}–{end} "
    taken = "taken back: " if row.get("op") == RETRACT else ""
    last = ", the last" if row.get("pane_is_last") else ""
    told = {
        name: value
        for name, value in row.items()
        if name not in example.keys and (not example.new or name in example.new)
    }
    of = f"the row of {axis.told(row[TIME])}:" if "pane_timing" not in row and example.new and TIME in row else ""
    return " ".join(f"{timing}{taken}{window}{of}{_columns(_of_another(example, row) | told, [])}".split()) + last


def _of_another(example: Example, row: Mapping[str, Any]) -> dict[str, Any]:
    """The key of a row that is not that of the first."""
    first = next(row for played in example.steps for _, row in played.step.rows)
    return {name: row[name] for name in example.keys if name in row and row[name] != first.get(name)}


def _columns(row: Mapping[str, Any], left_out: Sequence[str]) -> str:
    """The columns that say something, with their values; those of panes and the times are said elsewhere."""
    told = [
        f"{name}={_value(value)}"
        for name, value in row.items()
        if not name.startswith(HIDDEN)
        and name not in left_out
        and name not in _OF_PANES
        and not isinstance(value, datetime)
    ]
    more = " …" if len(told) > MOST_COLUMNS else ""
    return f" {' '.join(told[:MOST_COLUMNS])}{more}" if told else ""


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Decimal | int) or value is None:
        return "null" if value is None else str(value)
    text = str(value)
    return text if len(text) <= 24 else f"{text[:23]}…"
