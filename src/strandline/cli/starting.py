"""`strandline init`: a small project that runs: a flow, data for it, its test, and a README."""

from __future__ import annotations

import runpy
import shlex
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final

from rich.console import Console
from rich.text import Text
from typer import Argument

from strandline.cli.failing import WrongUse

ENDING: Final = ".template"


def init(name: Annotated[str, Argument(help="The folder to make; also the flow's name.", show_default=False)]) -> None:
    """Make a small project that runs: a flow, data for it, a test, a README."""
    folder = Path(name)
    flow = folder.resolve().name
    if not flow.replace("_", "").replace("-", "").isalnum():
        raise WrongUse(f"{flow!r} cannot be the name of a flow.", fix="Use letters, digits, '_' and '-'.")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WrongUse(f"{folder} exists, and is not an empty folder.", fix="Give another name, or empty it.")
    folder.mkdir(parents=True, exist_ok=True)
    for template in sorted(files("strandline.cli").joinpath("project").iterdir(), key=lambda each: each.name):
        if template.name.endswith(ENDING):
            text = template.read_text(encoding="utf-8").replace("{{flow}}", flow)
            (folder / template.name.removesuffix(ENDING)).write_text(text, encoding="utf-8")
    runpy.run_path(str(folder / "make_orders.py"), run_name="__main__")
    out = Console(highlight=False)
    out.print(Text(f"Made {folder}: a flow, orders for it, its test, and a README. Next:"))
    for command in (
        f"cd {shlex.quote(str(folder))}",
        "strandline explain",
        "strandline run --until end",
        "python show_revenue.py",
    ):
        out.print(Text(f"  {command}"), soft_wrap=True)
