"""`strandline graph` and `strandline explain`, as a user types them: in a terminal, into a pipe, and for a program."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.test_main import FLOW, Types, folder, strandline
from tests.cli.test_terminals import ESCAPE

__all__ = ["folder", "strandline"]


def test_a_flow_is_drawn_with_its_four_questions(folder: Path, strandline: Types) -> None:
    drawn = strandline("graph", "flow.py", folder=folder)
    assert drawn.returncode == 0
    assert "└─ stage 'counts'" in drawn.stdout
    assert "where: windows of 1m, one after the other" in drawn.stdout


def test_a_picture_is_written_and_a_file_that_cannot_be_is_said(folder: Path, strandline: Types) -> None:
    assert strandline("graph", "flow.py", "--svg", "flow.svg", folder=folder).stdout == "wrote flow.svg\n"
    assert ET.parse(folder / "flow.svg").getroot().tag.endswith("svg")
    refused = strandline("graph", "flow.py", "--svg", "none/flow.svg", folder=folder)
    assert (refused.returncode, "cannot be written" in refused.stderr) == (2, True)


def test_a_program_gets_json(folder: Path, strandline: Types) -> None:
    told = json.loads(strandline("graph", "flow.py", "--json", folder=folder).stdout)
    assert [node["kind"] for node in told["nodes"]] == ["source", "stage", "sink"]
    said = json.loads(strandline("explain", "flow.py", "--keys", "7", "--json", folder=folder).stdout)
    stage = next(section for section in said["sections"] if section["kind"] == "stage")
    assert (said["keys"], stage["state"]["rows"]) == (7, 7)
    assert stage["state"]["bytes_per_row"] > 0
    assert any(step["shown"] for step in stage["example"]["steps"])


def test_explain_says_delay_and_size_and_plays_an_example(folder: Path, strandline: Types) -> None:
    said = strandline("explain", "flow.py", "--rate", "100", "--keys", "5", folder=folder).stdout
    assert "Size:  at most 5 rows" in said
    assert "Delay: On time: once an event comes" in said
    assert "+ on time: 12:00:00–12:01:00 n=3" in said
    assert "Sizes are for 100 events a second from each source and 5 keys" in said


def test_explain_speaks_no_python(folder: Path, strandline: Types) -> None:
    said = strandline("explain", "flow.py", folder=folder).stdout
    assert [word for word in ("rate=", "keys=", "batch_interval=") if word in said] == []
    refused = strandline("explain", "flow.py", "--keys", "0", folder=folder).stderr
    assert refused.splitlines() == [
        "error: 0 is no number of keys that are active.",
        "  fix: Give a whole number from 1, such as 20000.",
    ]


@pytest.mark.parametrize("command", [("explain", "flow.py", "--rate", "0"), ("graph", "none.py")])
def test_wrong_use_is_said(folder: Path, strandline: Types, command: tuple[str, ...]) -> None:
    answer = strandline(*command, folder=folder)
    assert (answer.returncode, "fix:" in answer.stderr, "Traceback" in answer.stderr) == (2, True, False)


def in_a_terminal(folder: Path, command: str) -> str:
    """What a command writes where somebody reads it."""
    (folder / "flow.py").write_text(FLOW.format(key="user"), encoding="utf-8")
    ours, theirs = pty.openpty()
    typed = subprocess.Popen(
        [sys.executable, "-m", "strandline", command, "flow.py"], cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs,
        env={**os.environ, "COLUMNS": "72", "LINES": "40", "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the terminal is closed
            break
        if not part:
            break
        said += part
    os.close(ours)
    assert typed.wait() == 0, said.decode()
    return said.decode().replace("\r\n", "\n")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["graph", "explain"])
def test_in_a_narrow_terminal_no_sentence_is_cut(tmp_path: Path, command: str) -> None:
    said = ESCAPE.sub("", in_a_terminal(tmp_path, command))
    drawing = ("●", "─", "+ ", "→")
    sentences = [line for line in said.splitlines() if not any(mark in line for mark in drawing)]
    assert any("windows of 1m" in line for line in sentences)
    assert max(len(line) for line in sentences) <= 72


def test_an_explanation_has_colours_where_they_are_seen(
    folder: Path, strandline: Types, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b" not in strandline("explain", "flow.py", folder=folder).stdout
    monkeypatch.delenv("NO_COLOR", raising=False)
    said = in_a_terminal(folder, "explain")
    bold, cyan = "\x1b[1m", "\x1b[1;36m"
    assert f"{bold}Stage 'counts'\x1b[0m" in said
    assert f"\n{cyan}  Where:\x1b[0m windows of 1m" in said
    assert "\x1b[32m" + 40 * " " + "+ on time: " in said
