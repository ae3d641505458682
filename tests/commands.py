"""The commands that documents show, as a reader would type them: each in order, in one folder, which `cd` may leave.

A console block is passed over only if `<!-- not run: reason -->` stands on the line before it. What stands below a
command must be what it prints.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: \S.*-->\s*\Z")
_SPARK = re.compile(r"\bstrandline (run|demo)\b|\bpython examples/|\bmake (demo|test)\b")


@dataclass(frozen=True)
class Block:
    """A fenced block of a document, and the line its body starts on."""

    language: str
    body: str
    line: int
    skipped: bool


@dataclass(frozen=True)
class Command:
    """A command of a console block, what is shown below it, and its line in the document."""

    text: str
    shown: str
    line: int
    skipped: bool

    @property
    def needs_spark(self) -> bool:
        """Whether Spark is started for it."""
        return _SPARK.search(self.text) is not None


def blocks(text: str) -> Iterator[Block]:
    for match in FENCE.finditer(text):
        before = text[: match.start()]
        line = before.count("\n") + 2
        yield Block(match["language"], match["body"], line, skipped=bool(_NOT_RUN.search(before)))


def commands(text: str) -> Iterator[Command]:
    """The commands typed in console blocks: the lines that start with `$ `."""
    for block in blocks(text):
        if block.language == "console":
            line = block.line
            for part in re.split(r"^(?=\$ )", block.body, flags=re.MULTILINE):
                if part.startswith("$ "):
                    command, _, shown = part[2:].partition("\n")
                    yield Command(command.strip(), shown, line, block.skipped)
                line += part.count("\n")


def typed(text: str, folder: Path) -> list[str]:
    """Type the commands of a document in a folder; a sentence for each that fails, or says something else."""
    programs = folder / ".programs"
    programs.mkdir()
    for name, started in (("strandline", f'"{sys.executable}" -m strandline'), ("python", f'"{sys.executable}"')):
        (programs / name).write_text(f'#!/bin/sh\nexec {started} "$@"\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "100"}
    wrong, here = [], folder
    for command in commands(text):
        if command.skipped:
            continue
        said = subprocess.run(
            ["bash", "-c", f'{command.text}\ncode=$?\npwd > "{programs}/here"\nexit $code'],
            cwd=here, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        here = Path((programs / "here").read_text(encoding="utf-8").strip())
        if said.returncode != 0:
            wrong.append(f"line {command.line}: {command.text} ended with {said.returncode}: {said.stderr[-2000:]}")
        elif command.shown.strip() and _lines(command.shown) != _lines(said.stdout):
            wrong.append(f"line {command.line}: {command.text} says {said.stdout}")
    return wrong


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]
