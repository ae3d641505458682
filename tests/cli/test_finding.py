"""The flow of a file is found, or it is said what is wrong with the file and where."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from strandline.cli.failing import WrongUse
from strandline.cli.finding import find_flow, state_beside

ONE = "import strandline as sl\nflow = sl.Flow('one')\nsame = flow\n"
TWO = "import strandline as sl\nfirst = sl.Flow('one')\nsecond = sl.Flow('two')\n"


@pytest.fixture(autouse=True)
def _same_paths_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))


def written(folder: Path, text: str) -> str:
    path = folder / "flow.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_file_with_one_flow_needs_no_name(tmp_path: Path) -> None:
    assert find_flow(written(tmp_path, ONE)).name == "one"


@pytest.mark.parametrize("name", ["second", "two"])
def test_one_of_several_is_named_by_its_variable_or_its_own_name(tmp_path: Path, name: str) -> None:
    assert find_flow(f"{written(tmp_path, TWO)}:{name}").name == "two"


def test_what_stands_under_main_is_not_executed(tmp_path: Path) -> None:
    assert find_flow(written(tmp_path, ONE + "if __name__ == '__main__':\n    1 / 0\n")).name == "one"


def test_the_file_may_import_what_stands_beside_it_and_define_dataclasses(tmp_path: Path) -> None:
    (tmp_path / "beside_the_flow.py").write_text("NAME = 'beside'\n", encoding="utf-8")
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\nimport strandline as sl\n"
        "from beside_the_flow import NAME\n@dataclass\nclass Point:\n    x: int\nflow = sl.Flow(NAME)\n"
    )
    assert find_flow(written(tmp_path, text)).name == "beside"


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("x = 1\n", "There is no flow in", "flow = sl.Flow"),
        (TWO, "There are 2 flows in", ":first"),
        ("x = 1\ny = x / 0\n", "line 2: y = x / 0\nZeroDivisionError: division by zero", "Mend that line"),
        ("def f(:\n", "line 1: invalid syntax", "Mend that line"),
        ("import sys\nsys.exit(3)\n", "line 2: sys.exit(3)\nThe file ends the program", "__main__"),
        (
            "import strandline as sl\nsl.Flow('a b')\n",
            "line 2: sl.Flow('a b')\n'a b' cannot be the name",
            "Use letters",
        ),
        ("class Over(BaseException): pass\nraise Over('out')\n", "line 2: raise Over('out')\nOver: out", "--debug"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(tmp_path: Path, text: str, what: str, fix: str) -> None:
    with pytest.raises(WrongUse) as caught:
        find_flow(written(tmp_path, text))
    assert what in caught.value.what
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("place", "what", "fix"),
    [
        ("flwo.py", "There is no file", "Did you mean"),
        ("", "is no Python file", "flow.py"),
        ("flow.py:other", "There is no flow 'other'", "Known: 'flow', 'one', 'same'."),
        ("flow.py:a-b", "is no name of a flow", "flow.py:flow"),
    ],
)
def test_what_is_wrong_with_a_place_is_said(tmp_path: Path, place: str, what: str, fix: str) -> None:
    written(tmp_path, ONE)
    with pytest.raises(WrongUse) as caught:
        find_flow(str(tmp_path / place))
    assert what in caught.value.what
    assert fix in caught.value.fix


def test_flow_py_is_meant_where_no_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, ONE)
    monkeypatch.chdir(tmp_path)
    assert find_flow().name == "one"
    monkeypatch.chdir(tmp_path.parent)
    with pytest.raises(WrongUse, match=r"there is no flow.py in .*\n.*strandline init NAME"):
        find_flow()


def test_the_state_is_beside_the_file_under_the_name_of_its_flow(tmp_path: Path) -> None:
    place = f"{written(tmp_path, TWO)}:second"
    assert state_beside(place, find_flow(place)) == tmp_path / "state" / "two"
