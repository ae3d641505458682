"""`strandline doctor`: what is wrong with this machine, and how to mend it."""

from __future__ import annotations

from typing import Annotated, Final

from rich.console import Console
from rich.text import Text
from typer import Exit, Option

from strandline.cli.answers import AsJson, show_json
from strandline.cli.completing import state_folders
from strandline.cli.failing import FAILED
from strandline.operations.doctor import Finding, examine

MARKS: Final = {"ok": ("✓", "bold green"), "warning": ("!", "bold yellow"), "wrong": ("✗", "bold red")}
out = Console(highlight=False)


def doctor(
    state: Annotated[
        str | None,
        Option(help="Look at the place of a flow's state too.", show_default=False, autocompletion=state_folders),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong with this machine, and how to mend it. Exit code 1 if anything is."""
    found: list[Finding] = []
    for finding in examine(state):
        found.append(finding)
        if not as_json:
            _tell(finding)
    if as_json:
        show_json([finding.to_json() for finding in found])
    wrong = sum(finding.verdict == "wrong" for finding in found)
    if wrong:
        raise Exit(FAILED)


def _tell(finding: Finding) -> None:
    mark, colour = MARKS[finding.verdict]
    out.print(Text.assemble((f"{mark} ", colour), (f"{finding.about}: ", "bold"), finding.said), soft_wrap=True)
    if finding.fix:
        out.print(Text.assemble(("    fix: ", "bold"), finding.fix), soft_wrap=True)
