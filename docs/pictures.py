"""The pictures of the documents, each made by what it shows: `make docs`.

A picture is a file of `docs/pictures/` and a function that gives its text; the same flow gives the same bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from rich.console import Console, RenderableType
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from docs.panel import panel_of_the_documents
from strandline.cli.describing import explanation
from strandline.model.flow import Flow

ROOT: Final = Path(__file__).parents[1]
HERE: Final = Path(__file__).parent / "pictures"
WIDTH: Final = 118

# A terminal as one SVG; rich's own format asks a server for a font.
TERMINAL: Final = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font: bold 16px system-ui, sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def terminal(shown: RenderableType, title: str, width: int = WIDTH) -> str:
    """What a terminal shows, as an SVG."""
    console = Console(record=True, width=width, file=io.StringIO(), color_system="truecolor", force_terminal=True)
    console.print(shown)
    return console.export_svg(title=title, theme=SVG_EXPORT_THEME, code_format=TERMINAL, unique_id="terminal")


def flow_of_the_readme() -> Flow:
    """The flow that the README begins with, by its own code."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__document__"}
    block = re.search(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert block is not None, "the README shows a flow"
    exec(block[1], names)
    flow = names["flow"]
    assert isinstance(flow, Flow), "the README's flow is called flow"
    return flow


def graph() -> str:
    """`flow.svg()`."""
    return flow_of_the_readme().svg()


def explained() -> str:
    """What `strandline explain` prints of a stage."""
    printed = explanation(flow_of_the_readme(), width=WIDTH).split()
    first = next(at for at, line in enumerate(printed) if line.plain.startswith("Stage "))
    end = next(at for at, line in enumerate(printed) if at > first and line.plain.startswith("Sink "))
    left_out = Text("⋮")
    return terminal(Text("\n").join([left_out, *printed[first - 1 : end], left_out]), "strandline explain flow.py")


def panel() -> str:
    """What `strandline run` shows in a terminal."""
    return terminal(panel_of_the_documents(), "strandline run", width=80)


# What else is drawn stands here with what draws it.
PICTURES: Final[dict[str, Callable[[], str]]] = {"graph.svg": graph, "explain.svg": explained, "panel.svg": panel}


def write() -> list[str]:
    """Make all pictures; their names."""
    HERE.mkdir(exist_ok=True)
    for name, make in PICTURES.items():
        (HERE / name).write_text(make(), encoding="utf-8")
    return [*PICTURES]
