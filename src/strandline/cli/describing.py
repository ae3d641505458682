"""`strandline graph` and `strandline explain`: a flow drawn, and said in words. Neither needs Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text
from typer import Option

from strandline.cli.answers import AsJson, show_json
from strandline.cli.failing import WrongUse
from strandline.cli.finding import find_flow
from strandline.cli.running import Place
from strandline.model.drawing.diagram import Diagram
from strandline.model.flow import Flow
from strandline.model.graph import graph as tree
from strandline.model.sizes import KEYS, RATE

_out = Console(highlight=False)
# What is coloured in an explanation; lines that begin with many blanks say what came of a step of an example.
_STYLES: Final = {
    r"^\S.*$|^  An example, .*$": "bold",
    r"^Problems$": "red",
    r"^  [A-Z]\w*:(?= )": "bold cyan",
    r"━+▶?|▶": "green",
    r"●": "bold yellow",
    r"^ {30,}\+ .*$": "green",
    r"^ {30,}- .*$": "red",
    r"^ {30,}→ .*$": "magenta",
}


def graph(
    place: Place = None,
    svg: Annotated[Path | None, Option(help="Write a picture into this file instead.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Draw a flow: its sources, stages with their four questions, and sinks."""
    flow = find_flow(place)
    if as_json:
        show_json(Diagram.of(flow).to_json())
    if svg is not None:
        _write(svg, flow.svg())
        if not as_json:
            typer.echo(f"wrote {svg}")
    if svg is None and not as_json:
        _out.print(Text(tree(flow, width=_out.width)), soft_wrap=True)


def explain(
    place: Place = None,
    rate: Annotated[int, Option(help="Events a second from each source, for the size of the state.")] = RATE,
    keys: Annotated[int, Option(help="Keys that are active, for the size of the state.")] = KEYS,
    as_json: AsJson = False,
) -> None:
    """Say what a flow means: what comes when, in an example too, what can be lost, what is kept, and what is promised."""
    flow = find_flow(place)
    if as_json:
        from strandline.operations.explaining import explained  # it brings the kernel, which others do not need

        show_json(explained(flow, rate=rate, keys=keys))
        return
    _out.print(Text(f"{tree(flow, answers=False, width=_out.width)}\n"), soft_wrap=True)
    width = _out.width if _out.is_terminal else None
    _out.print(explanation(flow, rate=rate, keys=keys, width=width), soft_wrap=True)


def explanation(flow: Flow, *, rate: int = RATE, keys: int = KEYS, width: int | None = None) -> Text:
    """A flow in words as a terminal shows it; where there are no colours they are left out."""
    from strandline.operations.explaining import explain as in_words

    text = Text(in_words(flow, rate=rate, keys=keys, width=width))
    for pattern, style in _STYLES.items():
        text.highlight_regex(f"(?m){pattern}", style)
    return text


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise WrongUse(f"{path} cannot be written: {error.strerror}.", fix="Name another file.") from error
