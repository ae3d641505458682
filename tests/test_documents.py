"""The documents do not lie: their Python runs, and the make targets they name exist.

A Python block is skipped only if `<!-- not run: reason -->` stands on the line before it. The blocks of one file
share a namespace, in order, as a reader would type them. What a block prints must stand in the block after it.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL
)
_NOT_RUN = re.compile(r"<!-- not run: \S.*-->\s*\Z")


@dataclass(frozen=True)
class Block:
    """A fenced block of a document, and the line its body starts on."""

    language: str
    body: str
    line: int
    skipped: bool


def blocks(text: str) -> Iterator[Block]:
    for match in _FENCE.finditer(text):
        before = text[: match.start()]
        line = before.count("\n") + 2
        yield Block(match["language"], match["body"], line, skipped=bool(_NOT_RUN.search(before)))


def run(text: str, name: str) -> dict[str, Any]:
    """Run the Python blocks of a document; a traceback names the document and its line."""
    namespace: dict[str, Any] = {"__name__": "__document__"}
    found = [*blocks(text), Block("", "", 0, skipped=False)]
    for block, following in itertools.pairwise(found):
        if block.language == "python" and not block.skipped:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile("\n" * (block.line - 1) + block.body, name, "exec"), namespace)
            if printed.getvalue():
                assert (following.language, following.body) == ("", printed.getvalue()), f"{name}, line {block.line}"
    return namespace


def commands(text: str) -> list[str]:
    """The commands typed in console blocks: the lines that start with `$ `."""
    consoles = [block.body for block in blocks(text) if block.language == "console"]
    return [line[2:].strip() for body in consoles for line in body.splitlines() if line.startswith("$ ")]


def unknown_targets(text: str, targets: frozenset[str]) -> set[str]:
    words = [command.split("#")[0].split() for command in commands(text)]
    named = {word for first, *rest in words if first == "make" for word in rest if "=" not in word}
    return named - targets


def targets_of_the_makefile() -> frozenset[str]:
    return frozenset(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def in_root(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=in_root)
def test_the_python_of_the_document_runs(document: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    run(document.read_text(encoding="utf-8"), str(document))


@pytest.mark.parametrize("document", DOCUMENTS, ids=in_root)
def test_the_make_targets_that_the_document_names_exist(document: Path) -> None:
    assert unknown_targets(document.read_text(encoding="utf-8"), targets_of_the_makefile()) == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=in_root)
def test_the_files_that_the_document_links_to_exist(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_the_architecture_is_under_150_lines() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) < 150


def test_a_block_that_fails_is_found_with_its_line() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run("text\n\n```python\nx = 1\nx / 0\n```\n", "bad.md")
    assert caught.traceback[-1].lineno == 4  # counted from 0


def test_what_a_block_prints_must_be_shown() -> None:
    run("```python\nprint(1)\n```\n\n```\n1\n```\n", "good.md")
    with pytest.raises(AssertionError, match=r"bad\.md, line 2"):
        run("```python\nprint(1)\n```\n\n```\n2\n```\n", "bad.md")


def test_blocks_share_a_namespace_and_a_marked_block_is_skipped() -> None:
    text = "```python\nx = 1\n```\n\n<!-- not run: needs Spark -->\n```python\nx = 2\n```\n```python\ny = x\n```\n"
    assert run(text, "good.md")["y"] == 1


def test_a_target_that_does_not_exist_is_found() -> None:
    assert unknown_targets("```console\n$ make tset\n$ make test  # all\n```\n", frozenset({"test"})) == {"tset"}
