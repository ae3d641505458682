"""The live panel, as a pure function of the journal's records and as it stands in a terminal."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from strandline.cli.live import LivePanel, can_be_drawn
from strandline.cli.panel import panel
from strandline.errors import RunError
from strandline.model.time import Instant
from strandline.store.journal import JOURNAL
from strandline.store.storage import storage_at

NOON = Instant.of("2026-01-01T12:00:00Z")
SECOND = 1_000_000


def partition(behind: int, *, left: int = 0, idle: bool = False) -> dict[str, Any]:
    """A partition whose watermark is so many seconds behind noon."""
    watermark = NOON - behind * SECOND
    told = {"watermark": watermark, "greatest": watermark + SECOND, "lag": (behind - 1) * SECOND}
    return {**told, "position": 10, "end": 10 + left, "idle": idle}


def record(tick: int = 0, **more: Any) -> dict[str, Any]:
    """What the journal tells of a tick at so many seconds after noon."""
    books = {"orders": {"rows": 100, "late": 0, "rejected": 1}, "totals": {"rows": 99, "late": 2, "rejected": 0}}
    return {
        "flow": "shop", "tick": tick, "now": NOON + tick * SECOND, "restarts": 0, "finished": False, "caught_up": True,
        "watermarks": {"orders": NOON - 9 * SECOND, "totals": NOON - 9 * SECOND}, "interval": SECOND, "bounds": {"orders": SECOND},
        "partitions": {"orders": {"0": partition(9), "1": partition(3)}}, "rows": {"orders": {"0": 60, "1": 39}},
        "behind": {"orders": {}}, "backlog": {"orders": {"0": 0, "1": 0}}, "books": books, "endless": [],
        "panes": {"totals": {"early": 4, "on_time": 3, "late": 1, "retract": 1}}, "state": {"totals": {"rows": 50 + tick, "at_least": 48, "bytes": 8_500}},
        "hottest": {"totals": [{"key": "ann", "rows": 9, "share": 0.25}]}, "sinks": {"table": {"rows": 8, "pending": 0}},
        "took": {"make": 400_000, "read": 300_000, "step": 90_000, "waited": 0, "commit": 4_000, "publish": 20_000}, **more,
    }  # fmt: skip


def drawn(*records: dict[str, Any], size: tuple[int, int] = (80, 24), now: Instant = NOON) -> list[str]:
    console = Console(file=io.StringIO(), width=size[0], height=size[1])
    console.print(panel(records, now, size))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_the_panel_tells_of_rates_steps_partitions_windows_and_sinks() -> None:
    lines = drawn(record(0), record(1), now=Instant(NOON + 2 * SECOND))
    said = "\n".join(" ".join(line.split()) for line in lines)
    for words in (
        "shop · tick 1 at 2026-01-01 12:00:01Z · 1.0s ago · caught up", "in 100/s, 200 rows so far, 2 rejected · out 8.0/s",
        "tick 400ms/1.0s ■read 300ms ■step 90ms ■waited 0 ■commit 4ms +publish 20ms",
        "0 11:59:51 11.0s 60 0 holds it: the furthest behind",
        "totals 8 kB 48–51 +1.0/s 8 6 2 4 ann 25%", "table 16 8.0/s",
    ):  # fmt: skip
        assert words in said, said


@pytest.mark.parametrize(
    ("it", "said"),
    [
        (partition(20), "caught up and silent"),
        (partition(20, left=7), "7 left to read"),
        (partition(20, idle=True), "idle, and not waited for"),
    ],
)
def test_a_partition_says_why_it_is_behind(it: dict[str, Any], said: str) -> None:
    rows = drawn(record(partitions={"orders": {"0": it, "1": partition(3)}}, rows={"orders": {"1": 9}}))
    (mine,) = (line for line in rows if line.startswith("0 "))
    assert mine.rstrip().endswith(said)


def test_of_many_partitions_the_worst_stand_first_and_the_rest_are_counted() -> None:
    many = {f"orders/{number}": partition(number) for number in range(40)}
    rows = drawn(record(partitions={"orders": many}))
    assert [line.split()[0] for line in rows if line.startswith("orders/")][:2] == ["orders/39", "orders/38"]
    assert any(line.startswith("orders, 12 of 40 ") for line in rows)


@pytest.mark.parametrize("size", [(80, 24), (80, 10), (80, 9), (200, 60), (40, 12), (80, 4), (80, 1)])
def test_the_panel_is_no_larger_than_the_terminal_and_uses_what_there_is(size: tuple[int, int]) -> None:
    many = {f"orders/{number}": partition(number) for number in range(100)}
    stages = {f"a_stage_with_a_long_name_{number}": {"rows": 10**9, "bytes": 10**12} for number in range(9)}
    rows = drawn(record(partitions={"orders": many}, state=stages), size=size)
    assert max(map(len, rows)) <= size[0]
    assert len(rows) <= size[1]
    assert len(rows) >= min(size[1] - 2, 40)


def test_in_little_room_the_partition_that_holds_the_stages_and_the_sinks_are_seen() -> None:
    partitions = {f"orders/{number}": partition(number) for number in range(6)}
    stages = {f"totals_{number}": {"rows": 10, "bytes": 10**number} for number in range(1, 5)}
    sinks = {"table": {"rows": 8, "pending": 0}, "late": {"rows": 1, "pending": 2}}
    rows = drawn(record(partitions={"orders": partitions}, state=stages, sinks=sinks), size=(80, 9))
    said = [" ".join(row.split()) for row in rows]
    assert "orders, 1 of 6: orders/5 behind 5.0s holds it: caught up and silent" in said
    assert [row.split()[0] for row in said if row.startswith("totals")] == ["totals_2", "totals_3", "totals_4"]
    assert [row for row in said if row.startswith("stage, 3 of 4 ")]
    assert "sink: late rows 1 rate - 2 ticks behind · table rows 8 rate -" in said


@pytest.mark.parametrize("size", [(80, 24), (80, 9), (40, 24), (40, 9)])
def test_no_number_is_cut(size: tuple[int, int]) -> None:
    stages = {"a_stage_with_a_long_name": {"rows": 10**9, "bytes": 10**12}}
    rows = drawn(record(state=stages), size=size)
    (mine,) = (row for row in rows if row.startswith("a_stage"))
    assert mine.split()[1:5] == ["1.0", "TB", "1.0G", "-" if size[0] == 80 else "0"]


@pytest.mark.parametrize("size", [(80, 24), (80, 9)])
def test_a_text_of_a_users_stays_on_its_line_and_a_terminal_obeys_none_of_it(size: tuple[int, int]) -> None:
    hot = [{"key": "a\nb\x1b[2J", "rows": 9, "share": 0.25}]
    wild = record(flow="sh\nop", hottest={"totals": hot}, sinks={"ta\rble": {"rows": 8, "pending": 0}})
    rows = drawn(wild, size=size)
    said = "\n".join(rows)
    assert "\x1b" not in said
    assert "\r" not in said
    assert "sh\\nop" in rows[0]
    assert len(rows) == len(drawn(record(), size=size))
    assert "a\\nb\\x1b[2J 25%" in said


def test_before_the_first_tick_and_after_going_back_there_is_something_to_see() -> None:
    assert drawn() == ["the first tick is being made; it takes longest"]
    restored = {name: record()[name] for name in ("flow", "tick", "now", "restarts", "finished", "watermarks", "partitions", "state", "sinks")}  # fmt: skip
    assert drawn(restored)[0].startswith("shop · tick 0")


class Still:
    """A run that makes no ticks."""

    head = None


def seen(terminal: int) -> str:
    """All that was written into a terminal, which nobody has open any more."""
    said = b""
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 65_536):
            said += part
    os.close(terminal)
    return said.decode()


def test_in_a_terminal_the_last_panel_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    storage, (ours, theirs) = storage_at(tmp_path), pty.openpty()
    with os.fdopen(theirs, "w") as err:
        assert can_be_drawn(err)
        with LivePanel(storage, err, lambda: NOON).following(Still()):
            storage.create(f"{JOURNAL}{0:012}.json", json.dumps(record()).encode())
    said = seen(ours)
    assert said.rstrip().rpartition("table")[2].strip().startswith("\x1b[0m")
    assert "tick 0 at 2026-01-01 12:00:00Z" in said


def test_a_panel_that_cannot_be_drawn_is_told_and_hides_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    storage, (ours, theirs) = storage_at(tmp_path), pty.openpty()
    storage.create(f"{JOURNAL}{0:012}.json", json.dumps({"tick": 0}).encode())
    with os.fdopen(theirs, "w") as err:
        shown = LivePanel(storage, err, lambda: NOON)
        with pytest.raises(RunError, match="it failed"), shown.following(Still()):
            raise RunError("it failed", fix="Mend it.")
    assert "the panel cannot be drawn (KeyError: " in seen(ours)


def test_where_there_is_no_terminal_nothing_is_drawn(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file:
        assert not can_be_drawn(file)
