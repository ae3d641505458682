"""Rows on the terminal."""

from __future__ import annotations

import io
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from strandline.errors import DescriptionError
from strandline.model.types import Schema
from strandline.sinks.console import ConsolePublisher, ConsoleSink
from tests.sinks.delivering import LOG, TARGET, delivery


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_rows_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    ConsoleSink().prepare(TARGET).publish(delivery(TARGET, 7, ("a\tb", 1), (None, 2)))
    assert capsys.readouterr().out == "# s, tick 7, 2026-01-01T12:00:00Z\nk\tn\na\\tb\t1\nnull\t2\n"


def test_on_a_terminal_rows_are_a_table() -> None:
    out = Terminal()
    ConsolePublisher(LOG, None, lambda: out).publish(delivery(LOG, 7, ("[red]a", 1, "retract")))
    assert "tick 7" in out.getvalue()
    assert "[red]a" in out.getvalue()
    assert "┃" in out.getvalue()


@pytest.mark.parametrize("out", [io.StringIO, Terminal])
def test_more_rows_than_the_limit_are_counted(out: type[io.StringIO]) -> None:
    stream = out()
    receipt = ConsolePublisher(TARGET, 2, lambda: stream).publish(delivery(TARGET, 1, *[("a", n) for n in range(5)]))
    assert receipt.rows == 5
    assert "... and 3 more rows" in stream.getvalue()


def test_nested_values_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    target = replace(TARGET, schema=Schema.of("l array<timestamp>, x decimal(5,2)"))
    ConsoleSink(limit=None).prepare(target).publish(delivery(target, 1, ([None], Decimal("1.5"))))
    assert capsys.readouterr().out.endswith("[null]\t1.50\n")


@pytest.mark.parametrize("limit", [0, -1, "20", True, 1.5])
def test_a_limit_that_is_none_is_refused(limit: Any) -> None:
    with pytest.raises(DescriptionError, match="limit"):
        ConsoleSink(limit=limit)
