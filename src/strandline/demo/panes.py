"""A stream in the terminal, without Spark: `python -m strandline.demo --panes`.

Scores of a game arrive out of order. Everything that is printed was said by the engine: the steps below are given to
`play`, and what it returns is drawn. Only the heading of each step is written here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

import strandline as sl
from strandline.model.nodes import StageNode
from strandline.model.time import Instant
from strandline.testing import Books, Crash, Events, Played, PlayedTick, Tick, Watermark, play
from strandline.testing.steps import Step

PAUSE: Final = 0.4  # seconds between two lines, when somebody watches
WIDEST: Final = 120
FIRST, LAST = Instant.of("2026-01-01T12:00:00Z"), Instant.of("2026-01-01T12:04:00Z")
MINUTE: Final = sl.Span.of("1m")
COLOURS: Final = {"early": "yellow", "on_time": "green", "late": "magenta", "red": "red", "blue": "bright_blue"}


@dataclass(frozen=True, slots=True)
class Scene:
    """A step of the demo, and the heading under which it is shown."""

    heading: str
    step: Step


def _event(team: str, score: int, at: str | None) -> dict[str, Any]:
    return {"team": team, "score": score, "at": None if at is None else f"2026-01-01T{at}Z"}


def _arrive(*events: dict[str, Any]) -> Events:
    return Events(events, policy=True)  # the source's own policy moves the watermark


SCENES: Final = (
    Scene("Two scores arrive", _arrive(_event("red", 5, "12:00:05"), _event("blue", 3, "12:00:12"))),
    Scene("A second one for red: an early pane need not wait", _arrive(_event("red", 2, "12:00:40"))),
    Scene("Out of order, and on time all the same", _arrive(_event("blue", 4, "12:00:31"))),
    Scene("Time goes on: the minute is complete", _arrive(_event("red", 9, "12:01:25"))),
    Scene("Late, but allowed: what was shown is taken back", _arrive(_event("blue", 6, "12:00:55"))),
    Scene("A crash: the tick is made again, from state as bytes", Crash()),
    Scene("Two minutes on: the first minute is forgotten", _arrive(_event("red", 1, "12:03:30"))),
    Scene("Too late for any window; and one without a time", _arrive(_event("red", 8, "12:00:10"), _event("blue", 7, None))),
    Scene("The stream ends", Watermark(Instant.END_OF_TIME)),
)  # fmt: skip


def make_flow() -> sl.Stage:
    """What is played: the score of each team in each minute."""
    source = sl.Rows(schema="team string, score long, at timestamp")
    scores = sl.Flow("demo").source("scores", source, time="at", watermark=sl.Bounded("20s"))
    windowed = scores.key_by("team").window(
        sl.Tumbling("1m"),
        trigger=sl.AfterWatermark(early=sl.AfterCount(2), late=sl.AfterCount(1)),
        lateness="2m",
        mode="retracting",
    )
    return windowed.aggregate("per_minute", games=sl.Count(), total=sl.Sum("score"))


def described(stage: sl.Stage) -> Table:
    """What, where, when and how, read from the description of a stage."""
    node = stage.node
    assert isinstance(node, StageNode)
    lines = {
        "what": ", ".join(f"{name}={written(aggregate)}" for name, aggregate in node.aggregates),
        "where": f"{written(node.window)}, by {', '.join(node.keys)}",
        "when": written(node.trigger),
        "how": f"{node.mode}, with a lateness of {node.lateness.text}",
    }
    grid = Table.grid(padding=(0, 2))
    for question, answer in lines.items():
        grid.add_row(Text(question, "bold cyan"), Text(answer))
    return grid


def opening() -> Group:
    """The flow in words."""
    return Group(Rule("[bold]Strandline[/bold]"), Text(), Padding(described(make_flow()), (0, 0, 0, 2)))


def written(description: Any) -> str:
    """A description as one would write it: without what was left to its default.

    >>> written(sl.AfterWatermark(early=sl.AfterCount(2))), written(sl.Tumbling("1m"))
    ('AfterWatermark(early=AfterCount(2))', "Tumbling('1m')")
    """
    if isinstance(description, sl.Span):
        return repr(description.text)
    if not hasattr(description, "__dataclass_fields__"):
        return repr(description)
    given = [(each, getattr(description, each.name)) for each in fields(description)]
    said = [
        written(value) if not each.kw_only else f"{each.name}={written(value)}"
        for each, value in given
        if value != each.default
    ]
    return f"{type(description).__name__}({', '.join(said)})"


def events_of(step: Step) -> list[Mapping[str, Any]]:
    """The events that a step brings."""
    if isinstance(step, Events):
        return list(step.rows)
    return [row for part in step.events for row in part.rows] if isinstance(step, Tick) else []


def event_line(row: Mapping[str, Any]) -> Text:
    """An event as it arrives."""
    at = "without a time" if row["at"] is None else "at " + clock(Instant.of(row["at"]))
    return Text.assemble(("● ", COLOURS[row["team"]]), f"{row['team']} scores {row['score']} {at}")


def clock(instant: Instant) -> str:
    """The time of day, or the words for an instant that no clock shows.

    >>> clock(FIRST), clock(Instant.END_OF_TIME)
    ('12:00:00', 'end of time')
    """
    ends = (Instant.BEFORE_ALL_TIME, Instant.END_OF_TIME)
    return instant.text if instant in ends else instant.moment.strftime("%H:%M:%S")


def timeline(earlier: Sequence[Instant], arrived: Sequence[Instant], watermark: Instant, width: int) -> Group:
    """Event time from left to right: events as dots, and how far the watermark has come."""

    def place(instant: Instant) -> int:
        return max(0, min(width - 1, (instant - FIRST) * (width - 1) // (LAST - FIRST)))

    cells = [("━", "green") if at < place(watermark) else ("─", "bright_black") for at in range(width)]
    labels = Text(" " * width)
    for minute in range(FIRST, LAST, MINUTE):
        cells[place(Instant(minute))] = ("┃" if minute <= watermark else "│", "bright_black")
        at, label = place(Instant(minute)), clock(Instant(minute))[:5]
        labels = Text(labels.plain[:at] + label + labels.plain[at + len(label) :], "bright_black")
    if watermark > FIRST:
        cells[place(watermark)] = ("▶", "bold green")
    for instants, dot in ((earlier, ("•", "white")), (arrived, ("●", "bold white"))):
        for instant in instants:
            cells[place(instant)] = dot
    return Group(labels, Text.assemble(*cells))


def pane_table(panes: Sequence[Mapping[str, Any]]) -> Table:
    """Panes, what is withdrawn first."""
    table = Table.grid(padding=(0, 2))
    for pane in panes:
        taken_back = pane["op"] == "retract"
        style = "strike bright_black" if taken_back else COLOURS[pane["pane_timing"]]
        window = f"{pane['window_start']:%H:%M}–{pane['window_end']:%H:%M}"
        games = f"{pane['games']} game{'s' if pane['games'] != 1 else ' '}"
        note = f"{pane['pane_timing'].replace('_', ' ')}{', the last' if pane['pane_is_last'] else ''}"
        sign = Text("− taken back" if taken_back else "+ shown", "bright_black" if taken_back else f"bold {style}")
        words = (f"{pane['team']:<4}", window, games, f"total {pane['total']}", note)
        table.add_row(sign, *(Text(word, style) for word in words))
    return table


def aside(tick: PlayedTick) -> Iterator[Text]:
    """What the stage could not use: late and rejected rows, with how late and why."""
    for row in tick.late:
        missed = ", ".join(f"{w['window_start']:%H:%M}–{w['window_end']:%H:%M}" for w in row["missed"])
        by = sl.Span.of(row["late_by"]).text
        yield Text(f"→ late: {row['team']} {row['score']} missed {missed}: {by} behind the watermark", "bold red")
    for row in tick.rejected:
        yield Text(f"→ rejected: {row['team']} {row['score']}: {row['reason']}", "bold red")


def scene_lines(number: int, played: Played, width: int) -> Iterator[RenderableType]:
    """One step, from heading to panes; a pause may follow each line."""
    scene, tick = SCENES[number], played.ticks[number]
    yield Group(Text(), Rule(Text(f"{number + 1}. {scene.heading}", "bold"), align="left", style="bright_black"))
    if isinstance(scene.step, Crash):
        yield Text("  ✓ same panes, same bytes: play raises an error otherwise", "green")
        return
    for row in events_of(scene.step):
        yield Padding(event_line(row), (0, 0, 0, 2))
    before = [moment for earlier in SCENES[:number] for moment in times(earlier.step)]
    watermark = tick.watermarks["scores"]
    yield Padding(timeline(before, times(scene.step), watermark, width - 4), (0, 2))
    yield Text.assemble("  watermark ", (clock(watermark), "bold green"))
    if tick.panes:
        yield Padding(pane_table(tick.panes), (0, 0, 0, 2))
    for line in aside(tick):
        yield Padding(line, (0, 0, 0, 2))


def times(step: Step) -> list[Instant]:
    """The event times that a step brings."""
    return [Instant.of(row["at"]) for row in events_of(step) if row["at"] is not None]


def closing_lines(played: Played, again: Played) -> Iterator[RenderableType]:
    """Where every row went; and what the panes that stand add up to."""
    yield Group(Text(), Rule("[bold]The books[/bold]"), Text())
    for name, books in played.books.items():
        yield _balance(name, books)
    standing = sum(pane["total"] * (1 if pane["op"] == "insert" else -1) for panes in played for pane in panes)
    sent = sum(row["score"] for scene in SCENES for row in events_of(scene.step))
    late = sum(row["score"] for rows in played.late for row in rows if not row["kept"])
    rejected = sum(row["score"] for rows in played.rejected for row in rows)
    yield _claim(
        sent == standing + late + rejected,
        f"scores: {sent} arrived = {standing} in the panes that stand + {late} late + {rejected} rejected",
    )
    yield _claim(again == played, "the oracle, one event at a time in plain Python, shows the same panes")
    yield Text()


def _balance(name: str, books: Books) -> Text:
    balanced = books.rows == books.kept + books.late + books.rejected
    said = f"{books.rows} rows = {books.kept} kept + {books.late} late + {books.rejected} rejected"
    return _claim(balanced, f"{name}: {said}")


def _claim(holds: bool, said: str) -> Text:
    return Text.assemble(("  ✓ ", "bold green") if holds else ("  ✗ ", "bold red"), said)


def show(console: Console, *, pause: float) -> None:
    """Play the flow, then draw what it showed, with a pause after each line."""
    steps = [scene.step for scene in SCENES]
    played = play(make_flow(), steps, runner="kernel")
    again = play(make_flow(), steps, runner="oracle")
    width = min(console.width, WIDEST)
    lines = [opening(), *(line for number in range(len(SCENES)) for line in scene_lines(number, played, width))]
    for line in (*lines, *closing_lines(played, again)):
        console.print(line, width=width)
        if pause:
            time.sleep(pause)
