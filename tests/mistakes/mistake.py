"""A mistake, made on the command line in a folder of its own."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO
from unittest import mock

from strandline.cli.main import main

HOME = "/home/ann/shop"
"""What the folder is called on the page."""

PORT = 28_417
"""A port that somebody listens on; 9092 on the page."""

BEGIN = """\
import strandline as sl

flow = sl.Flow("shop")
orders = flow.source(
    "orders", sl.Rows([], schema="user string, amount double, at timestamp"), time="at", watermark=sl.Bounded("10s")
)
"""
END = '\nif "totals" in globals():\n    totals.sink("table", sl.Memory(), rows="changelog")\n'


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """What is done wrong, how, and a part of what must be said.

    `lines` follow the source of a flow, `orders`, in flow.py; a stage `totals` gets a sink. `files` are written beside it,
    or in its place. `around` makes the circumstances; it gets the folder. One that shows only where no Spark has started
    yet is made in a `fresh` process.
    """

    title: str
    says: str
    lines: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    command: str = "check flow.py"
    code: int = 3
    fresh: bool = False
    around: Callable[[Path], AbstractContextManager[object]] = lambda _: nullcontext()

    def made_in(self, folder: Path) -> Told:
        """Make the mistake; what was said, with places and ports as the page has them."""
        for name, text in {"flow.py": f"{BEGIN}{self.lines}\n{END}", **self.files}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        with at_home_in(folder), self.around(folder):  # where one comes from may be closed to others
            code, _, said = typed_afresh(self.command) if self.fresh else typed(self.command)
        return Told(code, settled(said, folder))


@dataclass(frozen=True)
class Told:
    """The exit code, and what was printed of the error."""

    code: int
    said: str


@contextlib.contextmanager
def at_home_in(folder: Path) -> Iterator[None]:
    """Be there, with the environment and the path of modules as they are now when it is left."""
    before, path, modules = Path.cwd(), list(sys.path), set(sys.modules)
    os.chdir(folder)
    try:
        with mock.patch.dict(os.environ):
            yield
    finally:
        os.chdir(before)
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]


def typed(command: str) -> tuple[int, str, str]:
    """Type a command, here; its exit code, and what it said on stdout and on stderr."""
    out, err = io.StringIO(), io.StringIO()
    return typed_into(command, out, err), out.getvalue(), err.getvalue()


def typed_afresh(command: str) -> tuple[int, str, str]:
    """The same in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "strandline", *shlex.split(command)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def typed_into(command: str, out: TextIO, err: TextIO) -> int:
    """Type a command, here, with these as stdout and stderr; its exit code."""
    with (
        mock.patch.object(sys, "argv", ["strandline", *shlex.split(command)]),
        contextlib.redirect_stdout(out), contextlib.redirect_stderr(err),
    ):  # fmt: skip
        try:
            main()
        except SystemExit as left:
            return int(left.code or 0)
    raise AssertionError("main() always exits")


def as_shown(command: str) -> str:
    """A command as the page shows it."""
    return command.replace(str(PORT), "9092")


def settled(said: str, folder: Path) -> str:
    """What was said, without what is different each time."""
    said = said.replace(str(folder.resolve()), HOME).replace(str(folder), HOME)
    said = as_shown(said)
    said = re.sub(r"\b[0-9a-f]{16}\b", "5f3a9c0d2e71b846", said)
    said = re.sub(r"/[\w./-]*/site-packages/", ".../site-packages/", said)
    return "\n".join(line.rstrip() for line in said.strip().splitlines())
