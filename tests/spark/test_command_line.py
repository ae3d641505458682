"""A project that `strandline init` makes runs, goes on where it was, and fails with a sentence."""

from __future__ import annotations

import os
import pty
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from strandline.sinks.reading import read_files
from tests.commands import ROOT, typed

pytestmark = pytest.mark.slow

README = ROOT / "README.md"

FAILING = """
import strandline as sl

def refuse(df, tick):
    raise OSError("the shop is closed")

flow = sl.Flow("failing")
rows = flow.source("rows", sl.Rows([{"at": "2026-01-01T12:00:00Z"}], schema="at timestamp"), time="at")
rows.sink("out", sl.ForeachTick(refuse))
"""


def strandline(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "strandline", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def in_a_terminal(*arguments: str, folder: Path) -> tuple[int, str]:
    """The exit code, and what was seen: both streams are one there."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "strandline", *arguments]
    environment = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as running:
        os.close(theirs)
        said = b"".join(iter(lambda: _read(ours), b""))
    os.close(ours)
    return running.returncode, re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said.decode())


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # nobody has it open any more
        return b""


def counted(project: Path) -> int:
    with closing(sqlite3.connect(project / "out.db")) as database:
        return int(database.execute("SELECT sum(orders) FROM revenue").fetchone()[0])


def test_a_new_project_runs_and_goes_on_where_it_was(tmp_path: Path) -> None:
    assert typed(README.read_text(encoding="utf-8"), tmp_path) == []  # it makes the project, and runs it
    project = tmp_path / "revenue"
    shown = counted(project)
    subprocess.run([sys.executable, "make_orders.py", "1"], cwd=project, check=True)
    code, said = in_a_terminal("run", "flow.py", "--state", "state", "--until", "caught_up", folder=project)
    assert code == 0, said
    assert "501 rows so far, 1 rejected" in said  # the live panel
    assert "501 rows: stopped" in said
    assert counted(project) > shown
    assert len(read_files(project / "out/late")) == 1, (
        "the order that is too late, and none of those that are only late"
    )


def test_a_run_that_fails_has_exit_code_1_and_says_why_without_a_stack_trace(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(FAILING, encoding="utf-8")
    run = strandline("run", "flow.py", "--state", "state", "--until", "caught_up", folder=tmp_path)
    assert run.returncode == 1
    assert "the shop is closed" in run.stderr
    assert "Traceback" not in run.stderr
