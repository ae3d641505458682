"""The demo shows what it promises, and every claim it makes at the end holds."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from typer.main import get_command

from strandline.cli.main import app
from strandline.demo.crash import NEXT
from strandline.demo.panes import show


@pytest.mark.parametrize("width", [80, 120])
def test_the_demo_shows_every_kind_of_pane_and_its_books_balance(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    show(console, pause=0)
    assert isinstance(console.file, io.StringIO)
    said = console.file.getvalue()
    for words in ("early", "on time", "late", "taken back", "→ late", "→ rejected", "same panes, same bytes"):
        assert words in said
    assert said.count("✓") == 5
    assert "✗" not in said
    assert max(map(len, said.splitlines())) <= width


def test_the_commands_that_the_demo_names_in_the_end_are_there() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert {command.split()[0] for command, _ in NEXT} <= set(commands)
