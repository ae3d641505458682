"""The command line, as a user types it, without Spark."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from strandline.cli.main import main
from strandline.model.time import Instant, Span
from strandline.store.manifests import Manifest, Manifests, Tick
from strandline.store.storage import storage_at

FLOW = """
import strandline as sl
flow = sl.Flow("clicks")
clicks = flow.source("pages", sl.Rows([], schema="user string, at timestamp"), time="at")
counts = clicks.key_by("{key}").window(sl.Tumbling("1m")).aggregate("counts", n=sl.Count())
counts.sink("out", sl.Memory())
"""


@dataclass(frozen=True)
class Answer:
    """What a command said, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


Types = Callable[..., Answer]


@pytest.fixture
def strandline(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Types:
    def typed(*arguments: str, folder: Path) -> Answer:
        with monkeypatch.context() as here:
            here.chdir(folder)
            here.setattr(sys, "argv", ["strandline", *arguments])
            here.setattr(sys, "path", list(sys.path))
            here.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
            with pytest.raises(SystemExit) as left:
                main()
        said = capsys.readouterr()
        return Answer(left.value.code if isinstance(left.value.code, int) else 0, said.out, said.err)

    return typed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flow.py").write_text(FLOW.format(key="user"), encoding="utf-8")
    (tmp_path / "wrong.py").write_text(FLOW.format(key="usr"), encoding="utf-8")
    return tmp_path


def test_a_good_flow_is_checked_and_explained(folder: Path, strandline: Types) -> None:
    checked, explained = strandline("check", "flow.py", folder=folder), strandline("explain", "flow.py", folder=folder)
    assert (checked.returncode, explained.returncode) == (0, 0)
    assert "The flow 'clicks' can be run." in checked.stdout
    assert "└─ stage 'counts'" in explained.stdout
    assert "Where: windows of 1m" in explained.stdout


@pytest.mark.parametrize("command", [("check", "wrong.py"), ("run", "wrong.py", "--state", "state")])
def test_a_flow_that_is_refused_has_exit_code_3_and_no_stack_trace(
    folder: Path, strandline: Types, command: tuple[str, ...]
) -> None:
    answer = strandline(*command, folder=folder)
    assert answer.returncode == 3
    assert "keyed by 'usr'" in answer.stderr
    assert "Did you mean 'user'?" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_debug_shows_where_an_error_came_from_wherever_it_stands(folder: Path, strandline: Types) -> None:
    for line in (("check", "wrong.py", "--debug"), ("--debug", "check", "wrong.py")):
        answer = strandline(*line, folder=folder)
        assert answer.returncode == 3, "as without --debug"
        assert "Traceback" in answer.stderr
        assert "  fix: " in answer.stderr


def test_what_a_flow_file_prints_is_no_part_of_an_answer(folder: Path, strandline: Types) -> None:
    with (folder / "flow.py").open("a", encoding="utf-8") as file:
        file.write("print('hello')\n")
    answer = strandline("check", "--json", folder=folder)
    assert json.loads(answer.stdout)["ok"]
    assert "hello" in answer.stderr


@pytest.mark.parametrize("command", [("run", "--state", "state"), ("demo",)])
def test_without_java_nothing_is_begun(
    folder: Path, strandline: Types, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", "/nowhere")
    answer = strandline(*command, folder=folder)
    assert answer.returncode == 1
    assert answer.stderr.startswith(
        "error: Spark needs Java 17 or newer, and no java was found.\n  fix: Install it: apt-get"
    )
    assert not (folder / "state").exists()


def test_the_state_of_the_one_flow_that_was_run_here_is_meant(folder: Path, strandline: Types) -> None:
    assert "there is none in ./state" in strandline("savepoint", "list", folder=folder).stderr
    for number, name in enumerate(("clicks", "views")):
        storage = storage_at(folder / "state" / name)
        Manifests(storage).commit(
            Manifest(flow=name, incarnation="i", run="r", tick=Tick(number=0, now=Instant(5), edges={}))
        )
        answer = strandline("savepoint", "list", folder=folder)
        assert answer.returncode == 2 * number
    assert "Which state? There are 2: state/clicks, state/views." in answer.stderr


@pytest.mark.parametrize(
    "command",
    [("check", "none.py"), ("nothing",), ("init", "a b"), ("init", "."), ("run", "flow.py", "--state", "s", "--until", "noon"), ("run", "flow.py", "--stat", "x")],
)  # fmt: skip
def test_wrong_use_has_exit_code_2(folder: Path, strandline: Types, command: tuple[str, ...]) -> None:
    answer = strandline(*command, folder=folder)
    assert answer.returncode == 2
    assert "Traceback" not in answer.stderr


def test_flow_py_of_this_folder_is_meant_where_no_file_is_named(
    tmp_path: Path, folder: Path, strandline: Types
) -> None:
    assert "The flow 'clicks' can be run." in strandline("check", folder=folder).stdout
    (tmp_path / "empty").mkdir()
    answer = strandline("run", folder=tmp_path / "empty")
    assert (answer.returncode, "strandline init NAME" in answer.stderr) == (2, True)


def test_a_port_for_metrics_that_is_taken_is_told_before_spark_starts(folder: Path, strandline: Types) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        options = ("--metrics-port", port, "--metrics-host", "127.0.0.1")
        answer = strandline("run", "flow.py", "--state", "state", *options, folder=folder)
    assert answer.returncode == 1
    assert f"error: The port {port} for metrics is taken." in answer.stderr
    assert not (folder / "state").exists()


def test_the_package_is_a_command_too() -> None:
    said = subprocess.run([sys.executable, "-m", "strandline", "version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("strandline 0.1.0\nPython 3.")


@pytest.mark.slow
def test_init_makes_a_project_whose_test_passes_and_whose_flow_can_be_run(tmp_path: Path, strandline: Types) -> None:
    assert strandline("init", "revenue", folder=tmp_path).returncode == 0
    project = tmp_path / "revenue"
    assert len((project / "data/orders/0000.json").read_text(encoding="utf-8").splitlines()) == 501
    assert strandline("check", folder=project).returncode == 0
    advised = strandline("advise", "data/orders", "--time", "at", "--key", "user", "--json", folder=project)
    assert json.loads(advised.stdout)["bound"] < Span.of("20s"), "what the flow's own bound is"
    shown = subprocess.run(
        [sys.executable, "show_revenue.py"], cwd=project, capture_output=True, text=True, check=False
    )
    assert "strandline run --until end" in shown.stderr
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert tested.returncode == 0, tested.stdout
    assert strandline("init", "revenue", folder=tmp_path).returncode == 2


def test_savepoints_are_taken_listed_restored_forked_and_dropped(folder: Path, strandline: Types) -> None:
    first = Manifest(flow="clicks", incarnation="i", run="r", tick=Tick(number=0, now=Instant(5), edges={}))
    Manifests(storage_at(folder / "state")).commit(first)

    def savepoint(*arguments: str) -> str:
        answer = strandline("savepoint", *arguments, "--state", "state", folder=folder)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    assert savepoint("list") == "There are no savepoints.\n"
    assert "keeps tick 0" in savepoint("take", "before")
    assert "before" in savepoint("list")
    assert "as tick 2" in savepoint("restore", "before")
    assert "for the flow 'copy'" in savepoint("fork", "before", "--into", "fork", "--flow", "copy")
    assert "is dropped" in savepoint("drop", "before")
    missing = strandline("savepoint", "drop", "before", "--state", "state", folder=folder)
    assert (missing.returncode, "There is no savepoint 'before'" in missing.stderr) == (1, True)


@pytest.mark.parametrize(
    ("line", "what", "fix"),
    [
        ("inspect stage --limit abc", "--limit 'abc' is no whole number.", "Give one in digits, such as 10."),
        ("inspect stage --limit 0", "--limit 0 is too little.", "Give 1 or more."),
        ("inspect stage --by foo", "--by 'foo' is not known.", "Known: 'bucket', 'key', 'window'."),
        ("advise events.json --rows 1.5", "--rows '1.5' is no whole number.", "Give one in digits, such as 10."),
        ("run --metrics-port 99999", "--metrics-port 99999 is too much.", "Give 65535 or less."),
    ],
)
def test_a_value_that_an_option_does_not_take_is_said_as_other_errors_are(
    line: str, what: str, fix: str, folder: Path, strandline: Types
) -> None:
    answer = strandline(*line.split(), folder=folder)
    assert (answer.returncode, answer.stderr) == (2, f"error: {what}\n  fix: {fix}\n")
