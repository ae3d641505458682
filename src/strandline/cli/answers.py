"""How commands answer: a table for people, JSON for scripts."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer import Option

from strandline.model.time import Instant, Span
from strandline.operations.said import visible

WIDE: Final = 10_000
AsJson = Annotated[bool, Option("--json", help="For scripts: JSON on stdout.")]


def show_json(value: object, *, as_line: bool = False) -> None:
    """Print a value as JSON, and nothing else; as one line where more values follow, and at once: somebody may wait for it.

    >>> show_json({"town": "Zürich", "open": Span.of("90s")}, as_line=True)
    {"town": "Zürich", "open": 90000000}
    >>> show_json([1.5, float("nan")], as_line=True)
    [1.5, "NaN"]
    """
    sys.stdout.write(f"{json.dumps(_sound(value), indent=None if as_line else 2, ensure_ascii=False, default=plain)}\n")
    sys.stdout.flush()


def _sound(value: Any) -> Any:
    """The value without numbers that JSON does not have: they are told as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if isinstance(value, Mapping):
        return {name: _sound(each) for name, each in value.items()}
    return [_sound(each) for each in value] if isinstance(value, list | tuple) else value


def plain(value: object) -> Any:
    """A value that JSON has no word for, as one that it has.

    >>> plain(Instant.of("2026-01-01T12:00:00Z").moment), plain(b"ab"), plain(timedelta(seconds=90))
    ('2026-01-01T12:00:00Z', '6162', '1m30s')
    """
    if isinstance(value, datetime) and value.tzinfo is not None:
        return Instant.of(value).text
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return Span.of(value).text
    return value.hex() if isinstance(value, bytes) else str(value)


def show_table(out: Console, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    r"""Print rows under their titles, numbers to the right; row by row where a terminal is too narrow for that.

    >>> show_table(Console(width=20), ["user", "n"], [("ann", 1_000), ("bob", 2)])
    user      n
    ann   1,000
    bob       2
    >>> show_table(Console(width=20), ["user"], [("a\nb",)])  # whatever is in a text, it stands on its line
    user
    a\nb
    >>> show_table(Console(width=8, force_terminal=True, color_system=None), ["user", "n"], [("ann", 1_000)])
    user  ann
    n     1,000
    """
    rows, columns = list(rows), [visible(title) for title in columns]
    cells = [[_said(value) for value in row] for row in rows]
    needed = [max(len(text) for text in each) for each in zip(columns, *cells, strict=True)]
    if not out.is_terminal:
        out = Console(file=out.file, width=WIDE, highlight=False)  # nobody's screen: nothing is cut off
    elif sum(needed) + 2 * len(needed) - 2 > out.width:
        _show_row_by_row(out, columns, cells)
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for at, title in enumerate(columns):
        numbers = any(isinstance(row[at], int | float) for row in rows)
        table.add_column(Text(title), justify="right" if numbers else "left", no_wrap=True)
    for row in cells:
        table.add_row(*map(Text, row))
    out.print(table)


def _show_row_by_row(out: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    width = max(map(len, columns))
    for at, row in enumerate(rows):
        if at:
            out.print()
        for title, text in zip(columns, row, strict=True):
            out.print(Text.assemble((f"{title:<{width}}", "bold"), f"  {text}"), soft_wrap=True)


def _said(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, Mapping | list):
        return json.dumps(value, ensure_ascii=False, default=plain)
    return visible(value if isinstance(value, str) else str(plain(value)))
