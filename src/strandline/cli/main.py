"""The door: what `strandline` can do, and how it fails."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib import metadata
from typing import Annotated

from rich.console import Console
from rich.text import Text
from typer import Option, Typer

from strandline.cli import kafka, savepoints
from strandline.cli.failing import exit_code, tell
from strandline.cli.finding import find_flow
from strandline.cli.running import Place, run
from strandline.cli.starting import init

app = Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown",
    epilog="Exit codes: 0 done, 1 a run that failed, 2 wrong use, 3 a flow that check refuses.",
)  # fmt: skip
out = Console(highlight=False)


@app.callback()
def strandline(
    debug: Annotated[bool, Option("--debug", help="Show where an error came from. It may stand anywhere.")] = False,
) -> None:
    """Strandline: a stream processor in Python on Spark."""


app.command()(init)
app.command()(run)


@app.command()
def check(place: Place) -> None:
    """Say everything that is wrong with a flow, without Spark. Exit code 3 if anything is."""
    flow = find_flow(place)
    for risk in flow.check():
        out.print(Text.assemble(("risk: ", "bold yellow"), risk), soft_wrap=True)
    out.print(Text.assemble(("✓ ", "bold green"), f"The flow {flow.name!r} can be run."))


@app.command()
def explain(place: Place) -> None:
    """Draw a flow, and say what it means, what it can lose, and what it promises."""
    flow = find_flow(place)
    for text in (flow.graph(), "", flow.explain()):
        out.print(Text(text), soft_wrap=True)


app.add_typer(savepoints.app, name="savepoint")
app.add_typer(kafka.app, name="kafka")


@app.command()
def demo(
    panes: Annotated[bool, Option("--panes", help="Without Spark: how panes come about, step by step.")] = False,
) -> None:
    """Run a flow on Spark, kill it in the middle, and see that nothing is lost."""
    arguments = ["--panes"] if panes else []
    sys.exit(subprocess.run([sys.executable, "-m", "strandline.demo", *arguments], check=False).returncode)


@app.command()
def version() -> None:
    """Say which versions there are."""
    out.print(f"strandline {_version('strandline')}")
    out.print(f"Python {platform.python_version()}, pyspark {_version('pyspark')}, polars {_version('polars')}")


def main() -> None:
    """Carry out a command; an error is told without a stack trace, unless --debug is said."""
    debug = "--debug" in sys.argv[1:]
    try:
        app(args=[argument for argument in sys.argv[1:] if argument != "--debug"], prog_name="strandline")
    except Exception as error:
        if debug:
            raise
        tell(error, Console(stderr=True, highlight=False))
        sys.exit(exit_code(error))


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "(not installed)"
