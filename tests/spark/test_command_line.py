"""A project that `strandline init` makes runs, goes on where it was, and fails with a sentence."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

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


def counted(project: Path) -> int:
    with closing(sqlite3.connect(project / "out.db")) as database:
        return int(database.execute("SELECT sum(orders) FROM revenue").fetchone()[0])


def test_a_new_project_runs_and_goes_on_where_it_was(tmp_path: Path) -> None:
    strandline("init", "revenue", folder=tmp_path)
    project = tmp_path / "revenue"
    run = ("run", "flow.py", "--state", "state", "--until", "caught_up")
    first = strandline(*run, folder=project)
    assert first.returncode == 0, first.stderr
    assert "tick 0: 501 rows (1 rejected)" in first.stderr
    shown = counted(project)
    subprocess.run([sys.executable, "make_orders.py", "1"], cwd=project, check=True)
    again = strandline(*run, folder=project)
    assert again.returncode == 0, again.stderr
    assert "501 rows: stopped" in again.stderr
    assert counted(project) > shown


def test_a_run_that_fails_has_exit_code_1_and_says_why_without_a_stack_trace(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(FAILING, encoding="utf-8")
    run = strandline("run", "flow.py", "--state", "state", "--until", "caught_up", folder=tmp_path)
    assert run.returncode == 1
    assert "the shop is closed" in run.stderr
    assert "Traceback" not in run.stderr
