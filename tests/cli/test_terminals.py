"""Every command in a terminal and piped: the same answer, colours only where there is somebody to see them, no stack trace."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from typer.main import get_command

from docs.commands import commands_of
from strandline.cli.main import app
from strandline.store import savepoints
from tests.kept import keep, per_minute
from tests.mistakes.mistake import at_home_in, typed, typed_into

OVER = b"\x04over"
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")

FLOW = """\
import strandline as sl
flow = sl.Flow("shop")
orders = flow.source("orders", sl.Rows([], schema="user string, at timestamp"), time="at")
orders.sink("out", sl.Memory(), rows="append")
"""

# A line for each command, its exit code, and a part of what it answers.
LINES = {
    "init": ("init another", 0, "Made another"),
    "run": ("run flow.py --state ftp://nowhere", 1, "State cannot be kept"),
    "inspect": ("inspect stage --state state --limit 2", 0, "window_start"),
    "doctor": ("doctor --state state", None, "Python: "),
    "check": ("check flow.py", 0, "can be run"),
    "graph": ("graph flow.py", 0, "source 'orders'"),
    "explain": ("explain flow.py", 0, "source 'orders'"),
    "advise": ("advise orders.json --time at", 0, "sl.Bounded("),
    "status": ("status --state state", 0, "tick 0"),
    "tail": ("tail --state state", 0, "tick 0"),
    "monitoring": ("monitoring watched", 0, "alerts.yaml"),
    "version": ("version", 0, "strandline "),
    "savepoint take": ("savepoint take again --state state", 0, "keeps tick 0"),
    "savepoint list": ("savepoint list --state state", 0, "before"),
    "savepoint drop": ("savepoint drop before --state state", 0, "is dropped"),
    "savepoint restore": ("savepoint restore before --state state", 0, "as tick 2"),
    "savepoint fork": ("savepoint fork before --state state --into fork", 0, "holds the savepoint"),
    "kafka start": ("kafka start --folder kafka --port 99999", 2, "There is no port"),
    "kafka stop": ("kafka stop --folder kafka", 0, "No broker runs"),
    "kafka status": ("kafka status --folder kafka", 1, "No broker runs"),
    "kafka topics": ("kafka topics --folder kafka", 1, "No broker runs"),
    "kafka produce": ("kafka produce orders orders.json --folder kafka", 1, "No broker runs"),
    "kafka tail": ("kafka tail orders --folder kafka", 1, "No broker runs"),
}
SLOW = {"init", "doctor"}
EACH = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in LINES]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flow.py").write_text(FLOW, encoding="utf-8")
    (tmp_path / "orders.json").write_text('{"at": "2026-01-01T12:00:00Z"}\n', encoding="utf-8")
    savepoints.take(keep(tmp_path / "state", per_minute()), "before")
    return tmp_path


def test_every_command_has_a_line_here() -> None:
    assert {path.removeprefix("strandline ") for path, _ in commands_of("strandline", get_command(app))} == {
        *LINES,
        "demo",
    }


@pytest.mark.slow
def test_the_demo_which_is_a_process_of_its_own_can_be_piped(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "strandline", "demo", "--panes"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "8 late" in " ".join(done.stdout.split())
    assert "\x1b" not in done.stdout


@pytest.mark.slow
def test_the_demo_is_coloured_in_a_terminal_and_fits_it() -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    command = [sys.executable, "-m", "strandline", "demo", "--panes"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as child:
        os.close(theirs)
        said = b"".join(iter(lambda: _read(ours), b"")).decode()
    os.close(ours)
    lines = ESCAPE.sub("", said).splitlines()
    assert child.returncode == 0
    assert "\x1b[" in said
    assert "8 late" in " ".join(" ".join(lines).split())
    assert max(map(len, lines)) <= 100


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # whoever wrote there has ended
        return b""


def piped(line: str) -> tuple[int, str]:
    code, out, err = typed(line)
    return code, out + err


def in_a_terminal(line: str) -> tuple[int, str]:
    """What is seen in a terminal: both streams are one there."""
    ours, theirs = pty.openpty()
    said: list[bytes] = []

    def read() -> None:
        while part := os.read(ours, 65_536):
            said.append(part)
            if part.endswith(OVER):
                return

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(theirs, "w") as terminal:
        assert Console(file=terminal).is_terminal
        code = typed_into(line, terminal, terminal)
        terminal.write(OVER.decode())
    reader.join()
    os.close(ours)
    return code, b"".join(said).removesuffix(OVER).decode().replace("\r\n", "\n")


@pytest.mark.parametrize("way", [piped, in_a_terminal])
@pytest.mark.parametrize("name", EACH)
def test_a_command_answers_in_a_terminal_and_piped(
    name: str, way: Callable[[str], tuple[int, str]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    line, expected, answer = LINES[name]
    with at_home_in(folder):
        code, said = way(line)
    assert code == expected if expected is not None else code in {0, 1}, said
    assert answer in ESCAPE.sub("", said)
    assert "Traceback" not in said
    if way is piped:
        assert "\x1b" not in said


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        ("version --json", {"strandline", "python", "pyspark", "polars", "pyarrow", "state_format"}),
        ("check flow.py --json", {"flow", "ok", "problems", "risks"}),
        ("inspect --state state --json", {"flow", "tick", "time", "stage", "rows", "more", "notes"}),
        ("inspect stage flow.py --state state --json --by key", {"flow", "tick", "time", "stage", "rows", "more", "notes"}),
        ("savepoint list --state state --json", {"name", "flow", "tick", "time", "rows"}),
        pytest.param("doctor --state state --json", {"about", "verdict", "said", "fix"}, marks=pytest.mark.slow),
        ("kafka status --folder kafka --json", {"runs", "answers", "folder", "version"}),
    ],
)  # fmt: skip
def test_json_is_all_that_scripts_get(
    line: str, keys: set[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with at_home_in(folder):
        _, said, _ = typed(line)
    answer = json.loads(said)
    assert set(answer[0] if isinstance(answer, list) else answer) == keys


def completed(line: str, folder: Path) -> list[str]:
    """What bash is offered after a line, whose last word is being typed."""
    words = f"strandline {line}"
    environment = {
        **os.environ,
        "_STRANDLINE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    command = [
        sys.executable,
        "-c",
        "import sys; sys.argv[0] = 'strandline'; from strandline.cli.main import main; main()",
    ]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    ).stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("ins", ["inspect"]),
        ("check fl", ["flow.py"]),
        ("inspect --state st", ["state/"]),
        ("inspect --state state st", ["stage"]),
        ("savepoint drop --state state b", ["before"]),
        ("inspect --state nowhere st", []),
    ],
)
@pytest.mark.slow
def test_the_shell_completes_commands_files_states_stages_and_savepoints(
    line: str, offered: list[str], folder: Path
) -> None:
    assert completed(line, folder) == offered
