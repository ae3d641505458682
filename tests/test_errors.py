"""What a user's code raised is told with the line in the user's own files."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from strandline.errors import raised_by


def loaded(path: Path, text: str) -> Any:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FLOW = "import {helper}\n\ndef price(row):\n    return {helper}.half(row)\n"
HELPER = "def half(row):\n    return row['price'] / 2\n"


@pytest.mark.parametrize(
    ("helper", "place"),
    [
        ("beside.py", "beside.py, line 2"),
        ("parts/below.py", "parts/below.py, line 2"),
        (".venv/lib/python3.11/site-packages/bought.py", "flow.py, line 4"),
    ],
)
def test_the_innermost_line_of_the_users_own_files_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helper: str, place: str
) -> None:
    name = Path(helper).stem
    monkeypatch.setitem(sys.modules, name, loaded(tmp_path / helper, HELPER))
    price = loaded(tmp_path / "flow.py", FLOW.format(helper=name)).price
    with pytest.raises(KeyError) as caught:
        price({})
    assert raised_by(price, caught.value) == f"price raised KeyError ({tmp_path}/{place}): 'price'"
