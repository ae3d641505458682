"""Rows on the terminal, for people."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TextIO

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from strandline.errors import DescriptionError
from strandline.model.types import Type
from strandline.sinks.contract import (
    ALL_ROWS,
    OP,
    SKIPPED,
    Delivery,
    Marker,
    Receipt,
    Target,
    delivered_tables,
    judge_marker,
    require_rows,
)  # fmt: skip
from strandline.sinks.plain import json_text, plain_value

_STYLES: Final = {"retract": "red", "delete": "red"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSink:
    """Print rows: a table on a terminal, else a line of tab-separated text for each row.

    `limit` is how many rows of a tick are printed at most; how many more there are is said. None prints all.

    >>> ConsoleSink().guarantee
    'at least once: after a crash the last tick is printed again'
    """

    limit: int | None = 20

    def __post_init__(self) -> None:
        if self.limit is not None and (
            not isinstance(self.limit, int) or isinstance(self.limit, bool) or self.limit < 1
        ):
            raise DescriptionError(
                f"limit={self.limit!r} is no number of rows.", fix="Give such as limit=20, or None for all."
            )

    @property
    def guarantee(self) -> str:
        """What is promised, and on which conditions."""
        return "at least once: after a crash the last tick is printed again"

    @property
    def takes(self) -> frozenset[str]:
        """Every kind of rows."""
        return ALL_ROWS

    def prepare(self, target: Target) -> ConsolePublisher:
        """Nothing can be wrong with a terminal."""
        require_rows(target, self.takes)
        return ConsolePublisher(target, self.limit)


class ConsolePublisher:
    """A terminal, open for deliveries. `out` is asked at each tick, so that whoever redirects the output is heard."""

    def __init__(self, target: Target, limit: int | None, out: Callable[[], TextIO] = lambda: sys.stdout) -> None:
        self.target, self.limit, self.out = target, limit, out
        self.marker = target.last

    def publish(self, delivery: Delivery) -> Receipt:
        """Print the rows of a tick."""
        if judge_marker(self.marker, delivery, self.target, kept=False) == "skip":
            return SKIPPED
        shown, total = _first(delivered_tables(self.target, delivery), self.limit)
        title = f"{self.target.sink}, tick {delivery.tick}, {delivery.now.text}"
        rest = f"... and {total - len(shown)} more rows" if total > len(shown) else ""
        stream = self.out()
        (self._print_table if stream.isatty() else self._print_lines)(stream, title, shown, rest)
        stream.flush()
        self.marker = Marker.of(delivery)
        return Receipt(rows=total)

    def close(self) -> None:
        """Nothing is open."""

    def _print_table(self, stream: TextIO, title: str, rows: list[dict[str, Any]], rest: str) -> None:
        table = Table()
        for name, kind in self.target.delivered.columns:
            table.add_column(Text(name), justify="right" if kind.is_number else "left")
        for row in rows:
            # Text, and not a string: what stands in square brackets is the row's own, no style.
            cells = [Text(_cell(row[name], kind)) for name, kind in self.target.delivered.columns]
            table.add_row(*cells, style=_STYLES.get(str(row.get(OP)), ""))
        # Not as the table's own title and caption: those are no wider than the table.
        Console(file=stream).print(Text(title, style="bold"), table, *([Text(rest)] if rest else []), sep="\n")

    def _print_lines(self, stream: TextIO, title: str, rows: list[dict[str, Any]], rest: str) -> None:
        columns = self.target.delivered.columns
        lines = [f"# {title}", "\t".join(name for name, _ in columns)]
        lines += ["\t".join(_escaped(_cell(row[name], kind)) for name, kind in columns) for row in rows]
        stream.write("".join(f"{line}\n" for line in [*lines, *([f"# {rest}"] if rest else [])]))


def _first(tables: Iterable[pl.DataFrame], limit: int | None) -> tuple[list[dict[str, Any]], int]:
    rows: list[dict[str, Any]] = []
    total = 0
    for table in tables:
        total += table.height
        rows += (table if limit is None else table.head(limit - len(rows))).to_dicts()
    return rows, total


def _cell(value: Any, type: Type) -> str:
    """A value as people read it: null is said, and arrays and structs are JSON."""
    if value is None:
        return "null"
    if not type.is_scalar:
        return json_text(value, type)
    return str(plain_value(value, type))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
