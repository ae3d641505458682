"""The first hour of somebody new: the package from a wheel, in an empty environment; a project; a run; and no Java."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import sysconfig
import venv
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Environment:
    """A virtual environment in which strandline was installed from its wheel."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def run(self, *command: str, here: Path, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment as a user does: nothing points to this repository."""
        named = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        first = str(self.folder / "bin" / command[0])
        return subprocess.run(
            [first, *command[1:]], cwd=here, env={**named, **settings}, capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("first-hour")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    made = Environment(folder / "environment")
    venv.create(made.folder, with_pip=False)
    (wheel,) = folder.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", made.python, "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "--no-index", "--no-deps", wheel], check=True)
    # What strandline needs is not installed once more, but found where it is; strandline itself is the wheel's.
    (own,) = made.folder.glob("lib/python*/site-packages")
    (own / "what_it_needs.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def project(environment: Environment) -> Path:
    made = environment.run("strandline", "init", "x", here=environment.folder)
    assert made.returncode == 0, made.stderr
    return environment.folder / "x"


def test_what_is_installed_is_the_wheel(environment: Environment, project: Path) -> None:
    asked = environment.run("python", "-c", "import strandline; print(strandline.__file__)", here=project)
    assert Path(asked.stdout.strip()).is_relative_to(environment.folder)


def test_without_java_one_message_says_what_to_do(environment: Environment, project: Path) -> None:
    run = environment.run(
        "strandline", "run", "--until", "end", here=project, PATH=str(environment.folder / "bin"), JAVA_HOME=""
    )
    assert run.returncode == 1
    assert run.stderr.startswith("error:"), "nothing is said before it"
    assert (run.stderr.count("error:"), run.stderr.count("fix:")) == (1, 1)
    assert "apt-get install openjdk-17-jre-headless" in run.stderr
    assert "Traceback" not in run.stderr
    assert not (project / "out.db").exists()
    assert not (project / "state").exists()


def test_init_then_run_until_end_takes_neither_file_nor_state(environment: Environment, project: Path) -> None:
    run = environment.run("strandline", "run", "--until", "end", here=project)
    assert run.returncode == 0, run.stderr
    assert "finished" in run.stderr.splitlines()[-1]
    assert (project / "state" / "x").is_dir()
    with closing(sqlite3.connect(project / "out.db")) as database:
        (counted,) = database.execute("SELECT sum(orders) FROM revenue").fetchone()
    shown = environment.run("python", "show_revenue.py", here=project)
    assert f" {counted} orders, " in shown.stdout
    kept = [
        line
        for line in (project / "data/orders/0000.json").read_text(encoding="utf-8").splitlines()
        if '"paid"' in line
    ]
    assert counted == len(kept)
