"""The door: what `strandline` can do, and how it fails."""

from __future__ import annotations

import platform
import subprocess
import sys
import traceback
from typing import Annotated

from rich.console import Console
from rich.text import Text
from typer import Exit, Option, Typer

from strandline.cli import kafka, savepoints
from strandline.cli.advising import advise_
from strandline.cli.answers import AsJson, show_json
from strandline.cli.describing import explain, graph
from strandline.cli.doctoring import doctor
from strandline.cli.failing import CHECK_FAILED, DONE, exit_code, not_understood, tell
from strandline.cli.finding import find_flow
from strandline.cli.inspecting import inspect
from strandline.cli.running import Place, run
from strandline.cli.starting import init
from strandline.cli.watching import monitoring, status, tail
from strandline.errors import CheckFailed
from strandline.kernel.codec import FORMAT_VERSION
from strandline.model.flow import Flow
from strandline.operations.packages import version_of
from strandline.spark.java import require_java, require_pyspark

app = Typer(
    no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="markdown",
    epilog="Exit codes: 0 done, 1 it failed, 2 wrong use, 3 a flow that check refuses, 4 an unhealthy flow (status --health), 130 interrupted.",
)  # fmt: skip
out = Console(highlight=False)


@app.callback()
def strandline(
    debug: Annotated[bool, Option("--debug", help="Show where an error came from. It may stand anywhere.")] = False,
) -> None:
    """Strandline: a stream processor in Python on Spark."""


app.command()(init)
app.command()(run)
app.command()(inspect)
app.command()(doctor)


@app.command()
def check(place: Place = None, as_json: AsJson = False) -> None:
    """Say everything that is wrong with a flow, without Spark. Exit code 3 if anything is."""
    flow = find_flow(place)
    if as_json:
        _check_for_scripts(flow)
        return
    for risk in flow.check():
        out.print(Text.assemble(("risk: ", "bold yellow"), risk), soft_wrap=True)
    out.print(Text.assemble(("✓ ", "bold green"), f"The flow {flow.name!r} can be run."))


def _check_for_scripts(flow: Flow) -> None:
    """All that is wrong, and all risks. Nothing is told but JSON; the exit code is the same."""
    problems: list[dict[str, str]] = []
    risks: list[str] = []
    try:
        risks = flow.check()
    except CheckFailed as failed:
        problems = [{"what": each.what, "fix": each.fix} for each in failed.problems]
    show_json({"flow": flow.name, "ok": not problems, "problems": problems, "risks": risks})
    if problems:
        raise Exit(CHECK_FAILED)


app.command()(graph)
app.command()(explain)
app.command(name="advise")(advise_)
app.command()(status)
app.command()(tail)
app.command()(monitoring)
app.add_typer(savepoints.app, name="savepoint")
app.add_typer(kafka.app, name="kafka")


@app.command()
def demo(
    panes: Annotated[bool, Option("--panes", help="Without Spark: how panes come about, step by step.")] = False,
) -> None:
    """Run a flow on Spark, kill it in the middle, and see that nothing is lost."""
    if not panes:
        require_pyspark()
        require_java()
    arguments = ["--panes"] if panes else []
    sys.exit(subprocess.run([sys.executable, "-m", "strandline.demo", *arguments], check=False).returncode)


@app.command()
def version(as_json: AsJson = False) -> None:
    """Say which versions there are."""
    packages = {name: version_of(name) for name in ("strandline", "pyspark", "polars", "pyarrow")}
    if as_json:
        show_json({**packages, "python": platform.python_version(), "state_format": FORMAT_VERSION})
        return
    told = {name: found or "(not installed)" for name, found in packages.items()}
    out.print(f"strandline {told['strandline']}")
    out.print(f"Python {platform.python_version()}, pyspark {told['pyspark']}, polars {told['polars']}")


def main() -> None:
    """Carry out a command; an error is told without a stack trace, unless --debug is said."""
    debug = "--debug" in sys.argv[1:]
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        left = app(args=arguments, prog_name="strandline", standalone_mode=False)
        sys.stdout.flush()  # what cannot be written is an error of this command
    except Exception as error:
        misunderstood = not_understood(error)
        if debug and misunderstood is None:
            traceback.print_exc()
        tell(misunderstood or error, Console(stderr=True, highlight=False))
        sys.exit(exit_code(misunderstood or error))
    sys.exit(left if isinstance(left, int) else DONE)
