"""The documents do not lie: their Python runs, their commands do, and the make targets they name exist.

A block is skipped only if `<!-- not run: reason -->` stands on the line before it. The Python blocks of one file share a
namespace, in order, as a reader would type them. What a block prints must stand in the block after it. Commands that
start Spark, or a server, are typed by the tests that `ELSEWHERE` names.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from tests.commands import ROOT, Block, blocks, commands, typed

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples" / "README.md"])
# Documents whose commands another test types, because of what they need.
ELSEWHERE = {"docs/kafka.md": "tests/cli/test_kafka.py", "README.md": "tests/spark/test_command_line.py"}


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


def unknown_targets(text: str, targets: frozenset[str]) -> set[str]:
    words = [command.text.split("#")[0].split() for command in commands(text)]
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


def anchors(path: Path) -> set[str]:
    """The headings of a document as links name them."""
    prose = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ +(.*?) *$", prose, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=in_root)
def test_the_headings_that_the_document_links_to_exist(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:\s]*)#([^)\s]+)\)", document.read_text(encoding="utf-8"))
    places = [((document.parent / link) if link else document, anchor) for link, anchor in links]
    assert [f"{path.name}#{anchor}" for path, anchor in places if anchor not in anchors(path)] == []


def to_type(path: Path) -> bool:
    """Whether a document has commands to type."""
    return in_root(path) not in ELSEWHERE and any(
        not command.skipped for command in commands(path.read_text(encoding="utf-8"))
    )


@pytest.mark.slow
@pytest.mark.parametrize("document", [*filter(to_type, DOCUMENTS)], ids=in_root)
def test_the_commands_of_the_document_do_what_it_shows(document: Path, tmp_path: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert [each for each in commands(text) if each.needs_spark and not each.skipped] == []
    assert typed(text, tmp_path) == []


@pytest.mark.parametrize("document", ELSEWHERE)
def test_commands_that_are_not_typed_here_are_typed_there(document: str) -> None:
    assert Path(document).name in (ROOT / ELSEWHERE[document]).read_text(encoding="utf-8")


def test_commands_are_typed_in_order_in_a_folder_that_they_may_leave(tmp_path: Path) -> None:
    text = "```console\n$ mkdir a && cd a\n$ echo one > b\n$ cat b\none\n```\n"
    assert typed(text, tmp_path) == []
    assert (tmp_path / "a" / "b").exists()


def test_a_command_that_fails_or_says_something_else_is_found(tmp_path: Path) -> None:
    failing, other = typed("text\n\n```console\n$ false\n$ echo one\ntwo\n```\n", tmp_path)
    assert failing.startswith("line 4: false ended with 1")
    assert other == "line 5: echo one says one\n"


def test_a_command_that_is_marked_is_not_typed(tmp_path: Path) -> None:
    assert typed("<!-- not run: it would fail -->\n```console\n$ false\n```\n", tmp_path) == []


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
